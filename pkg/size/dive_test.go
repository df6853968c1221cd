package size_test

import (
	"archive/tar"
	"io"
	"io/fs"
	gomaps "maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// diveNode is a path of a layer, as dive's trees have it: directories that the tar leaves out are
// there, without a size.
type diveNode struct {
	size int64
	dir  bool
}

type diveTree map[string]diveNode // by path; .wh. names are whiteouts

// diveTreeOf reads a tar as dive does (dive/image/docker/image_archive.go, dive/filetree/file_info.go).
func diveTreeOf(t *testing.T, r io.Reader) diveTree {
	tree := diveTree{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return tree
		}
		if err != nil {
			t.Fatal(err)
		}
		p := path.Clean("/" + h.Name)
		if strings.HasPrefix(path.Base(p), ".wh..wh.") {
			continue // AddPath leaves them out
		}
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			if _, ok := tree[dir]; !ok {
				tree[dir] = diveNode{}
			}
		}
		tree[p] = diveNode{h.Size, h.Typeflag == tar.TypeDir}
	}
}

// wasted is a path that dive calls inefficient, with the bytes of all its nodes.
type wasted struct {
	cumulative, smallest int64
	nodes                int
}

// dive returns the paths that dive calls wasted: those which two layers have, with the bytes of all
// of them, as Efficiency in dive/filetree/efficiency.go counts
// (https://github.com/wagoodman/dive/blob/d6c691947f8fda635c952a17ee3b7555379d58f0/dive/filetree/efficiency.go).
func dive(trees []diveTree) map[string]*wasted {
	all := map[string]*wasted{}
	stacked := diveTree{}
	for _, tree := range trees {
		above := map[string]bool{}
		for p := range tree {
			above[path.Dir(p)] = true
		}
		for _, p := range slices.Sorted(gomaps.Keys(tree)) {
			if above[p] { // no leaf
				continue
			}
			n, removed := tree[p].size, strings.HasPrefix(path.Base(p), ".wh.")
			if removed { // whose path is that of the file
				if p, n = path.Join(path.Dir(p), strings.TrimPrefix(path.Base(p), ".wh.")), 0; stacked[p].dir {
					for q, below := range stacked {
						if strings.HasPrefix(q+"/", p+"/") {
							n += below.size
						}
					}
				}
			}
			if all[p] == nil {
				all[p] = &wasted{smallest: n}
			}
			w := all[p]
			w.cumulative, w.smallest, w.nodes = w.cumulative+n, min(w.smallest, n), w.nodes+1
		}
		for p, n := range tree {
			if name, removed := strings.CutPrefix(path.Base(p), ".wh."); removed {
				p = path.Join(path.Dir(p), name)
				gomaps.DeleteFunc(stacked, func(q string, _ diveNode) bool { return strings.HasPrefix(q+"/", p+"/") })
			} else {
				stacked[p] = n
			}
		}
	}
	gomaps.DeleteFunc(all, func(_ string, w *wasted) bool { return w.nodes < 2 })
	return all
}

// layersText has files that dive counts and others: a file that is written three times, one that is
// removed, one that is removed and made again, a directory that is removed, one that is hidden by an
// opaque marker, and a link in the place of a file.
const layersText = `
layer 1 RUN a
layer 2 RUN b
-- 0/a/thrice --
size 1000
-- 0/a/removed --
size 2000
-- 0/a/again --
size 4000
-- 0/tree --
dir
-- 0/tree/x --
size 8000
-- 0/tree/y/z --
size 16000
-- 0/opaque/x --
size 32000
-- 0/a/linked --
size 64000
-- 0/a/stays --
size 128000
-- 1/a/thrice --
size 1100
-- 1/a/.wh.removed --
-- 1/a/.wh.again --
-- 1/.wh.tree --
-- 1/opaque/.wh..wh..opq --
-- 1/opaque/new --
size 1
-- 1/a/linked --
symlink stays
-- 2/a/thrice --
size 1200
-- 2/a/again --
size 4100
`

// TestDive compares with what dive calls wasted. Of a path that layers write again dive counts
// all copies, size all but the one that containers have; of a file that a layer removes both count all
// copies. size also counts what is below a directory that a layer removes, or that an opaque marker
// hides, which dive passes over.
func TestDive(t *testing.T) {
	set := &packs.Packs{} // what processes map does not matter here
	texts := map[string][]byte{"": []byte(layersText)}
	for _, pattern := range []string{"*.txtar", "stacks/*.txtar"} {
		names, err := fs.Glob(images.FS, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if texts[name], err = images.Text(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	wasting := 0
	for name, text := range texts {
		parsed, err := imagetest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var trees []diveTree
		for i := range parsed.Layers {
			r, w := io.Pipe()
			go func() { w.CloseWithError(parsed.LayerTar(i, w)) }()
			trees = append(trees, diveTreeOf(t, r))
			r.Close()
		}
		theirs := dive(trees)
		if len(theirs) == 0 {
			continue
		}
		wasting++
		img := read(t, text)
		ev, err := replay.Run(t.Context(), img.judged(img.fsys), set)
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]int64{}
		for _, g := range find(t, size.Image{Layers: img.layers, FS: img.fsys, Evidence: ev, Packs: set}).Groups {
			if g.ID == size.Replaced {
				for _, f := range g.Files {
					ours[f.Path] += f.Bytes
				}
			}
		}
		for p, w := range theirs {
			var got int64
			for q, n := range ours {
				if q == p || strings.HasPrefix(q, p+"/") {
					got += n
				}
			}
			now := int64(0) // what containers have
			if e, _, ok := img.fsys.Lstat(p); ok && e.Type == layers.Regular {
				now = e.Size
			}
			if want := w.cumulative - now; got != want {
				t.Errorf("%s: %s: dive says %d bytes, of which containers have %d, and size says %d", name, p, w.cumulative, now, got)
			}
		}
		if name == "" {
			if want := (map[string]int64{"/a/thrice": 2100, "/a/removed": 2000, "/a/again": 4000, "/tree/x": 8000, "/tree/y/z": 16000, "/opaque/x": 32000, "/a/linked": 64000}); !gomaps.Equal(ours, want) {
				t.Errorf("size says %v", ours)
			}
			want := map[string]int64{"/a/thrice": 3300, "/a/removed": 2000, "/a/again": 8100, "/a/linked": 64000}
			for p, w := range theirs {
				if w.cumulative != want[p] {
					t.Errorf("dive says %d of %s", w.cumulative, p)
				}
			}
			if len(theirs) != len(want) {
				t.Errorf("dive says %d paths", len(theirs))
			}
		}
	}
	t.Logf("%d images have what dive calls wasted", wasting)
	if wasting < 5 {
		t.Error("too few images: the test says little")
	}
}
