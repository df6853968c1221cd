package size_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestClaims removes what is claimed of each text image, and judges the rest: the processes
// map the same files, and there is no finding that was not there before.
func TestClaims(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	claimed := map[string]int{} // files, by class
	for _, pattern := range []string{"*.txtar", "fresh/*.txtar", "stacks/*.txtar"} {
		names, err := fs.Glob(images.FS, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := images.Text(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range checkClaims(t, name, text, set) {
				claimed[id]++
			}
		}
	}
	t.Log(claimed)
	if claimed[size.Copies] < 10 {
		t.Errorf("the images have %d copies that nothing gets: the test says little", claimed[size.Copies])
	}
}

// TestAbandoned claims a copy in a directory that nothing leads to, and does not call it abandoned
// if something does.
func TestAbandoned(t *testing.T) {
	text, err := images.Text("slim-abandoned.txtar")
	if err != nil {
		t.Fatal(err)
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	source := func(expr string) string {
		return "-- 1/app/feature.py --\nimport ctypes, os\ndef feature():\n    return ctypes.CDLL(" + expr + ")\n"
	}
	const program = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2 mode=0755\nneeded libc.so.6\n"
	for name, tt := range map[string]struct {
		head, more string
		abandoned  bool
	}{
		"nothing":          {"", "", true},
		"another tree":     {"env X=/opt/other\n", "-- 1/opt/other/bin/x --\n" + program, true},
		"a variable":       {"env BLAS=/opt/build/lib\n", "", false},
		"a script":         {"", "-- 1/app/run.sh --\n#!/bin/sh\nLD_LIBRARY_PATH=/opt/build/lib exec /app/infer\n", false},
		"a link":           {"", "-- 1/app/blas --\nsymlink ../opt/build\n", false},
		"a dangling link":  {"", "-- 1/app/blas --\nsymlink /opt/build/lib/later\n", false},
		"a RUNPATH":        {"", "-- 1/app/other --\n" + program + "runpath $ORIGIN/../opt/build/lib\n", false},
		"a program inside": {"", "-- 1/opt/build/bin/x --\n" + program, false},
		"code inside":      {"", "-- 1/opt/build/x.py --\nimport ctypes\n", false},
		"a working dir":    {"workdir /opt/build\n", "", false},
		"a dir above":      {"workdir /opt\n", "", false},
		"a part of a path": {"env PREFIX=/opt/\n", "", false},
		"a name in data":   {"", "-- 1/app/feature --\n" + program + "rodata \"/opt/build/lib/libcublas.so.12\\x00\"\nundef dlopen\n", false},
		"a joined path":    {"", source("os.path.join(\"/opt\", os.environ[\"KIND\"], \"lib/libcublas.so.12\")"), false},
		"a formatted path": {"", source("\"/opt/%s/lib/libcublas.so.12\" % os.environ[\"KIND\"]"), false},
		"an f-string":      {"", source("f\"/opt/{os.environ['KIND']}/lib/libcublas.so.12\""), false},
		"another path":     {"", source("\"/opt/other/\" + os.environ[\"KIND\"]"), true},
		"an unknown start": {"entrypoint [\"sh\", \"-c\", \"$(cat /run/what)\"]\n", "", false},
	} {
		base := strings.Replace(string(text), "entrypoint [", tt.head+"entrypoint [", 1)
		if strings.HasPrefix(tt.head, "entrypoint") {
			base = strings.Replace(string(text), "entrypoint [\"/app/infer\"]\n", tt.head, 1)
		}
		img := read(t, []byte(base+tt.more))
		ev, err := replay.Run(t.Context(), img.judged(img.fsys), set)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := claimed(find(t, img.sized(ev, set)))
		if is := strings.Contains(got, "abandoned-copies /opt/build/lib/libcublas.so.12"); is != tt.abandoned {
			t.Errorf("%s: claimed %s", name, got)
		}
		if strings.Contains(got, "abandoned-copies /opt/toolkit") {
			t.Errorf("%s: a copy in a search path is abandoned", name)
		}
	}
}

// TestNamedCopies does not claim a copy that only a feature of the image opens: a program that nothing
// starts, by a name in its data, or a function that nothing calls, by a path that is known or known in part.
func TestNamedCopies(t *testing.T) {
	text, err := images.Text("slim-abandoned.txtar")
	if err != nil {
		t.Fatal(err)
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	const program = "-- 1/app/feature --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2 mode=0755\nneeded libc.so.6\n"
	source := func(expr string) string {
		return "-- 1/app/feature.py --\nimport ctypes, os\ndef feature():\n    return ctypes.CDLL(" + expr + ")\n"
	}
	for name, tt := range map[string]struct {
		more    string
		claimed bool
	}{
		"nothing":              {"", true},
		"a name in data":       {program + "runpath /opt/toolkit/lib\nundef dlopen\nrodata \"libcublas.so.12\\x00\"\n", false},
		"a name of another":    {program + "runpath /opt/toolkit/lib\nundef dlopen\nrodata \"libother.so.12\\x00\"\n", true},
		"a path":               {source("'/opt/toolkit/lib/libcublas.so.12'"), false},
		"a path through links": {"-- 1/opt/cuda --\nsymlink toolkit\n" + source("'/opt/cuda/lib/libcublas.so.12'"), false},
		"a joined path":        {source("os.path.join('/opt/toolkit/lib', os.environ['NAME'])"), false},
		"a formatted path":     {source("'/opt/toolkit/lib/%s' % os.environ['NAME']"), false},
		"a path of another":    {source("'/opt/toolkit/lib/libother.so'"), true},
	} {
		img := read(t, append(slices.Clone(text), tt.more...))
		ev, err := replay.Run(t.Context(), img.judged(img.fsys), set)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := claimed(find(t, img.sized(ev, set)))
		if is := strings.Contains(got, "copies /opt/toolkit/lib/libcublas.so.12"); is != tt.claimed {
			t.Errorf("%s: claimed %s", name, got)
		}
	}
}

// checkClaims checks one image, and returns the class of each file that is claimed.
func checkClaims(t *testing.T, name string, text []byte, set *packs.Packs) (ids []string) {
	t.Helper()
	img := read(t, text)
	before, err := replay.Run(t.Context(), img.judged(img.fsys), set)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	r := find(t, img.sized(before, set))
	var gone, shown []string
	var unused *size.Group
	for _, g := range r.Groups {
		if g.ID == size.UnusedPackages {
			unused = &g
			for _, f := range g.Rest {
				gone = append(gone, strings.TrimPrefix(f.Path, "/"))
			}
		}
		for _, f := range g.Files {
			ids = append(ids, g.ID)
			if g.ID != size.Replaced { // no container sees these
				gone = append(gone, strings.TrimPrefix(f.Path, "/"))
				shown = append(shown, g.ID+" "+f.Path)
			}
		}
	}
	if len(gone) == 0 {
		return ids
	}
	slim := img.judged(img.fsys.With(layers.NewLayer(nil, gone...), source.Layer{}))
	after, err := replay.Run(t.Context(), slim, set)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if a, b := maps(before, unused), maps(after, nil); !slices.Equal(a, b) {
		t.Errorf("%s: without %q the processes map\n%s\nand with them\n%s", name, shown, strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
	had := findings(t, img.judged(img.fsys), set)
	for _, f := range findings(t, slim, set) {
		if !slices.Contains(had, f) {
			t.Errorf("%s: without %q there is a new finding: %s", name, shown, f)
		}
	}
	return ids
}

// maps returns the processes with all that they map, but for those of packages that go.
func maps(ev *replay.Evidence, gone *size.Group) (list []string) {
	for _, p := range ev.Processes {
		if gone.Runs(p) {
			continue
		}
		line := p.Title
		for _, m := range p.Loaded {
			line += " " + m.Real()
		}
		list = append(list, line)
	}
	for _, s := range ev.Starts {
		if gone != nil && slices.ContainsFunc(gone.Packages, func(p size.Package) bool { return p.Name == s.Package }) {
			continue
		}
		list = append(list, strings.Join(s.Chain, " ")+" "+strings.Join(s.Mapped, " "))
	}
	return list
}

func findings(t *testing.T, img *replay.Image, set *packs.Packs) (list []string) {
	t.Helper()
	r, err := lint.Run(t.Context(), img, set)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		list = append(list, fmt.Sprint(f.Rule, " ", f.Severity, " ", f.Subject))
	}
	return list
}

// textImage is an image of a text, with the indexes of its layers.
type textImage struct {
	layers []*layers.Layer
	fsys   *layers.FS
	config *v1.ConfigFile
	text   *imagetest.Image
}

// sized returns the image for [size.Find].
func (im *textImage) sized(ev *replay.Evidence, set *packs.Packs) size.Image {
	return size.Image{Layers: im.layers, FS: im.fsys, Evidence: ev, Packs: set, Read: im.readFiles}
}

// readFiles does as [layers.Image.ReadFiles].
func (im *textImage) readFiles(_ context.Context, layer int, files []*layers.Entry, take func(e *layers.Entry, r io.Reader) error) error {
	r, w := io.Pipe()
	defer r.Close()
	go func() { w.CloseWithError(im.text.LayerTar(layer, w)) }()
	tr := tar.NewReader(r)
	for number := 1; ; number++ {
		_, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range files {
			if e.Inode == number {
				if err := take(e, tr); err != nil {
					return err
				}
			}
		}
	}
}

func (im *textImage) judged(fsys *layers.FS) *replay.Image {
	return &replay.Image{FS: fsys, Config: im.config}
}

func read(t *testing.T, text []byte) *textImage {
	t.Helper()
	parsed, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	im := &textImage{text: parsed, config: &v1.ConfigFile{Architecture: parsed.Platform.Architecture, OS: "linux", Config: parsed.Config}}
	var infos []source.Layer
	for i := range parsed.Layers {
		r, w := io.Pipe()
		go func() { w.CloseWithError(parsed.LayerTar(i, w)) }()
		l, err := layers.ReadLayer(r, func(string, int64) bool { return true })
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		im.layers = append(im.layers, l)
		infos = append(infos, source.Layer{Digest: fmt.Sprint("sha256:", i)})
	}
	im.fsys = layers.Merge(im.layers...)
	im.fsys.Layers = infos
	return im
}
