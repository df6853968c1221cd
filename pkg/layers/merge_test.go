package layers

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// layerTars returns the layers of an image in imagetest's text form.
func layerTars(t testing.TB, text string) [][]byte {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]byte
	for n := range im.Layers {
		var buf bytes.Buffer
		if err := im.LayerTar(n, &buf); err != nil {
			t.Fatal(err)
		}
		list = append(list, buf.Bytes())
	}
	return list
}

func readAll(t testing.TB, tars [][]byte) []*Layer {
	t.Helper()
	var list []*Layer
	for _, b := range tars {
		l, err := ReadLayer(bytes.NewReader(b), everything)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

func mergeText(t testing.TB, text string) *FS {
	t.Helper()
	return Merge(readAll(t, layerTars(t, text))...)
}

// overlayOf unpacks layers as a runtime does and mounts them.
func overlayOf(t *testing.T, tars [][]byte) string {
	t.Helper()
	mem := memory(t)
	var dirs, lowers []string
	for n, b := range tars {
		root := filepath.Join(mem, fmt.Sprint(n))
		u := newTarBuilder(t, root, lowers).u
		for tr := tar.NewReader(bytes.NewReader(b)); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			content, rerr := io.ReadAll(tr)
			if err := errors.Join(err, rerr); err != nil {
				t.Fatal(err)
			}
			if err := u.apply(h, string(content)); err != nil {
				t.Fatalf("unpacking %s: %v", h.Name, err)
			}
		}
		dirs, lowers = append(dirs, root), slices.Insert(lowers, 0, root)
	}
	return mountOverlay(t, dirs)
}

// listing returns a line for each entry: its layer, type, path, and target, text or
// fault.
func listing(f *FS) string {
	var b strings.Builder
	for e, layer := range f.All() {
		what := map[Type]string{Regular: "file", Dir: "dir", ImpliedDir: "implied", Symlink: "link", HardLink: "hard", Other: "other"}[e.Type]
		line := fmt.Sprintf("%d %s %s", layer, what, e.Path)
		switch {
		case e.Fault != "":
			line += " fault: " + e.Fault
		case e.Type == Symlink:
			line += " -> " + e.Link
		case len(e.Content) > 0:
			line += " = " + strings.TrimSpace(string(e.Content))
		}
		b.WriteString(line + "\n")
	}
	for _, s := range f.Skipped {
		fmt.Fprintf(&b, "%d skipped %s: %s\n", s.Layer, s.Path, s.Why)
	}
	return b.String()
}

var mergeTests = []struct {
	name, image, want string
	refused           bool // by runtimes on overlayfs
}{
	{
		name: "whiteout of a file, then the file anew",
		image: `
-- 0/a/f --
old
-- 1/a/.wh.f --
-- 2/a/f --
new
`,
		want: `
2 implied a
2 file a/f = new
`,
	},
	{
		name: "whiteout of a directory, then one of its files anew",
		image: `
-- 0/a/f --
old
-- 0/a/g --
old
-- 1/.wh.a --
-- 2/a/g --
new
`,
		want: `
2 implied a
2 file a/g = new
`,
	},
	{
		name: "whiteout and the path in one layer: a file shows",
		image: `
-- 0/f --
old
-- 1/.wh.f --
-- 1/f --
new
`,
		want: `
1 file f = new
`,
	},
	{
		name: "a directory takes its own whiteout's place and joins",
		image: `
-- 0/a/f --
old
-- 1/.wh.a --
-- 1/a --
dir
-- 1/a/g --
new
`,
		want: `
1 dir a
0 file a/f = old
1 file a/g = new
`,
	},
	{
		name:    "a whiteout after its directory hides what is below",
		refused: true,
		image: `
-- 0/a/f --
old
-- 1/a --
dir
-- 1/a/g --
new
-- 1/.wh.a --
`,
		want: `
1 dir a
1 file a/g = new
`,
	},
	{
		name:    "a file in a directory that a whiteout alone names",
		refused: true,
		image: `
-- 0/a/f --
old
-- 1/.wh.a --
-- 1/a/g --
new
`,
		want: `
1 implied a
1 file a/g = new
`,
	},
	{
		name: "opaque marker before the directory's files",
		image: `
-- 0/a/f --
old
-- 1/a --
dir
-- 1/a/.wh..wh..opq --
-- 1/a/g --
new
`,
		want: `
1 dir a
1 file a/g = new
`,
	},
	{
		name: "opaque marker after the directory's files",
		image: `
-- 0/a/f --
old
-- 0/a/g --
old
-- 1/a/g --
new
-- 1/a/.wh..wh..opq --
`,
		want: `
1 implied a
1 file a/g = new
`,
	},
	{
		name: "an opaque marker alone makes its directory, a whiteout too",
		image: `
-- 0/a --
symlink b
-- 1/a/.wh..wh..opq --
-- 1/b/.wh.x --
`,
		want: `
1 implied a
1 implied b
`,
	},
	{
		name: "the root is never opaque",
		image: `
-- 0/f --
old
-- 1/.wh..wh..opq --
-- 1/g --
new
`,
		want: `
0 file f = old
1 file g = new
`,
	},
	{
		name: "a directory replaced by a link and back",
		image: `
-- 0/lib/f --
old
-- 1/lib --
symlink usr/lib
-- 2/lib/g --
new
`,
		want: `
2 implied lib
2 file lib/g = new
`,
	},
	{
		name: "a directory replaced by a file and back",
		image: `
-- 0/lib --
dir mode=0700
-- 0/lib/f --
old
-- 1/lib --
text
between
-- 2/lib --
dir
`,
		want: `
2 dir lib
`,
	},
	{
		name: "a file replaces a directory of its own layer, and a directory the file",
		image: `
-- 0/a/f --
old
-- 0/a --
text
file
-- 0/a --
dir
-- 0/a/g --
new
`,
		want: `
0 dir a
0 file a/g = new
`,
	},
	{
		name: "a directory stands there twice",
		image: `
-- 0/a --
dir mode=0700
-- 0/a/f --
text
one
-- 0/a --
dir
`,
		want: `
0 dir a
0 file a/f = one
`,
	},
	{
		name: "a file stands there twice",
		image: `
-- 0/f --
text
one
-- 0/f --
text
two
`,
		want: `
0 file f = two
`,
	},
	{
		name: "merged /usr: a path through a link of its own layer follows it",
		image: `
-- 0/usr/lib --
dir
-- 0/lib --
symlink usr/lib
-- 0/lib/f --
one
-- 0/usr/lib/g --
two
-- 0/lib64 --
symlink /usr/lib
-- 0/lib64/.wh.h --
`,
		want: `
0 link lib -> usr/lib
0 link lib64 -> /usr/lib
0 implied usr
0 dir usr/lib
0 file usr/lib/f = one
0 file usr/lib/g = two
`,
	},
	{
		name: "a path through a link of a lower layer hides the link",
		image: `
-- 0/usr/lib/f --
one
-- 0/lib --
symlink usr/lib
-- 1/lib/g --
two
`,
		want: `
1 implied lib
1 file lib/g = two
0 implied usr
0 implied usr/lib
0 file usr/lib/f = one
`,
	},
	{
		name: "a link that leads out of the root stays in it",
		image: `
-- 0/a/b --
symlink ../../../../etc
-- 0/a/b/f --
one
`,
		want: `
0 implied a
0 link a/b -> ../../../../etc
0 implied etc
0 file etc/f = one
`,
	},
	{
		name:    "a file in the way, and a loop",
		refused: true,
		image: `
-- 0/f --
one
-- 0/f/g --
two
-- 0/l --
symlink l
-- 0/l/g --
three
`,
		want: `
0 file f = one
0 link l -> l
0 skipped f/g: its directory is no directory, or a loop of links
0 skipped l/g: its directory is no directory, or a loop of links
`,
	},
	{
		name: "hard links count from the root, may link links, and outlive their target",
		image: `
-- 0/a/f --
one
-- 0/b/g --
hardlink a/f
-- 0/a/f --
text
two
-- 0/b/l --
symlink ../a/f
-- 0/b/m --
hardlink /b/l
`,
		want: `
0 implied a
0 file a/f = two
0 implied b
0 file b/g = one
0 link b/l -> ../a/f
0 link b/m -> ../a/f
`,
	},
	{
		name:    "hard links to lower layers, to one another, forward, and to nothing",
		refused: true,
		image: `
-- 0/f --
one
-- 1/a --
hardlink z
-- 1/b --
hardlink f
-- 1/c --
hardlink nothing
-- 1/z --
two
-- 2/d --
hardlink b
-- 2/.wh.f --
-- 2/e --
hardlink dir
-- 2/dir --
dir
`,
		want: `
1 file a = two
0 file b = one
1 file c fault: it is a hard link to nothing, which is not there
0 file d = one
2 dir dir
2 file e fault: it is a hard link to dir, which is not there
1 file z = two
`,
	},
	{
		name: "a real directory below an implied one",
		image: `
-- 0/a --
dir mode=0700
-- 0/a/f --
one
-- 1/a/g --
two
`,
		want: `
0 dir a
0 file a/f = one
1 file a/g = two
`,
	},
	{
		name: "devices, names of nothing",
		image: `
-- 0/dev/null --
char 1,3
-- 0/run/fifo --
fifo
`,
		refused: true, // the unpacker of these tests makes no devices
		want: `
0 implied dev
0 other dev/null
0 implied run
0 other run/fifo
`,
	},
	{
		name: "a wide and deep pile",
		image: `
-- 0/a/b/c --
0
-- 1/a/.wh.b --
-- 2/a/b/d --
2
-- 3/a/b/.wh.d --
-- 3/a/b/e --
3
-- 4/a/b/d --
4
-- 5/a/.wh..wh..opq --
-- 5/a/x/y --
5
-- 6/a/b/z --
6
`,
		want: `
6 implied a
6 implied a/b
6 file a/b/z = 6
5 implied a/x
5 file a/x/y = 5
`,
	},
}

func TestMerge(t *testing.T) {
	for _, tt := range mergeTests {
		t.Run(tt.name, func(t *testing.T) {
			tars := layerTars(t, tt.image)
			f := Merge(readAll(t, tars)...)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), listing(f)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !tt.refused {
				compareTrees(t, f, overlayOf(t, tars))
			}
		})
	}
}

