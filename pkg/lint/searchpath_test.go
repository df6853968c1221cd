package lint

import (
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

func TestMergePaths(t *testing.T) {
	for _, tt := range []struct{ now, values, want string }{
		{"", "/a /b", "/a:/b"},
		{"", "/a:/b /b:/c", "/a:/b:/c"},
		{"/old", "/old:/a /old:/b", "/old:/a:/b"},
		{"/old", "/old:/a /first:/old", "/first:/old:/a"},
		{"/bad:/old", "/old /bad:/old:/a", "/old:/a"},
		{"/bad:/old", "/bad:/old:/a /old", "/old:/a"},
		{"/bad", "- /bad:/a", "/a"},
		{"/a:", "/a::/b /a:/c", "/a:/b:/c"}, // the empty element is left out by one
		{"/a:", "/a::/b /a::/c", "/a::/b:/c"},
		{"/a", "/a:/c /a:/b:/c", "/a:/b:/c"},
		{"/a:/bad", "/a", "/a"},
		{"/bad", "-", ""},
	} {
		var now []string
		if tt.now != "" {
			now = strings.Split(tt.now, ":")
		}
		var values [][]string
		for v := range strings.FieldsSeq(tt.values) {
			values = append(values, strings.Split(strings.TrimSuffix(v, "-"), ":"))
		}
		if got := strings.Join(mergePaths(now, now, values), ":"); got != tt.want {
			t.Errorf("%s with %s: got %s, want %s", tt.now, tt.values, got, tt.want)
		}
	}
}

// TestMergePathsLaw checks that the merged path has each element that a value adds, has none
// that one leaves out, and is the value if there is only one.
func TestMergePathsLaw(t *testing.T) {
	dirs := func(of []uint8) []string {
		var list []string
		for _, b := range of {
			if d := "/" + string('a'+rune(b%8)); !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
		return list
	}
	law := func(a, b, c []uint8) bool {
		now, values := dirs(a), [][]string{dirs(b), dirs(c)}
		got := mergePaths(now, now, values)
		for _, v := range values {
			for _, e := range v {
				if !slices.Contains(now, e) && !slices.Contains(got, e) {
					return false
				}
			}
			for _, e := range now {
				if !slices.Contains(v, e) && slices.Contains(got, e) {
					return false
				}
			}
		}
		behind := slices.Concat(now, slices.DeleteFunc(values[0], func(e string) bool { return slices.Contains(now, e) }))
		return slices.Equal(mergePaths(now, now, [][]string{behind}), behind) && len(got) == len(slices.Compact(slices.Sorted(slices.Values(got))))
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
}

// TestOneSearchPathOfNotes checks that the value of notes has the elements of the other
// findings' value and those that only notes add, also after SetSearchPath.
func TestOneSearchPathOfNotes(t *testing.T) {
	pass := passOf(t, &replay.Image{FS: layers.Merge()})
	sets := func(template, path string) packs.Advice { return packs.Advice{Template: template, Path: &path} }
	list := []Finding{
		{Severity: packs.Error, Advice: []packs.Advice{sets("{env}", "/a b"), {Template: "or nothing"}}},
		{Severity: packs.Warning, Advice: []packs.Advice{sets("RUN ln -s x y, and {env} (so)", "/$c")}},
		{Severity: packs.Note, Advice: []packs.Advice{sets("{env}", "/n")}},
		{Severity: packs.Note, Advice: []packs.Advice{{Template: "something else"}}},
	}
	oneSearchPath(pass, list)
	fixes := func() (all []string) {
		for _, f := range list {
			all = append(all, f.Fixes...)
		}
		return all
	}
	want := []string{`ENV LD_LIBRARY_PATH="/a b:/\$c"`, "or nothing", `RUN ln -s x y, and ENV LD_LIBRARY_PATH="/a b:/\$c" (so)`, `ENV LD_LIBRARY_PATH="/a b:/\$c:/n"`, "something else"}
	if diff := cmp.Diff(want, fixes()); diff != "" {
		t.Error(diff)
	}
	SetSearchPath(list, "/v")
	want = []string{"ENV LD_LIBRARY_PATH=/v", "or nothing", "RUN ln -s x y, and ENV LD_LIBRARY_PATH=/v (so)", "ENV LD_LIBRARY_PATH=/v:/n", "something else"}
	if diff := cmp.Diff(want, fixes()); diff != "" {
		t.Error(diff)
	}
	odd := sets("{env}", "/a\nRUN curl evil").String()
	if strings.Contains(odd, "\n") || strings.HasPrefix(odd, "ENV") {
		t.Errorf("got %q", odd)
	}
}

// TestBracesInValues checks that braces in an image's value are not placeholders.
func TestBracesInValues(t *testing.T) {
	img := textImage(t, "env LD_LIBRARY_PATH=/opt/{dir}/{nothing}:/usr/lib\n-- 0/usr/lib/x --\ntext\nx\n", false)
	res, err := Run(t.Context(), img, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Findings) != 1 || !slices.Equal(res.Findings[0].Fixes, []string{"ENV LD_LIBRARY_PATH=/usr/lib"}) {
		t.Errorf("got %+v", res.Findings)
	}
}
