package packs

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/rules"
)

func TestEdits(t *testing.T) {
	for _, tt := range []struct {
		e         Edit
		old, want string
	}{
		{Edit{Op: "append", Value: "/b"}, "", "/b"},
		{Edit{Op: "append", Value: "/b"}, "/a", "/a:/b"},
		{Edit{Op: "append", Value: "/b"}, "/b/:/a", "/b/:/a"},
		{Edit{Op: "append", Value: "/b"}, "/a:", "/a::/b"},
		{Edit{Op: "append", Value: "/b:/c"}, "/c;/a", "/c:/a:/b"},
		{Edit{Op: "prepend", Value: "/b"}, "/a:/b", "/b:/a"},
		{Edit{Op: "last", Value: "/a"}, "/a:/b", "/b:/a"},
		{Edit{Op: "drop", Value: "/a"}, "/a/:/b:/a", "/b"},
		{Edit{Op: "drop", Value: "/a"}, "/a", ""},
		{Edit{Op: "drop", Value: "/a"}, "/b;/c", "/b;/c"},
		{Edit{Op: "drop", Separator: ",", Value: "vidio"}, "compute, vidio,utility", "compute,utility"},
		{Edit{Op: "drop", Separator: ": ", Value: "libx.so"}, "libx.so liby.so", "liby.so"},
		{Edit{Op: "append", Separator: ",", Value: "video", Default: "utility,compute"}, "", "utility,compute,video"},
		{Edit{Op: "append", Separator: ",", Value: "video", Default: "utility,compute"}, "utility", "utility,video"},
		{Edit{Op: "tidy"}, ":/a::/b:", "/a:/b"},
		{Edit{Op: "tidy"}, "/a;/b", "/a;/b"},
		{Edit{Op: "set", Value: "x"}, "y", "x"},
	} {
		if got := tt.e.Apply(tt.old); got != tt.want {
			t.Errorf("%v of %q: %q, want %q", tt.e, tt.old, got, tt.want)
		}
	}
}

// TestEditsOfFindings checks that a rule has only the edits whose placeholders a finding fills.
func TestEditsOfFindings(t *testing.T) {
	set, err := LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		values map[string]string
		want   []string
	}{
		{nil, nil},
		{map[string]string{"lacks": "video"}, []string{"append video"}},
		{map[string]string{"unknown": "vidio"}, []string{"drop vidio"}},
		{map[string]string{"unknown": "{lacks}"}, []string{"drop {lacks}"}}, // braces in an image's text are no placeholder
	} {
		var got []string
		for _, e := range set.Edits("driver-capabilities", tt.values) {
			got = append(got, e.Op+" "+e.Value)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.values, got, tt.want)
		}
	}
	if got := set.Edits("no such rule", nil); got != nil {
		t.Error(got)
	}
}

// FuzzEdit checks that an edit made twice is as if made once, that dropped elements are gone
// and added ones there, and that the others keep their order.
func FuzzEdit(f *testing.F) {
	f.Add("append", ":;", "/b", "/a:/c")
	f.Add("drop", ",", "vidio", "compute, vidio")
	f.Add("tidy", "", "", "::/a")
	f.Fuzz(func(t *testing.T, op, sep, value, old string) {
		e := Edit{Variable: "V", Op: op, Separator: sep, Value: value}
		if e.validate() != nil || op == "set" {
			return
		}
		got := e.Apply(old)
		if again := e.Apply(got); again != got && op != "prepend" && op != "last" {
			t.Errorf("%q, and again %q", got, again)
		}
		has := e.Elements(got)
		for _, v := range e.Elements(value) {
			if there := slices.ContainsFunc(has, func(s string) bool { return SameElement(s, v) }); v != "" && there == (op == "drop") {
				t.Errorf("%s %q: %q has %q: %v", op, value, got, v, there)
			}
		}
		others := func(list []string) string {
			return strings.Join(slices.DeleteFunc(list, func(s string) bool {
				return s == "" || slices.ContainsFunc(e.Elements(value), func(v string) bool { return SameElement(s, v) })
			}), "\n")
		}
		if was, is := others(e.Elements(old)), others(has); was != is {
			t.Errorf("the others were %q and are %q", was, is)
		}
	})
}
