# shells: bash dash
# args:
n=0
until [ "$n" -ge 3 ]; do
	n=$((n + 1))
	[ "$n" = 2 ] && continue
	tool "$n"
done
while :; do
	n=$((n + 1))
	if [ "$n" -gt 5 ]; then break; fi
done
exec server "$n"
