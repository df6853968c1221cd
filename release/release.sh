#!/usr/bin/env bash
# Builds the programs of a release into DIST (default: dist), lists the Go modules in each
# (CycloneDX), and writes checksums of both. The same commit and Go release give the same
# bytes wherever they are built: the programs hold no path, no time and no C code. The lists
# have the digest of the program that made them, so theirs are the same on one platform.
# TARGETS names other platforms, CYCLONEDX that program. SIGN_KEY is the file of a private key
# to sign the checksums with, as `cosign sign-blob --key` does; the release workflow signs
# without a key.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${DIST:-dist}
version=${VERSION:-$(git describe --tags --match 'v*' --always --dirty)}
commit=${COMMIT:-$(git rev-parse HEAD)}
mkdir -p "$dist"
rm -f "$dist"/imgcheck_* "$dist"/sbom_* "$dist"/SHA256SUMS*
cyclonedx=${CYCLONEDX:-$(CGO_ENABLED=0 GOFLAGS=-trimpath "${GO:-go}" -C release/tools tool -n cyclonedx-gomod)}
for target in ${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
  platform=${target%/*}_${target#*/}
  CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/} GOAMD64=v1 GOARM64=v8.0 GOFLAGS=-mod=readonly GOEXPERIMENT='' \
    "${GO:-go}" build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.releaseVersion=$version -X main.releaseCommit=$commit" \
    -o "$dist/imgcheck_$platform" ./cmd/imgcheck
  "$cyclonedx" bin -json -std -noserial -notimestamp -version "$version" -output "$dist/sbom_$platform.cdx.json" "$dist/imgcheck_$platform"
done
cd "$dist"
sha256sum imgcheck_* sbom_* >SHA256SUMS.part
mv SHA256SUMS.part SHA256SUMS
if [ -n "${SIGN_KEY:-}" ]; then
  openssl dgst -sha256 -sign "$SIGN_KEY" SHA256SUMS >SHA256SUMS.part
  openssl base64 -A -in SHA256SUMS.part -out SHA256SUMS.sig
  rm SHA256SUMS.part
fi
echo "imgcheck $version in $dist:" >&2
cat SHA256SUMS >&2
