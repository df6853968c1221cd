// Package size finds the bytes of an image that its containers can do without: files that a
// later layer hides, those of the classes in rules/size, copies of libraries that no process
// gets, and code for other GPUs. It estimates how many bytes of a pull they are.
//
// It works on the indexes of the layers, on the file system that they make, and on the
// evidence of a replay: a file that a process loads does not go. It knows no registry, and
// it does not know all that programs do: a class says what it assumes.
package size

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Image is an image that was read and replayed.
type Image struct {
	Layers   []*layers.Layer // the lowest first
	FS       *layers.FS      // their merger
	Evidence *replay.Evidence
	Packs    *packs.Packs // for the families of libraries
	// GPUs are the architectures of the GPUs that the image is for, 89 for 8.9. Without any,
	// no GPU code goes.
	GPUs []uint32
	// Read, unless nil, reads files of one layer, as [layers.Image.ReadFiles] does. Without it,
	// files are not searched for the names of others: no copy is one of [AbandonedCopies].
	Read func(ctx context.Context, layer int, files []*layers.Entry, take func(e *layers.Entry, r io.Reader) error) error
}

// File is a file that can go, or its part that can.
type File struct {
	Path  string `json:"path"`  // with a leading slash
	Layer int    `json:"layer"` // from 0
	Bytes int64  `json:"bytes"` // unpacked
	// Pull estimates its part of the compressed layer, in bytes; 0 if the size of the layer
	// is not known.
	Pull int64 `json:"pull"`
	// Of is the path of the copy that processes get instead, for a file of Copies.
	Of string `json:"of,omitempty"`
	// By is the layer, from 0, that writes or removes a file of Replaced, and Again that it writes it; 0 if that is not known.
	By    int  `json:"by,omitempty"`
	Again bool `json:"again,omitempty"`
}

// Group is the files of one class, the largest first.
type Group struct {
	*Class
	Bytes int64  `json:"bytes"` // unpacked
	Pull  int64  `json:"pull"`  // estimated
	Files []File `json:"files"`
	// Packages are the distributions of UnusedPackages, those that no other of them requires first, the largest first, each followed
	// by those that it requires.
	Packages []Package `json:"packages,omitempty"`
	// Rest are the empty files and the symbolic links of Packages, by layer and path: they have no bytes, and go with them.
	Rest []File `json:"-"`
}

// Layer is a layer of the image.
type Layer struct {
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"createdBy,omitempty"` // the instruction
	// Dockerfile is the line that made the layer; nil if it is not known.
	Dockerfile *dockerline.Line `json:"dockerfile,omitempty"`
	Pull       int64            `json:"pull"`  // compressed bytes; 0 if not known
	Bytes      int64            `json:"bytes"` // unpacked bytes of its files
}

// Family is the bytes of the libraries of a family that containers see.
type Family struct {
	Title string `json:"title"` // cuDNN
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"` // unpacked
	Pull  int64  `json:"pull"`  // estimated
}

// Result says which bytes of an image can go.
type Result struct {
	Pull     int64    `json:"pull"`  // compressed bytes of all layers; each blob counts once
	Bytes    int64    `json:"bytes"` // unpacked bytes of all layers' files
	Layers   []Layer  `json:"layers"`
	Families []Family `json:"families"` // of GPU libraries, the largest first
	// Stays is what is left if all groups go: GPU libraries by family, other files by the first
	// three directories of their paths, the largest first.
	Stays  []Family `json:"stays"`
	Groups []Group  `json:"groups"` // in the order of the classes, without empty ones
	// Kept lists the classes that do not count, with the package for which the image needs
	// their files.
	Kept []Kept `json:"kept"`
	// Unread lists the parts of layers that could not be read: of these nothing is known.
	Unread []string `json:"unread"`
}

// Kept is a class whose files an image needs.
type Kept struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	For   string `json:"for"` // the package
}

