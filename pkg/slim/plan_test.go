package slim_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/slim"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/rules"
)

// planned returns the plan for a text image with all classes, its layers' tars, and their number.
func planned(t *testing.T, text string, keep func(class, path string) string) (*slim.Plan, []*layers.Layer, [][]byte) {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var read []*layers.Layer
	var tars [][]byte
	infos := make([]source.Layer, len(im.Layers))
	for i := range im.Layers {
		var b bytes.Buffer
		if err := im.LayerTar(i, &b); err != nil {
			t.Fatal(err)
		}
		l, err := layers.ReadLayer(bytes.NewReader(b.Bytes()), nil)
		if err != nil {
			t.Fatal(err)
		}
		read, tars = append(read, l), append(tars, b.Bytes())
	}
	fsys := layers.Merge(read...)
	fsys.Layers = infos
	classes, err := size.LoadClasses(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	p := planOf(t, read, fsys, set, classes, keep)
	if _, err := p.After(); err != nil {
		t.Error(err)
	}
	return p, read, tars
}

// TestPlan drops what no container misses, and keeps what would change more than its file.
func TestPlan(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string // what goes; then, behind a bar, what stays
	}{
		"removed and rewritten": {
			"-- 0/a/old --\n1\n-- 0/a/file --\n1\n-- 0/a/rest --\n1\n-- 1/a/.wh.old --\n-- 1/a/file --\n2\n",
			"0:/a/file 0:/a/old |",
		},
		"hard links go together": {
			"-- 0/a/rest --\n1\n-- 0/a/old --\n1\n-- 0/a/same --\nhardlink a/old\n-- 1/a/.wh.old --\n-- 1/a/.wh.same --\n",
			"0:/a/old |",
		},
		"a directory of the layer below would show": {
			"-- 0/d/in --\n1\n-- 1/d --\nfile\n-- 2/d/other --\n2\n",
			"0:/d/in | 1:/d",
		},
		"a cache over a cache": {
			"-- 0/root/.cache/pip --\ndir\n-- 0/root/.cache/pip/a --\n1\n-- 1/root/.cache/pip/a --\n2\n-- 1/root/.cache/pip --\ndir\n",
			"0:/root/.cache/pip/a 1:/root/.cache/pip/a |",
		},
		"a cache over another file": {
			"-- 0/root/.cache/pip/a --\nsymlink b\n-- 1/root/.cache/pip/a --\n2\n-- 1/root/.cache/pip --\ndir\n",
			"| 1:/root/.cache/pip/a",
		},
		"the directory of a cache stays": {
			"-- 0/var/lib/apt/lists/a --\n1\n-- 0/var/lib/apt/lists/b --\n1\n",
			"0:/var/lib/apt/lists/a | 0:/var/lib/apt/lists/b",
		},
		"a hidden directory may go": {
			"-- 0/a/rest --\n1\n-- 0/a/b/c/old --\n1\n-- 1/a/.wh.b --\n",
			"0:/a/b/c/old |",
		},
		"mapped": {
			"-- 0/root/.cache/pip --\ndir\n-- 0/root/.cache/pip/mapped --\n1\n-- 0/root/.cache/pip/not --\n1\n",
			"0:/root/.cache/pip/not | 0:/root/.cache/pip/mapped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := planned(t, tt.text, func(_, path string) string {
				if strings.HasSuffix(path, "/mapped") {
					return "a program loads it"
				}
				return ""
			})
			var goes, stays []string
			for _, f := range p.Dropped {
				goes = append(goes, fmt.Sprintf("%d:%s", f.Layer, f.Path))
			}
			for _, f := range p.Kept {
				stays = append(stays, fmt.Sprintf("%d:%s", f.Layer, f.Path))
			}
			slices.Sort(goes)
			if got := strings.TrimSpace(strings.Join(goes, " ") + " | " + strings.Join(stays, " ")); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestComesBack refuses a layer whose new tar has other files than foretold: names that lead
// through a link of the layer are not those of the plan.
func TestComesBack(t *testing.T) {
	p, read, tars := planned(t, "-- 0/a/rest --\n1\n-- 0/a/old --\n1\n-- 1/a/.wh.old --\n", nil)
	if len(p.Layers()) != 1 {
		t.Fatal("nothing goes")
	}
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "a", Mode: 0o777},
		{Name: "a/rest", Mode: 0o644},
		{Name: "link/old", Mode: 0o644},
	} {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := slim.RewriteLayer(p, 0, &out, bytes.NewReader(tars[0])); err != nil {
		t.Fatal(err)
	}
	l, err := layers.ReadLayer(&out, nil)
	if err != nil || len(l.Entries) != len(read[0].Entries)-1 {
		t.Errorf("%d entries stay: %v", len(l.Entries), err)
	}
	if err := slim.RewriteLayer(p, 0, io.Discard, &b); err == nil || !strings.Contains(err.Error(), "not as foretold") {
		t.Errorf("a tar with other names: %v", err)
	}
}

// TestMarkerBeside drops a file beside the marker that removes it from the layers below: the marker
// stays.
func TestMarkerBeside(t *testing.T) {
	p, _, tars := planned(t, "-- 0/a/old --\n1\n-- 1/a --\ndir\n-- 1/a/.wh.old --\n-- 1/a/old --\n2\n-- 2/a/old --\n3\n", nil)
	if got := p.Layers(); !slices.Equal(got, []int{0, 1}) && !slices.Equal(got, []int{1}) {
		t.Fatal("layers", got)
	}
	var out bytes.Buffer
	if err := slim.RewriteLayer(p, 1, &out, bytes.NewReader(tars[1])); err != nil {
		t.Fatal(err)
	}
	l, err := layers.ReadLayer(&out, nil)
	if err != nil || !slices.Equal(l.Whiteouts, []string{"a/old"}) || len(l.Entries) != 1 {
		t.Errorf("the layer has %d entries, and hides %q: %v", len(l.Entries), l.Whiteouts, err)
	}
}

// planOf returns the plan of an image without a configuration, by all classes.
func planOf(t *testing.T, read []*layers.Layer, fsys *layers.FS, set *packs.Packs, classes []*size.Class, keep func(class, path string) string) *slim.Plan {
	t.Helper()
	ev, err := replay.Run(t.Context(), &replay.Image{FS: fsys, Config: &v1.ConfigFile{}}, set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := size.Find(t.Context(), size.Image{Layers: read, FS: fsys, Evidence: ev, Packs: set}, classes)
	if err != nil {
		t.Fatal(err)
	}
	p, err := slim.New(read, fsys, found.Groups, keep)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
