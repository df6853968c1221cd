package layers

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// libImage has of everything that a layer's index can hold.
const libImage = `
-- 0/usr/lib/liba.so.1 --
elf x86_64 soname=liba.so.1
needed libb.so
verdef liba.so.1 V1
verneed libb.so X
def f@@V1
undef g@X data
-- 0/usr/lib/liba.so --
symlink liba.so.1
-- 0/usr/lib/another --
hardlink usr/lib/liba.so.1
-- 0/bin/tool --
text mode=4755
#!/usr/bin/python3 -E
-- 0/etc/ld.so.conf --
/opt/lib
-- 0/dev/x --
fifo
-- 1/usr/lib/.wh.gone --
-- 1/opt/.wh..wh..opq --
-- 1/opt/f --
f
-- 1/late --
hardlink nowhere
`

func encoded(t testing.TB, name string, l *Layer) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encodeLayer(&b, name, l); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sameAgain stores a layer and reads it again.
func sameAgain(t testing.TB, l *Layer) {
	t.Helper()
	b := encoded(t, "name", l)
	if !bytes.Equal(b, encoded(t, "name", l)) {
		t.Error("the same layer gives other bytes the second time")
	}
	got, err := decodeLayer(bytes.NewReader(b), nil, "name")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, got); diff != "" {
		t.Fatalf("-stored +read:\n%s", diff)
	}
}

func TestStoredLayerIsTheSame(t *testing.T) {
	for _, text := range append([]string{libImage}, texts()...) {
		for _, l := range readAll(t, layerTars(t, text)) {
			sameAgain(t, l)
		}
	}
	l := readAll(t, layerTars(t, libImage))[0]
	got, err := decodeLayer(bytes.NewReader(encoded(t, "n", l)), nil, "n")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.find("usr/lib/liba.so.1"), got.find("usr/lib/another"); a == nil || b == nil || a.Object == nil || a.Object != b.Object {
		t.Errorf("two names of a file do not share what was read of it: %+v, %+v", a, b)
	}
	sameAgain(t, &Layer{Entries: []*Entry{}})
}

// stored is a hash of libImage's layers in their stored form, behind the versions of that
// form.
const stored = "layer 6.17 of x, kept y 068f8135f3ae8808"

func TestIndexVersion(t *testing.T) {
	sum := sha256.New()
	for _, l := range readAll(t, layerTars(t, libImage)) {
		sum.Write(unpacked(t, encoded(t, "", l)))
	}
	if got := fmt.Sprintf("%s %.8x", layerName("x", "y"), sum.Sum(nil)); got != stored {
		t.Errorf("what is stored is now %q, not %q: raise indexVersion (or elfdeps.CodecVersion), unless only the test's own files have changed, and write it here", got, stored)
	}
}

// unpacked returns the content of a zstd frame.
func unpacked(t testing.TB, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func texts() []string {
	var list []string
	for _, tt := range mergeTests {
		list = append(list, tt.image)
	}
	return list
}

// Every field of an entry is stored, also the one that is added next.
func TestStoredEntryHasEveryField(t *testing.T) {
	full := Entry{
		Path: "p", Type: Other, Caps: true, Mode: 0o4755, UID: 1, GID: 2, Size: 3, Link: "l", Inode: 4,
		Object: &elfdeps.Object{Soname: "s"}, Content: []byte("c"), Shebang: "b", Fault: "f",
		Fatbin: &gpucode.Code{Partial: "p"},
	}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			t.Fatalf("the field %s is new: set it here, store it in codec.go, and raise indexVersion", name)
		}
		one := Entry{Path: "q"}
		reflect.ValueOf(&one).Elem().Field(i).Set(v.Field(i))
		if one.Path == "" {
			one.Path = "q"
		}
		sameAgain(t, &Layer{Entries: []*Entry{&one}})
	}
	other := full
	other.Path = "q"
	sameAgain(t, &Layer{
		Entries: []*Entry{&full, &other}, Whiteouts: []string{"a/b", "a/c"}, Opaque: []string{"", "x"},
		Skipped: []Skip{{"a", "b"}, {"", "c"}},
	})
	if n := reflect.TypeFor[Layer]().NumField(); n != 4 {
		t.Errorf("a layer has %d fields: store the new one in codec.go, and raise indexVersion", n)
	}
}

