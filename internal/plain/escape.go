package plain

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s with every character that is not printable written as Go and C
// escape it.
func Escape(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// maxName bounds a name in a message, in bytes.
const maxName = 300

// Name returns a file's name for a message: escaped, with logins in URLs masked, and cut
// off after 300 bytes.
func Name(s string) string {
	s = Masked(s)
	if len(s) > maxName {
		s = strings.ToValidUTF8(s[:maxName], "") + "…"
	}
	return Escape(s)
}

// Line returns s escaped, with each run of white space as one blank and logins in URLs
// masked.
func Line(s string) string { return Escape(Masked(strings.Join(strings.Fields(s), " "))) }
