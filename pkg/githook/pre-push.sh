# >>> imgcheck: scans the images that a push concerns (not with IMGCHECK_SKIP=1);
# `imgcheck hook uninstall` takes these lines out.
if [ -z "${IMGCHECK_BELOW:-}" ]; then
	lines=$(cat)
	feed() { [ -z "$lines" ] || printf '%s\n' "$lines"; }
@BEFORE@
	[ "${IMGCHECK_SKIP:-}" = 1 ] && exit 0
	imgcheck=$(command -v imgcheck) || imgcheck=@PROGRAM@
	if ! command -v "$imgcheck" >/dev/null 2>&1; then
		echo "imgcheck is not installed: no image is scanned (imgcheck hook uninstall removes this hook)" >&2
		exit 0
	fi
	feed | "$imgcheck" hook run "$@"
	exit $?
fi
unset IMGCHECK_BELOW
# <<< imgcheck
