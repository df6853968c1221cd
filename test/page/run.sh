#!/usr/bin/env bash
# Opens pages of reports in Debian's Chromium: of text images, of forty, of a hostile one, and
# FILE.html of others, 1280 and 390 pixels wide, light and dark. Each must have no violation of
# axe-core, no script error, no request beyond the page, nothing that is wider than the window,
# and no effect of a hostile text. The screenshots go to OUT, for people to look at.
#
#   test/page/run.sh OUT [FILE.html...]
#
# Needs chromium, node, npm and go.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: test/page/run.sh OUT [FILE.html...]}
shift
for tool in chromium node npm go; do
  command -v "$tool" >/dev/null || { echo "$tool is missing: apt-get install chromium nodejs npm" >&2; exit 1; }
done
mkdir -p "$out/node"
(cd "$out/node" && npm install --silent --no-audit --no-fund --no-save --ignore-scripts puppeteer-core@24.10.0 axe-core@4.10.3)
go run ./test/page/main.go "$out"
NODE_PATH=$out/node/node_modules node test/page/check.js "$out" "$out"/*.html "$@"
