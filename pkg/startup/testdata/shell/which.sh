# shells: bash dash
# args:
if command -v server >/dev/null 2>&1; then
	A=$(basename "$(command -v server)")
fi
export A
PATH="/nowhere:$PATH"
export PATH
command -v nothing || B=none
export B
exec server
