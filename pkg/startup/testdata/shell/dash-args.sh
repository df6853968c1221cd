# shells: bash dash
# args: --port 80
if [ "${1#-}" != "$1" ]; then
	set -- server "$@"
fi
exec "$@"
