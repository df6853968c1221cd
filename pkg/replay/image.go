package replay

import (
	"cmp"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
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

// maxInstalls bounds the frameworks, of which each is asked for each file whether it
// loads it; an image with a dozen environments has fifty. A variable, so that tests
// can reach it.
var maxInstalls = 512

// maxSeen bounds the packages of all environments, of which each is looked at with
// all that it sees: thousands may see the packages of one. A variable, so that tests
// can reach it.
var maxSeen = 1 << 20

// seesMore reports whether the environments see more packages than are looked at.
func (pa *Packages) seesMore() bool {
	n := 0
	for _, wheels := range pa.Environments() {
		if n += len(wheels); n > maxSeen {
			return true
		}
	}
	return false
}

// Spent is why the image cannot be judged: it asks for more than is done.
func (co *Config) Spent() error { return cmp.Or(co.work.Err(), co.img.FS.Err()) }

// LayerRef describes the layer with the index i, counted from 0; nil where
// layers are of no interest (a directory).
func (img *Image) LayerRef(i int) *LayerRef {
	infos := img.FS.Layers
	if i < 0 || i >= len(infos) || len(infos) == 1 && infos[0].Digest == "" {
		return nil
	}
	return &LayerRef{Index: i + 1, Digest: infos[i].Digest, CreatedBy: infos[i].CreatedBy}
}

// File describes a path of the image.
func (img *Image) File(path string) File {
	_, layer, ok := img.FS.Lookup(path)
	if !ok {
		return File{Path: path}
	}
	return File{Path: path, Layer: img.LayerRef(layer)}
}

// Env is the environment of the image's processes.
func (co *Config) Env() elfdeps.Env {
	if co.img.Config == nil {
		return elfdeps.Env{Work: &co.work}
	}
	return elfdeps.Env{Vars: co.img.Config.Config.Env, Cwd: co.img.Config.Config.WorkingDir, Work: &co.work}
}
