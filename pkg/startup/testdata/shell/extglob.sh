# shells: bash
# args: x
shopt -s nullglob extglob
declare -a PARTS=( "$PWD"/*@(.txt|.conf) nothing* )
shopt -u nullglob extglob
for file in "${PARTS[@]}"; do tool "${file##*/}"; done
exec server "$@"
