// Package size finds the bytes of an image that its containers can do without: files that a
// later layer hides, and those of the classes in rules/size. It estimates how many bytes
// of a pull they are.
//
// It works on the indexes of the layers and on the file system that they make. It knows no
// registry, and not which files a process opens: a class says what it assumes.
package size

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Class is a kind of files that can go, of rules/size.
type Class struct {
	ID      string   `yaml:"id" json:"id"`
	Title   string   `yaml:"title" json:"title"`
	Why     string   `yaml:"why" json:"why"`                   // why no program needs them
	Assumes string   `yaml:"assumes" json:"assumes,omitempty"` // the condition of Why; empty if there is none
	Fix     string   `yaml:"fix" json:"fix"`                   // how a Dockerfile leaves them out
	Source  string   `yaml:"source" json:"source"`             // the page that says so
	Paths   []string `yaml:"paths" json:"-"`                   // the patterns; none for hidden files
	match   []*regexp.Regexp
}

// LoadClasses reads and checks size/classes.yaml of the packs. The first class, which has no
// patterns, is that of hidden files.
func LoadClasses(fsys fs.FS) ([]*Class, error) {
	b, err := fs.ReadFile(fsys, "size/classes.yaml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Classes []*Class `yaml:"classes"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("size/classes.yaml: %w", err)
	}
	for i, c := range doc.Classes {
		if c.ID == "" || c.Title == "" || c.Why == "" || c.Fix == "" || c.Source == "" || (i == 0) != (len(c.Paths) == 0) {
			return nil, fmt.Errorf("size/classes.yaml: class %d (%s) lacks a text, or has patterns if it is the first, or none otherwise", i+1, c.ID)
		}
		for _, p := range c.Paths {
			c.match = append(c.match, pattern(p))
		}
	}
	return doc.Classes, nil
}

// pattern returns the expression for a pattern of paths.
func pattern(p string) *regexp.Regexp {
	q := regexp.QuoteMeta(p)
	q = strings.ReplaceAll(q, `/\*\*/`, `/(?:.*/)?`)
	q = strings.ReplaceAll(q, `\*\*`, `.*`)
	q = strings.ReplaceAll(q, `\*`, `[^/]*`)
	return regexp.MustCompile(`(?s)\A` + q + `\z`)
}

func (c *Class) has(p string) bool {
	return slices.ContainsFunc(c.match, func(r *regexp.Regexp) bool { return r.MatchString(p) })
}

// File is a file that can go.
type File struct {
	Path  string `json:"path"`  // with a leading slash
	Layer int    `json:"layer"` // from 0
	Bytes int64  `json:"bytes"` // unpacked
	// Pull estimates the file's part of the compressed layer, in bytes; 0 if the size of
	// the layer is not known.
	Pull int64 `json:"pull"`
}

// Group is the files of one class, the largest first.
type Group struct {
	*Class
	Bytes int64  `json:"bytes"` // unpacked
	Pull  int64  `json:"pull"`  // estimated
	Files []File `json:"files"`
}

// Layer is a layer of the image.
type Layer struct {
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"createdBy,omitempty"` // the instruction
	Pull      int64  `json:"pull"`                // compressed bytes; 0 if not known
	Bytes     int64  `json:"bytes"`               // unpacked bytes of its files
}

// Result says which bytes of an image can go.
type Result struct {
	Pull   int64   `json:"pull"`  // compressed bytes of all layers; each blob counts once
	Bytes  int64   `json:"bytes"` // unpacked bytes of all layers' files
	Layers []Layer `json:"layers"`
	Groups []Group `json:"groups"` // in the order of the classes, without empty ones
	// Unread lists the parts of layers that could not be read: of these nothing is known.
	Unread []string `json:"unread"`
}

// inode is a file's identity in an image: hard links of one layer share it.
type inode struct{ layer, number int }

// Find returns the bytes of an image that can go. read are the indexes of its layers, the
// lowest first, and fsys is their merger. A file counts only if each of its names can go, no
// hard link of another layer leads to it, and no symbolic link that stays does.
func Find(read []*layers.Layer, fsys *layers.FS, classes []*Class) *Result {
	r := &Result{Layers: []Layer{}, Groups: []Group{}, Unread: []string{}}
	for _, s := range fsys.Skipped {
		r.Unread = append(r.Unread, fmt.Sprintf("layer %d: %s: %s", s.Layer, s.Path, s.Why))
	}
	groups := make([]Group, len(classes))
	kept := linked(read, fsys)
	last := map[string]int{} // the topmost layer of a digest, which alone counts
	for i := range fsys.Layers {
		last[fsys.Layers[i].Digest] = i
	}
	for i, l := range read {
		info := fsys.Layers[i]
		out := Layer{Digest: info.Digest, CreatedBy: info.CreatedBy, Pull: info.Size}
		goes := map[inode]int{} // the class of each file; -1 for one that stays
		first := map[inode]*layers.Entry{}
		for _, e := range l.Entries {
			if e.Type != layers.Regular || e.Size == 0 {
				continue
			}
			id := inode{i, e.Inode}
			class := classOf(e, i, fsys, classes, kept)
			if first[id] == nil {
				first[id], goes[id] = e, class
				out.Bytes += e.Size
			} else if goes[id] >= 0 {
				goes[id] = worse(goes[id], class)
			}
		}
		r.Layers = append(r.Layers, out)
		if info.Digest != "" && last[info.Digest] != i {
			continue
		}
		r.Pull, r.Bytes = r.Pull+out.Pull, r.Bytes+out.Bytes
		repeated := slices.ContainsFunc(fsys.Layers[:i], func(o source.Layer) bool { return o.Digest == info.Digest && o.Digest != "" })
		for id, e := range first {
			if class := goes[id]; class >= 0 && !(repeated && class == 0) {
				g := &groups[class]
				g.Files = append(g.Files, File{"/" + e.Path, i, e.Size, share(out.Pull, e.Size, out.Bytes)})
			}
		}
	}
	for i := range groups {
		if g := &groups[i]; len(g.Files) > 0 {
			g.Class = classes[i]
			g.sum()
			r.Groups = append(r.Groups, *g)
		}
	}
	return r
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

// classOf returns the number of the first class that a name of a layer belongs to, or -1.
func classOf(e *layers.Entry, layer int, fsys *layers.FS, classes []*Class, kept map[string]bool) int {
	for p := e.Path; p != "."; p = path.Dir(p) {
		if kept[p] {
			return -1
		}
	}
	if _, now, ok := fsys.Lstat("/" + e.Path); !ok || now != layer {
		return 0
	}
	return slices.IndexFunc(classes, func(c *Class) bool { return c.has(e.Path) })
}

// linked returns the paths that hard links of other layers and the image's symbolic links from
// other directories lead to. CUDA's own links, which go with its files or name its
// directory, do not make them needed.
func linked(read []*layers.Layer, fsys *layers.FS) map[string]bool {
	kept := map[string]bool{}
	for _, l := range read {
		for _, e := range l.Entries {
			if e.Type == layers.HardLink {
				kept[e.Link] = true
			}
		}
	}
	for e := range fsys.All() {
		if e.Type != layers.Symlink || strings.HasPrefix(e.Path, "usr/local/cuda") || strings.HasPrefix(e.Path, "etc/alternatives/") {
			continue
		}
		if to, _, ok := fsys.Lookup("/" + e.Path); ok && to.Path != "" {
			kept[to.Path] = true
		}
	}
	return kept
}
