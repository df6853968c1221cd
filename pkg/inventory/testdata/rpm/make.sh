#!/usr/bin/env bash
# Makes the rpm databases beside this script, of the three kinds that rpm has had, with rpm's own programs and Berkeley
# DB's: the same packages, installed without their files. On Debian: apt-get install rpm db5.3-util sqlite3 gpg; its rpm
# has no ndb, so NDB_RPM names one that was built with --enable-ndb, or SUSE's.
set -euo pipefail
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# package NAME EPOCH VERSION RELEASE ARCH FILES: a package that claims a number of files and has changes to tell, so
# that its header takes some pages.
package() {
  {
    printf 'Name: %s\nEpoch: %s\nVersion: %s\nRelease: %s\nSummary: s\nLicense: MIT\n' "$1" "$2" "$3" "$4"
    printf '%%description\n%%install\nmkdir -p %%{buildroot}/opt/%s\n' "$1"
    printf 'for i in $(seq %s); do echo $i >%%{buildroot}/opt/%s/$i; done\n%%files\n/opt/%s\n' "$6" "$1" "$1"
  } | sed '/^Epoch: $/d' >"$tmp/$1.spec"
  rpmbuild -bb --quiet --target "$5-linux" --define "_topdir $tmp/top" --define '_buildhost localhost' "$tmp/$1.spec" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
}
package glibc '' 2.34 125.el9 x86_64 3
package openssl-libs 1 3.2.2 6.el9 x86_64 20
package cuda-cudart-12-4 '' 12.4.127 1 x86_64 5
package libcudnn9-cuda-12 '' 9.1.0.70 1 x86_64 120
package tzdata '' 2025b 1.el9 noarch 0

export GNUPGHOME=$tmp/gpg
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-gen-key key@localhost rsa2048 sign never
gpg --batch --armor --export >"$tmp/key"

for kind in sqlite ndb; do
  mkdir "$tmp/$kind"
  program=rpm
  [ $kind = sqlite ] || program=$NDB_RPM
  rpm=("$program" --root "$tmp/$kind" --dbpath /db --define "_db_backend $kind")
  "${rpm[@]}" -i --justdb --nodeps --ignorearch --ignoreos "$tmp"/top/RPMS/*/*.rpm
  "${rpm[@]}" --import "$tmp/key"
  "${rpm[@]}" -e --justdb --nodeps tzdata
  "${rpm[@]}" -qa --qf '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE} %{ARCH}\n' | sort
done
gzip -9n <"$tmp/sqlite/db/rpmdb.sqlite" >rpmdb.sqlite.gz
gzip -9n <"$tmp/ndb/db/Packages.db" >Packages.db.gz

# Berkeley DB's was a hash from the package's number, of the machine's byte order, to its header. rpm only reads it now.
db=$tmp/sqlite/db/rpmdb.sqlite
{
  printf 'VERSION=3\nformat=bytevalue\ntype=hash\ndb_pagesize=4096\nHEADER=END\n 00000000\n 07000000\n'
  sqlite3 "$db" "SELECT ' ' || printf('%02x000000', hnum) || char(10) || ' ' || lower(hex(blob)) FROM Packages ORDER BY hnum"
  echo DATA=END
} | db5.3_load "$tmp/Packages"
gzip -9n <"$tmp/Packages" >Packages.gz
db5.3_dump "$tmp/Packages" | sed 's/^HEADER=END/db_lorder=4321\n&/' | db5.3_load "$tmp/Packages.be"
gzip -9n <"$tmp/Packages.be" >Packages.big-endian.gz
mkdir -p "$tmp/bdb/db" && cp "$tmp/Packages" "$tmp/bdb/db/Packages"
rpm --root "$tmp/bdb" --dbpath /db --define '_db_backend bdb_ro' -qa --qf '%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE} %{ARCH}\n' | sort
ls -l ./*.gz
