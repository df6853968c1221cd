package version

import (
	"cmp"
	"strings"
)

// Symbol is the name of a symbol version and its number. GLIBC_2.34 has the number 2.34.
// A name such as GLIBC_ABI_DT_RELR has no number; a caller that knows the release that
// brought it (glibc 2.36) sets one. A symbol without a number, such as GLIBC_PRIVATE, is
// older than all others.
type Symbol struct{ Name, Number string }

// ParseSymbol reads the number at the end of a name: 2.34 of GLIBC_2.34, 1_1_1d of
// OPENSSL_1_1_1d, and 5.0.19991023 of NCURSES6_TINFO_5.0.19991023.
func ParseSymbol(name string) Symbol {
	words := strings.Split(name, "_")
	first := len(words)
	for first > 0 && digits(words[first-1]) != "" {
		first--
	}
	return Symbol{name, strings.Join(words[first:], "_")}
}

// Compare returns a negative number if s is older than o, and a positive one if it is
// newer: by their numbers, then by their names. It is a total order, and returns 0 only
// for equal symbols. It shows which version came first within one set (all GLIBCXX_), and
// not across sets (GLIBCXX_3.4.30 and CXXABI_1.3.13).
func (s Symbol) Compare(o Symbol) int {
	return cmp.Or(compareNumbers(s.Number, o.Number), strings.Compare(s.Name, o.Name), strings.Compare(s.Number, o.Number))
}

// compareNumbers compares the parts of two numbers, between dots and underscores.
// A missing part is the lowest.
func compareNumbers(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a = cutNumber(a)
		y, b = cutNumber(b)
		if c := compareParts(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// cutNumber splits s after its first part.
func cutNumber(s string) (part, rest string) {
	if i := strings.IndexAny(s, "._"); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// compareParts compares two parts by the digits that they begin with, of any length,
// then by the rest: 1d comes after 1, and 10 after 9. A part without digits comes first.
func compareParts(a, b string) int {
	x, y := digits(a), digits(b)
	long, short := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
	return cmp.Or(
		cmp.Compare(min(len(x), 1), min(len(y), 1)),
		cmp.Compare(len(long), len(short)), strings.Compare(long, short), strings.Compare(a[len(x):], b[len(y):]),
	)
}

// CompareBuilds compares the build tags of two wheels of one version: by the number
// that they begin with, then by the rest (PEP 427). No tag, "", is the lowest.
func CompareBuilds(a, b string) int { return compareParts(a, b) }

// digits returns the digits at the beginning of s.
func digits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
