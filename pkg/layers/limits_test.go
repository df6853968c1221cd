package layers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// peak returns the most memory that the heap held while f ran, in bytes over what it held
// before.
func peak(t *testing.T, f func()) uint64 {
	t.Helper()
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-stopped
	return most.Load() - min(before.HeapAlloc, most.Load())
}

// A file of 512 MiB of zeros, whose gzip is half a MiB long, streams by.
func TestBombStreamsBy(t *testing.T) {
	const size = 512 << 20
	header := tarOf(t, tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Format: tar.FormatPAX}, ""})[:512]
	copy(header[124:], fmt.Sprintf("%011o\x00", size))
	parts := []io.Reader{bytes.NewReader(gzipped(t, withSums(header)))}
	member := gzipped(t, make([]byte, 16<<20)) // a gzip file may consist of many members
	for range size / (16 << 20) {
		parts = append(parts, bytes.NewReader(member))
	}
	r := io.MultiReader(append(parts, bytes.NewReader(gzipped(t, make([]byte, 1024))))...)
	most := peak(t, func() {
		l, err := new(tools).readBlob(context.Background(), r, nil, &Options{Keep: everything})
		if err != nil {
			t.Error(err)
			return
		}
		if want := "0 file zeros fault: 536870912 bytes are more than are kept of a file or a layer\n"; listing(Merge(l)) != want {
			t.Errorf("got %s", listing(Merge(l)))
		}
	})
	if most > 64<<20 {
		t.Errorf("held %d MiB", most>>20)
	}
}

// sparseELF returns a tar with one old GNU sparse entry of a size, that begins like an
// ELF file.
func sparseELF(t *testing.T, size int64) []byte {
	t.Helper()
	var block [512]byte
	copy(block[:], "lib.so")
	copy(block[100:], "0000644\x000000000\x000000000\x00")
	copy(block[124:], fmt.Sprintf("%011o\x00", 512)) // bytes that follow
	copy(block[136:], "00000000000\x00")
	block[156] = tar.TypeGNUSparse
	copy(block[257:], "ustar  \x00")
	number := func(at int, v int64) { // base 256
		for i := range 12 {
			block[at+11-i] = byte(v >> (8 * min(i, 7)))
			if i > 7 {
				block[at+11-i] = 0
			}
		}
		block[at] |= 0x80
	}
	number(386, 0)
	number(398, 512)
	number(483, size)
	var body [512]byte
	copy(body[:], "\x7fELF\x02\x01\x01")
	body[16], body[18], body[20] = 3, 62, 1
	return withSums(bytes.Join([][]byte{block[:], body[:], make([]byte, 1024)}, nil))
}

func TestHugeSparseELF(t *testing.T) {
	l, err := ReadLayer(bytes.NewReader(sparseELF(t, 1<<60)), everything)
	if err != nil {
		t.Fatal(err)
	}
	if e := l.Entries[0]; e.Size != 1<<60 || e.Fault == "" {
		t.Errorf("size %d, fault %q, object %+v", e.Size, e.Fault, e.Object)
	}
}

func TestTooManyEntries(t *testing.T) {
	small(t)
	many := make([]tarEntry, maxEntries+1)
	for i := range many {
		many[i].Header = tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i)}
	}
	deep := []tarEntry{}
	for i := range 8 { // implied directories are entries too
		deep = append(deep, tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i) + strings.Repeat("/x", 500), Format: tar.FormatPAX}})
	}
	names := []tarEntry{}
	for i := range 400 {
		names = append(names, tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("%d%s", i, strings.Repeat("x", 4000)), Format: tar.FormatPAX}})
	}
	loops := []tarEntry{{Header: tar.Header{Typeflag: tar.TypeDir, Name: "l0"}}}
	for i := range 200 {
		loops = append(loops, tarEntry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprintf("l%d", i+1), Linkname: fmt.Sprintf("l%d", i)}})
	}
	for i := range 500 {
		loops = append(loops, tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("l%d/d%d/f", 200, i)}})
	}
	const tooMany = "has more than 2000 entries or 1 MiB of names"
	tests := map[string]struct {
		entries []tarEntry
		want    string
	}{
		"many":  {many, tooMany},
		"deep":  {deep, tooMany},
		"names": {names, tooMany},
		"loops": {loops, "its symbolic links lead through one another without end"},
	}
	for name, tt := range tests {
		_, err := ReadLayer(bytes.NewReader(tarOf(t, tt.entries...)), nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", name, err, tt.want)
		}
	}
}

