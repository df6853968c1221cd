# shells: bash dash
# args: z
set -- q
. ./lib.sh
tool "$A" "$B"
libf "$@"
exec server
