# shells: bash dash
# args: a b c
start() {
	local name="$1"
	shift
	A=$name helper "$@"
	return 0
}
usage() { echo usage; exit 2; }
[ $# -ge 2 ] || usage
start one "$@"
start two
B=$(start three >/dev/null; echo done)
export B
server "$#"
