#!/usr/bin/env bash
# Builds the Linux program of a release twice, in two places, and compares (with
# SECOND_CACHE=DIR also from another build cache, which takes minutes); makes the
# container image of it, runs the program in there as the image's user with nothing
# else, and lets it scan itself. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
arch=$(go env GOARCH)
GOOS=windows go vet ./cmd/imgcheck # none is released, and whoever wants one can build it
mkdir "$tmp/elsewhere"
git ls-files -z --cached --others --exclude-standard | tar --null -T - -c | tar -x -C "$tmp/elsewhere"
export TARGETS=linux/$arch VERSION=v0.0.0-check COMMIT=0123456789abcdef0123456789abcdef01234567
DIST=$tmp/one ./release/release.sh
GOCACHE=${SECOND_CACHE:-$(go env GOCACHE)} DIST=$tmp/two "$tmp/elsewhere/release/release.sh"
cmp "$tmp/one/SHA256SUMS" "$tmp/two/SHA256SUMS"
program=$tmp/one/imgcheck_linux_$arch
[ "$("$program" version)" = "imgcheck $VERSION (commit $COMMIT, $(go env GOVERSION), linux/$arch)" ]
go run ./release/image -dist "$tmp/one" -version "$VERSION" -commit "$COMMIT"
"$program" scan --no-cache "oci:$tmp/one/imgcheck.oci" --platform "linux/$arch"
skopeo copy -q "oci:$tmp/one/imgcheck.oci" "oci:$tmp/copy:x"
umoci unpack --image "$tmp/copy:x" "$tmp/bundle"
[ "$(chroot --userspec=65532:65532 "$tmp/bundle/rootfs" /usr/local/bin/imgcheck version)" = "$("$program" version)" ]
chroot --userspec=65532:65532 "$tmp/bundle/rootfs" /usr/local/bin/imgcheck demo >/dev/null
echo "The release is the same wherever it is built, and its image runs." >&2