// Can returns the bytes of a pull and unpacked bytes that can go: for sure, or with those
// of the classes that assume something.
func (r *Result) Can(assuming bool) (pull, bytes int64) {
	for _, g := range r.Groups {
		if assuming || g.Assumes == "" {
			pull, bytes = pull+g.Pull, bytes+g.Bytes
		}
	}
	return pull, bytes
}

// inode is a file's identity in an image: hard links of one layer share it.
type inode struct{ layer, number int }

// finder decides on the files of an image.
type finder struct {
	Image
	tables  *targets.Tables
	classes []*Class
	hard    map[string]bool         // paths that hard links of other layers lead to
	kept    map[string]bool         // paths that symbolic links lead to
	used    map[string]bool         // real paths of files that programs use
	living  living                  // the parts of classes that are in use
	own     own                     // what the own files of the image say
	copies  map[string]string       // paths of copies that no process gets, with the path of the other
	marked  map[int]map[string]bool // by layer: see markers
	// lone are those of copies in directories that nothing leads to.
	lone map[string]bool
	// resources are the paths of files with kernels of TensorRT's builder that no GPU of the image needs.
	resources map[string]bool
	parts     *packages      // the distributions that may be unused; nil if none is
	debs      *debs          // the same of dpkg
	unused    map[string]int // the paths of files of UnusedPackages, with the number of the package
}

// Find returns the bytes of an image that can go. A file counts only if each of its names
// can go, no hard link of another layer leads to it, no symbolic link that stays does, and no
// program that could be followed uses it. It returns an error if ctx ends, or if the image
// takes more work than the limits of a replay allow.
func Find(ctx context.Context, img Image, all []*Class) (*Result, error) {
	r := &Result{Layers: []Layer{}, Families: []Family{}, Stays: []Family{}, Groups: []Group{}, Kept: []Kept{}, Unread: []string{}}
	for _, s := range img.FS.Skipped {
		r.Unread = append(r.Unread, fmt.Sprintf("layer %d: %s: %s", s.Layer, s.Path, s.Why))
	}
	f := &finder{Image: img, tables: targets.Known(), hard: hardLinked(img.Layers), kept: linked(img.FS, all), used: used(img.Evidence), marked: map[int]map[string]bool{}, own: own{had: map[string]bool{}, led: map[string]bool{}}}
	var err error
	if f.copies, err = f.unreached(ctx, all); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(c *Class) bool { return c.ID == UnusedPackages }); i >= 0 {
		f.parts = f.findParts(all[i])
		if f.debs, err = f.findDebs(ctx, all[i]); err != nil {
			return nil, err
		}
	}
	if err := f.readOwn(ctx, all); err != nil {
		return nil, err
	}
	if f.lone, err = f.abandoned(ctx); err != nil {
		return nil, err
	}
	f.living, f.resources = f.inUse(all), f.unneededResources()
	commands := append(f.commands(), f.own.lines...)
	var unused []Package
	for _, c := range all {
		if c.ID == UnusedPackages && f.parts == nil && f.debs == nil {
			continue
		}
		if p := f.needs(c); p != "" {
			r.Kept = append(r.Kept, Kept{c.ID, c.Title, p})
			continue
		}
		if f.own.many && (len(c.Users) > 0 || c.ID == Installers) {
			r.Kept = append(r.Kept, Kept{c.ID, c.Title, fmt.Sprintf("the image, whose files name more than %d paths and commands,", maxFacts)})
			continue
		}
		c, kept := f.withoutUsed(c, commands)
		r.Kept = append(r.Kept, kept...)
		if c != nil && c.ID == UnusedPackages {
			var by []string
			if unused, by, err = f.findUnused(ctx); err != nil {
				return nil, err
			}
			for _, file := range by {
				r.Kept = append(r.Kept, Kept{c.ID, c.Title, file})
			}
		}
		if c != nil {
			f.classes = append(f.classes, c)
		}
	}
	groups := make([]Group, len(f.classes))
	families, stays := map[string]*Family{}, map[string]*Family{}
	last := map[string]int{} // the topmost layer of a digest, which alone counts
	for i := range f.FS.Layers {
		last[f.FS.Layers[i].Digest] = i
	}
	for i, l := range f.Layers {
		info := f.FS.Layers[i]
		out := Layer{Digest: info.Digest, CreatedBy: info.CreatedBy, Pull: info.Size}
		goes := map[inode]int{} // the class of each file; -1 for one that stays
		var first []*layers.Entry
		for _, e := range l.Entries {
			if e.Type != layers.Regular || e.Size == 0 {
				continue
			}
			id := inode{i, e.Inode}
			class := f.classOf(e, i)
			if old, ok := goes[id]; !ok {
				first, goes[id] = append(first, e), class
				out.Bytes += e.Size
			} else if old >= 0 {
				goes[id] = worse(old, class)
			}
		}
		r.Layers = append(r.Layers, out)
		if info.Digest != "" && last[info.Digest] != i {
			continue
		}
		r.Pull, r.Bytes = r.Pull+out.Pull, r.Bytes+out.Bytes
		repeated := slices.ContainsFunc(f.FS.Layers[:i], func(o source.Layer) bool { return o.Digest == info.Digest && o.Digest != "" })
		for _, e := range first {
			class := goes[inode{i, e.Inode}]
			pull := share(out.Pull, e.Size, out.Bytes)
			title := f.family(e)
			if class != 0 && title != "" {
				count(families, title, e.Size, pull)
			}
			file := File{Layer: i, Bytes: e.Size, Pull: pull, Of: f.copies[e.Path]}
			if class < 0 {
				class = f.class(GPUCode)
				file.Bytes = f.unusable(e)
				file.Pull = share(out.Pull, file.Bytes, out.Bytes)
				count(stays, cmp.Or(title, placeOf(e.Path)), e.Size-file.Bytes, pull-file.Pull)
			}
			if class >= 0 && file.Bytes > 0 && !(repeated && class == 0) {
				file.Path = "/" + e.Path
				if f.classes[class].ID == Replaced {
					file.By, file.Again = f.hides(e.Path, i)
				}
				groups[class].Files = append(groups[class].Files, file)
			}
		}
	}
	for i := range groups {
		if g := &groups[i]; len(g.Files) > 0 {
			g.Class = f.classes[i]
			g.sum()
			if g.ID == UnusedPackages {
				g.Packages, g.Rest = f.sums(unused, g.Files), f.rest()
			}
			r.Groups = append(r.Groups, *g)
		}
	}
	r.Families, r.Stays = largest(families), largest(stays)
	return r, f.Evidence.Config.Spent()
}

