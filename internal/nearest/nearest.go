// Package nearest finds the flag, command, format, key or rule that a misspelled name was
// meant to be.
package nearest

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Of returns the name that is nearest to s, or "" if more than a third of the letters
// differ. A name with two neighbouring letters swapped comes first, then the first of two
// equally near names.
func Of(s string, names []string) string {
	for _, n := range names {
		if swapped(fold(s), fold(n)) {
			return n
		}
	}
	best, least := "", 1+len(s)/3
	for _, n := range names {
		d := smetrics.WagnerFischer(fold(s), fold(n), 1, 1, 1)
		if d < least || d == least && best == "" {
			best, least = n, d
		}
	}
	if best == "" && len(s) > 2 {
		for _, n := range names {
			if strings.HasPrefix(n, s) {
				return n
			}
		}
	}
	return best
}

// swapped reports whether two texts differ in two neighbouring letters that are swapped.
func swapped(s, n string) bool {
	if len(s) != len(n) {
		return false
	}
	for i := range len(s) - 1 {
		if s[i] != n[i] {
			return s[i] == n[i+1] && s[i+1] == n[i] && s[i+2:] == n[i+2:]
		}
	}
	return false
}

// Hint returns ": did you mean X?", or "".
func Hint(s string, names []string) string {
	if n := Of(s, names); n != "" && n != s {
		return ": did you mean " + n + "?"
	}
	return ""
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
