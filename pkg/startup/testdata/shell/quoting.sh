# shells: bash dash
# args: *
A='single "x"' B="double '\$A' \\ \`"
export A B
exec server "$@" * "*" \* sub/*.p? "a"'b'c\ d ""