// worse returns the less sure of the classes of two names of a file, or -1 if one stays.
func worse(a, b int) int {
	if b < 0 {
		return b
	}
	return max(a, b)
}

// share returns the part of pull that size is of all.
func share(pull, size, all int64) int64 {
	return int64(float64(pull) * (float64(size) / float64(max(all, 1))))
}

func (g *Group) sum() {
	slices.SortFunc(g.Files, func(a, b File) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Layer, b.Layer))
	})
	for _, f := range g.Files {
		g.Bytes, g.Pull = g.Bytes+f.Bytes, g.Pull+f.Pull
	}
}

// family returns the title of the family of a GPU library, or "".
func (f *finder) family(e *layers.Entry) string {
	if e.Object == nil {
		return ""
	}
	if fam := f.Packs.Family(cmp.Or(e.Object.Soname, path.Base(e.Path))); fam != nil {
		return fam.Title
	}
	return ""
}

// placeOf returns the first three directories of a path without a leading slash.
func placeOf(p string) string {
	parts := strings.SplitN(path.Dir(p), "/", 4)
	return "/" + strings.TrimPrefix(path.Join(parts[:min(3, len(parts))]...), ".")
}

// count adds a file to the bytes of a family.
func count(families map[string]*Family, title string, bytes, pull int64) {
	if families[title] == nil {
		families[title] = &Family{Title: title}
	}
	sum := families[title]
	sum.Files, sum.Bytes, sum.Pull = sum.Files+1, sum.Bytes+bytes, sum.Pull+pull
}

