#!/usr/bin/env bash
# Runs every fuzz target of the repository for FUZZTIME, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "== $pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$pkg"
  done
done
