#!/usr/bin/env bash
# Slims the real images that run.sh has made, for one GPU, and checks the result:
#
#   test/real/slim.sh [IMAGE=GPU ...]      (default: torch-cuda=A100 node-llama-cuda=L40S)
#
#   1. slim reads the layout and pushes to a registry on loopback, with at most 200 MB of memory
#      and nothing written to a disk but its messages, and crane copies the same image for comparison
#   2. crane (of go-containerregistry), skopeo and umoci accept the slim image
#   3. all that size claims may go at once: slim --dry-run judges the image without it, and refuses
#      if there is a new finding, or a process maps other files
#   4. for every ELF file, `imgcheck ldd --all` says the same of the slim root as of the old one,
#      and in both the root's own loader says so, too
#
# At last it prints a table for docs/slim.md: bytes of a pull before and after, and time and memory
# of slim and of crane. Needs what run.sh needs, skopeo, umoci and GNU time; twice the disk of
# the unpacked image. With SLIM_FLAGS="--accept-nvidia-license --modify cuda-1.2" it also changes the
# libraries of CUDA: for a test here, not for an image to pass on.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
R=${REAL:-$top/.real}
S=$R/slim
say() { printf '%s\n' "== $*" >&2; }
die() { printf '%s\n' "FAIL: $*" >&2; exit 1; }
for tool in docker-registry skopeo umoci go jq /usr/bin/time; do
  command -v $tool >/dev/null || die "$tool is not installed"
done
[ "$(id -u)" = 0 ] || die "umoci and the chroots need root"
[ $# -gt 0 ] || set -- torch-cuda=A100 node-llama-cuda=L40S

rm -rf "$S"
mkdir -p "$S/tmp" "$S/home"
registry=
trap '[ -z "$registry" ] || kill $registry; rm -rf "$S"' EXIT
(cd "$top" && go build -o "$S/imgcheck" ./cmd/imgcheck && go build -o "$S/truth" ./test/real/truth/main.go)
crane=github.com/google/go-containerregistry
GOBIN=$S GOFLAGS=-mod=mod go install "$crane/cmd/crane@$(cd "$top" && go list -m -f '{{.Version}}' $crane)"
port=$((20000 + RANDOM % 20000))
cat >"$S/registry.yml" <<Y
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $S/registry}}
http: {addr: "127.0.0.1:$port"}
Y
docker-registry serve "$S/registry.yml" >"$S/registry.log" 2>&1 &
registry=$!
for _ in $(seq 100); do curl -fs "http://127.0.0.1:$port/v2/" >/dev/null && break; sleep 0.1; done
to=127.0.0.1:$port

# measured NAME COMMAND...: runs a command and keeps "SECONDS PROCESSOR-SECONDS MB BLOCKS-WRITTEN".
measured() {
  local name=$1; shift
  /usr/bin/time -o "$S/$name.time" -f '%e %U %S %M %O' env TMPDIR="$S/tmp" HOME="$S/home" XDG_CACHE_HOME="$S/home" "$@" >"$S/$name.out" 2>"$S/$name.err" ||
    { cat "$S/$name.err" >&2; die "$*"; }
  awk '{printf "%.0f %.0f %.0f %d\n", $1, $2 + $3, $4 * 1024 / 1e6, $5}' "$S/$name.time"
}
pull() { "$S/crane" manifest --insecure "$1" | jq '[.layers[].size] | add'; }

