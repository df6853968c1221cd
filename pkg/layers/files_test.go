package layers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A layer with a file that stands twice, one that a link's name leads to, a hard
// link, and an entry between that has no bytes.
const filesImage = `
layer 0 COPY base /
layer 1 COPY app /
-- 0/opt/twice --
below
-- 1/opt/twice --
first
-- 1/lib --
symlink opt
-- 1/lib/a --
text mode=644
through a link
-- 1/opt/twice --
second
-- 1/opt/hard --
hardlink opt/a
-- 1/opt/other --
not asked for
`

func TestReadFiles(t *testing.T) {
	ref := push(t, newRegistry(t), "files:1", filesImage)
	img, f := mustIndex(t, ref, Options{Insecure: true})
	var entries []*Entry
	for _, p := range []string{"/opt/twice", "/opt/a"} {
		e, layer, ok := f.Lstat(p)
		if !ok || layer != 1 {
			t.Fatalf("%s: %v in %d", p, e, layer)
		}
		entries = append(entries, e)
	}
	got := map[string]string{}
	take := func(e *Entry, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[e.Path] = string(b)
		return err
	}
	if err := img.ReadFiles(t.Context(), 1, entries, take); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"opt/a": "through a link\n", "opt/twice": "second\n"}, got); diff != "" {
		t.Error(diff)
	}
	stop := errors.New("enough")
	err := img.ReadFiles(t.Context(), 1, entries, func(*Entry, io.Reader) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	// Entries of another layer are not its own.
	wrong := []*Entry{{Path: "opt/a", Inode: 100}}
	if err := img.ReadFiles(t.Context(), 0, wrong, take); err == nil {
		t.Error("a file that is not there was read")
	}
}

// ReadFiles fails for a stream, whose bytes cannot be read again.
func TestReadFilesOfStream(t *testing.T) {
	b := gzipped(t, dockerTar(t, appImage))
	img, _ := mustIndex(t, "docker-archive:"+writeFile(t, "app.tar.gz", b), Options{})
	if err := img.ReadFiles(t.Context(), 0, nil, nil); !errors.Is(err, ErrStream) {
		t.Errorf("got %v", err)
	}
}

// TestReadFilesOfDirectory reads files where they lie, and follows no link that
// has taken a file's place.
func TestReadFilesOfDirectory(t *testing.T) {
	root := makeTree(t, "-- 0/a --\ntext\nof a\n-- 0/program --\nelf x86_64 type=exec nodynamic\n")
	img, f := mustIndex(t, "dir:"+root, Options{})
	e, layer, ok := f.Lookup("a")
	if !ok {
		t.Fatal("it is not there")
	}
	got := ""
	take := func(_ *Entry, r io.Reader) error {
		b, err := io.ReadAll(r)
		got += string(b)
		return err
	}
	if err := img.ReadFiles(t.Context(), layer, []*Entry{e}, take); err != nil || got != "of a\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := img.ReadFiles(t.Context(), layer, []*Entry{e}, take); err == nil && runtime.GOOS == "linux" {
		t.Error("a link that came later was followed")
	}
}
