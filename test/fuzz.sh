#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME, one after the other.
#
# For a number of executions (500x), only the packages of this module count coverage,
# which spares building all others again, and an input is not made smaller for long.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-30s}
instrument=(-fuzz=.) minimize=60s
if [[ $time == *x ]]; then
  instrument=("-gcflags=$(go list -m)/...=-d=libfuzzer") minimize=1x # the flag that -fuzz sets for all
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u)
count=0
for pkg in "${packages[@]}"; do
  go test -c "${instrument[@]}" -ldflags='-s -w' -o "$tmp/fuzz.test" "$pkg"
  targets=$(cd "$pkg" && "$tmp/fuzz.test" -test.list '^Fuzz')
  for target in $targets; do
    echo "== $pkg $target"
    (cd "$pkg" && "$tmp/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime "$minimize" -test.fuzzcachedir "$tmp/cache")
    count=$((count + 1))
  done
done
[ "$count" -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
