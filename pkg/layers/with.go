package layers

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// NewLayer returns the index of a layer of these entries, in any order, that removes the
// paths whiteouts. It adds the directories that only the entries' paths imply. Of two
// entries at a path the later one counts.
func NewLayer(entries []Entry, whiteouts ...string) *Layer {
	byPath := map[string]Entry{}
	for _, e := range entries {
		byPath[e.Path] = e
	}
	for p := range maps.Clone(byPath) {
		for dir := parent(p); dir != ""; dir = parent(dir) {
			if _, ok := byPath[dir]; !ok {
				byPath[dir] = Entry{Path: dir, Type: ImpliedDir, Mode: 0o755}
			}
		}
	}
	l := &Layer{Whiteouts: slices.Compact(slices.Sorted(slices.Values(whiteouts)))}
	for i, p := range slices.Sorted(maps.Keys(byPath)) {
		e := byPath[p]
		e.Inode = i + 1
		l.Entries = append(l.Entries, &e)
	}
	return l
}

// With returns the file system with one more layer on top, as [Merge] of all layers
// returns it. f does not change. The cost grows with the layers that With has added, not
// with those that were merged.
//
// It differs from Merge where f has forgotten its layers: of two layers that removed a
// path, [FS.Removed] returns the lower one, and a hard link of l to a file that l or an
// upper layer hides has no target.
func (f *FS) With(l *Layer, info source.Layer) *FS {
	top := len(f.Layers)
	out := newFS(f.below)
	out.Layers = append(slices.Clone(f.Layers), info)
	out.Skipped = slices.Clone(f.Skipped)
	for _, s := range l.Skipped {
		out.Skipped = append(out.Skipped, LayerSkip{top, s})
	}
	out.removed = maps.Clone(f.removed)
	for _, n := range f.over.nodes {
		out.over.set(n)
	}
	o := overlay{below: f, fs: out, top: top}
	for _, p := range l.Whiteouts {
		o.clear(p, true)
		o.hide(p, true)
	}
	for _, p := range l.Opaque {
		if p != "" {
			o.clear(p, true)
		}
	}
	for _, e := range l.Entries {
		o.put(e)
	}
	out.over.sort()
	return out
}

// overlay lays one layer over a file system.
type overlay struct {
	below *FS
	fs    *FS
	top   int
}

// hide removes a path of below from the overlay. removed is set if the new layer removes
// it, rather than replaces it.
func (o *overlay) hide(p string, removed bool) {
	n, there := o.fs.get(p)
	if !there || p == "" {
		return
	}
	o.fs.over.set(node{&Entry{Path: p}, gone})
	if removed && !n.IsDir() && (n.Object != nil || strings.Contains(path.Base(p), ".so")) {
		o.fs.removed[p] = Removal{Had: n.layer, By: o.top}
	}
}

// clear removes all entries of below in a directory from the overlay. removed is as for
// hide.
func (o *overlay) clear(dir string, removed bool) {
	for e := range o.below.Below(dir) {
		o.hide(e.Path, removed)
	}
}

func (o *overlay) put(e *Entry) {
	delete(o.fs.removed, e.Path)
	old, there := o.fs.get(e.Path)
	if !e.IsDir() {
		if there && old.IsDir() {
			o.clear(e.Path, false)
		}
		for p := range o.fs.removed {
			if strings.HasPrefix(p, e.Path+"/") {
				delete(o.fs.removed, p)
			}
		}
	}
	if there && e.Type == ImpliedDir && old.Type == Dir {
		return // the owner and mode of the real directory stay
	}
	if e.Type == HardLink {
		e = o.linked(e)
	}
	o.fs.over.set(node{e, o.top})
}

// linked returns the file to which a hard link into the layers below leads.
func (o *overlay) linked(e *Entry) *Entry {
	linked := *e
	if n, ok := o.below.get(e.Link); ok && !n.IsDir() {
		linked = *n.Entry
		linked.Path = e.Path
		return &linked
	}
	linked.Type, linked.Fault = Regular, fmt.Sprintf("it is a hard link to %s, which is not there", plain.Name(e.Link))
	return &linked
}

// Keeps reports whether an index with these options keeps a file's bytes: those of files
// that loaders read, and of those that Keep names.
func (o *Options) Keeps(name string, size int64) bool { return o.keep(name, size) }
