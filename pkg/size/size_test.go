package size_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/startup"
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
	r := find(t, replayed(t, fsys, lower, upper))
	want := "replaced /app/old, replaced /app/rewritten, package-cache /root/.cache/pip/http/a, static-libraries /usr/local/cuda-12.4/lib64/libcublas.a"
	if got := claimed(r); got != want {
		t.Errorf("claimed: %s\nwant:    %s", got, want)
	}
	if r.Bytes != 1100 || r.Pull != 550 || r.Groups[0].Pull != 250 {
		t.Errorf("%d bytes, %d of a pull, %d of them replaced", r.Bytes, r.Pull, r.Groups[0].Pull)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "without assumptions: 550 B -> 200 B; if they hold, and you do all of these: -> 150 B") {
		t.Errorf("%v: %s", err, text.String())
	}
	for _, row := range []string{"/app/old (layer 2 removes it)  layer 1  RUN make", "/app/rewritten (layer 2 writes it again)"} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("no row has %q:\n%s", row, text.String())
		}
	}
	validate(t, r)
}

// TestInUse claims nothing of a package or environment in a cache of which a program of the
// image uses a file.
func TestInUse(t *testing.T) {
	l := layers.NewLayer([]layers.Entry{
		{Path: "root/.cache/uv/archive-v0/a/bin/app", Inode: 1, Size: 100, Object: &elfdeps.Object{}},
		file("root/.cache/uv/archive-v0/b/data", 2, 200),
		file("opt/conda/pkgs/x-1/lib/data", 3, 300),
		file("opt/conda/pkgs/y-1/bin/y", 4, 400),
		file("opt/conda/pkgs/y-1/share/y", 5, 500),
		file("root/.cache/uv/environments-v2/tool/pyvenv.cfg", 6, 10),
		file("root/.cache/uv/environments-v2/tool/lib/data", 7, 600),
		file("root/.cache/pip/http/a", 8, 700),
	})
	fsys := layers.Merge(l)
	fsys.Layers = []source.Layer{{}}
	img := replayed(t, fsys, l)
	img.Evidence.Started = &startup.Result{Path: "/opt/conda/pkgs/y-1/bin/y", Programs: []startup.Program{{Path: "/root/.cache/uv/archive-v0/a/bin/app"}}}
	if got, want := claimed(find(t, img)), "package-cache /root/.cache/pip/http/a, package-cache /opt/conda/pkgs/x-1/lib/data"; got != want {
		t.Errorf("claimed: %s\nwant:    %s", got, want)
	}
}

// TestResources claims the kernels of TensorRT's builder for GPUs that the image is not for.
func TestResources(t *testing.T) {
	var entries []layers.Entry
	for i, arch := range []string{"sm75", "sm80", "sm86", "sm89", "sm90", "sm100", "ptx"} {
		entries = append(entries, file("opt/trt/libnvinfer_builder_resource_"+arch+".so.10.16.1", i+1, 100))
	}
	l := layers.NewLayer(append(entries, file("opt/trt/libnvinfer_builder_resource.so.10.9.0", 9, 100)))
	fsys := layers.Merge(l)
	fsys.Layers = []source.Layer{{}}
	for want, gpus := range map[string][]uint32{
		"":                          nil,
		"sm100 sm75 sm80 sm86 sm90": {89},
		"sm100 sm75 sm89":           {80, 86, 90},
		"sm100 sm75 sm89 sm90":      {87}, // which takes that of sm_86
		"nothing":                   {120},
	} {
		img := replayed(t, fsys, l)
		img.GPUs = gpus
		got := claimed(find(t, img))
		for _, noise := range []string{"builder-resources /opt/trt/libnvinfer_builder_resource_", ".so.10.16.1", ","} {
			got = strings.ReplaceAll(got, noise, "")
		}
		if got != strings.TrimPrefix(want, "nothing") {
			t.Errorf("for %v: claimed %s, want %s", gpus, got, want)
		}
	}
}

// TestNeeds claims no headers of an image with a package that compiles when it runs.
func TestNeeds(t *testing.T) {
	l := layers.NewLayer([]layers.Entry{
		file("usr/include/python3.12/Python.h", 1, 100),
		file("usr/lib/libx.a", 2, 100),
		{Path: "usr/lib/python3.12/site-packages/triton-3.1.0.dist-info/METADATA", Inode: 3, Size: 30, Content: []byte("Name: triton\nVersion: 3.1.0\n\n")},
	})
	fsys := layers.Merge(l)
	fsys.Layers = []source.Layer{{}}
	r := find(t, replayed(t, fsys, l))
	if got := claimed(r); got != "static-libraries /usr/lib/libx.a" || len(r.Kept) != 2 || r.Kept[1].For != "triton" {
		t.Errorf("claimed: %s; kept: %v", got, r.Kept)
	}
	var text bytes.Buffer
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "headers of C and Python do not count: triton needs them\n") {
		t.Errorf("%v: %s", err, text.String())
	}
	validate(t, r)
}

func find(t *testing.T, img size.Image) *size.Result {
	t.Helper()
	r, err := size.Find(t.Context(), img, classes(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// claimed returns the files of a result, with their classes.
func claimed(r *size.Result) string {
	var list []string
	for _, g := range r.Groups {
		for _, f := range g.Files {
			list = append(list, g.ID+" "+f.Path)
		}
	}
	return strings.Join(list, ", ")
}

// TestUnknownSizes shows unpacked bytes where those of the layers are not known.
func TestUnknownSizes(t *testing.T) {
	l := layers.NewLayer([]layers.Entry{file("root/.cache/pip/a", 1, 700), file("b", 2, 300)})
	fsys := layers.Merge(l)
	fsys.Layers = []source.Layer{{}}
	var text bytes.Buffer
	if err := find(t, replayed(t, fsys, l)).Text(&text); err != nil || !strings.Contains(text.String(), "1.0 kB -> 300 B (unpacked") {
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

// replayed returns an image to find bytes in.
func replayed(t *testing.T, fsys *layers.FS, read ...*layers.Layer) size.Image {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := replay.Run(t.Context(), &replay.Image{FS: fsys, Config: &v1.ConfigFile{}}, set)
	if err != nil {
		t.Fatal(err)
	}
	return size.Image{Layers: read, FS: fsys, Evidence: ev, Packs: set}
}
