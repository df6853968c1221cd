// Package nearest finds the flag, command, format, key or rule that a misspelled name was
// meant to be.
package nearest

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Of returns the name that is nearest to s, or "" if more than a third of the letters
// differ. The first of two equally near names wins.
func Of(s string, names []string) string {
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

// Hint returns ": did you mean X?", or "".
func Hint(s string, names []string) string {
	if n := Of(s, names); n != "" && n != s {
		return ": did you mean " + n + "?"
	}
	return ""
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
