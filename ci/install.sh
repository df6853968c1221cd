#!/bin/sh
# Installs a release of imgcheck: install.sh [VERSION [DIRECTORY]]. By default
# installs the latest one into /usr/local/bin or, if that is not writable,
# ~/.local/bin. Needs curl or wget, and sha256sum or shasum. IMGCHECK_RELEASES is
# the URL of releases elsewhere than on GitHub, IMGCHECK_RELEASES_KEY the file with the
# public key that they are signed with, for openssl. Without a key, cosign verifies that
# imgcheck's release workflow signed the release; without cosign only the checksum is
# verified, which fails when IMGCHECK_SIGNATURE is "required".
set -eu
version=${1:-latest}
dir=${2:-}
releases=${IMGCHECK_RELEASES:-https://github.com/imgcheck/imgcheck/releases}

fail() { echo "install.sh: $*" >&2; exit 1; }

case $releases in
  https://* | file://*) ;;
  *) fail "$releases is not HTTPS: anybody on the way could change what is installed" ;;
esac

case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is no release for $(uname -s): with Go, say \`go install github.com/imgcheck/imgcheck/cmd/imgcheck@latest\`" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no release for $(uname -m)" ;;
esac
name=imgcheck_${os}_$arch
case $version in
  latest) from=$releases/latest/download ;;
  *) from=$releases/download/$version ;;
esac
if [ -z "$dir" ]; then
  dir=/usr/local/bin
  [ -w "$dir" ] || dir=${HOME:?names no directory: say install.sh VERSION DIRECTORY}/.local/bin
fi
mkdir -p "$dir"
tmp=$(mktemp -d "$dir/.imgcheck-XXXXXX")
trap 'rm -rf "$tmp"' EXIT

get() { # URL FILE
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --proto =https,file --proto-redir =https --retry 3 --output "$2" "$1"
  elif command -v wget >/dev/null 2>&1; then
    # wget has no option against a redirect to plain HTTP: it gets a proxy that is not there.
    http_proxy=http://127.0.0.1:9 wget -q -O "$2" "$1"
  else
    fail "needs curl or wget"
  fi || fail "cannot get $1: is there a release $version?"
}
get "$from/$name" "$tmp/$name"
get "$from/SHA256SUMS" "$tmp/SHA256SUMS"

if [ -n "${IMGCHECK_RELEASES_KEY:-}" ]; then
  command -v openssl >/dev/null 2>&1 || fail "needs openssl to verify the signature with IMGCHECK_RELEASES_KEY"
  get "$from/SHA256SUMS.sig" "$tmp/SHA256SUMS.sig"
  if ! openssl base64 -d -A -in "$tmp/SHA256SUMS.sig" -out "$tmp/signature" 2>/dev/null ||
    ! openssl dgst -sha256 -verify "$IMGCHECK_RELEASES_KEY" -signature "$tmp/signature" "$tmp/SHA256SUMS" >/dev/null 2>&1; then
    fail "$from/SHA256SUMS is not signed with the key $IMGCHECK_RELEASES_KEY"
  fi
elif command -v cosign >/dev/null 2>&1; then
  get "$from/SHA256SUMS.sigstore.json" "$tmp/SHA256SUMS.sigstore.json"
  # With its tag, so that nobody gives an older release for the one that was asked for.
  case $version in
    latest) tag='v[0-9]+\.[0-9]+\.[0-9]+' ;;
    *) tag=$(printf '%s' "$version" | sed 's/[^A-Za-z0-9-]/\\&/g') ;;
  esac
  cosign verify-blob --bundle "$tmp/SHA256SUMS.sigstore.json" \
    --certificate-identity-regexp "^https://github\.com/imgcheck/imgcheck/\.github/workflows/release\.yml@refs/tags/$tag\$" \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com "$tmp/SHA256SUMS" >&2 ||
    fail "$from/SHA256SUMS is not signed by imgcheck's release workflow for $version"
elif [ "${IMGCHECK_SIGNATURE:-}" = required ]; then
  fail "needs cosign, or openssl and IMGCHECK_RELEASES_KEY, to verify the signature"
else
  echo "install.sh: verifies the checksum but not the signature: there is no cosign" >&2
fi

want=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1 }' "$tmp/SHA256SUMS")
if command -v sha256sum >/dev/null 2>&1; then
  got=$(sha256sum "$tmp/$name")
elif command -v shasum >/dev/null 2>&1; then
  got=$(shasum -a 256 "$tmp/$name")
else
  fail "needs sha256sum or shasum"
fi
if [ -z "$want" ] || [ "${got%% *}" != "$want" ]; then
  fail "$from/$name is not what SHA256SUMS says: got ${got%% *}, want ${want:-nothing}"
fi

chmod 755 "$tmp/$name"
mv "$tmp/$name" "$dir/imgcheck"
echo "Installed $("$dir/imgcheck" version) as $dir/imgcheck" >&2
case :$PATH: in
  *:"$dir":*) ;;
  *) echo "$dir is not on PATH: export PATH=\"$dir:\$PATH\"" >&2 ;;
esac
