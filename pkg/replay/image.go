package replay

import (
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Image is an image to be replayed: its files and its configuration.
type Image struct {
	FS *layers.FS
	// Config is nil for a directory.
	Config *v1.ConfigFile
	// Inventory is that of an earlier result for the same files. If it is nil, Run reads it.
	Inventory *inventory.Inventory
	// Parsed are the Python sources that replays of the image, with or without changes,
	// have parsed. If it is nil, Run sets it.
	Parsed *pyimport.Parsed
	// Machines are the GPUs and drivers that the image is to run on, if they are known.
	Machines []targets.Machine
}

// File is a path of the image, and the layer that brought it.
type File struct {
	Path  string    `json:"path"`
	Layer *LayerRef `json:"layer,omitempty"`
}

// Removed is a file of one layer that another layer deleted.
type Removed struct {
	File
	By *LayerRef `json:"by"`
}

// LayerRef identifies a layer.
type LayerRef struct {
	Index     int    `json:"index"` // from 1, the lowest
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
}

// File returns the path with the layer that brought the file, or without one if there is
// no such file.
func (img *Image) File(path string) File {
	_, layer, ok := img.FS.Lookup(path)
	if !ok {
		return File{Path: path}
	}
	return File{Path: path, Layer: img.LayerRef(layer)}
}

// FilesOf returns [Image.File] of each path, sorted and without duplicates.
func (img *Image) FilesOf(paths []string) []File {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	var list []File
	for _, p := range paths {
		list = append(list, img.File(p))
	}
	return list
}

// LayerRef returns the layer with index i, counted from 0. It returns nil if i is out of
// range, and for a directory, which has no layers.
func (img *Image) LayerRef(i int) *LayerRef {
	infos := img.FS.Layers
	if i < 0 || i >= len(infos) || len(infos) == 1 && infos[0].Digest == "" {
		return nil
	}
	return &LayerRef{Index: i + 1, Digest: infos[i].Digest, CreatedBy: infos[i].CreatedBy}
}

// mentions reports whether an instruction of the image's build has a word that matches a pattern of
// names of distributions.
func (img *Image) mentions(names []string) bool {
	for _, info := range img.FS.Layers {
		for word := range strings.FieldsFuncSeq(info.CreatedBy, func(c rune) bool { return strings.ContainsRune(" \t\n'\"=<>~!;&|[](),", c) }) {
			if packs.MatchAny(names, packs.Normal(word)) {
				return true
			}
		}
	}
	return false
}

// Removed returns the deleted files called name, or name followed by a dot and more.
func (img *Image) Removed(name string) []Removed {
	var list []Removed
	for _, p := range img.FS.RemovedPaths() {
		if path.Base(p) != path.Base(name) && !strings.HasPrefix(path.Base(p), path.Base(name)+".") {
			continue
		}
		r, _ := img.FS.Removed(p)
		list = append(list, Removed{File{"/" + p, img.LayerRef(r.Had)}, img.LayerRef(r.By)})
	}
	return list
}

// MayBeSkipped reports whether the image may have a file that was not indexed: the file
// or a directory above it was skipped, or so many files were that the list is not
// complete.
func (img *Image) MayBeSkipped(file string) bool {
	return slices.ContainsFunc(img.FS.Skipped, func(s layers.LayerSkip) bool {
		return s.Path == "" || IsIn(file, path.Join("/", s.Path))
	})
}

// IsFile reports whether p leads to a regular file.
func (img *Image) IsFile(p string) bool {
	e, _, ok := img.FS.Lookup(p)
	return ok && e.Type == layers.Regular
}

// SameDir reports whether two paths lead to the same place.
func (img *Image) SameDir(a, b string) bool { return RealPath(img.FS, a) == RealPath(img.FS, b) }
