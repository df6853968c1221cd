#!/usr/bin/env bash
# Tests imgcheck on real files: makes three images from Debian and npm, scans them
# as OCI layouts and from a real registry on loopback, and checks the reports. Then
# compares each of their ELF files (libraries, symbols, bindings) with the answers
# of the image's own loader; docs/ldd.md states their number.
#
#   1. trixie with contrib's python3-torch-cuda (PyTorch 2.6 for CUDA 12.4), whose
#      licence keeps cuDNN out of Debian
#   2. bookworm with npm's @node-llama-cpp/linux-x64-cuda
#   3. bookworm with non-free's CUDA 11 runtime libraries and python3: healthy
#
# At last imports the modules of 40 Python packages of bookworm really, and again after
# random faults, starts the packages' programs, and compares that with the predictions (test/imports). Packages of npm
# with addons are loaded by the real Node, likewise (test/nodes).
#
# Needs root on Debian or Ubuntu, debootstrap, docker-registry, npm, go, 20 GB of
# disk in $REAL (default .real in the repository) and 6 minutes. It uses files of an
# earlier run again; remove $REAL to start anew. REAL_SMALL=1 leaves out the root
# with hundreds of packages and removes what it needs no more, so that 14 GB suffice,
# for slim.sh after it as well.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
R=${REAL:-$top/.real}
small=${REAL_SMALL:-}
mkdir -p "$R"/{up,mnt,oci,debs,log,apt}

say() { printf '%s\n' "== $*" >&2; }
die() { printf '%s\n' "FAIL: $*" >&2; exit 1; }
for tool in debootstrap docker-registry npm go; do
  command -v $tool >/dev/null || die "$tool is not installed (make test as root installs it)"
done
[ "$(id -u)" = 0 ] || die "debootstrap and overlay mounts need root"
needs=20
[ -z "$small" ] || needs=14
needs=$((needs - $(du -sx --block-size=1G "$R" | cut -f1)))
free=$(df --output=avail --block-size=1G "$R" | tail -n 1 | tr -d ' ')
[ "$free" -ge "$needs" ] || die "$needs GB of disk are needed in $R, and $free GB are free"
# Its mounts, of /dev too, end with it even if it is killed: no later `rm -rf` or `git clean`
# may reach /dev through one.
[ "${1:-}" = inside ] || exec unshare --mount "$0" inside "$@"

# All mounts of this script are below $R/mnt.
unmount() { { grep -o " $R/mnt/[^ ]*" /proc/mounts || true; } | sort -r | while read -r m; do umount "$m"; done; }
registry=
trap '[ -z "$registry" ] || kill $registry; unmount' EXIT
unmount

# merged NAME LOWER... : mounts the layers, given from the lowest up, at $R/mnt/NAME,
# with the upper directory $R/up/NAME.
merged() {
  local name=$1 lower=; shift
  for l in "$@"; do lower=$R/up/$l${lower:+:$lower}; done
  mkdir -p "$R/up/$name" "$R/mnt/$name" "$R/mnt/.work-$name"
  mount -t overlay "real-$name" -o "lowerdir=$lower,upperdir=$R/up/$name,workdir=$R/mnt/.work-$name,redirect_dir=off,metacopy=off,index=off" "$R/mnt/$name"
}

# base SUITE: makes the lowest layer.
base() {
  [ -e "$R/up/.$1.ok" ] && return
  say "debootstrap $1"
  "$here/../debian.sh" "$1" "$R/up/$1" >"$R/log/$1.log" 2>&1 || die "debootstrap: see $R/log/$1.log"
}

# layer NAME "LOWER..." COMMAND...: makes a layer of the changes by the command, which
# gets the merged root as its last argument.
layer() {
  local name=$1 lowers=$2; shift 2
  [ -e "$R/up/.$name.ok" ] && return
  say "layer $name: $*"
  rm -rf "$R/up/$name"
  # shellcheck disable=SC2086
  merged "$name" $lowers
  "$@" "$R/mnt/$name" >"$R/log/$name.log" 2>&1 || die "layer $name: see $R/log/$name.log"
  umount "$R/mnt/$name"
  touch "$R/up/.$name.ok"
}

# inroot ROOT COMMAND...: runs the command in ROOT, with the mounts that package scripts expect.
inroot() {
  local root=$1 rc=0; shift
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  mkdir -p "$root/tmp/debs" "$root/var/cache/apt/archives"
  mount --bind "$R/debs" "$root/tmp/debs"
  mount --bind "$R/apt" "$root/var/cache/apt/archives"
  chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root "$@" || rc=$?
  umount "$root/var/cache/apt/archives" "$root/tmp/debs" "$root/dev" "$root/proc"
  rm -rf "$root/tmp/debs"
  : >"$root/etc/resolv.conf"
  return $rc
}

