package lint

import (
	"cmp"
	"strings"
)

// versionNumber is the number of a symbol version: 2.34 of GLIBC_2.34, 1_1_1 of
// OPENSSL_1_1_1. That of a name without one (GLIBC_ABI_DT_RELR) is the packs'; empty
// where they know none, as of GLIBC_PRIVATE.
func (p *Packs) versionNumber(name string) string {
	if fix := p.versionFix(name); fix != nil && fix.Number != "" {
		return fix.Number
	}
	parts := strings.Split(name, "_")
	first := len(parts)
	for first > 0 && parts[first-1] != "" && isDigit(parts[first-1][0]) {
		first--
	}
	return strings.Join(parts[first:], "_")
}

// versionFix is what to do where a version is missing, nil when the packs do not say.
func (p *Packs) versionFix(name string) *VersionFix {
	for _, v := range p.Versions {
		if match(v.Match, name) {
			return v
		}
	}
	return nil
}

// newer reports whether version a of a library comes after b: GLIBC_2.34 after
// GLIBC_2.4, and both after GLIBC_PRIVATE, which has no number. It is a total order,
// so that which version is told does not hang on the order of files.
func (p *Packs) newer(a, b string) bool {
	x, y := p.versionNumber(a), p.versionNumber(b)
	return cmp.Or(compareNumbers(x, y), strings.Compare(a, b)) > 0
}

// compareNumbers compares numbers of versions part by part, of which missing ones
// are the lowest. A part is a number and what follows it: 1_1_1d comes after 1_1_1.
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

// cutNumber takes the first part off a number.
func cutNumber(s string) (part, rest string) {
	if i := strings.IndexAny(s, "._"); i >= 0 {
		return s[:i], s[i+1:]
	}
	return s, ""
}

// compareParts compares two parts: by their digits, of any length, then by the rest.
func compareParts(a, b string) int {
	x, y := digits(a), digits(b)
	long, short := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
	return cmp.Or(
		cmp.Compare(min(len(x), 1), min(len(y), 1)), // one without digits is lower
		cmp.Compare(len(long), len(short)), strings.Compare(long, short), strings.Compare(a[len(x):], b[len(y):]),
	)
}

// digits are those that a text begins with.
func digits(s string) string {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
