# shells: bash dash
# args:
tool first
if [ -z "$MODEL" ]; then
	echo "MODEL is not set" >&2
	exit 1
fi
exec server "$MODEL"