# install PACKAGE... ROOT
install() {
  local root=${!#}
  inroot "$root" sh -c '
    printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d
    apt-get -q update && apt-get -q -y --no-install-recommends install "$@"; rc=$?
    rm -rf /var/lib/apt/lists/* /usr/sbin/policy-rc.d /var/cache/apt/*.bin; exit $rc' sh "${@:1:$#-1}"
}

# stand_in NAME VERSION PROVIDES: makes an empty package in place of one that a
# container image does not have: the driver, the downloader of cuDNN.
stand_in() {
  [ -e "$R/debs/$1.deb" ] && return
  local d; d=$(mktemp -d)
  mkdir "$d/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: nobody <nobody@localhost>\nProvides: %s\nDescription: empty stand-in\n' "$1" "$2" "$3" >"$d/DEBIAN/control"
  dpkg-deb -b "$d" "$R/debs/$1.deb" >/dev/null
  rm -rf "$d"
}

npm_llama() {
  mkdir -p "$1/app"
  (cd "$1/app" && echo '{"name":"app","version":"1.0.0","private":true}' >package.json &&
    npm install --no-audit --no-fund --ignore-scripts --os=linux --cpu=x64 @node-llama-cpp/linux-x64-cuda)
}

cuda11_paths() {
  mkdir -p "$1/usr/local/cuda-11.8/lib64"
  ln -s cuda-11.8 "$1/usr/local/cuda"
  ln -s libcudnn.so.8.9.7 "$1/usr/local/cuda-11.8/lib64/libcudnn.so.8" # dangling, but no file needs it
  echo /usr/local/cuda/lib64 >"$1/etc/ld.so.conf.d/000_cuda.conf"
  chroot "$1" ldconfig
}

(cd "$top" && go build -o "$R/imgcheck" ./cmd/imgcheck && go build -o "$R/mkimage" ./test/real/mkimage/main.go && go build -o "$R/truth" ./test/real/truth/main.go && go build -o "$R/imports" ./test/imports/main.go && go build -o "$R/nodes" ./test/nodes/main.go &&
  go test -tags roots -c -o "$R/elfdeps.test" ./pkg/elfdeps)

base trixie
stand_in nvidia-cudnn 9.99~none ""
stand_in libcuda1 550.999~none "libcuda.so.1 (= 550.999)"
layer torch "trixie" install /tmp/debs/nvidia-cudnn.deb /tmp/debs/libcuda1.deb python3-torch-cuda
base bookworm
layer llama "bookworm" npm_llama
layer python "bookworm" install python3 ca-certificates
layer cuda11 "bookworm python" install libcudart11.0 libcublas11 libcublaslt11 libnvrtc11.2 libcufft10 libcurand10 libcusparse11 libcusolver11 libnvtoolsext1
layer paths "bookworm python cuda11" cuda11_paths
mapfile -t packages < <(grep -v '^#' "$top/test/imports/packages")
layer imports "bookworm python" install "${packages[@]}"
[ -n "$small" ] || layer many "bookworm python" install python3-torch python3-opencv

[ -z "$small" ] || rm -rf "$R"/apt/*

path=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cuda=LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64:/usr/local/cuda/lib64
image() { # image NAME COMPRESSION CREATED_BY=LAYER...
  local name=$1 compression=$2 args=(); shift 2
  [ -e "$R/oci/$name/index.json" ] && return
  say "image $name"
  for l in "$@"; do args+=("${l%%=*}=$R/up/${l#*=}"); done
  "$R/mkimage" "$R/oci/$name" "$compression" "$path" "$cuda" -- "${args[@]}"
}
image torch-cuda gzip "RUN debootstrap trixie=trixie" "RUN apt-get install python3-torch-cuda=torch"
image node-llama-cuda zstd "RUN debootstrap bookworm=bookworm" "RUN npm install @node-llama-cpp/linux-x64-cuda=llama"
image cuda11 zstd "RUN debootstrap bookworm=bookworm" "RUN apt-get install python3=python" "RUN apt-get install libcublas11=cuda11" "RUN ldconfig=paths"

# truth NAME LAYER...: compares imgcheck ldd with the root's own loader in a chroot,
# for every ELF file of the merged root, and the bindings of their symbols.
checked=0
truth() {
  local name=$1; shift
  say "ldd --all of $name against its own loader"
  merged truth "$@"
  "$R/imgcheck" ldd --no-cache --all --format json --env "$cuda" "dir:$R/mnt/truth" >"$R/ldd.jsonl"
  "$R/truth" "$R/mnt/truth" "$cuda" <"$R/ldd.jsonl" || die "imgcheck and the loader of $name do not agree"
  checked=$((checked + $(wc -l <"$R/ldd.jsonl")))
  (cd "$top/pkg/elfdeps" && ELFDEPS_ROOTS=$R/mnt/truth "$R/elfdeps.test" -test.run 'OfRoots$' -test.v) >"$R/log/symbols.log" 2>&1 ||
    { cat "$R/log/symbols.log"; die "imgcheck and the loader of $name do not agree on symbols"; }
  grep -E '[0-9]+ files, ' "$R/log/symbols.log" >&2
  umount "$R/mnt/truth"
}
truth torch-cuda trixie torch
[ "$(grep -c '"name":"libcudnn.so.9","path":null' "$R/ldd.jsonl")" = 94 ] || die "not 94 files miss libcudnn.so.9"
"$R/imgcheck" scan --quiet --no-cache "oci:$R/oci/torch-cuda" --format json --fail-on never |
  node -e 'const d=JSON.parse(require("fs").readFileSync(0)); for (const f of d.findings) if (f.library=="libcudnn.so.9") f.affected.forEach(p=>console.log(p))' | sort >"$R/affected.txt"
grep '"name":"libcudnn.so.9","path":null' "$R/ldd.jsonl" | node -e 'for (const l of require("fs").readFileSync(0,"utf8").trim().split("\n")) console.log(JSON.parse(l).path)' | sort >"$R/missing.txt"
diff "$R/missing.txt" "$R/affected.txt" || die "scan (>) and ldd (<) do not agree on who misses libcudnn.so.9"
truth node-llama-cuda bookworm llama
truth cuda11 bookworm python cuda11 paths
[ -n "$small" ] || truth "hundreds of packages" bookworm python many
said=$(grep -oE 'for [0-9,]+ ELF files of Debian roots' "$top/docs/ldd.md" | tr -dc 0-9)
[ "$checked" -ge "${said:?docs/ldd.md does not say how many ELF files are checked}" ] || die "docs/ldd.md says that $said ELF files are checked: correct it, $checked were"

say "imports of ${#packages[@]} Python packages"
merged imported bookworm python imports
rm -rf "$R/.imported"
"$top/test/imports/record.sh" "$R/mnt/imported" "$R/.imported" "$R/imports.jsonl"
"$R/imports" -programs -text 99.4 -maps 94.5 -faults 30 -agree 92 -recorder "$top/test/imports/record.sh" "$R/mnt/imported" "$R/imports.jsonl" >"$R/log/imports.log" ||
  { cat "$R/log/imports.log"; die "imgcheck and Python do not agree on imports"; }
grep ' equal\|failures\|programs with' "$R/log/imports.log" >&2
umount "$R/mnt/imported"
say "packages of npm"
mkdir -p "$R/npm"
(cd "$R/npm" && npm init -y >/dev/null && npm install --no-audit --no-fund --ignore-scripts --os=linux --cpu=x64 sharp bcrypt argon2 @napi-rs/canvas \
  lightningcss @swc/core rollup bufferutil utf-8-validate classic-level serialport snappy @parcel/watcher onnxruntime-node@1.20.1 fastify express >/dev/null)
"$R/nodes" -opens 96 "$R/npm" 2>"$R/log/nodes.log" || { cat "$R/log/nodes.log"; die "imgcheck and Node do not agree on addons"; }
tail -n 1 "$R/log/nodes.log" >&2

[ -z "$small" ] || rm -rf "$R/up" "$R/npm"

say "registry"
port=$((20000 + RANDOM % 20000))
cat >"$R/registry.yml" <<Y
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $R/registry}}
http: {addr: 127.0.0.1:$port}
Y
rm -rf "$R/registry"
docker-registry serve "$R/registry.yml" >"$R/log/registry.log" 2>&1 &
registry=$!
(cd "$top" && go run ./test/real/push/main.go "127.0.0.1:$port" "$R"/oci/*)

# scan REF WANT: writes the text report to $R/out.txt, checks the exit status, and that the
# standard error has nothing but how much was read.
scan() {
  local rc=0
  "$R/imgcheck" scan --no-cache "$1" >"$R/out.txt" 2>"$R/err.txt" || rc=$?
  sed -i '/^imgcheck: read /d' "$R/err.txt"
  [ $rc = "$2" ] || { cat "$R/out.txt" "$R/err.txt"; die "scan $1: exit status $rc, not $2"; }
  [ ! -s "$R/err.txt" ] || { cat "$R/err.txt"; die "scan $1: something on stderr"; }
}
has() { grep -qF -- "$1" "$R/out.txt" || { cat "$R/out.txt"; die "the report does not say: $1"; }; }
hasnot() { ! grep -qF -- "$1" "$R/out.txt" || { cat "$R/out.txt"; die "the report says: $1"; }; }
count() { [ "$(grep -cE -- "$1" "$R/out.txt")" = "$2" ] || { cat "$R/out.txt"; die "not $2 lines like: $1"; }; }

for where in "oci:$R/oci" "127.0.0.1:$port"; do
  say "scan $where"
  scan "$where/torch-cuda" 1
  has "libcudnn.so.9: cannot open shared object file: No such file or directory"
  has '`import torch` fails'
  has "layer 2: RUN apt-get install python3-torch-cuda"
  count '^error: ' 1
  has "and 93 more files"
  scan "$where/node-llama-cuda" 1
  has ": cannot open shared object file: No such file or directory"
  has "2 libraries: "
  has libcudart.so.13
  has libcublas.so.13
  has "2 errors: "
  hasnot libcuda.so.1
  hasnot libggml-base
  scan "$where/cuda11" 0
  has "no problems found"
done
kill $registry
registry=
rm -rf "$R/registry"

say "PASS: $checked ELF files, $(wc -l <"$R/imports.jsonl") modules"
