#!/usr/bin/env bash
# Installs the packages that the tests need beside Go, as root on Debian or Ubuntu;
# elsewhere it lists those that are missing. Without them, tests fail, not skip.
set -euo pipefail

# program → Debian package
need=(pip3=python3-pip gcc=gcc 'g++=g++' /usr/include/errno.h=libc6-dev musl-gcc=musl-tools docker-registry=docker-registry umoci=umoci skopeo=skopeo patchelf=patchelf mount=mount xmllint=libxml2-utils pigz=pigz libdeflate-gzip=libdeflate-tools git=git curl=curl openssl=openssl zsh=zsh fish=fish shellcheck=shellcheck groff=groff-base /lib/ld-musl-x86_64.so.1=musl rpm=rpm /usr/lib/python3/dist-packages/packaging=python3-packaging)
# Thousands of Python files, for pkg/pysource.
for package in networkx pandas scipy sympy; do need+=("/usr/lib/python3/dist-packages/$package=python3-$package"); done
if [ "${1:-}" = buildkit ]; then
  need=(/usr/sbin/runc=runc) # crun fails under this buildkitd
fi
if [ "${1:-}" = real ]; then
  need+=(debootstrap=debootstrap npm=npm node=nodejs pre-commit=pre-commit jq=jq /usr/bin/time=time)
fi
if [ "${1:-}" = page ]; then
  need=(chromium=chromium npm=npm node=nodejs)
fi
missing=()
for pair in "${need[@]}"; do
  what=${pair%%=*}
  case $what in
    /*) [ -e "$what" ] || missing+=("${pair#*=}") ;;
    *) command -v "$what" >/dev/null || missing+=("${pair#*=}") ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "The tests need these Debian packages, or similar ones: ${missing[*]}" >&2
  echo "As root on Debian or Ubuntu, 'make test' installs them." >&2
  exit 1
fi
echo "Installing packages for the tests: ${missing[*]}" >&2
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null
