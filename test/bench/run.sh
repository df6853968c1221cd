#!/usr/bin/env bash
# What a scan costs, against the limit and against other programs: one table.
# Needs Debian's apt and dpkg-deb, and some 15 GB of disk in $BENCH (default
# .bench here in the repository; 22 GB with BENCH_OTHERS), which keeps packages
# and images; 15 minutes on two cores the first time. BENCH_SMALL=1 is for trying
# it: seconds, no meaning.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${BENCH:-$PWD/.bench}
mkdir -p "$B"
B=$(cd "$B" && pwd)
go build -trimpath -o "$B/imgcheck" ./cmd/imgcheck
go build -trimpath -o "$B/bench" ./test/bench/main.go
export PATH="$PATH:$B/bin" # other programs, where BENCH_OTHERS has put them

# BENCH_OTHERS=1 builds those of these that are not on PATH: ten minutes, once.
if [ -n "${BENCH_OTHERS:-}" ]; then
  for tool in \
    github.com/google/go-containerregistry/cmd/crane@v0.22.1 \
    github.com/anchore/syft/cmd/syft@v1.42.0 \
    github.com/aquasecurity/trivy/cmd/trivy@v0.65.0 \
    github.com/wagoodman/dive@v0.13.1; do
    name=${tool##*/} name=${name%@*}
    command -v "$name" >/dev/null || GOBIN="$B/bin" go install "$tool" || echo "bench: $name cannot be built here" >&2
  done
fi
"$B/bench" make "$B"
exec "$B/bench" run "$B/imgcheck" "$B"
