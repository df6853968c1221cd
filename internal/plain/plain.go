// Package plain makes texts of images, logs and registries safe to show on a terminal,
// and in the log of a CI system, which obeys texts that look like its commands.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s as one line of valid UTF-8 without effects: without control characters,
// without characters that change the direction of text (CVE-2021-42574), and without
// commands of CI systems anywhere in the line.
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

// shown returns the replacement of a character: a blank for one that breaks lines, U+FFFD
// for one that acts, else the character itself.
func shown(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
		return ' '
	case acts(r):
		return utf8.RuneError
	}
	return r
}

// acts reports whether a terminal or a line splitter does something else with a character
// than to show it.
func acts(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}
