# shells: bash dash
# args: x
NAME=A
eval "$NAME=\"value of it\""
export A
cmd="server --flag"
eval "exec $cmd '\$1'"
