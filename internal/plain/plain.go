// Package plain makes texts of images, logs and registries safe to show on a terminal,
// and in the log of a CI system, which obeys texts that look like its commands.
package plain

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s as one line of valid UTF-8 without effects: without control characters and
// without commands of CI systems anywhere in the line. Characters that change the direction
// of text (CVE-2021-42574), or have no shape, are written as Go and C escape them. Logins in
// URLs are masked ([Masked]).
func Text(s string) string {
	s = Masked(s)
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hides) && !strings.Contains(s, "##") && !strings.Contains(s, "::") {
		return s
	}
	var b strings.Builder
	var l line
	for _, r := range s {
		if r = shown(r); l.commands(r) {
			b.WriteByte(' ')
		}
		if invisible(r) {
			b.WriteString(escape(r))
			continue
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

// invisible reports whether a character has no shape of its own: it changes the direction of
// text or the joining of its neighbours, or two names that differ in it look the same.
// Variation selectors, which are a part of signs, are none.
func invisible(r rune) bool {
	if r < utf8.RuneSelf {
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point)
}

// hides reports whether a character is shown otherwise than it is.
func hides(r rune) bool { return acts(r) || invisible(r) }

// escape writes a character as Go and C do.
func escape(r rune) string {
	q := strconv.QuoteRuneToASCII(r)
	return q[1 : len(q)-1]
}

// acts reports whether a terminal or a line splitter does something else with a character
// than to show it.
func acts(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == '\x7f'
	}
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}
