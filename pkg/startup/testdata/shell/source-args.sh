# shells: bash
# args: z
source ./lib.sh given
libf
exec server "$@"
