package slim

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/size"
)

// Plan says which files of which layers go, and which lose GPU code.
type Plan struct {
	// Dropped are the files that go, in the order of their classes, then by layer and path.
	Dropped []File
	// Stripped are the files whose GPU code for other GPUs becomes zeros, with the number of
	// these, by layer and path.
	Stripped []File
	// Kept are files that stay as they are, in the same orders.
	Kept []Kept

	read     []*layers.Layer
	fsys     *layers.FS
	want     map[int]*layers.Layer      // of a settled plan: the layers as they will be, without contents
	gone     map[int]map[string]bool    // by layer: the paths that go, each name of a file
	emptied  map[int]map[string]bool    // by layer: the directories among them
	changed  map[int]map[string]*change // by layer: the paths with other bytes
	stripped []*stripping
	// listed has the paths that the installers' lists may name; nil is a file that goes.
	listed map[string]*stripping
}

// File is a file of a layer, with the first of its names.
type File struct {
	Class string
	size.File
}

// Kept is a file that stays, and why.
type Kept struct {
	File
	Why string
}

// New plans which files of groups go. read are the indexes of the layers, the lowest first, and
// fsys is their merger. keep, unless nil, returns the reason why a file of a class that containers
// have must stay, by its path with a leading slash, or "". [Plan.Correct] follows.
//
// A file stays where the file system would change otherwise by more than that file: where a
// lower layer would show through, or the layer has a directory only by the file.
func New(read []*layers.Layer, fsys *layers.FS, groups []size.Group, keep func(class, path string) string) (*Plan, error) {
	p := &Plan{read: read, fsys: fsys, gone: map[int]map[string]bool{}, emptied: map[int]map[string]bool{}, changed: map[int]map[string]*change{}, listed: map[string]*stripping{}}
	byLayer := make([][]File, len(read))
	for _, g := range groups {
		if g.ID == codeClass {
			return nil, fmt.Errorf("the files of %s do not go", codeClass)
		}
		for _, f := range slices.Concat(g.Files, g.Rest) {
			if f.Layer < 0 || f.Layer >= len(read) {
				return nil, fmt.Errorf("%s is of layer %d, and the image has %d", f.Path, f.Layer, len(read))
			}
			byLayer[f.Layer] = append(byLayer[f.Layer], File{g.ID, f})
		}
	}
	for i, list := range byLayer { // the lowest first, since it decides what shows through
		if len(list) > 0 {
			p.layer(i, list, keep)
		}
	}
	p.empty()
	rank := map[string]int{}
	for i, g := range groups {
		rank[g.ID] = i
	}
	order := func(a, b File) int {
		return cmp.Or(cmp.Compare(rank[a.Class], rank[b.Class]), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Path, b.Path))
	}
	slices.SortFunc(p.Dropped, order)
	slices.SortFunc(p.Kept, func(a, b Kept) int { return order(a.File, b.File) })
	return p, nil
}

// empty lets the directories go in which there is nothing any more without a package of Python: Python would take one of
// modules for a namespace, and one of metadata for a distribution without a name.
func (p *Plan) empty() {
	of := map[string]int{} // the layer of each
	for _, f := range p.Dropped {
		if f.Class != size.UnusedPackages {
			continue
		}
		for dir := path.Dir(f.Path); dir != "/" && path.Base(dir) != "site-packages" && path.Base(dir) != "dist-packages" && strings.Contains(dir, "-packages/"); dir = path.Dir(dir) {
			if e, layer, ok := p.fsys.Lstat(dir); ok && e.Type == layers.Dir {
				of[dir[1:]] = layer
			}
		}
	}
	taken := map[string]bool{}
	take := func(at string) {
		for ; at != "." && !taken[at]; at = path.Dir(at) {
			taken[at] = true
		}
	}
	for i, l := range p.read {
		for _, e := range l.Entries {
			if layer, ok := of[e.Path]; !p.gone[i][e.Path] && !(ok && layer == i) {
				take(e.Path)
			}
		}
		for _, at := range slices.Concat(l.Whiteouts, l.Opaque) {
			take(at)
		}
	}
	for dir, layer := range of {
		if !taken[dir] {
			if p.emptied[layer] == nil {
				p.emptied[layer] = map[string]bool{}
			}
			if p.gone[layer] == nil {
				p.gone[layer] = map[string]bool{}
			}
			p.emptied[layer][dir], p.gone[layer][dir] = true, true
		}
	}
}

