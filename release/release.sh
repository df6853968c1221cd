#!/usr/bin/env bash
# Builds the programs of a release into DIST (default: dist), with checksums.
# The same commit and Go release give the same bytes wherever they are built: the
# programs hold no path, no time and no C code. TARGETS names other platforms.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${DIST:-dist}
version=${VERSION:-$(git describe --tags --match 'v*' --always --dirty)}
commit=${COMMIT:-$(git rev-parse HEAD)}
mkdir -p "$dist"
rm -f "$dist"/imgcheck_* "$dist"/SHA256SUMS
for target in ${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
  name=imgcheck_${target%/*}_${target#*/}
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} GOAMD64=v1 GOARM64=v8.0 GOFLAGS=-mod=readonly GOEXPERIMENT='' \
    "${GO:-go}" build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.releaseVersion=$version -X main.releaseCommit=$commit" \
    -o "$dist/$name" ./cmd/imgcheck
done
cd "$dist"
sha256sum imgcheck_* >SHA256SUMS.part
mv SHA256SUMS.part SHA256SUMS
echo "imgcheck $version in $dist:" >&2
cat SHA256SUMS >&2
