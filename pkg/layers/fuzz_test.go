package layers

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// Run these with -fuzzminimizetime 10x: reading with goroutines covers a little
// more or less each time, and minimizing for that takes all the time there is.

// small lowers the limits, so that a fuzzer's input can reach them.
func small(t testing.TB) {
	t.Helper()
	entries, names, steps := maxEntries, maxNames, maxSteps
	t.Cleanup(func() { maxEntries, maxNames, maxSteps = entries, names, steps })
	maxEntries, maxNames, maxSteps = 2000, 1<<20, 1<<14
}

// checkLayer states what holds of every layer, whatever its bytes were.
func checkLayer(t *testing.T, l *Layer) {
	t.Helper()
	for _, e := range l.Entries {
		if e.Content != nil && int64(len(e.Content)) != e.Size {
			t.Errorf("%q has %d bytes of %d", e.Path, len(e.Content), e.Size)
		}
	}
	if err := l.check(); err != nil {
		t.Error(err)
	}
	checkIndex(t, l)
}

// checkIndex states what holds of every index that is believed, whoever has made it.
func checkIndex(t *testing.T, l *Layer) {
	t.Helper()
	if len(l.Entries) > maxEntries || len(l.Skipped) > maxSkipped+1 {
		t.Errorf("%d entries, %d skipped", len(l.Entries), len(l.Skipped))
	}
	dirs := map[string]bool{"": true}
	for i, e := range l.Entries {
		if e.Path == "" || e.Path != clean(e.Path) {
			t.Errorf("the path %q is not clean", e.Path)
		}
		if i > 0 && e.Path <= l.Entries[i-1].Path {
			t.Errorf("%q stands after %q", e.Path, l.Entries[i-1].Path)
		}
		if !dirs[parent(e.Path)] {
			t.Errorf("%q is in no directory of the layer", e.Path)
		}
		dirs[e.Path] = e.IsDir()
	}
	for _, p := range l.Opaque {
		if !dirs[p] {
			t.Errorf("%q is opaque and no directory of the layer", p)
		}
	}
	for _, p := range l.Whiteouts {
		if !dirs[parent(p)] {
			t.Errorf("the whiteout %q is in no directory of the layer", p)
		}
	}
	if !slices.IsSorted(l.Whiteouts) || !slices.IsSorted(l.Opaque) {
		t.Errorf("not sorted: whiteouts %q, opaque %q", l.Whiteouts, l.Opaque)
	}
}

// checkFS states what holds of every merged file system.
func checkFS(t *testing.T, f *FS) {
	t.Helper()
	last := ""
	for e, layer := range f.All() {
		if e.Path <= last {
			t.Errorf("%q comes after %q", e.Path, last)
		}
		last = e.Path
		up, _, ok := f.Lstat("/" + parent(e.Path))
		if !ok || !up.IsDir() {
			t.Errorf("%q (layer %d) is in no directory", e.Path, layer)
		}
		if got, n, ok := f.Lstat("/" + e.Path); len(e.Path) < maxPath-1 && len(path.Base(e.Path)) <= maxPart && ok && (got != e || n != layer) {
			t.Errorf("Lstat(%q) is another entry", e.Path)
		}
		if e.Type == HardLink {
			t.Errorf("%q is still a hard link", e.Path)
		}
		file, err := f.Find("/" + e.Path)
		if err != nil {
			continue
		}
		if again, err := f.Find(file.Path); err != nil || again.ID != file.ID || again.Path != file.Path {
			t.Errorf("Find(%q) leads to %q, and Find of that to %v, %v", e.Path, file.Path, again, err)
		}
	}
}

