#!/usr/bin/env bash
# Records what really happens when a root file system's Python imports its modules:
#
#   test/imports/record.sh ROOT UPPER OUT [record.py's arguments]
#
# in a chroot without a network, over an overlay whose changes go to the directory UPPER;
# the root is not changed. OUT is the file of JSON lines (record.py). PYTHON is the interpreter
# in the root, python3 if it is not set. Needs root; UPPER is on another file system than ROOT if
# that is /.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '2,9s/^# *//p' "$0" >&2; exit 2; }
# Its mounts and processes end with it.
[ "${INSIDE:-}" = "$here" ] || INSIDE=$here exec unshare --mount --net --pid --fork --kill-child "$0" "$@"
root=$(realpath "$1") upper=$(realpath -m "$2") out=$(realpath -m "$3"); shift 3
ip link set lo up 2>/dev/null || true
work=$(dirname "$upper")/.work-$(basename "$upper")
mkdir -p "$upper" "$work"
m=$(mktemp -d)
trap 'rmdir "$m" 2>/dev/null || true' EXIT
mount -t tmpfs tmpfs "$m"
mkdir "$m/root"
mount -t overlay imports -o "lowerdir=$root,upperdir=$upper,workdir=$work,redirect_dir=off,metacopy=off,index=off" "$m/root"
mount -t proc proc "$m/root/proc"
mount -t sysfs -o ro sysfs "$m/root/sys"
mount -t tmpfs tmpfs "$m/root/dev"
for d in "null c 1 3" "zero c 1 5" "full c 1 7" "random c 1 8" "urandom c 1 9"; do
  # shellcheck disable=SC2086
  mknod -m 666 "$m/root/dev/"$d
done
mkdir "$m/root/dev/shm"
mount -t tmpfs tmpfs "$m/root/tmp"
cp "$here/record.py" "$m/root/tmp"
rc=0
chroot "$m/root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root "${PYTHON:-python3}" -I /tmp/record.py "$@" >"$out" </dev/null || rc=$?
umount -R "$m"
exit $rc
