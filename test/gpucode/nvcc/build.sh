#!/usr/bin/env bash
# Builds the programs of combinations.txt with nvcc:
#
#   test/gpucode/nvcc/build.sh DIR
#
# with $NVCC, or nvcc (Debian's nvidia-cuda-toolkit, of non-free). It needs no GPU.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6s/^# *//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
while read -r name flags; do
  case $name in '' | '#'*) continue ;; esac
  read -ra list <<<"$flags"
  "${NVCC:-nvcc}" "${list[@]}" -o "$1/$name" "$here/program.cu"
done <"$here/combinations.txt"