# ask NAME REF: unpacks an image, compares imgcheck ldd --all with the loaders of its root for every ELF
# file, and keeps the answers in NAME.jsonl. It empties the registry.
ask() {
  local env
  env=$("$S/crane" config --insecure "$2" | jq -r '.config.Env[] | select(startswith("LD_LIBRARY_PATH="))')
  skopeo copy --quiet --src-tls-verify=false --dest-compress-format gzip --dest-compress "docker://$2" "oci:$S/unpack:1"
  rm -rf "$S/registry/docker"
  umoci --log=error unpack --image "$S/unpack:1" "$S/bundle"
  rm -rf "$S/unpack"
  "$S/imgcheck" ldd --no-cache --all --format json --env "$env" "dir:$S/bundle/rootfs" >"$S/$1.jsonl"
  "$S/truth" "$S/bundle/rootfs" "$env" <"$S/$1.jsonl" || die "imgcheck and the loaders of $1 do not agree"
  jq -r .path "$S/$1.jsonl" | sort >"$S/$1.paths"
}

# claims NAME LAYOUT GPU: drops all that size claims, in a dry run: all classes that it lists, and GPU code.
claims() {
  local report drops
  report=$("$S/imgcheck" size --no-cache "oci:$2" --gpu "$3" --format json) || die "size fails for $1"
  jq -e '.groups | length > 0' <<<"$report" >/dev/null || die "size claims nothing of $1"
  mapfile -t drops < <(jq -r '.groups[].id | select(. != "gpu-code") | "--drop=" + .' <<<"$report")
  "$S/imgcheck" slim --no-cache "oci:$2" --dry-run --gpu "$3" "${drops[@]}" >&2 || die "$1 is worse without what size claims: ${drops[*]}"
}

table=
for pair in "$@"; do
  name=${pair%%=*} gpu=${pair#*=}
  layout=$R/oci/$name
  [ -e "$layout/index.json" ] || die "$layout is not there: run test/real/run.sh"
  say "what size claims: $name"
  claims "$name" "$layout" "$gpu"
  say "crane: $name"
  copied=$(measured crane "$S/crane" push --insecure "$layout" "$to/$name:1")
  before=$(pull "$to/$name:1")
  say "its loaders"
  ask before "$to/$name:1"
  rm -rf "$S/bundle"
  say "slim: $name for $gpu"
  # shellcheck disable=SC2086
  slimmed=$(measured slim "$S/imgcheck" slim --no-cache "oci:$layout" -t "$to/$name:slim" --allow-copy --gpu "$gpu" ${SLIM_FLAGS:-})
  sed '/^imgcheck: read/d' "$S/slim.err" >&2
  read -r _ _ memory blocks <<<"$slimmed"
  [ "$memory" -le 200 ] || die "slim took $memory MB of memory"
  [ "$blocks" -lt 100 ] || die "slim wrote $blocks blocks to a disk"
  [ -z "$(find "$S/tmp" "$S/home" -type f)" ] || die "slim left files: $(find "$S/tmp" "$S/home" -type f)"
  after=$(pull "$to/$name:slim")
  if "$S/crane" manifest --insecure "$to/$name:slim" | grep -q tar+zstd; then
    say "crane validates no layers of zstd"
  else
    "$S/crane" validate --insecure --remote "$to/$name:slim" >&2
  fi
  ask after "$to/$name:slim"
  # The answers about files that are left are the same, word by word, and the others are gone.
  [ -z "$(comm -13 <(sort "$S/before.jsonl") <(sort "$S/after.jsonl"))" ] || die "the loader says other things of the slim $name"
  comm -23 "$S/before.paths" "$S/after.paths" | while read -r gone; do
    [ ! -e "$S/bundle/rootfs$gone" ] || die "$gone is not asked about any more"
  done
  files=$(wc -l <"$S/after.jsonl")
  rm -rf "$S/bundle"
  table+="| $name, \`--gpu $gpu\` | $((before / 1000000)) MB | $((after / 1000000)) MB | $(cut -d' ' -f1,2 <<<"$slimmed" | sed 's/ / s, /') s | $memory MB | $(cut -d' ' -f1 <<<"$copied") s | $files |"$'\n'
done
printf '| image | a pull before | after | time of slim, of processors | memory | time of crane | ELF files with equal answers |\n|---|---|---|---|---|---|---|\n%s' "$table"
