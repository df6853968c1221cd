package slim_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/slim"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/rules"
)

// world makes random images: a few names, so that layers meet.
type world struct{ *rand.Rand }

func (w world) one(list ...string) string { return list[w.IntN(len(list))] }

// path returns a path of up to three directories and a name, in a cache, a package or elsewhere.
func (w world) path() string {
	p := w.one("a", "b", "root/.cache/pip", "var/lib/apt/lists", "usr/lib", "usr/include/x")
	for range w.IntN(3) {
		p += "/" + w.one("c", "d")
	}
	return p + "/" + w.one("e", "f", "g.a", "h.h")
}

// layer returns the tar of a layer over a file system. Extractors differ in two cases, which it leaves
// out: a path below a file or link of the same tar, and a path beside the marker of its own removal.
func (w world) layer(lower state) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	own := map[string]byte{} // the types by path, and w for what the layer removes
	var files []string
	add := func(h tar.Header, content string) {
		h.Size, h.ModTime = int64(len(content)), time.Unix(int64(w.IntN(1e9)), 0)
		if h.Mode == 0 {
			h.Mode = 0o644 | int64(w.IntN(2))*0o111
		}
		if h.Uid = w.IntN(3); w.IntN(4) == 0 {
			h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"SCHILY.xattr.user.x": fmt.Sprint(w.IntN(100)), "mtime": "1700000000.123456789"}
		}
		if err := tw.WriteHeader(&h); err != nil {
			panic(err)
		}
		if _, err := io.WriteString(tw, content); err != nil {
			panic(err)
		}
	}
	through := func(p string) bool { // a path below something else of this layer
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			if t, ok := own[dir]; ok && t != tar.TypeDir {
				return true
			}
		}
		return false
	}
	dirs := func(p string) {
		var list []string
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			list = append(list, dir)
		}
		slices.Reverse(list)
		for _, dir := range list {
			if own[dir] == 0 && w.IntN(3) > 0 {
				add(tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, "")
			}
			own[dir] = tar.TypeDir // at least implied
		}
	}
	for range 1 + w.IntN(12) {
		p := w.path()
		if lowers := slices.Sorted(maps.Keys(lower)); len(lowers) > 0 && w.IntN(2) == 0 {
			p = lowers[w.IntN(len(lowers))]
		}
		if through(p) || own[p] != 0 {
			continue
		}
		switch kind := w.IntN(12); {
		case kind < 2 && lower[p].flag != 0:
			dirs(p)
			add(tar.Header{Name: path.Join(path.Dir(p), ".wh."+path.Base(p)), Mode: 0o644}, "")
			own[p] = 'w'
		case kind == 2 && lower[path.Dir(p)].flag == tar.TypeDir:
			dirs(p)
			add(tar.Header{Name: path.Dir(p) + "/.wh..wh..opq", Mode: 0o644}, "")
		case kind == 3:
			dirs(p)
			add(tar.Header{Name: p, Typeflag: tar.TypeSymlink, Linkname: w.one("e", "/a/e", "../b", "/root/.cache/pip/e"), Mode: 0o777}, "")
			own[p] = tar.TypeSymlink
		case kind < 6 && len(files) > 0:
			to := files[w.IntN(len(files))]
			dirs(p)
			add(tar.Header{Name: p, Typeflag: tar.TypeLink, Linkname: to}, "")
			own[p] = tar.TypeReg
		case kind == 6:
			dirs(p + "/x")
		default:
			dirs(p)
			add(tar.Header{Name: p}, strings.Repeat(w.one("0", "1", "2"), w.IntN(700)))
			own[p] = tar.TypeReg
			files = append(files, p)
		}
	}
	if err := tw.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// file stands for what a container sees at a path. Names of one file share a number.
type file struct {
	flag   byte
	what   string // its header and content as text, without the number
	number int
	layer  int
}

type state map[string]file

