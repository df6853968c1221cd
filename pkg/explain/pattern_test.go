package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{"{library}: cannot open", "x: liba.so.1: Cannot Open it", "map[library:liba.so.1]"},
		{"{library}: cannot open", ": cannot open", ""},
		{"Error 804", "error 804: forward", "map[]"},
		{"Error 804", "error 8041", ""},
		{"Error 804", "terror 804", ""},
		{"version `{version}' not found (required by {path})", "version `A_1' not found (required by /x/y)", "map[path:/x/y version:A_1]"},
		{"{path}: a {path}", "/x: a /y.", "map[path:/x path_2:/y]"},
		{"against {text} but {text}", "against (8, 9) but (9, 1)", "map[text:(8, 9) text_2:(9, 1)]"},
		{"against {text} but", "against\n x but", ""},
		{"version `GLIBC{name}' not", "version `GLIBCXX_3.4.30' not", "map[name:GLIBCXX_3.4.30]"},
		{"cannot find -l{name}", "ld: cannot find -lcurand", "map[name:curand]"},
		{"pid {number})", "(pid 12) ", "map[number:12]"},
		{"pid {number})", "(pid x) ", ""},
		{"capabilities: [[gpu]]", "with capabilities: [[gpu]].", "map[]"},
		{"any of {libcudnn_ops.so", "any of {libcudnn_ops.so.9, }", "map[]"},
		{"undefined symbol: {symbol}", "undefined symbol: \nx", ""},
		{"denied (os error 13){text}", "denied (os error 13)", "map[text:]"},
		{"failed: {text} at {path}", "failed: at /x", ""},
		{"undefined symbol: {symbol}", "undefined symbol: foo@V_1\nx", "map[symbol:foo@V_1]"},
	} {
		got := ""
		p := newPattern(c.pattern)
		p.each(c.text, lower(c.text), func(_ int, captures map[string]string) bool {
			got = fmt.Sprint(captures)
			return false
		})
		if got != c.want {
			t.Errorf("%q in %q: got %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

// TestGrams finds every part of a text.
func TestGrams(t *testing.T) {
	g := newGrams("cannot open shared object file")
	if !g.may("shared object") || !g.may("abc") || g.may("undefined symbol") {
		t.Error("grams exclude no other text")
	}
}

// TestPlaces compares the places by grams with those that a search of the whole text finds.
func TestPlaces(t *testing.T) {
	text := strings.Repeat("cuda error 35: libcudart.so.12 => not found\n", 50) + "cuda err"
	g := newGrams(text)
	for _, s := range []string{"cuda error ", "libcudart", "\n", "so.", "cuda err", "not found\ncuda", "nowhere", "error 36"} {
		var got []int
		for at := range g.places(s) {
			got = append(got, at)
		}
		if want := slices.Collect(places(text, s)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", s, got, want)
		}
	}
}

// TestPlaceholders reads the packs' texts for people: each {name} in them is filled, or its fix left out.
func TestPlaceholders(t *testing.T) {
	x := explainer(t)
	open := regexp.MustCompile(`(?:^|[^{$])\{[a-z_]+\}(?:[^}]|$)`)
	for id, c := range x.cases {
		confirm, _ := fill(c.Confirm, nil)
		for _, s := range append(x.fixes(c, hit{}, "", surroundings{}), confirm) {
			if open.MatchString(s) {
				t.Errorf("%s: %s", id, s)
			}
		}
	}
	for _, l := range x.packs.Looks {
		if s, _ := fill(l.Look, nil); open.MatchString(s) {
			t.Error(s)
		}
	}
}
