#!/usr/bin/env bash
# Runs shellcheck over the shell scripts (but test data), with those in action.yml and in
# GitLab's template; actionlint over action.yml, written as a workflow, since it reads nothing else,
# and over a workflow of imgcheck fleet;
# and Vale (test/vale) over Go comments and Markdown.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null || { echo "test/lint.sh needs shellcheck (Debian: shellcheck)" >&2; exit 1; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

git ls-files -z '*.sh' .ci/run ':!pkg/githook/pre-push.sh' ':!pkg/startup/testdata' | xargs -0 shellcheck
shellcheck --shell=sh ci/husky/pre-commit # husky runs it with sh
shellcheck --shell=sh pkg/githook/pre-push.sh # a part of other hooks, so it has no #! line

# Vale reads Go by a parser in C, and YAML by one in C++. Without --no-global it would add
# the rules of a user.
vale=$(CGO_ENABLED=1 go -C test/vale tool -n vale)
git ls-files -z '*.go' '*.md' | xargs -0 "$vale" --no-global --config test/vale/.vale.ini --output line

# An action's inputs have no type, a workflow's need one.
awk '
  BEGIN { print "on:\n  workflow_call:" }
  /^[a-z]/ { section = $1; steps = 0 }
  section == "inputs:" { print "    " $0 }
  section == "inputs:" && /^  [a-z-]+:$/ { print "        type: string" }
  section == "runs:" && /^  steps:/ { steps = 1; print "jobs:\n  action:\n    runs-on: ubuntu-latest" }
  steps { print "  " $0 }' action.yml >"$tmp/action.yml"
grep -q '^      - id: scan$' "$tmp/action.yml" || { echo "test/lint.sh finds no steps in action.yml" >&2; exit 1; }
go -C test/actionlint tool actionlint -stdin-filename action.yml - <"$tmp/action.yml"
go -C test/actionlint tool actionlint "$PWD"/.github/workflows/*.yml
go run ./cmd/imgcheck fleet --emit github --shards 2 --schedule '0 3 * * 1' ghcr.io/org/app:1 app:2 -- --gpu 'RTX 4090' >"$tmp/fleet.yml"
go -C test/actionlint tool actionlint -stdin-filename fleet.yml - <"$tmp/fleet.yml"

awk '
  BEGIN { print "#!/bin/sh\nset -eu" }
  /^  [a-z_]+:/ { script = $1 ~ /^(before_|after_)?script:$/; next }
  /^[^ ]/ { script = 0 }
  script { sub(/^    - \|$/, ""); sub(/^    - /, ""); sub(/^      /, ""); print }' ci/imgcheck.gitlab-ci.yml >"$tmp/gitlab.sh"
grep -q '^imgcheck scan ' "$tmp/gitlab.sh" || { echo "test/lint.sh finds no scripts in ci/imgcheck.gitlab-ci.yml" >&2; exit 1; }
shellcheck "$tmp/gitlab.sh"
