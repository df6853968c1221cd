#!/bin/sh
# Installed by `imgcheck hook install`; `imgcheck hook uninstall` removes it.
# Scans the images that a push concerns. To push without: IMGCHECK_SKIP=1.
lines=$(cat)
feed() { [ -z "$lines" ] || printf '%s\n' "$lines"; }

# The hook that was here before runs first, and may stop the push.
before=$(dirname "$0")/pre-push.before-imgcheck
if [ -x "$before" ]; then
	feed | "$before" "$@" || exit $?
fi

[ "${IMGCHECK_SKIP:-}" = 1 ] && exit 0
imgcheck=imgcheck
command -v imgcheck >/dev/null 2>&1 || imgcheck=@PROGRAM@
if ! command -v "$imgcheck" >/dev/null 2>&1; then
	echo "imgcheck is not installed any more: no image is scanned (imgcheck hook uninstall removes this hook)" >&2
	exit 0
fi
feed | "$imgcheck" hook run "$@"
