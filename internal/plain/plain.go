// Package plain makes texts of images, logs and registries safe to show.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text is a text on one line of valid UTF-8 that no terminal obeys: without
// control characters, and without those that turn the direction of what follows
// (CVE-2021-42574).
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, acts) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case acts(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// acts reports whether a terminal does something with a character but show it.
func acts(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
