package packs

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// Match reports whether a name or path, with or without its leading slash, matches a
// pattern that was validated.
func Match(pattern, name string) bool {
	name = strings.TrimPrefix(name, "/")
	return mayMatch(pattern, name) && doublestar.MatchUnvalidated(pattern, name)
}

// mayMatch reports whether a name begins as a pattern does, up to the pattern's first
// special character. That rules out most names at little cost.
func mayMatch(pattern, name string) bool {
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[' || c == '{' || c == '\\' || c >= utf8.RuneSelf:
			return true
		case i == len(name):
			return c == '/' // DIR/** matches DIR, too
		case c != name[i]:
			return false
		}
	}
	return len(pattern) == len(name)
}

// MatchAny reports whether a name or path matches one of the patterns.
func MatchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}