// A PAX header of any length is not taken into memory.
func TestHeaderBombs(t *testing.T) {
	for _, kind := range []byte{tar.TypeXHeader, tar.TypeXGlobalHeader, tar.TypeGNULongName, tar.TypeGNULongLink} {
		block := make([]byte, 512)
		copy(block, "x")
		copy(block[100:], "0000644\x000000000\x000000000\x00")
		copy(block[124:], "77777777777\x0000000000000\x00") // 8 GiB
		block[156] = kind
		copy(block[257:], "ustar\x0000")
		r := io.MultiReader(bytes.NewReader(withSums(block)), io.LimitReader(zeros{}, 1<<30))
		var err error
		most := peak(t, func() { _, err = ReadLayer(r, everything) })
		if err == nil || most > 64<<20 {
			t.Errorf("%c: error %v, held %d MiB", kind, err, most>>20)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// The names of what is skipped are safe to print.
func TestNamesAreSafeToPrint(t *testing.T) {
	l := readTar(t,
		tarEntry{Header: tar.Header{Typeflag: 'Z', Name: "odd\ntype"}},
		tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "a"}},
		tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "a/b\x1b"}},
		tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "c/.wh.."}},
		tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "c/" + strings.Repeat("long", 1100), Format: tar.FormatPAX}},
	)
	want := []Skip{
		{`odd\ntype`, `its tar type 'Z' is not known`},
		{`a/b\x1b`, "its directory is no directory, or a loop of links"},
		{"c/.wh..", "it is a whiteout of nothing"},
		{("c/" + strings.Repeat("long", 1100))[:300] + "…", "its path is longer than any file system allows"},
	}
	if diff := cmp.Diff(want, l.Skipped); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Every text of an object counts, once, towards what is kept of a layer, but for its
// symbols, which are bounded by themselves.
func TestWeightCountsEveryText(t *testing.T) {
	const text = 1000
	var fill func(v reflect.Value)
	texts := 0
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(strings.Repeat("x", text))
			texts++
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem())
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			fill(v.Index(0))
			fill(v.Index(1))
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		}
	}
	for i, f := range reflect.VisibleFields(reflect.TypeFor[elfdeps.Object]()) {
		if f.Name == "Symbols" {
			continue
		}
		o, had := &elfdeps.Object{}, texts
		fill(reflect.ValueOf(o).Elem().Field(i))
		least := int64(texts-had) * text
		if w := weight(o); w < least || w > least+text {
			t.Errorf("%s holds %d bytes and weighs %d", f.Name, least, w)
		}
	}
}

// The bytes that are kept of a layer are bounded; a file beyond the bound has a fault.
func TestKeptLimit(t *testing.T) {
	var entries []tarEntry
	before := maxKeptLayer
	defer func() { maxKeptLayer = before }()
	maxKeptLayer = 1 << 20
	content := strings.Repeat("x", 120<<10)
	for i := range 10 {
		entries = append(entries, tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i)}, content})
	}
	l := readTar(t, entries...)
	kept := 0
	for i := range l.Entries {
		if l.Entries[i].Fault == "" {
			kept += len(l.Entries[i].Content)
		}
	}
	if kept != 8*120<<10 {
		t.Errorf("%d bytes are kept", kept)
	}
}

