#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME, one after the other.
#
# For a number of executions (500x), only the packages of this module count coverage,
# which spares building all others again, and an input is not made smaller for long.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-30s}
instrument=(-fuzz=.) minimize=1x # else making inputs smaller eats the time
if [[ $time == *x ]]; then
  instrument=("-gcflags=$(go list -m)/...=-d=libfuzzer") minimize=1x # the flag that -fuzz sets for all
fi
least=${FUZZLEAST:-100} # executions of a target: fewer show nothing
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mapfile -t packages < <(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u)
count=0
for pkg in "${packages[@]}"; do
  go test -c "${instrument[@]}" -ldflags='-s -w' -o "$tmp/fuzz.test" "$pkg"
  targets=$(cd "$pkg" && "$tmp/fuzz.test" -test.list '^Fuzz')
  for target in $targets; do
    echo "== $pkg $target"
    if ! (cd "$pkg" && "$tmp/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzminimizetime "$minimize" -test.fuzzcachedir "$tmp/cache" 2>&1) | tee "$tmp/log"; then
      # Before 1.27, Go may report that the time is over as a failure: https://go.dev/issue/75804
      if ! grep -qx ' *context deadline exceeded' "$tmp/log" || grep -q 'Failing input' "$tmp/log"; then exit 1; fi
    fi
    runs=$(sed -n 's/.*execs: \([0-9]*\) .*/\1/p' "$tmp/log" | tail -n 1)
    if [ "${runs:-0}" -lt "$least" ]; then
      echo "$pkg $target was run ${runs:-0} times, fewer than $least (FUZZLEAST)" >&2
      exit 1
    fi
    count=$((count + 1))
  done
done
[ "$count" -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