// A file of another version, cut, changed or put under another name is no layer,
// and not an error that ends a scan.
func TestDamagedEntryIsAMiss(t *testing.T) {
	c := newCache(t)
	l := readAll(t, layerTars(t, libImage))[0]
	if err := c.PutLayer("sha256:1", "", l); err != nil {
		t.Fatal(err)
	}
	file := c.file(layerName("sha256:1", ""), layerFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		os.RemoveAll(file)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	miss := func(what string) {
		t.Helper()
		if got, ok := c.Layer("sha256:1", ""); ok || got != nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	for n := range whole {
		write(whole[:n])
		miss(fmt.Sprintf("cut after %d bytes", n))
		if n%7 == 0 {
			b := bytes.Clone(whole)
			b[n] ^= 0x10
			write(b)
			if got, ok := c.Layer("sha256:1", ""); ok && !cmp.Equal(l, got) {
				t.Errorf("byte %d changed: another layer is taken", n)
			}
		}
	}
	write(append(bytes.Clone(whole), whole...))
	miss("twice")
	write(encoded(t, layerName("sha256:2", ""), l))
	miss("another layer's")
	os.Remove(file)
	miss("none")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	miss("a FIFO") // opening it would wait for a writer
	os.Remove(file)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	miss("a directory")
	os.Remove(file)
	other := filepath.Join(t.TempDir(), "x")
	if err := errors.Join(os.WriteFile(other, whole, 0o600), os.Symlink(other, file)); err != nil {
		t.Fatal(err)
	}
	miss("a symbolic link")
	write(whole)
	if got, ok := c.Layer("sha256:1", ""); !ok || !cmp.Equal(l, got) {
		t.Error("the whole file is not taken")
	}
}

// A hostile file takes bounded memory.
func TestStoredBombs(t *testing.T) {
	compress := func(parts ...[]byte) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			z.Write(p)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	many := bytes.Repeat([]byte{0}, 64<<20)
	for name, b := range map[string][]byte{
		"zeros":             compress([]byte("\x01n"), many, many, many, many, many, many, many, many),
		"a long name":       compress([]byte("\xff\xff\xff\xff\x0f"), many),
		"a path":            compress([]byte("\x01n\x02\x00\xff\xff\xff\xff\x0f"), many, many, many, many),
		"whiteouts":         compress([]byte("\x01n\x00\xff\xff\xff\xff\x0f"), many),
		"an object":         compress([]byte("\x01n\x01\x00\x01p\x04\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f"), many),
		"content":           compress([]byte("\x01n\x01\x00\x01p\x08\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f"), many),
		"more than entries": compress([]byte("\x01n\xff\xff\xff\xff\x0f"), many),
	} {
		most := peak(t, func() {
			if l, err := decodeLayer(bytes.NewReader(b), nil, "n"); err == nil || l != nil {
				t.Errorf("%s: it is taken: %v", name, err)
			}
		})
		if most > 256<<20 {
			t.Errorf("%s: it held %d MiB", name, most>>20)
		}
	}
}

func newCache(t testing.TB) *Cache {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "cache"), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The least recently used files are removed first, and only the cache's.
func TestLeastRecentlyUsedGoes(t *testing.T) {
	c := newCache(t)
	clock := time.Unix(1e9, 0)
	c.now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	doc := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 10) }
	for i := range 4 {
		if err := c.PutDocument(fmt.Sprint(i), doc(i)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := c.Files()
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	if got, ok := c.Document("0"); !ok || !bytes.Equal(got, doc(0)) { // used again
		t.Errorf("got %q, %v", got, ok)
	}
	foreign := filepath.Join(c.Dir, "notes.txt")
	half := filepath.Join(c.Dir, ".imgcheck-new-1")
	if err := errors.Join(os.WriteFile(foreign, make([]byte, 1000), 0o600), os.WriteFile(half, nil, 0o600), os.Chtimes(half, clock, clock)); err != nil {
		t.Fatal(err)
	}
	c.Max = 3 * files[0].Size
	if err := c.PutDocument("4", doc(4)); err != nil {
		t.Fatal(err)
	}
	var have []string
	for i := range 5 {
		if _, ok := c.Document(fmt.Sprint(i)); ok {
			have = append(have, fmt.Sprint(i))
		}
	}
	if got := strings.Join(have, " "); got != "0 3 4" {
		t.Errorf("it keeps %s", got)
	}
	if _, err := os.Stat(half); err != nil {
		t.Errorf("what another process writes is gone: %v", err)
	}
	clock = clock.Add(2 * unfinished)
	if err := c.PutDocument("5", doc(5)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a writer has left behind stays")
	}
	n, size, err := c.Clean()
	if err != nil || n != 3 || size != 3*files[0].Size {
		t.Errorf("cleaned %d files of %d bytes, %v", n, size, err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("somebody's file is gone: %v", err)
	}
	if _, ok := c.Document("5"); ok {
		t.Error("it is not clean")
	}
	c.Max = 1
	if err := c.PutDocument("6", doc(6)); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Document("6"); !ok {
		t.Error("what was just written is gone")
	}
}

// Any number of writers and readers of one entry see it whole or not at all.
func TestCacheIsShared(t *testing.T) {
	c := newCache(t)
	l := readAll(t, layerTars(t, libImage))[0]
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := c.PutLayer("sha256:1", "", l); err != nil {
					t.Error(err)
				}
				got, ok := c.Layer("sha256:1", "")
				if !ok || len(got.Entries) != len(l.Entries) {
					t.Errorf("got %v, %v", got, ok)
				}
			}
		})
	}
	wg.Wait()
	if files, err := c.Files(); len(files) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// A writer that fails leaves nothing.