// The result of Extract is kept in place of a file's bytes, from a tar, a directory and the
// cache alike, within the same bound.
func TestExtract(t *testing.T) {
	const text = "-- 0/db --\nabcdef\n-- 0/large --\nx\n-- 0/other --\ng\n-- 0/script --\n#!/bin/sh -e\n"
	o := &Options{Keep: everything, Extract: func(name string, size int64) func(io.Reader) ([]byte, error) {
		switch name {
		case "db":
			return func(r io.Reader) ([]byte, error) {
				b := make([]byte, size)
				_, err := io.ReadFull(r, b)
				return bytes.ToUpper(b[:3]), err
			}
		case "script":
			return func(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, 3)) }
		case "large":
			return func(io.Reader) ([]byte, error) { return make([]byte, maxKeptFile+1), nil }
		}
		return nil
	}}
	fromTar, err := new(tools).readBlob(t.Context(), bytes.NewReader(layerTars(t, text)[0]), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	fromDir, err := readDir(t.Context(), makeTree(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	var stored bytes.Buffer
	if err := encodeLayer(&stored, "x", fromTar); err != nil {
		t.Fatal(err)
	}
	fromCache, err := decodeLayer(&stored, nil, "x")
	if err != nil {
		t.Fatal(err)
	}
	for from, l := range map[string]*Layer{"tar": fromTar, "directory": fromDir, "cache": fromCache} {
		fsys := Merge(l)
		db, err := fs.ReadFile(fsys, "db")
		st, err2 := fs.Stat(fsys, "db")
		if err != nil || err2 != nil || string(db) != "ABC" || st.Size() != 7 {
			t.Errorf("%s: %q, %v, %v, %v", from, db, err, st, err2)
		}
		if b, err := fs.ReadFile(fsys, "other"); string(b) != "g\n" {
			t.Errorf("%s: %q, %v", from, b, err)
		}
		if _, err := fs.ReadFile(fsys, "large"); !errors.Is(err, ErrNotKept) {
			t.Errorf("%s: %v", from, err)
		}
		if e := l.find("script"); e.Shebang != "/bin/sh -e" || string(e.Content) != "#!/" {
			t.Errorf("%s: of the script, the first line is %q, and %q is kept", from, e.Shebang, e.Content)
		}
		if e := l.find("large"); e.Fault != "16777217 bytes are more than are kept of a file or a layer" {
			t.Errorf("%s: the fault is %q", from, e.Fault)
		}
	}
}

func TestCompressions(t *testing.T) {
	plain := layerTars(t, "-- 0/f --\nf\n")[0]
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}
	for name, b := range map[string][]byte{
		"plain": plain, "gzip": gzipped(t, plain), "zstd": zstded(t, plain), "zstd:chunked": append(skippable, zstded(t, plain)...),
		"two gzip members":                       append(gzipped(t, plain[:700]), gzipped(t, plain[700:])...),
		"zstd with a skippable frame at the end": append(zstded(t, plain), skippable...),
	} {
		l, err := new(tools).readBlob(t.Context(), bytes.NewReader(b), nil, &Options{Keep: everything})
		if err != nil || len(l.Entries) != 1 {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	for name, tt := range map[string]struct {
		b    []byte
		want string
	}{
		"bzip2":     {[]byte("BZh91AY&SY"), "is compressed with bzip2 or xz, which imgcheck does not read; store it as gzip or zstd"},
		"xz":        {[]byte("\xfd7zXZ\x00\x00"), "is compressed with bzip2 or xz, which imgcheck does not read; store it as gzip or zstd"},
		"cut gzip":  {gzipped(t, plain)[:20], "reading tar: unexpected EOF"},
		"cut zstd":  {zstded(t, plain)[:20], "reading tar: unexpected EOF"},
		"no tar":    {bytes.Repeat([]byte("nonsense"), 200), "reading tar: archive/tar: invalid tar header"},
		"gzip head": {[]byte{0x1f, 0x8b, 8}, "decompressing gzip: unexpected EOF"},
	} {
		_, err := new(tools).readBlob(t.Context(), bytes.NewReader(tt.b), nil, &Options{})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %s", name, err, tt.want)
		}
	}
}

// Each layer is bounded, and all of an image together are.
func TestImageIsBounded(t *testing.T) {
	defer func(image int64) { maxImage = image }(maxImage)
	text := "-- 0/a --\nx\n-- 1/b --\nx\n-- 2/c --\nx\n"
	index := func() error {
		img := openArchiveImage(t, text)
		_, err := img.Index(t.Context())
		return err
	}
	stream := func() error {
		_, err := streamOf(t, dockerTar(t, text)).Index(t.Context())
		return err
	}
	for name, read := range map[string]func() error{"a file": index, "a stream": stream} {
		maxImage = 600 // two entries
		if err := read(); err == nil || !strings.Contains(err.Error(), "the image's layers hold more than the 0 MiB") {
			t.Errorf("%s: %v", name, err)
		}
		maxImage = 1000
		if err := read(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bytes of layers count while they are read, so that several at a time stay within the
// bound of the image. So does a layer of the cache.
func TestLedgerCountsAhead(t *testing.T) {
	defer func(image int64) { maxImage = image }(maxImage)
	file := manyFiles(t, 20_000)
	all := new(ledger)
	l, err := (&tools{all: all}).readLayer(bytes.NewReader(file), nil, nil)
	if err != nil || all.reading.Load() != 0 || all.n.Load() != 0 {
		t.Fatalf("%v; when it is read, %d bytes are counted", err, all.reading.Load())
	}
	var stored bytes.Buffer
	if err := encodeLayer(&stored, "n", l); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeLayer(bytes.NewReader(stored.Bytes()), all, "n"); err != nil || all.reading.Load() != 0 {
		t.Fatalf("%v; when it is read from the cache, %d bytes are counted", err, all.reading.Load())
	}
	maxImage = 8 << 20
	all.hold(6 << 20) // by another layer
	if _, err := (&tools{all: all}).readLayer(bytes.NewReader(file), nil, nil); err == nil || !strings.Contains(err.Error(), "the image's layers hold more than the 8 MiB") {
		t.Errorf("beside another layer: %v", err)
	}
	if _, err := decodeLayer(bytes.NewReader(stored.Bytes()), all, "n"); err == nil {
		t.Error("beside another layer, one of the cache is taken")
	}
	if n := all.reading.Load(); n != 6<<20 {
		t.Errorf("%d bytes are counted", n)
	}
}

// openArchiveImage opens an image text as a docker archive in a file.
func openArchiveImage(t *testing.T, text string) *Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, dockerTar(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := Open(t.Context(), "docker-archive:"+file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { img.Close() })
	return img
}

// A path may legally lead through forty links of two thousand parts each. Thousands of
// such paths come to an end, with an error.
func TestWalksAreBounded(t *testing.T) {
	defer func(was int64) { maxWalked = was }(maxWalked)
	maxWalked = 100_000
	entries := []tarEntry{{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: "e9", Linkname: "/"}}}
	for i := range 9 {
		entries = append(entries, tarEntry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: fmt.Sprintf("e%d", i), Linkname: fmt.Sprintf("/e%d/%s", i+1, strings.Repeat("./", 100)), Format: tar.FormatPAX}})
	}
	f := Merge(readTar(t, entries...))
	if _, err := f.Find("/e0/d"); !errors.Is(err, fs.ErrNotExist) || f.Err() != nil {
		t.Errorf("one walk: %v, %v", err, f.Err())
	}
	for i := range 1000 {
		f.Find(fmt.Sprintf("/e0/d%d/f", i))
	}
	if n := f.steps.Load(); f.Err() == nil || n > 2*maxWalked {
		t.Errorf("after %d steps: %v", n, f.Err())
	}
	if _, err := f.Find("/e0/more/f"); !errors.Is(err, syscall.EIO) {
		t.Errorf("a path that was not looked at: %v", err)
	}
}

// Scripts are kept whatever their names are, up to a size, and only where anything is; what
// Extract returns has a bound of its own, so that it takes no room from other files.
func TestScriptsAndExtracts(t *testing.T) {
	before := maxExtracted
	defer func() { maxExtracted = before }()
	maxExtracted = 5
	const text = "-- 0/a.py --\naaa\n-- 0/b.py --\nbbb\n-- 0/run --\n#!/bin/sh\nexec x\n-- 0/text --\nexec x\n"
	o := &Options{
		Keep: func(name string, _ int64) bool { return strings.HasSuffix(name, ".py") },
		Extract: func(name string, _ int64) func(io.Reader) ([]byte, error) {
			if strings.HasSuffix(name, ".py") {
				return io.ReadAll
			}
			return nil
		},
	}
	tars := append(layerTars(t, text), tarOf(t, tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: "large"}, "#!/bin/sh\n" + strings.Repeat("x", maxScript)}))
	l, err := new(tools).readBlob(t.Context(), bytes.NewReader(tars[0]), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a.py": "aaa\n", "b.py": "", "run": "#!/bin/sh\nexec x\n", "text": ""} {
		if e := l.find(name); string(e.Content) != want || (name == "b.py") != (e.Fault != "") {
			t.Errorf("%s: %q is kept, and the fault is %q", name, e.Content, e.Fault)
		}
	}
	if l, err = new(tools).readBlob(t.Context(), bytes.NewReader(tars[1]), nil, o); err != nil {
		t.Fatal(err)
	}
	if e := l.find("large"); e.Content != nil || e.Shebang != "/bin/sh" {
		t.Errorf("a large script: %d bytes are kept, and its first line is %q", len(e.Content), e.Shebang)
	}
}
