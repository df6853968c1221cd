#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME, one after the other.
# Each package is built once.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
count=0
for pkg in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
  go test -c -fuzz=. -o "$bin/fuzz.test" "$pkg"
  targets=$(cd "$pkg" && "$bin/fuzz.test" -test.list '^Fuzz')
  for target in $targets; do
    echo "== $pkg $target"
    (cd "$pkg" && "$bin/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "${FUZZTIME:-30s}" -test.fuzzcachedir "$bin/cache")
    count=$((count + 1))
  done
done
[ "$count" -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
