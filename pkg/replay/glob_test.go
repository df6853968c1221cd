package replay

import (
	"slices"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestAlternatives checks that the alternatives of a pattern with braces match the same
// names as the pattern.
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
			if any := slices.ContainsFunc(got, func(p string) bool { return packs.Match(p, name) }); any != packs.Match(pattern, name) {
				t.Errorf("%s fits %s: %v, its alternatives: %v", pattern, name, !any, any)
			}
		}
	}
}

// TestGlob checks that Glob finds the paths that match the pattern among all paths of the
// image, without directories.
func TestGlob(t *testing.T) {
	var list []layers.Entry
	for _, p := range []string{
		"s/nvidia/a/lib/libx.so.1", "s/nvidia/a/lib/deep/libx.so.1", "s/nvidia/b/lib/libx.so.2", "s/nvidia/b.so", "s/nv/lib/liby.so", "s/lib/liby.so",
		"s/lib-0/liby.so", "s/lib/liby.so.d/z", "s/a[b/x.so", "s/.hidden/x.so", "t/x.so", "s/x.so",
	} {
		list = append(list, layers.Entry{Path: p})
	}
	list = append(list, layers.Entry{Path: "s/nvidia/link", Type: layers.Symlink, Link: "a"}, layers.Entry{Path: "s/nvidia/b/lib/l.so", Type: layers.Symlink, Link: "/nowhere"}, layers.Entry{Path: "s/empty", Type: layers.Dir})
	files := &Files{img: &Image{FS: layers.Merge(layers.NewLayer(list))}}
	for _, pattern := range []string{
		"nvidia/*/lib/*.so*", "nvidia/*/lib/libx.so.1", "{nvidia/*,nv}/lib/lib*.so*", "*", "*/*", "*.so", "**", "**/*.so", "nvidia/**/libx.so.*", "lib*/lib?.so", "nvidia/*/lib/*", "*/x.so",
		"[n]v/lib/*", "[^n]*/*.so", "e*/x", "nvidia/*", "nvidia/link/*", "a[[]b/*.so", "*/lib", "nvidia/[ab]/lib/lib?.so.[12]", "x.so/*", `\x*`,
	} {
		var want []string
		for e := range files.img.FS.All() {
			if !e.IsDir() && doublestar.MatchUnvalidated("s/"+pattern, e.Path) {
				want = append(want, "/"+e.Path)
			}
		}
		slices.Sort(want)
		for range 2 { // the second call is answered by the cache
			if got := files.Glob("/s", pattern); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", pattern, got, want)
			}
		}
	}
}