// Layers returns the numbers of the layers that change, in their order.
func (p *Plan) Layers() []int {
	list := slices.AppendSeq(slices.Collect(maps.Keys(p.gone)), maps.Keys(p.changed))
	slices.Sort(list)
	return slices.Compact(list)
}

// Empty reports whether no layer changes.
func (p *Plan) Empty() bool { return len(p.gone) == 0 && len(p.changed) == 0 }

// layer decides about the files of one layer.
func (p *Plan) layer(i int, list []File, keep func(class, path string) string) {
	slices.SortFunc(list, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	names, below := namesOf(p.read[i], list), childrenOf(p.read[i])
	gone := map[string]bool{}
	for _, f := range list {
		all := names[strings.TrimPrefix(f.Path, "/")]
		why := p.stays(f, all, keep)
		if why == "" {
			why = alone(all, below, func(dir string) bool { return p.shows(dir, i) })
		}
		if why != "" {
			p.Kept = append(p.Kept, Kept{f, why})
			continue
		}
		p.Dropped = append(p.Dropped, f)
		for _, name := range all {
			gone[name] = true
			if f.Class != cacheClass && p.shows(name, i) {
				p.listed[name] = nil
			}
		}
	}
	if len(gone) > 0 {
		p.gone[i] = gone
	}
}

// namesOf returns all names that each file has in its layer, by the one that stands in list.
func namesOf(l *layers.Layer, list []File) map[string][]string {
	byInode, names := map[int]string{}, map[string][]string{}
	for _, f := range list {
		first := strings.TrimPrefix(f.Path, "/")
		if e := find(l, first); e != nil {
			byInode[e.Inode] = first
		}
	}
	for _, e := range l.Entries {
		if first, ok := byInode[e.Inode]; ok && (e.Type == layers.Regular || e.Type == layers.Symlink) {
			names[first] = append(names[first], e.Path)
		}
	}
	return names
}

// childrenOf returns the directories that a layer has only because paths lie below them, with
// the numbers of their entries and markers.
func childrenOf(l *layers.Layer) map[string]int {
	below := map[string]int{}
	for _, e := range l.Entries {
		if e.Type == layers.ImpliedDir {
			below[e.Path] = 0
		}
	}
	count := func(p string) {
		dir := path.Dir(p)
		if _, implied := below[dir]; implied {
			below[dir]++
		}
	}
	for _, e := range l.Entries {
		count(e.Path)
	}
	for _, w := range l.Whiteouts {
		count(w)
	}
	for _, o := range l.Opaque {
		count(o + "/.wh..wh..opq")
	}
	return below
}

// stays returns why a file, by all its names, must stay.
func (p *Plan) stays(f File, names []string, keep func(class, path string) string) string {
	layer := f.Layer
	if len(names) == 0 {
		return "it is not in the index of its layer"
	}
	for _, name := range names {
		seen := p.shows(name, layer)
		if seen && keep != nil {
			if why := keep(f.Class, "/"+name); why != "" {
				return why
			}
		}
		for i, l := range p.read[:layer] {
			if e := find(l, name); e != nil && !p.gone[i][name] && (seen || e.IsDir()) {
				return fmt.Sprintf("layer %d has something else under this name", i+1)
			}
		}
	}
	return ""
}

// shows reports whether the container's entry at a path is that of a layer.
func (p *Plan) shows(name string, layer int) bool {
	_, from, ok := p.fsys.Lstat("/" + name)
	return ok && from == layer
}

// alone returns why a file must stay if a directory that containers have from this layer would
// go with it. Otherwise it takes the file off the numbers of entries below directories.
func alone(names []string, below map[string]int, shows func(dir string) bool) string {
	var taken []string
	for _, name := range names {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			left, implied := below[dir]
			if !implied {
				break
			}
			if left == 1 && shows(dir) {
				for _, d := range taken {
					below[d]++
				}
				return "the layer has the directory /" + dir + " only by it"
			}
			below[dir]--
			taken = append(taken, dir)
			if left > 1 {
				break
			}
		}
	}
	return ""
}