func addTars(f *testing.F) {
	for _, tt := range mergeTests {
		for _, b := range layerTars(f, tt.image) {
			f.Add(b)
		}
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Add(append([]byte("\x1f\x8b"), 0, 0, 0))
}

// withSums gives a tar's mutated headers their checksums, without which no
// mutation would come further than to them.
func withSums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := 0; at+512 <= len(b); at += 512 {
		block := b[at : at+512]
		if !bytes.HasPrefix(block[257:], []byte("ustar")) {
			continue
		}
		copy(block[148:156], "        ")
		sum := 0
		for _, c := range block {
			sum += int(c)
		}
		copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
	return b
}

func FuzzReadLayer(f *testing.F) {
	small(f)
	addTars(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = withSums(b)
		l, err := ReadLayer(bytes.NewReader(b), everything)
		if err != nil {
			if l != nil {
				t.Error("a layer beside an error")
			}
			return
		}
		checkLayer(t, l)
		again, err := ReadLayer(bytes.NewReader(b), everything)
		if diff := cmp.Diff(l, again); diff != "" || err != nil {
			t.Errorf("the second time: %v, %s", err, diff)
		}
		checkFS(t, Merge(l))
	})
}

// layersOf makes up to four layers of arbitrary bytes: each entry takes a few of
// them.
func layersOf(t *testing.T, b []byte) []*Layer {
	t.Helper()
	const names = "abc./"
	word := func() string {
		var s strings.Builder
		for len(b) > 0 && s.Len() < 6 {
			c := b[0]
			b = b[1:]
			if int(c%8) >= len(names) {
				break
			}
			s.WriteByte(names[c%8])
		}
		return s.String()
	}
	kinds := []byte{tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, 'w', 'o'}
	entries := make([][]tarEntry, 4)
	for n := 0; len(b) > 0; n++ {
		kind, layer := b[0]%8, b[0]/8%4
		b = b[1:]
		h := tar.Header{Typeflag: kinds[kind], Name: path.Join("/", word()), Format: tar.FormatPAX}
		switch h.Typeflag {
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = word()
		case 'w':
			h.Typeflag, h.Name = tar.TypeReg, path.Join(path.Dir(h.Name), ".wh."+path.Base(h.Name))
		case 'o':
			h.Typeflag, h.Name = tar.TypeReg, h.Name+"/.wh..wh..opq"
		}
		if strings.HasSuffix(h.Name, "/") && h.Typeflag != tar.TypeDir {
			continue // archive/tar writes it as a directory, or not at all
		}
		e := tarEntry{Header: h}
		if kind == 0 {
			e.content = fmt.Sprint(n)
		}
		entries[layer] = append(entries[layer], e)
	}
	var list []*Layer
	for _, e := range entries {
		l, err := ReadLayer(bytes.NewReader(tarOf(t, e...)), everything)
		if err != nil {
			t.Skip(err) // links through links are over a limit
		}
		list = append(list, l)
	}
	return list
}

func FuzzMerge(f *testing.F) {
	small(f)
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 20 {
		b := make([]byte, 8*n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list := layersOf(t, b)
		for _, l := range list {
			checkLayer(t, l)
		}
		all := Merge(list...)
		checkFS(t, all)
		want, wantLinks := merged(all)
		for i := range len(list) + 1 {
			got, gotLinks := merged(Merge(slices.Insert(slices.Clone(list), i, &Layer{})...))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("with an empty layer at %d: %s", i, diff)
			}
			if diff := cmp.Diff(linked(wantLinks), linked(gotLinks)); diff != "" {
				t.Errorf("with an empty layer at %d: hard links: %s", i, diff)
			}
		}
		for i := range 8 {
			p := string(b[min(len(b), i):])
			all.Find(p)
			all.Find("/a/" + p)
		}
	})
}

func FuzzDockerArchive(f *testing.F) {
	small(f)
	addTars(f)
	for _, tt := range mergeTests[:3] {
		f.Add(dockerTar(f, tt.image))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := streamed{opts: &Options{}, layers: map[int]streamedLayer{}}
		saved, err := source.ReadSaved(t.Context(), bytes.NewReader(withSums(b)), "", func(f source.TarFile, r io.Reader) error { return s.take(t.Context(), f, r) })
		var list []*Layer
		if err == nil {
			list, err = s.list(make([]source.Layer, len(saved.Layers)), saved)
		}
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b\x00") {
				t.Errorf("the error is not printable: %q", err)
			}
			return
		}
		if len(list) != len(saved.Layers) {
			t.Fatalf("%d layers read, %d listed", len(list), len(saved.Layers))
		}
		for _, l := range list {
			checkLayer(t, l)
		}
		checkFS(t, Merge(list...))
	})
}
