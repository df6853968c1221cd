package layers

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// same compares what a file system shows with what a merge of all layers does.
func same(t *testing.T, got, want *FS) {
	t.Helper()
	if diff := cmp.Diff(listing(want), listing(got)); diff != "" {
		t.Errorf("With and Merge differ (-merge +with):\n%s", diff)
	}
	if diff := cmp.Diff(want.RemovedPaths(), got.RemovedPaths()); diff != "" {
		t.Errorf("of what was removed (-merge +with):\n%s", diff)
	}
}

// over lays the last layer over the others both ways. A hard link into the layers
// below is left out: which of them it meant is not known any more.
func over(t *testing.T, list []*Layer) {
	t.Helper()
	last := list[len(list)-1]
	if slices.ContainsFunc(last.Entries, func(e *Entry) bool { return e.Type == HardLink }) {
		return
	}
	base := Merge(list[:len(list)-1]...)
	base.Layers = make([]source.Layer, len(list)-1)
	before := listing(base)
	same(t, base.With(last, source.Layer{}), Merge(list...))
	if after := listing(base); after != before {
		t.Errorf("the file system below was changed:\n%s", cmp.Diff(before, after))
	}
}

// TestWith lays the last layer of every merge test over the rest.
func TestWith(t *testing.T) {
	for _, tt := range mergeTests {
		t.Run(tt.name, func(t *testing.T) {
			over(t, readAll(t, layerTars(t, tt.image)))
		})
	}
}

func values(list []*Entry) []Entry {
	var out []Entry
	for _, e := range list {
		out = append(out, *e)
	}
	return out
}

func FuzzWith(f *testing.F) {
	small(f)
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		b := make([]byte, 8*n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list := layersOf(t, b)
		over(t, list)
		for _, l := range list {
			made := NewLayer(values(l.Entries), l.Whiteouts...)
			checkLayer(t, &Layer{Entries: made.Entries, Whiteouts: made.Whiteouts})
		}
	})
}

// TestNewLayer adds the directories on the way, and Find follows into them.
func TestNewLayer(t *testing.T) {
	base := mergeText(t, "-- 0/opt/lib/libx.so.1 --\ntext\nx\n-- 0/opt/lib/libold.so --\ntext\ny\n")
	base.Layers = make([]source.Layer, 1)
	f := base.With(NewLayer([]Entry{
		{Path: "opt/new/libx.so", Type: Symlink, Link: "../lib/libx.so.1", Mode: 0o777},
	}, "opt/lib/libold.so"), source.Layer{CreatedBy: "patch"})
	file, err := f.Find("/opt/new/libx.so")
	if err != nil || file.Path != "/opt/lib/libx.so.1" {
		t.Errorf("the link leads to %v, %v", file, err)
	}
	if _, err := f.Find("/opt/lib/libold.so"); err == nil {
		t.Error("what was removed is there")
	}
	if r, ok := f.Removed("/opt/lib/libold.so"); !ok || r.By != 1 {
		t.Errorf("removed: %v %v", r, ok)
	}
	if _, layer, ok := f.Lookup("/opt/new"); !ok || layer != 1 {
		t.Errorf("the directory is from layer %d, %v", layer, ok)
	}
}

// In yields the entries that a listing of the directory has, whatever is below them.
func TestIn(t *testing.T) {
	f := Merge(NewLayer([]Entry{{Path: "a/b/c"}, {Path: "a-b"}, {Path: "a/b-c/d"}, {Path: "a/e"}, {Path: "a0"}, {Path: "a/b/x/y"}}))
	f = f.With(NewLayer([]Entry{{Path: "a/b/z"}, {Path: "a/new/f"}, {Path: "a/g", Type: Symlink, Link: "e"}}, "a/e"), source.Layer{})
	for dir, want := range map[string]string{"": "a a-b a0", "a": "a/b a/b-c a/g a/new", "/a/b/": "a/b/c a/b/x a/b/z", "a/e": "", "a/new": "a/new/f"} {
		var got []string
		for e := range f.In(dir) {
			got = append(got, e.Path)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("in %q: %q, want %s", dir, got, want)
		}
	}
}
