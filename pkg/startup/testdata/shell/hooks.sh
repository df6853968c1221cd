# shells: bash dash
# args: server
set -e
for f in ./sub/*.py ./nothing/*.sh; do
	[ -f "$f" ] || continue
	tool hook "$f"
done
exec "$@"
