package lint

import (
	"slices"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// What a pattern with braces fits, one of its alternatives does, and they nothing
// else.
func TestAlternatives(t *testing.T) {
	names := []string{"s/nvidia/a/lib/libx.so.1", "s/nv/lib/libx.so.1", "s/nv/lib/liby.so", "s/b/liby.so", "s/abc", "s/ab", "s/{a", "s/a,b", "s/[{]"}
	for pattern, want := range map[string][]string{
		"s/{nvidia/*,nv}/lib/libx.so.*": {"s/nv/lib/libx.so.*", "s/nvidia/*/lib/libx.so.*"},
		"s/{a{b,bc},b/lib{x,y}.so}":     {"s/ab", "s/abc", "s/b/libx.so", "s/b/liby.so"},
		"s/ab{,c}":                      {"s/ab", "s/abc"},
		"s/{a":                          {"s/{a"},
		`s/\{a`:                         {`s/\{a`},
		"s/[{]":                         {"s/[{]"},
		"s/*":                           {"s/*"},
	} {
		got := slices.Sorted(slices.Values(alternatives(pattern)))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
		for _, name := range names {
			if any := slices.ContainsFunc(got, func(p string) bool { return match(p, name) }); any != match(pattern, name) {
				t.Errorf("%s fits %s: %v, its alternatives: %v", pattern, name, !any, any)
			}
		}
	}
}

// FuzzMatch: what a name is told by before a match is never what the match says no to.
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
