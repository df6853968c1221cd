# shells: bash dash
# args: tool x
if [ "${1#-}" != "$1" ]; then
	set -- server "$@"
fi
exec "$@"
