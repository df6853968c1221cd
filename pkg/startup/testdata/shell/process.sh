# shells: bash
# args: x
set -euo pipefail
exec 3>&1
A=${A:-none}
[[ "$A" == none ]] && A+=" yet"
export A
if ((${#A} > 3)) && [[ ! -v NOTHING ]]; then
	server "$@" "${A// /_}" "${A^^}" "${A:0:2}"
fi
