package layers

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// lender lends the indexes that one user's cache has of an image to others.
type lender struct {
	img      *Image
	asked    atomic.Int64
	lent     atomic.Int64
	same     atomic.Int64
	differs  atomic.Int64
	mangle   func([]byte) []byte
	fromHere string
}

func (b *lender) indexes(compare bool) *Indexes {
	x := &Indexes{
		Origin: func(*source.Image) string { return b.fromHere },
		Used:   func(*source.Image, int) { b.lent.Add(1) },
		Layer: func(_ context.Context, r IndexRequest) *Layer {
			b.asked.Add(1)
			stored := b.img.StoredIndex(r.Layer)
			if b.mangle != nil {
				stored = b.mangle(stored)
			}
			l, _ := r.Decode(bytes.NewReader(stored))
			return l
		},
	}
	if compare {
		x.Compared = func(_ *source.Image, _ int, same bool) {
			if same {
				b.same.Add(1)
			} else {
				b.differs.Add(1)
			}
		}
	}
	return x
}

// TestIndexesOfOthers: an index that somebody else has made takes the place of the layer, and
// is believed only where that one is: not by later scans with the same cache.
func TestIndexesOfOthers(t *testing.T) {
	ref := push(t, newRegistry(t), "app:1", libImage+"-- 1/more --\nmore\n")
	theirs := newCache(t)
	want := index(t, ref, Options{Cache: theirs})
	img, err := Open(t.Context(), ref, Options{Cache: theirs})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	b := &lender{img: img, fromHere: "there"}
	layers := int64(len(img.Layers))
	mine := newCache(t)
	var read atomic.Int64
	scan := func(x *Indexes, o Options) (borrowed bool) {
		t.Helper()
		read.Store(0)
		o.Indexes, o.Progress = x, func(int, int) { read.Add(1) }
		img, err := Open(t.Context(), ref, o)
		if err != nil {
			t.Fatal(err)
		}
		defer img.Close()
		f, err := img.Index(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := listing(f); got != want {
			t.Errorf("another file system:\n%s", got)
		}
		for i := range img.Layers {
			if (img.StoredIndex(i) != nil) != (o.Cache != nil && !img.Borrowed()) {
				t.Errorf("layer %d: borrowed is %v and it can be lent", i, img.Borrowed())
			}
		}
		return img.Borrowed()
	}
	if !scan(b.indexes(false), Options{Cache: mine}) || read.Load() > 0 || b.lent.Load() != layers {
		t.Errorf("%d reads, %d of %d layers were lent", read.Load(), b.lent.Load(), layers)
	}
	if b.asked.Store(0); !scan(b.indexes(false), Options{Cache: mine}) || read.Load() > 0 || b.asked.Load() > 0 {
		t.Errorf("the cache does not keep a lent index: %d reads, asked %d times", read.Load(), b.asked.Load())
	}
	other := &lender{img: img, fromHere: "elsewhere"}
	if !scan(other.indexes(false), Options{Cache: mine}) || other.asked.Load() != layers {
		t.Error("an index of another origin is taken from the cache")
	}
	shared := NewShared(1 << 30)
	scan(b.indexes(false), Options{Shared: shared})
	if scan(nil, Options{Shared: shared}) || read.Load() == 0 {
		t.Error("an image whose user believes nobody shares a lent index")
	}
	for what, mangle := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)-1] },
		"changed":   func(b []byte) []byte { b[len(b)-6] ^= 1; return b },
		"none":      func([]byte) []byte { return nil },
		"foreign":   func([]byte) []byte { return encoded(t, layerName("sha256:1", ""), &Layer{}) },
	} {
		bad := &lender{img: img, fromHere: what, mangle: mangle}
		if scan(bad.indexes(false), Options{Shared: NewShared(1 << 30)}) || read.Load() == 0 || bad.asked.Load() != layers {
			t.Errorf("%s: it is taken", what)
		}
		c := newCache(t)
		scan(bad.indexes(false), Options{Cache: c})
		if _, kept := c.received(img.Verified(0), "", ", by "+what, nil); kept {
			t.Errorf("%s: it is kept", what)
		}
	}
	if scan(nil, Options{Cache: mine}) || read.Load() == 0 {
		t.Error("a lent index is believed without its lender")
	}
}

