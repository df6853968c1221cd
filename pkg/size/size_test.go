package size_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/rules"
)

func classes(t *testing.T) []*size.Class {
	t.Helper()
	c, err := size.LoadClasses(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func file(path string, inode int, bytes int64) layers.Entry {
	return layers.Entry{Path: path, Inode: inode, Size: bytes}
}

// TestFind claims hidden files and those of classes, and no file that a link leads to.
func TestFind(t *testing.T) {
	lower := layers.NewLayer([]layers.Entry{
		file("app/old", 1, 400),
		file("app/rewritten", 2, 100),
		file("app/linked", 3, 50),
		file("root/.cache/pip/http/a", 4, 200),
		file("root/.cache/uv/archive/lib.so", 5, 50),
		file("opt/conda/pkgs/x/lib.so", 6, 50),
		file("opt/conda/lib/lib.so", 6, 50),
		file("usr/local/cuda-12.4/lib64/libcublas.a", 7, 100),
		file("usr/local/cuda-12.4/lib64/libcublas.so", 8, 50),
	})
	cached, _, _ := layers.Merge(lower).Lstat("/opt/conda/pkgs/x/lib.so")
	for _, e := range lower.Entries {
		if e.Path == "opt/conda/lib/lib.so" {
			e.Inode = cached.Inode // NewLayer numbers each entry
		}
	}
	upper := layers.NewLayer([]layers.Entry{
		file("app/rewritten", 1, 100),
		{Path: "app/hard", Type: layers.HardLink, Link: "app/linked", Inode: 2},
		{Path: "usr/lib/lib.so", Type: layers.Symlink, Link: "/root/.cache/uv/archive/lib.so", Inode: 3},
	}, "app/old", "app/linked")
	fsys := layers.Merge(lower, upper)
	fsys.Layers = []source.Layer{{Digest: "a", CreatedBy: "RUN make", Size: 500}, {Digest: "b", Size: 50}}
	r := size.Find([]*layers.Layer{lower, upper}, fsys, classes(t))
	var got []string
	for _, g := range r.Groups {
		for _, f := range g.Files {
			got = append(got, g.ID+" "+f.Path)
		}
	}
	want := "replaced /app/old, replaced /app/rewritten, package-cache /root/.cache/pip/http/a, cuda-static /usr/local/cuda-12.4/lib64/libcublas.a"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("claimed: %s\nwant:    %s", s, want)
	}
	if r.Bytes != 1100 || r.Pull != 550 || r.Groups[0].Pull != 250 {
		t.Errorf("%d bytes, %d of a pull, %d of them replaced", r.Bytes, r.Pull, r.Groups[0].Pull)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "if you do all of these: 550 B -> 150 B") {
		t.Errorf("%v: %s", err, text.String())
	}
	validate(t, r)
}

// TestUnknownSizes shows unpacked bytes where those of the layers are not known.
func TestUnknownSizes(t *testing.T) {
	l := layers.NewLayer([]layers.Entry{file("root/.cache/pip/a", 1, 700), file("b", 2, 300)})
	fsys := layers.Merge(l)
	fsys.Layers = []source.Layer{{}}
	var text bytes.Buffer
	if err := size.Find([]*layers.Layer{l}, fsys, classes(t)).Text(&text); err != nil || !strings.Contains(text.String(), "1.0 kB -> 300 B (unpacked") {
		t.Errorf("%v: %s", err, text.String())
	}
}

func validate(t *testing.T, r *size.Result) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schema", "size-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&b)
	if err == nil {
		err = schema.Validate(doc)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestRemoved removes each claimed file from a text image and replays: no new finding.
func TestRemoved(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "devel.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	ref, err := imagetest.Serve(t).Push("test/devel:latest", imagetest.V1(t, string(text)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := scan.Size(t.Context(), ref, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	judged, err := scan.Judge(t.Context(), ref, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, g := range r.Groups {
		for _, f := range g.Files {
			if g.ID != "replaced" { // no container has these
				gone = append(gone, strings.TrimPrefix(f.Path, "/"))
			}
		}
	}
	if len(gone) != 3 {
		t.Errorf("claimed %q, want 3 files", gone)
	}
	slim := judged.Image.FS.With(layers.NewLayer(nil, gone...), source.Layer{})
	after, err := lint.Run(t.Context(), &replay.Image{FS: slim, Config: judged.Image.Config}, judged.Packs)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := len(after.Findings), len(judged.Result.Findings); a != b {
		t.Errorf("%d findings without the files, %d with them", a, b)
	}
	validate(t, r)
}
