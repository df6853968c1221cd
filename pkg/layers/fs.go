package layers

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// FS is the file system that a container sees: the layers laid over one another. It
// does not change once it was merged, and any number of goroutines may read it.
//
// As an [fs.FS] its names have no leading slash, links are followed, and a file
// can be read if its bytes were kept. [FS.Find] is the loader's view of it.
type FS struct {
	// Layers describe the layers, the lowest first.
	Layers []source.Layer
	// Skipped lists the parts of the image that could not be indexed, by layer.
	Skipped []LayerSkip

	below   *table // of the layers that were merged
	over    table  // of those that With has added
	removed map[string]Removal
	root    view // of the user root
	steps   atomic.Int64
}

func newFS(below *table) *FS {
	f := &FS{below: below, removed: map[string]Removal{}}
	f.root.fs = f
	return f
}

// get returns the node at a path.
func (f *FS) get(p string) (node, bool) {
	if n, ok := f.over.get(p); ok {
		return n, n.layer != gone
	}
	return f.below.get(p)
}

// LayerSkip is a [Skip] with its layer.
type LayerSkip struct {
	Layer int
	Skip
}

// Removal is a path of a lower layer that an upper layer has removed.
type Removal struct {
	Had int // the topmost layer that had it
	By  int // the layer that removed it
}

// node is an entry as it shows in the merged file system.
type node struct {
	*Entry
	layer int
}

// gone is the layer of a node that stands for a removed path.
const gone = -1

// Merge lays layers over one another, the lowest first.
//
// It does what overlayfs does with unpacked layers. A whiteout or an opaque directory
// hides entries of lower layers, never of its own. A directory joins the directories
// below it, down to the first layer that has something else at its path. Any other entry
// replaces the one below it, with all its contents. Both hold for a directory that only
// the paths in it imply, too. The root directory is never opaque, even if a layer marks
// it so.
func Merge(layers ...*Layer) *FS {
	m := merger{
		fs:    newFS(&table{}),
		stops: map[string]stop{}, links: map[string][]string{},
	}
	most := 0
	for _, l := range layers {
		most = max(most, len(l.Entries))
	}
	m.fs.below.grow(most + 1)
	for i := len(layers) - 1; i >= 0; i-- {
		m.add(i, layers[i])
	}
	m.fs.below.set(node{&Entry{Type: Dir, Mode: 0o755}, 0})
	m.loseLinks()
	m.fs.below.sort()
	slices.SortStableFunc(m.fs.Skipped, func(a, b LayerSkip) int { return a.Layer - b.Layer })
	return m.fs
}

// merger adds layers from the topmost down: entries that were added hide later ones.
type merger struct {
	fs     *FS
	stops  map[string]stop
	covers map[string]stop     // of the layer that is being added, by directory
	links  map[string][]string // hard links whose target is in a lower layer, by target
}

// stop marks a path of which the layers still to be added show nothing.
type stop struct {
	contents bool // entries in the path
	itself   bool // the path, too
	removed  bool // by a whiteout or an opaque marker, rather than replaced
	by       int  // the layer that did it
}

func (m *merger) add(i int, l *Layer) {
	m.covers = map[string]stop{"": {}}
	for _, e := range l.Entries {
		m.entry(i, e)
	}
	for _, p := range l.Whiteouts {
		m.stop(p, stop{contents: true, itself: true, removed: true, by: i})
	}
	for _, p := range l.Opaque {
		if p == "" {
			continue // overlayfs ignores the mark of a root directory
		}
		m.stop(p, stop{contents: true, removed: true, by: i})
	}
	for _, s := range l.Skipped {
		m.fs.Skipped = append(m.fs.Skipped, LayerSkip{i, s})
	}
}

func (m *merger) entry(i int, e *Entry) {
	if len(m.links) > 0 {
		m.linkHard(i, e)
	}
	if c := m.cover(parent(e.Path)); c.contents {
		m.hide(e, i, c)
		return
	}
	if s := m.stops[e.Path]; s.itself {
		m.hide(e, i, s)
		return
	}
	old, there := m.fs.below.get(e.Path)
	switch {
	case !there:
		m.fs.below.set(node{e, i})
		if e.Type == HardLink {
			m.links[e.Link] = append(m.links[e.Link], e.Path)
		}
	case !old.IsDir():
	case !e.IsDir(): // below a directory, which keeps hiding what it hid
		m.stop(e.Path, stop{contents: true, itself: true, by: i})
	case old.Type == ImpliedDir && e.Type == Dir:
		m.fs.below.set(node{e, i}) // the real directory's owner and mode
	}
}

// stop adds a stop. Of two at a path the upper one is reported; the lower one may add
// that the path itself is hidden, which an opaque directory does not hide.
func (m *merger) stop(p string, s stop) {
	if old, ok := m.stops[p]; ok {
		s = stop{contents: old.contents || s.contents, itself: old.itself || s.itself, removed: old.removed, by: old.by}
	}
	m.stops[p] = s
}

// cover returns the stop that holds for everything lower layers have in a directory.
func (m *merger) cover(dir string) stop {
	if c, ok := m.covers[dir]; ok {
		return c
	}
	c := m.cover(parent(dir))
	if !c.contents {
		c = m.stops[dir]
		if n, there := m.fs.below.get(dir); there && !n.IsDir() {
			c = stop{contents: true, itself: true, by: n.layer}
		}
	}
	m.covers[dir] = c
	return c
}

// hide records a file that was removed, rather than replaced. Layers come from the top,
// so that the first record is the last state before the removal.
func (m *merger) hide(e *Entry, layer int, c stop) {
	if !c.removed || e.IsDir() || e.Object == nil && !strings.Contains(path.Base(e.Path), ".so") {
		return
	}
	if _, told := m.fs.removed[e.Path]; told {
		return
	}
	if _, there := m.fs.below.get(e.Path); !there {
		m.fs.removed[e.Path] = Removal{Had: layer, By: c.by}
	}
}

