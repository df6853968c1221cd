#!/usr/bin/env bash
# Unpacks the loaders of glibc and musl of a release of Debian or Ubuntu, with their
# ldconfig, for `make oracle ROOT=DIR`:
#
#   test/loaders.sh SUITE ARCH DIR       SUITE bullseye, jammy, ...; ARCH amd64 or arm64
#
# It installs nothing. Needs Debian or Ubuntu; for suites of the other one, also its
# archive in $MIRROR and its keyring, in the usual place or in $KEYRING. To use loaders
# of arm64, install qemu-user-static and gcc-aarch64-linux-gnu. A release takes 3 MB,
# and its package lists about 10 MB.
set -euo pipefail
[ $# = 3 ] || { sed -n '2,11s/^# *//p' "$0" >&2; exit 2; }
suite=$1 arch=$2 dir=$3
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial}
: >"$work/status"

packages=(libc6 libc-bin)
case $suite in
  jessie | stretch | buster | bullseye | bookworm | trixie | forky | sid)
    mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/*$' || true)}
    key=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
    suites=$suite
    packages+=(musl)
    ;;
  *)
    mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/ubuntu/*$' || true)}
    key=${KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    suites="$suite $suite-updates"
    ;;
esac
[ -n "$mirror" ] || { echo "apt knows no archive that has $suite: name it in MIRROR" >&2; exit 1; }
[ -e "$key" ] || { echo "$key is missing: name the keyring of that archive in KEYRING" >&2; exit 1; }
for s in $suites; do
  echo "deb [signed-by=$key arch=$arch] ${mirror%/} $s main"
done >"$work/sources.list"

apt() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$work" -o Dir::State::Lists="$work/lists" \
    -o Dir::State::Status="$work/status" -o Dir::Cache="$work/cache" -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
    -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}
apt update
(cd "$work" && apt download "${packages[@]}")
for deb in "$work"/*.deb; do
  echo "${deb##*/}"
  dpkg-deb -x "$deb" "$dir"
done
for d in lib lib64 sbin; do # the links of a merged /usr, from base-files
  [ -e "$dir/$d" ] || ln -s "usr/$d" "$dir/$d"
done
[ ! -e "$dir/sbin/ldconfig.real" ] || mv "$dir/sbin/ldconfig.real" "$dir/sbin/ldconfig" # Ubuntu's ldconfig is a script