// largest returns families, the largest first.
func largest(families map[string]*Family) []Family {
	list := make([]Family, 0, len(families))
	for _, f := range families {
		list = append(list, *f)
	}
	slices.SortFunc(list, func(a, b Family) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Title, b.Title)) })
	return list
}

// needs returns the distribution for which the image needs the files of a class, or "".
func (f *finder) needs(c *Class) string {
	if len(c.Unless) == 0 {
		return ""
	}
	for _, p := range f.Evidence.Packages.Inventory().Packages {
		if slices.ContainsFunc(c.Unless, func(pattern string) bool { return packs.Match(pattern, p.Name) }) {
			return p.Name
		}
	}
	return ""
}

// class returns the number of the class with an ID, or -1.
func (f *finder) class(id string) int {
	return slices.IndexFunc(f.classes, func(c *Class) bool { return c.ID == id })
}

// classOf returns the number of the first class that a name of a layer belongs to, or -1.
func (f *finder) classOf(e *layers.Entry, layer int) int {
	for p := e.Path; p != "."; p = path.Dir(p) {
		if f.hard[p] {
			return -1
		}
	}
	if _, now, ok := f.FS.Lstat("/" + e.Path); !ok || now != layer {
		return 0
	}
	for p := e.Path; p != "."; p = path.Dir(p) {
		if f.kept[p] {
			return -1
		}
	}
	if _, ok := f.unused[e.Path]; ok {
		return f.class(UnusedPackages)
	}
	if f.used["/"+e.Path] {
		return -1
	}
	return slices.IndexFunc(f.classes, func(c *Class) bool {
		switch c.ID {
		case AbandonedCopies:
			return f.lone[e.Path]
		case Copies:
			return f.copies[e.Path] != ""
		case Bytecode:
			return f.hasSource(e.Path)
		case BuilderResources:
			return f.resources[e.Path]
		default:
			return c.has(e.Path) && !f.living.has(c, e.Path)
		}
	})
}

// hides returns the first layer above one that hides its path, and whether that has something at the path itself.
func (f *finder) hides(p string, layer int) (by int, again bool) {
	for i := layer + 1; i < len(f.Layers); i++ {
		l := f.Layers[i]
		if entryOf(l, p) != nil {
			return i, true
		}
		for dir := p; dir != "."; dir = path.Dir(dir) {
			e := entryOf(l, dir)
			if e != nil && !e.IsDir() || f.markers(i)[dir] || dir != p && f.markers(i)[dir+"/"] {
				return i, false
			}
		}
	}
	return 0, false
}

// markers returns the paths that a layer removes, and its opaque directories with a slash.
func (f *finder) markers(layer int) map[string]bool {
	if set, ok := f.marked[layer]; ok {
		return set
	}
	set := map[string]bool{}
	for _, p := range f.Layers[layer].Whiteouts {
		set[p] = true
	}
	for _, p := range f.Layers[layer].Opaque {
		set[p+"/"] = true
	}
	f.marked[layer] = set
	return set
}

func entryOf(l *layers.Layer, p string) *layers.Entry {
	i, ok := slices.BinarySearchFunc(l.Entries, p, func(e *layers.Entry, p string) int { return strings.Compare(e.Path, p) })
	if !ok {
		return nil
	}
	return l.Entries[i]
}

// hasSource reports whether a path is bytecode whose source is in the directory above: Python
// compiles it again (PEP 3147).
func (f *finder) hasSource(p string) bool {
	dir, base := path.Split(p)
	module, rest, ok := strings.Cut(base, ".")
	if !ok || path.Base(dir) != "__pycache__" || !strings.HasSuffix(rest, ".pyc") {
		return false
	}
	e, _, ok := f.FS.Lookup("/" + path.Join(path.Dir(path.Clean(dir)), module+".py"))
	return ok && e.Type == layers.Regular
}
