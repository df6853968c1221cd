# shells: bash
# args: x y
args=(--host 0.0.0.0)
if [[ -n "${PORT-}" ]]; then args+=(--port "$PORT"); fi
args+=("$@" "last one")
[[ ${#args[@]} -eq 5 ]] && export A="${args[-1]}"
declare -a parts=(./*.txt)
for p in "${parts[@]}"; do
	case "$p" in *a.txt) tool "$p" ;; esac
done
exec server "${args[@]}"