func TestPutIsWholeOrNothing(t *testing.T) {
	c := newCache(t)
	want := errors.New("no more room")
	err := c.put(c.file("x", documentFile), func(w io.Writer) error {
		w.Write([]byte("half"))
		return want
	})
	if !errors.Is(err, want) || err.Error() != "writing to the cache: no more room" {
		t.Errorf("error %v", err)
	}
	if list, err := os.ReadDir(c.Dir); len(list) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", list, err)
	}
	before := maxIndex
	defer func() { maxIndex = before }()
	maxIndex = 100
	if err := c.PutLayer("sha256:1", "", readAll(t, layerTars(t, libImage))[0]); err == nil {
		t.Error("a layer is stored that is too large to be read")
	}
}

// A rescan reads no layer, a rebuild its new ones only.
func TestRescanReadsNoLayer(t *testing.T) {
	c := newCache(t)
	for form, ref := range sources(t, "-- 0/a --\na\n-- 1/b --\nb\n") {
		var read []int
		var mu sync.Mutex
		o := Options{Cache: c, Keep: everything, KeepID: form, Progress: func(layer, _ int) {
			mu.Lock()
			defer mu.Unlock()
			read = append(read, layer)
		}}
		first := index(t, ref, o)
		if len(read) == 0 {
			t.Fatalf("%s: it reads nothing", form)
		}
		read = nil
		if diff := cmp.Diff(first, index(t, ref, o)); diff != "" || len(read) > 0 {
			t.Errorf("%s: it reads %d again: %s", form, read, diff)
		}
		rebuilt := sources(t, "-- 0/a --\na\n-- 1/b --\nother\n")[form]
		index(t, rebuilt, o)
		for _, layer := range read {
			if layer != 1 {
				t.Errorf("%s: after a rebuild it reads layer %d", form, layer)
			}
		}
		if len(read) == 0 {
			t.Errorf("%s: after a rebuild it reads nothing", form)
		}
		read = nil
		o.KeepID = "other " + form
		if index(t, ref, o); len(read) == 0 {
			t.Errorf("%s: other files are kept, and it reads nothing", form)
		}
		read = nil
		o.KeepID = ""
		if index(t, ref, o); len(read) == 0 {
			t.Errorf("%s: what is kept has no name, and it reads nothing", form)
		}
	}
}

