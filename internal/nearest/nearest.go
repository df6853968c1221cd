// Package nearest finds what somebody has meant who has written a name wrongly:
// of a flag, a command, a format, a key, a rule.
package nearest

import (
	"strings"

	"github.com/xrash/smetrics"
)

// Of is the one of names that is most like s, or empty when none is like it
// enough: a third of the letters may be wrong. Of two that are equally near it
// is the first.
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

// Hint is ": did you mean X?", or empty.
func Hint(s string, names []string) string {
	if n := Of(s, names); n != "" && n != s {
		return ": did you mean " + n + "?"
	}
	return ""
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
