package replay

import (
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Image is what a rule sees of an image.
type Image struct {
	FS *layers.FS
	// Config is nil for a directory.
	Config *v1.ConfigFile
	// Inventory, when it is known, is not read again: that of a Result for the same
	// files.
	Inventory *inventory.Inventory
}

// File is a path of the image and the layer that brought it.
type File struct {
	Path  string    `json:"path"`
	Layer *LayerRef `json:"layer,omitempty"`
}

// Removed is a file that one layer brought and another deleted.
type Removed struct {
	File
	By *LayerRef `json:"by"`
}

// LayerRef names a layer.
type LayerRef struct {
	Index     int    `json:"index"` // from 1, the lowest
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
}

// File describes a path of the image.
func (img *Image) File(path string) File {
	_, layer, ok := img.FS.Lookup(path)
	if !ok {
		return File{Path: path}
	}
	return File{Path: path, Layer: img.LayerRef(layer)}
}

// FilesOf describes paths, sorted.
func (img *Image) FilesOf(paths []string) []File {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	var list []File
	for _, p := range paths {
		list = append(list, img.File(p))
	}
	return list
}

// LayerRef describes the layer with the index i, counted from 0; nil where
// layers are of no interest (a directory).
func (img *Image) LayerRef(i int) *LayerRef {
	infos := img.FS.Layers
	if i < 0 || i >= len(infos) || len(infos) == 1 && infos[0].Digest == "" {
		return nil
	}
	return &LayerRef{Index: i + 1, Digest: infos[i].Digest, CreatedBy: infos[i].CreatedBy}
}

// Removed are the files of a name that a layer has deleted.
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

// MayBeSkipped reports whether the image may have a file that was not looked at: the file
// or a directory above it was skipped, or so many were skipped that not all are listed.
func (img *Image) MayBeSkipped(file string) bool {
	return slices.ContainsFunc(img.FS.Skipped, func(s layers.LayerSkip) bool {
		return s.Path == "" || IsIn(file, path.Join("/", s.Path))
	})
}

func (img *Image) IsFile(p string) bool {
	e, _, ok := img.FS.Lookup(p)
	return ok && e.Type == layers.Regular
}

func (img *Image) SameDir(a, b string) bool { return RealPath(img.FS, a) == RealPath(img.FS, b) }