// fstest opens every path, so that no link of this image may be broken.
func TestFSIsAnFS(t *testing.T) {
	f := mergeText(t, `
-- 0/usr/lib/libc.so.6 --
c
-- 0/lib --
symlink usr/lib
-- 0/usr/lib-x --
sorts before usr/lib/
-- 0/usr/lib.d/a --
a
-- 0/gone/x --
x
-- 1/.wh.gone --
-- 1/usr/lib/empty --
text
-- 1/lib64 --
symlink /lib/libc.so.6
-- 1/opt --
dir
`)
	err := fstest.TestFS(f, "usr/lib/libc.so.6", "usr/lib-x", "usr/lib.d/a", "usr/lib/empty", "lib", "lib64", "opt")
	if err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(Merge()); err != nil {
		t.Errorf("of no layers: %v", err)
	}
}

func TestRemoved(t *testing.T) {
	f := mergeText(t, `
-- 0/lib/libold.so --
0
-- 0/lib/libback.so --
0
-- 0/lib/text --
0
-- 0/opt/libdir.so.1 --
0
-- 0/srv/libreplaced.so --
0
-- 1/lib/.wh.libold.so --
-- 1/lib/.wh.libback.so --
-- 1/lib/.wh.text --
-- 1/.wh.opt --
-- 1/srv --
symlink lib
-- 2/lib/libback.so --
2
`)
	got := map[string]Removal{}
	for _, p := range f.RemovedPaths() {
		got[p], _ = f.Removed("/" + p)
	}
	want := map[string]Removal{"lib/libold.so": {0, 1}, "opt/libdir.so.1": {0, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

const findImage = `
-- 0/usr/lib/libc.so.6 --
c
-- 0/lib --
symlink usr/lib
-- 0/lib64 --
symlink /lib
-- 0/loop --
symlink loop/x
-- 0/a/up --
symlink ../../../usr
-- 0/dangling --
symlink nowhere
-- 0/tofile --
symlink usr/lib/libc.so.6
-- 0/c0 --
dir
-- 0/file --
f
`

func TestFind(t *testing.T) {
	long := strings.Repeat("x", 256)
	var chain strings.Builder
	for i := range 41 {
		fmt.Fprintf(&chain, "-- 0/c%d --\nsymlink c%d\n", i+1, i)
	}
	f := mergeText(t, findImage+chain.String())
	tests := []struct {
		path, real string
		err        error
	}{
		{"/usr/lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/lib64/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"//lib64/.//libc.so.6", "/usr/lib/libc.so.6", nil},
		{"lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/../../lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/lib/../lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/a/up/lib/libc.so.6", "/usr/lib/libc.so.6", nil},
		{"/a/up/..", "/", nil},
		{"/tofile", "/usr/lib/libc.so.6", nil},
		{"/lib/", "/usr/lib", nil},
		{"/lib/..", "/usr", nil},
		{"/", "/", nil},
		{"/c40", "/c0", nil},
		{"/c41", "", syscall.ELOOP},
		{"", "", syscall.ENOENT},
		{"/nothing", "", syscall.ENOENT},
		{"/nothing/..", "", syscall.ENOENT},
		{"/nothing/x", "", syscall.ENOENT},
		{"/dangling", "", syscall.ENOENT},
		{"/file/x", "", syscall.ENOTDIR},
		{"/file/", "", syscall.ENOTDIR},
		{"/file/.", "", syscall.ENOTDIR},
		{"/file/..", "", syscall.ENOTDIR},
		{"/tofile/", "", syscall.ENOTDIR},
		{"/tofile/x", "", syscall.ENOTDIR},
		{"/loop", "", syscall.ELOOP},
		{"/loop/x", "", syscall.ELOOP},
		{"/" + long, "", syscall.ENAMETOOLONG},
		{"/" + long[:255], "", syscall.ENOENT},
		{"/lib/" + long + "/x", "", syscall.ENAMETOOLONG},
		{strings.Repeat("/x", 2048), "", syscall.ENAMETOOLONG},
		{"/" + strings.Repeat("./", 2047), "/", nil},
		{"/" + strings.Repeat("./", 2047) + ".", "", syscall.ENAMETOOLONG},
	}
	var paths []string
	for _, tt := range tests {
		paths = append(paths, tt.path)
		got, err := f.Find(tt.path)
		if err != tt.err {
			t.Errorf("Find(%.40q): error %v, want %v", tt.path, err, tt.err)
		}
		if err == nil && got.Path != tt.real {
			t.Errorf("Find(%.40q) = %s, want %s", tt.path, got.Path, tt.real)
		}
	}
	compareFind(t, f, overlayOf(t, layerTars(t, findImage+chain.String())), paths)
}

func TestFSReads(t *testing.T) {
	l, err := ReadLayer(bytes.NewReader(layerTars(t, findImage+"-- 0/big --\nsize 100\n")[0]), func(name string, _ int64) bool { return name == "file" })
	if err != nil {
		t.Fatal(err)
	}
	f := Merge(l)
	if b, err := fs.ReadFile(f, "file"); string(b) != "f\n" || err != nil {
		t.Errorf("a kept file: %q, %v", b, err)
	}
	if _, err := fs.ReadFile(f, "big"); !errors.Is(err, ErrNotKept) {
		t.Errorf("a file that was not kept: error %v", err)
	}
	if _, err := fs.ReadFile(f, "../file"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("an invalid path: error %v", err)
	}
	if _, err := fs.ReadFile(f, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing path: error %v", err)
	}
	if _, err := fs.ReadFile(f, "usr"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: error %v", err)
	}
}
