package githook

import (
	_ "embed"
	"path"
	"slices"
	"strings"
)

//go:embed pre-push.sh
var script string

// A block is imgcheck's lines in a file of others, between two comments that begin with
// these markers.
const (
	blockBegins = "# >>> imgcheck"
	blockEnds   = "# <<< imgcheck"
)

// alone is a hook without anything but the block.
const alone = "#!/bin/sh\n"

// A block runs, before imgcheck: the lines below it in the same file, which so keep
// their $0 and the files beside them, directly or as husky runs a file; or the hook that
// was set aside.
const (
	runsBelow = `	# The lines below run first, under this file's own name, and may stop the push.
	feed | IMGCHECK_BELOW=1 "$0" "$@" || exit $?
`
	runsHusky = `	# The lines below run first, as husky runs them, and may stop the push.
	feed | IMGCHECK_BELOW=1 sh -e "$0" "$@" || exit $?
`
	runsAside = `	# The earlier hook runs first, under its own name, and may stop the push.
	before=$(dirname "$0")` + asideSuffix + `/pre-push
	if [ -x "$before" ]; then
		feed | "$before" "$@" || exit $?
	fi
`
)

// shellBlock returns the block for a shell script. program is run if PATH has no
// imgcheck; "" takes it from git's configuration, which no repository tracks.
func shellBlock(before, program string) string {
	quoted := "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	if program == "" {
		quoted = "$(git config --get " + programKey + " || true)"
	}
	return strings.NewReplacer("@BEFORE@\n", before, "@PROGRAM@", quoted).Replace(script)
}

// withBlock inserts a block into a shell script: before its commands, but after the line
// of husky 5 to 8 that starts the script again.
func withBlock(text, block string) string {
	lines := strings.SplitAfter(text, "\n")
	at := 0
	for i, l := range lines[:min(len(lines), 10)] {
		if i == 0 && strings.HasPrefix(l, "#!") || strings.Contains(l, "/_/husky.sh") {
			at = i + 1
		}
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += "\n"
	}
	return strings.Join(slices.Insert(lines, at, block), "")
}

// withoutBlock removes the blocks from a text. It returns false if there are none. A
// block without an end does not count.
func withoutBlock(text string) (rest string, had bool) {
	var kept, block []string
	for line := range strings.Lines(text) {
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case block == nil && strings.HasPrefix(trimmed, blockBegins):
			block = []string{line}
		case block == nil:
			kept = append(kept, line)
		case strings.HasPrefix(trimmed, blockEnds):
			block, had = nil, true
		default:
			block = append(block, line)
		}
	}
	return strings.Join(append(kept, block...), ""), had
}

// isShell reports whether a program is a script of a shell that can run the block. git
// runs a text without a first line by sh (start_command in run-command.c).
func isShell(text string) bool {
	if strings.Contains(text, "\x00") {
		return false
	}
	line, _, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return true
	}
	for i, word := range strings.Split(strings.Join(strings.Fields(line), " "), " ") {
		name := path.Base(word)
		if i == 0 && name == "env" || i > 0 && (strings.HasPrefix(word, "-") || strings.Contains(word, "=")) {
			continue
		}
		return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}, name) && !strings.HasSuffix(line, "\r")
	}
	return false
}
