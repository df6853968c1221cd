#!/usr/bin/env bash
# Runs the README's two commands on a bare machine: a Debian minbase with make, git,
# ca-certificates and this machine's Go (read-only), without caches.
#
#   test/fresh.sh [whole]
#
# In a clone of the last commit it runs `go run ./cmd/imgcheck demo`, builds a release, which
# must have the same bytes as one that is built outside with another cache, and runs the parts
# of `make test` that depend on the machine: `make deps`, a test with the race detector (cgo)
# and programs built by gcc for glibc and musl; with "whole", all of `make test`. It prints
# the time and disk of each. SUITE names another release than bookworm, MIRROR and KEYRING
# its archive. Needs root, debootstrap, and a network for Go and apt. The minbase stays in
# $REAL (default .real); all other files, 3 GB, are removed.
set -euo pipefail
[ "${1:-}" = inside ] || exec unshare --mount "$0" inside "$@" # its mounts end with it
cd "$(dirname "$0")/.."
suite=${SUITE:-bookworm}
R=${REAL:-$PWD/.real}
mkdir -p "$R/log"
./test/debian.sh "$suite" "$R/up/$suite" >"$R/log/$suite.log" 2>&1 || { tail "$R/log/$suite.log" >&2; exit 1; }
work=$(mktemp -d) # not in the repository, where gofumpt and others would read it
root=$work/root
trap 'umount -R "$root" || true; rm -rf --one-file-system "$work"' EXIT
mkdir "$work/upper" "$work/work" "$root"
mount -t overlay fresh -o "lowerdir=$R/up/$suite,upperdir=$work/upper,workdir=$work/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir "$root/usr/local/go"
mount --bind "$(go env GOROOT)" "$root/usr/local/go"
mount -o remount,bind,ro "$root/usr/local/go"

# Use this machine's network: its resolver, proxies and their certificate authorities.
cp /etc/resolv.conf "$root/etc/resolv.conf"
apt-config dump | grep -iE '^Acquire::https?::proxy' >"$root/etc/apt/apt.conf.d/90proxy" || true
mkdir -p "$root/usr/local/share/ca-certificates"
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
vars=(HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for v in GOFLAGS GOINSECURE GONOPROXY GONOSUMDB GOPRIVATE GOPROXY GOSUMDB; do
  vars+=("$v=$(go env $v)")
done
for v in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!v:-}" ] || vars+=("$v=${!v}")
done

# there COMMAND...: runs it in the clone, and prints its time and disk.
there() {
  local before start=$SECONDS
  before=$(du -sm "$work/upper" | cut -f1)
  echo "== $*"
  chroot "$root" env -i "${vars[@]}" sh -c 'cd /root/imgcheck && exec "$@"' sh "$@"
  echo "== took $((SECONDS - start)) s and $(($(du -sm "$work/upper" | cut -f1) - before)) MB: $*"
}

mkdir "$root/root/imgcheck"
there sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install make git ca-certificates >/dev/null'
git clone -q "$PWD" "$root/root/imgcheck"
there go run ./cmd/imgcheck demo

CYCLONEDX=$(CGO_ENABLED=0 GOFLAGS=-trimpath go -C release/tools tool -n cyclonedx-gomod)
cp "$CYCLONEDX" "$root/usr/local/bin/cyclonedx-gomod"
release=(VERSION=v0.0.0-check COMMIT=0123456789abcdef0123456789abcdef01234567 TARGETS="linux/$(go env GOARCH)")
there env "${release[@]}" CYCLONEDX=/usr/local/bin/cyclonedx-gomod DIST=/root/release ./release/release.sh
env "${release[@]}" CYCLONEDX="$CYCLONEDX" DIST="$work/release" "$root/root/imgcheck/release/release.sh"
cmp "$root/root/release/SHA256SUMS" "$work/release/SHA256SUMS"
if [ "${2:-}" = whole ]; then
  there make test
else
  there make deps
  there go test -race ./internal/outfile
  there go test -run '^TestWorlds$' ./pkg/elfdeps
fi
echo "The README's commands work on a fresh $suite, and a release that is built there has the same bytes."