// TestComparedIndexes: where indexes are compared every layer is read, and one that says
// something else is found.
func TestComparedIndexes(t *testing.T) {
	ref := push(t, newRegistry(t), "app:1", libImage)
	theirs := newCache(t)
	want := index(t, ref, Options{Cache: theirs})
	img, err := Open(t.Context(), ref, Options{Cache: theirs})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	b := &lender{img: img, fromHere: "there"}
	layers := int64(len(img.Layers))
	for range 2 { // from the layers, then from the cache
		b.same.Store(0)
		if got := index(t, ref, Options{Indexes: b.indexes(true), Cache: theirs}); got != want || b.same.Load() != layers || b.differs.Load() > 0 {
			t.Errorf("%d of %d layers are the same, %d differ", b.same.Load(), layers, b.differs.Load())
		}
	}
	for what, change := range map[string]func(*Layer){
		"a file is missing": func(l *Layer) { l.Entries = l.Entries[:len(l.Entries)-1] },
		"a mode":            func(l *Layer) { l.Entries[len(l.Entries)-1].Mode ^= 1 },
		"the symbols": func(l *Layer) {
			for _, e := range l.Entries {
				if e.Object != nil {
					e.Object.Symbols = nil
				}
			}
		},
	} {
		forged := &lender{img: img, fromHere: "there", mangle: func(stored []byte) []byte {
			name := layerName(img.Verified(0), "")
			l, err := decodeLayer(bytes.NewReader(stored), nil, name)
			if err != nil {
				return stored // of another layer
			}
			change(l)
			return encoded(t, name, l)
		}}
		if got := index(t, ref, Options{Indexes: forged.indexes(true)}); got != want || forged.differs.Load() != 1 {
			t.Errorf("%s: %d differ", what, forged.differs.Load())
		}
	}
}

// TestForgedIndexIsRefused: what no reading of a layer gives is no index.
func TestForgedIndexIsRefused(t *testing.T) {
	dir := &Entry{Path: "d", Type: Dir, Mode: 0o755}
	for want, l := range map[string]*Layer{
		"":                              {Entries: []*Entry{dir, {Path: "d/f", Content: []byte("x"), Size: 1}}, Whiteouts: []string{"d/w"}, Opaque: []string{"d"}},
		"../f is in no directory":       {Entries: []*Entry{{Path: "../f"}}},
		"/f is in no directory":         {Entries: []*Entry{{Path: "/f"}}},
		"d/../f is in no directory":     {Entries: []*Entry{dir, {Path: "d/../f"}}},
		"x/f is in no directory":        {Entries: []*Entry{{Path: "x/f"}}},
		"f/g is in no directory":        {Entries: []*Entry{{Path: "f"}, {Path: "f/g"}}},
		"l has content":                 {Entries: []*Entry{{Path: "l", Type: Symlink, Link: "f", Content: []byte("x")}}},
		"d has content":                 {Entries: []*Entry{{Path: "d", Type: Dir, Object: &elfdeps.Object{}}}},
		"l links out":                   {Entries: []*Entry{{Path: "l", Type: HardLink, Link: "../etc/passwd"}}},
		"f has a size or mode":          {Entries: []*Entry{{Path: "f", Size: -1}}},
		"g has a size or mode":          {Entries: []*Entry{{Path: "g", Mode: fs.ModeDevice}}},
		"the whiteout ../w is in no":    {Whiteouts: []string{"../w"}},
		"e is opaque and no directory":  {Opaque: []string{"e"}},
		"/ is opaque and no directory":  {Opaque: []string{"/"}},
		"the whiteout d/w is in no dir": {Whiteouts: []string{"d/w"}},
	} {
		err := l.check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	var b bytes.Buffer
	if err := encodeLayer(&b, layerName("sha256:1", ""), &Layer{Entries: []*Entry{{Path: "../f"}}}); err != nil {
		t.Fatal(err)
	}
	img := From(new(source.Image), Options{Indexes: &Indexes{Layer: func(_ context.Context, r IndexRequest) *Layer {
		if l, err := r.Decode(io.Reader(&b)); l != nil || err == nil || !strings.Contains(err.Error(), "../f") {
			t.Errorf("%v, %v", l, err)
		}
		return nil
	}}})
	img.requested(t.Context(), 0, "sha256:1", new(tools), nil)
}
