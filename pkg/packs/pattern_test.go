package packs

import (
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// FuzzMatch checks that mayMatch rules out no name that a pattern matches.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"libcu*.so.1[12]", "lib/**", "lib", "a/{b,c}/*", `a\*`, "", "**/x.so"} {
		f.Add(s, "lib")
		f.Add(s, "lib/libcudart.so.12")
		f.Add(s, "a/b/x.so")
		f.Add(s, "a*")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if doublestar.ValidatePattern(pattern) && doublestar.MatchUnvalidated(pattern, name) && !mayMatch(pattern, name) {
			t.Errorf("%q matches %q", pattern, name)
		}
	})
}
