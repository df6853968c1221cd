# shells: bash dash
# args:
: "${A:=first}" "${B=second}"
export A B
PORT=${PORT:-8000}
server --port "$PORT" ${DEBUG:+--debug} ${C:+"c $C"} "${1:-none}"