// linkHard gives hard links of upper layers their files. Runtimes on overlayfs refuse
// such a layer; others find the file as this does.
func (m *merger) linkHard(i int, e *Entry) {
	names, ok := m.links[e.Path]
	if !ok || e.IsDir() {
		return
	}
	delete(m.links, e.Path)
	if e.Type == HardLink {
		m.links[e.Link] = append(m.links[e.Link], names...)
		return
	}
	for _, p := range names {
		linked := *e
		linked.Path = p
		m.fs.below.set(node{&linked, i})
	}
}

// loseLinks turns hard links without a target into files with a fault.
func (m *merger) loseLinks() {
	for target, names := range m.links {
		for _, p := range names {
			n, _ := m.fs.below.get(p)
			e := *n.Entry
			e.Type, e.Fault = Regular, fmt.Sprintf("it is a hard link to %s, which is not there", plain.Name(target))
			m.fs.below.set(node{&e, n.layer})
		}
	}
}

// mode returns the entry's type and permission bits.
func (e *Entry) mode() fs.FileMode {
	switch e.Type {
	case Dir, ImpliedDir:
		return e.Mode | fs.ModeDir
	case Symlink:
		return e.Mode | fs.ModeSymlink
	case Other:
		return e.Mode | fs.ModeIrregular
	}
	return e.Mode
}

// Lookup returns the entry at a path, links followed, and the number of its layer, from
// 0.
func (f *FS) Lookup(p string) (e *Entry, layer int, ok bool) {
	_, n, errno := f.root.lookup(p, true)
	return n.Entry, n.layer, errno == 0
}

// Lstat returns the entry at a path and the number of its layer. It does not follow the
// last link.
func (f *FS) Lstat(p string) (e *Entry, layer int, ok bool) {
	_, n, errno := f.root.lookup(p, false)
	return n.Entry, n.layer, errno == 0
}

// Removed reports whether a lower layer had a library or ELF file at a path where there
// is none now.
func (f *FS) Removed(p string) (Removal, bool) {
	r, ok := f.removed[strings.TrimPrefix(p, "/")]
	return r, ok
}

// RemovedPaths returns the paths for which [FS.Removed] is true, sorted.
func (f *FS) RemovedPaths() []string { return slices.Sorted(maps.Keys(f.removed)) }

// All yields every entry but the root, in the order of their paths, with the
// number of its layer.
func (f *FS) All() iter.Seq2[*Entry, int] {
	return func(yield func(*Entry, int) bool) {
		c := f.from("")
		for n, ok := c.next(); ok; n, ok = c.next() {
			if n.Path != "" && !yield(n.Entry, n.layer) {
				return
			}
		}
	}
}

// Walk calls f with every entry, as [fs.WalkDir] of the root does, but in the order of
// the paths and without fs.SkipDir. f must not keep the directory entry.
func (f *FS) Walk(do fs.WalkDirFunc) error {
	d := &walkEntry{}
	for e := range f.All() {
		d.fileInfo = fileInfo{e, path.Base(e.Path)}
		if err := do(e.Path, d, nil); err != nil {
			return err
		}
	}
	return nil
}

// walkEntry implements [fs.DirEntry].
type walkEntry struct{ fileInfo }

func (d *walkEntry) Type() fs.FileMode          { return d.Mode().Type() }
func (d *walkEntry) Info() (fs.FileInfo, error) { return d.fileInfo, nil }

// Open implements [fs.FS].
func (f *FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	real, n, errno := f.root.lookup(name, true)
	if errno != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errno}
	}
	info := fileInfo{n.Entry, path.Base(name)}
	if n.IsDir() {
		return &dirFile{info, f.children(real), 0}, nil
	}
	return &file{info, bytes.NewReader(n.Content)}, nil
}

// children returns the entries of a directory in the order of their names.
func (f *FS) children(dir string) []fs.DirEntry {
	prefix := dir + "/"
	if dir == "" {
		prefix = ""
	}
	var list []fs.DirEntry
	c := f.from(prefix)
	for n, ok := c.next(); ok && strings.HasPrefix(n.Path, prefix); n, ok = c.next() {
		rest := n.Path[len(prefix):]
		name, _, deeper := strings.Cut(rest, "/")
		switch {
		case rest == "":
		case deeper: // below an entry that was listed: skip its tree
			c.skip(prefix + name + "0") // the byte after '/'
		default:
			list = append(list, fs.FileInfoToDirEntry(fileInfo{n.Entry, name}))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// fileInfo implements [fs.FileInfo].
type fileInfo struct {
	e    *Entry
	name string
}

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) Size() int64  { return i.e.Size }
func (i fileInfo) Mode() fs.FileMode {
	return i.e.mode()
}
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.e.IsDir() }
func (i fileInfo) Sys() any           { return i.e }

// file is an open file. It can be read if its bytes were kept.
type file struct {
	info fileInfo
	r    *bytes.Reader
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

func (f *file) Read(b []byte) (int, error) {
	if f.info.e.Content == nil && f.info.e.Size > 0 {
		return 0, &fs.PathError{Op: "read", Path: f.info.e.Path, Err: ErrNotKept}
	}
	return f.r.Read(b)
}

// dirFile is an open directory.
type dirFile struct {
	info fileInfo
	list []fs.DirEntry
	at   int
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dirFile) Close() error               { return nil }

func (d *dirFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.e.Path, Err: syscall.EISDIR}
}

func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.list[d.at:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.at += len(rest)
	return slices.Clone(rest), nil
}
