#!/bin/sh
# download.sh DIR PACKAGE...: downloads packages of Debian bookworm into DIR with
# apt, whatever release this machine runs and without root. It does not download
# a package that is in DIR.
set -eu
dir=$1; shift
missing=
for p; do
  set -- "$dir/$p"_*.deb
  [ -e "$1" ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/*$') || { echo 'bench: apt has no source of Debian' >&2; exit 1; }
mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror%/} bookworm main contrib non-free" >"$dir/apt/sources.list"
: >"$dir/apt/status"
apt() {
  apt-get -q -o Dir::Etc::SourceList="$dir/apt/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State="$dir/apt" \
    -o Dir::State::Lists="$dir/apt/lists" -o Dir::State::Status="$dir/apt/status" -o Dir::Cache="$dir/apt/cache" \
    -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Sandbox::User= "$@"
}
apt update
cd "$dir"
# shellcheck disable=SC2086 # one word a package
apt download $missing