// apply returns a file system with one more layer, as the OCI image specification says
// (https://github.com/opencontainers/image-spec/blob/main/layer.md): first what the layer hides, then
// what it has.
func (s state) apply(b []byte, layer int) state {
	now := maps.Clone(s)
	if now == nil {
		now = state{}
	}
	remove := func(p string, self bool) {
		for q := range now {
			if self && q == p || strings.HasPrefix(q, p+"/") {
				delete(now, q)
			}
		}
	}
	each := func(f func(h *tar.Header, p string, content []byte)) {
		for tr := tar.NewReader(bytes.NewReader(b)); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				panic(err)
			}
			content, err := io.ReadAll(tr)
			if err != nil {
				panic(err)
			}
			f(h, path.Clean(h.Name), content)
		}
	}
	each(func(_ *tar.Header, p string, _ []byte) {
		switch name, hides := strings.CutPrefix(path.Base(p), ".wh."); {
		case hides && name == ".wh..opq":
			remove(path.Dir(p), false)
		case hides:
			remove(path.Join(path.Dir(p), name), true)
		}
	})
	number := 1000 * (layer + 1)
	each(func(h *tar.Header, p string, content []byte) {
		var above []string
		for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
			above = append(above, dir)
		}
		slices.Reverse(above)
		for _, dir := range above {
			if now[dir].flag != tar.TypeDir {
				remove(dir, true)
				now[dir] = file{flag: tar.TypeDir, what: "implied"}
			}
		}
		if strings.HasPrefix(path.Base(p), ".wh.") {
			return
		}
		if h.Typeflag == tar.TypeLink {
			remove(p, true)
			now[p] = now[h.Linkname]
			return
		}
		if h.Typeflag != tar.TypeDir || now[p].flag != tar.TypeDir {
			remove(p, true)
		}
		number++
		f := file{flag: h.Typeflag, layer: layer, number: number}
		f.what = fmt.Sprintf("%c %o %d %d %s %v %x %v", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname, h.ModTime, sha256.Sum256(content), h.PAXRecords)
		now[p] = f
	})
	return now
}

// same reports whether two file systems are the same but for numbers, which must pair up.
func (s state) same(o state) error {
	for p := range o {
		if _, ok := s[p]; !ok {
			return fmt.Errorf("/%s has come", p)
		}
	}
	pairs := map[int]int{}
	for p, f := range s {
		g, ok := o[p]
		switch {
		case !ok:
			return fmt.Errorf("/%s has gone", p)
		case f.what != g.what || f.layer != g.layer:
			return fmt.Errorf("/%s was %v and is %v", p, f, g)
		}
		if n, seen := pairs[f.number]; seen && n != g.number {
			return fmt.Errorf("/%s is no longer the same file as another name", p)
		}
		pairs[f.number] = g.number
	}
	return nil
}

// TestRandom slims random images: the layers as they are written make the same file system
// as before but for the files that the plan drops, with the same modes, owners, times and extended
// attributes; what a class claims and is not dropped is kept for a reason.
func TestRandom(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	classes, err := size.LoadClasses(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	dropped, kept := 0, 0
	for seed := range uint64(worlds) {
		w := world{rand.New(rand.NewPCG(23, seed))}
		var tars [][]byte
		var read []*layers.Layer
		var old state
		for i := range 2 + w.IntN(3) {
			b := w.layer(old)
			l, err := layers.ReadLayer(bytes.NewReader(b), nil)
			if err != nil {
				t.Fatal(err)
			}
			tars, read, old = append(tars, b), append(read, l), old.apply(b, i)
		}
		fsys := layers.Merge(read...)
		fsys.Layers = make([]source.Layer, len(read))
		p := planOf(t, read, fsys, set, classes, nil)
		if _, err := p.After(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		var now state
		for i, b := range tars {
			if slices.Contains(p.Layers(), i) {
				var out bytes.Buffer
				if err := slim.RewriteLayer(p, i, &out, bytes.NewReader(b)); err != nil {
					t.Errorf("seed %d, layer %d: %v", seed, i, err)
					continue
				}
				b = out.Bytes()
			}
			now = now.apply(b, i)
		}
		for _, f := range p.Dropped {
			gone := state(nil).apply(tars[f.Layer], f.Layer)[f.Path[1:]]
			maps.DeleteFunc(old, func(_ string, g file) bool { return g.number == gone.number })
		}
		if err := old.same(now); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		dropped, kept = dropped+len(p.Dropped), kept+len(p.Kept)
	}
	t.Logf("%d files dropped, %d kept", dropped, kept)
	if dropped < worlds || kept < worlds/20 {
		t.Error("the images say little")
	}
}

// worlds is the number of random images.
const worlds = 400
