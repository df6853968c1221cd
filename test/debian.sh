#!/usr/bin/env bash
# Makes the root file system of a Debian minbase, once:
#
#   test/debian.sh SUITE DIR
#
# from this machine's Debian archive or $MIRROR; a suite of Ubuntu needs $KEYRING, too.
# If another process is making it, waits. Needs root and debootstrap.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,7s/^# *//p' "$0" >&2; exit 2; }
suite=$1 dir=$2
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/*$')}
components=main,contrib,non-free
[ -z "${KEYRING:-}" ] || components=main,universe
ok=$(dirname "$dir")/.$(basename "$dir").ok
mkdir -p "$(dirname "$dir")"
exec 9>"$ok.lock"
flock 9
[ ! -e "$ok" ] || exit 0
rm -rf "$dir"
debootstrap --variant=minbase --components=$components ${KEYRING:+--keyring="$KEYRING"} "$suite" "$dir" "${mirror%/}" 9>&-
rm -rf "$dir"/var/cache/apt/archives/*.deb "$dir"/var/lib/apt/lists/*
touch "$ok"