// An image has an ID where its layers are verified, the same one for the same
// contents, and none where it is not known what they are.
func TestID(t *testing.T) {
	id := func(ref string) string {
		t.Helper()
		img, err := Open(t.Context(), ref, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer img.Close()
		return img.ID()
	}
	const one, other = "-- 0/a --\na\n", "-- 0/a --\nb\n"
	a, b := sources(t, one), sources(t, other)
	for form := range a {
		if id(a[form]) == "" || id(a[form]) == id(b[form]) {
			t.Errorf("%s: %q and %q", form, id(a[form]), id(b[form]))
		}
	}
	if id(a["registry"]) != id(a["layout"]) {
		t.Errorf("registry %q, layout %q", id(a["registry"]), id(a["layout"]))
	}
	if got := id("dir:" + makeTree(t, one)); got != "" {
		t.Errorf("a directory has the ID %q", got)
	}
	packed := writeFile(t, "app.tar.gz", gzipped(t, dockerTar(t, one)))
	if got := id("docker-archive:" + packed); got != "" {
		t.Errorf("a compressed archive has the ID %q", got)
	}
}

// A blob that is not what its digest says is an error, and is not kept.
func TestDamagedBlobIsNotKept(t *testing.T) {
	c := newCache(t)
	dir := taggedLayout(t, map[string]string{"a": appImage})
	o := Options{Cache: c}
	img, err := Open(t.Context(), "oci:"+dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	for _, l := range img.Layers {
		file := filepath.Join(dir, "blobs", strings.Replace(l.Digest, ":", "/", 1))
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[9] ^= 1 // the operating system, of gzip's header
		if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := img.Index(t.Context()); err == nil {
		t.Error("no error")
	}
	if files, err := c.Files(); len(files) > 0 || err != nil {
		t.Errorf("kept: %v, %v", files, err)
	}
}

// sources returns references to one image, by form.
func sources(t *testing.T, text string) map[string]string {
	t.Helper()
	return map[string]string{
		"registry": push(t, newRegistry(t), "app:1", text),
		"layout":   "oci:" + taggedLayout(t, map[string]string{"a": text}),
		"archive":  "docker-archive:" + writeFile(t, "app.tar", dockerTar(t, "compress none\n"+text)),
	}
}

func index(t *testing.T, ref string, o Options) string {
	t.Helper()
	img, err := Open(t.Context(), ref, o)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return listing(f)
}

// FuzzStoredLayer: whatever the bytes are, decoding gives an error, or a layer
// that is the same when it is stored again, and that Merge takes. An index that check
// takes has the form of one that was read.
func FuzzStoredLayer(f *testing.F) {
	small(f)
	before := maxIndex
	f.Cleanup(func() { maxIndex = before })
	maxIndex = 1 << 20
	for _, text := range append([]string{libImage}, texts()...) {
		for _, l := range readAll(f, layerTars(f, text)) {
			f.Add(unpacked(f, encoded(f, "n", l)))
		}
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		decodeLayer(bytes.NewReader(plain), nil, "n") // as it is, too
		z, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		l, err := decodeLayer(bytes.NewReader(z.EncodeAll(plain, nil)), nil, "n")
		if err != nil {
			if l != nil {
				t.Error("a layer beside an error")
			}
			return
		}
		sameAgain(t, l)
		if l.check() == nil {
			checkIndex(t, l)
		}
		if !l.equal(l) {
			t.Error("it does not equal itself")
		}
		Merge(l)
	})
}

// A document of any size comes back: one of more than the encoder's block was
// stored with a window that the reader refused, and each rescan judged anew.
func TestLargeDocument(t *testing.T) {
	c := &Cache{Dir: t.TempDir(), Max: 1 << 30, key: trust.NewKey()}
	for _, size := range []int{0, 1, 100 << 10, 1 << 20, 5 << 20} {
		key := fmt.Sprint("document of ", size)
		r := rand.New(rand.NewPCG(1, uint64(size)))
		doc := make([]byte, size)
		for i := range doc {
			doc[i] = byte(r.IntN(64))
		}
		if err := c.PutDocument(key, doc); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Document(key); !ok || !bytes.Equal(got, doc) {
			t.Errorf("%d bytes: %v, %d bytes come back", size, ok, len(got))
		}
	}
}
