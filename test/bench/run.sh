#!/usr/bin/env bash
# Prints one table: the cost of a scan against the limit and other programs.
# Needs Debian's apt and dpkg-deb, and 15 GB of disk (22 GB with BENCH_OTHERS) in
# $BENCH (default .bench in the repository), which keeps packages and images. The
# first run takes 15 minutes on two cores. BENCH_SMALL=1 takes seconds and serves
# to try the benchmark itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
B=${BENCH:-$PWD/.bench}
mkdir -p "$B"
B=$(cd "$B" && pwd)
go build -trimpath -o "$B/imgcheck" ./cmd/imgcheck
go build -trimpath -o "$B/bench" ./test/bench/main.go
export PATH="$PATH:$B/bin" # the other programs that BENCH_OTHERS has built

# BENCH_OTHERS=1 builds those of these programs that are not on PATH: ten minutes, once.
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