func find(l *layers.Layer, p string) *layers.Entry {
	i, ok := slices.BinarySearchFunc(l.Entries, p, func(e *layers.Entry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return l.Entries[i]
}

// After returns the file system of the image as it will be. It returns an error if that differs
// from the old one by more than the plan says.
func (p *Plan) After() (*layers.FS, error) {
	list := slices.Clone(p.read)
	for _, i := range p.Layers() {
		list[i] = p.without(i)
	}
	fsys := layers.Merge(list...)
	fsys.Layers, fsys.Skipped = p.fsys.Layers, p.fsys.Skipped
	return fsys, p.compare(fsys)
}

// without returns the index of a layer as it will be.
func (p *Plan) without(i int) *layers.Layer {
	old, gone := p.read[i], p.gone[i]
	l := &layers.Layer{Whiteouts: old.Whiteouts, Opaque: old.Opaque, Skipped: old.Skipped}
	needed := map[string]bool{}
	need := func(p string) {
		for dir := path.Dir(p); !needed[dir] && dir != "."; dir = path.Dir(dir) {
			needed[dir] = true
		}
	}
	for _, e := range old.Entries {
		if e.Type != layers.ImpliedDir && !gone[e.Path] {
			need(e.Path)
		}
	}
	for _, w := range old.Whiteouts {
		need(w)
	}
	for _, o := range old.Opaque {
		need(o + "/.wh..wh..opq")
	}
	for _, e := range old.Entries {
		if !gone[e.Path] && (e.Type != layers.ImpliedDir || needed[e.Path]) {
			l.Entries = append(l.Entries, p.now(i, e))
		}
	}
	return l
}

// now returns an entry of a layer as it will be.
func (p *Plan) now(layer int, e *layers.Entry) *layers.Entry {
	if c := p.changed[layer][e.Path]; c != nil {
		return c.entry
	}
	return e
}

// compare returns an error unless a file system is the old one as the plan changes it.
func (p *Plan) compare(fsys *layers.FS) error {
	next, stop := iter.Pull2(fsys.All())
	defer stop()
	now, layer, more := next()
	for e, from := range p.fsys.All() {
		switch {
		case more && now.Path < e.Path:
			return fmt.Errorf("/%s of a lower layer would show", now.Path)
		case (!more || now.Path > e.Path) && p.gone[from][e.Path]:
			continue
		case !more || now.Path > e.Path:
			return fmt.Errorf("/%s would go as well", e.Path)
		case layer != from || !same(p.now(from, e), now):
			return fmt.Errorf("/%s would be another one, of layer %d", e.Path, layer+1)
		}
		now, layer, more = next()
	}
	if more {
		return fmt.Errorf("/%s of a lower layer would show", now.Path)
	}
	return nil
}

// same reports whether two entries are the same but for the numbers of their headers and for
// what is kept of their contents.
func same(a, b *layers.Entry) bool {
	return sameHeader(a, b) && (a.Object == nil) == (b.Object == nil) && reflect.DeepEqual(a.GPU(), b.GPU())
}

// sameHeader reports whether two entries are the same but for the numbers of their headers and
// for their contents.
func sameHeader(a, b *layers.Entry) bool {
	return a.Path == b.Path && a.Type == b.Type && a.Caps == b.Caps && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID &&
		a.Size == b.Size && a.Link == b.Link
}

// Settle ends the planning: the plan forgets the files of the image but for the headers of the
// layers that [Plan.Write] will write. Only that, Layers and the lists may be used after it.
func (p *Plan) Settle() {
	p.want = map[int]*layers.Layer{}
	for _, i := range p.Layers() {
		want := p.without(i)
		for j, e := range want.Entries {
			bare := *e
			bare.Object, bare.Fatbin, bare.Content = nil, nil, nil
			want.Entries[j] = &bare
		}
		p.want[i] = want
	}
	p.read, p.fsys = nil, nil
}

// foretold returns the index of a layer as it will be, with its headers at least.
func (p *Plan) foretold(i int) *layers.Layer {
	if want := p.want[i]; want != nil {
		return want
	}
	return p.without(i)
}
