#!/usr/bin/env bash
# Builds the Linux program of a release and compares the list of its modules with those that
# the program says it has (test/fresh.sh builds it in another place and compares the bytes).
# Signs the release and installs it with its key. Makes the container image, runs the program in it
# as the image's user, and has it scan its own image. Then installs the program as
# pre-commit does, and checks the types of all packages for other systems. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
arch=$(go env GOARCH)
export TARGETS=linux/$arch VERSION=v0.0.0-check COMMIT=0123456789abcdef0123456789abcdef01234567
openssl ecparam -name prime256v1 -genkey -noout -out "$tmp/key"
openssl ec -in "$tmp/key" -pubout -out "$tmp/key.pub" 2>/dev/null
export SIGN_KEY=$tmp/key
DIST=$tmp/one ./release/release.sh
program=$tmp/one/imgcheck_linux_$arch
go version -m "$program" | awk '$1 == "dep" { print $2 "@" $3 }' | sort >"$tmp/modules"
grep -o '"bom-ref": "pkg:golang/[^"?]*' "$tmp/one/sbom_linux_$arch.cdx.json" |
  sed 's/.*pkg:golang.//; s/%2B/+/g' | grep -v '^std@\|^github.com/imgcheck/' | sort >"$tmp/listed"
[ -s "$tmp/modules" ]
diff "$tmp/modules" "$tmp/listed"
mkdir -p "$tmp/releases/download"
ln -s "$tmp/one" "$tmp/releases/download/$VERSION"
IMGCHECK_RELEASES=file://$tmp/releases IMGCHECK_RELEASES_KEY=$tmp/key.pub ./ci/install.sh "$VERSION" "$tmp/installed"
cmp "$program" "$tmp/installed/imgcheck"
[ "$("$program" version)" = "imgcheck $VERSION (commit $COMMIT, $(go env GOVERSION), linux/$arch)" ]
go run ./release/image/main.go -dist "$tmp/one" -version "$VERSION" -commit "$COMMIT"
"$program" scan --no-cache "oci:$tmp/one/imgcheck.oci" --platform "linux/$arch"
skopeo copy -q "oci:$tmp/one/imgcheck.oci" "oci:$tmp/copy:x"
umoci unpack --image "$tmp/copy:x" "$tmp/bundle"
[ "$(chroot --userspec=65532:65532 "$tmp/bundle/rootfs" /usr/local/bin/imgcheck version)" = "$("$program" version)" ]
chroot --userspec=65532:65532 "$tmp/bundle/rootfs" /usr/local/bin/imgcheck demo >/dev/null

# https://github.com/pre-commit/pre-commit/blob/main/pre_commit/languages/golang.py
GOBIN=$tmp/bin go install ./...
[ "$(ls "$tmp/bin")" = imgcheck ] || { echo "go install ./... puts more on PATH than imgcheck:" "$tmp"/bin/* >&2; exit 1; }
go run ./test/types/main.go darwin windows || { echo "go install ./... fails on these systems" >&2; exit 1; }
echo "The release names its modules and is installed by its key, its image runs, and pre-commit gets imgcheck alone." >&2
