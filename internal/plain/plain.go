// Package plain makes texts of images, logs and registries safe to show: on a
// terminal, and in the log of a CI system, which obeys what looks like a command.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s as one line of valid UTF-8 that no terminal obeys: without control
// characters, and without those that turn the direction of what follows
// (CVE-2021-42574), and without what a CI system takes for a command, wherever in a
// line it stands.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, acts) && !strings.Contains(s, "##") && !strings.Contains(s, "::") {
		return s
	}
	var b strings.Builder
	var l line
	for _, r := range s {
		if r = shown(r); l.commands(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// shown returns what is shown of a character: a blank for one that breaks lines,
// U+FFFD for one that acts.
func shown(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
		return ' '
	case acts(r):
		return utf8.RuneError
	}
	return r
}

// acts reports whether a terminal, or who splits text into lines, does something with
// a character but show it.
func acts(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
