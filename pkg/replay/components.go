package replay

import (
	"debug/elf"
	"path"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Config is the image's configuration: its environment and the program that it starts.
type Config struct {
	img   *Image
	packs *packs.Packs
	work  elfdeps.Work // of all processes
}

// NewConfig returns the configuration of an image.
func NewConfig(img *Image, set *packs.Packs) *Config { return &Config{img: img, packs: set} }

// Files are the image's files by their names, and its ELF files by SONAME as well.
type Files struct {
	img   *Image
	packs *packs.Packs

	Machine  elf.Machine // of the image
	Class    elf.Class
	Objects  []*Object           // dynamic ELF files of that machine, by path
	ByPath   map[string]*Object  // by real path
	Named    map[string][]string // file name → paths that have it
	Sonames  map[string][]string // SONAME → paths of files with another name
	BySoname map[string][]*Object

	Count, ELF int // files, and ELF files, of the image
	Static     int // of ELF

	globs sync.Map // pattern → paths that fit it, see glob
}

// newFiles goes through the image once.
func newFiles(img *Image, set *packs.Packs) *Files {
	fi := &Files{
		img: img, packs: set, ByPath: map[string]*Object{}, Named: map[string][]string{},
		Sonames: map[string][]string{}, BySoname: map[string][]*Object{},
	}
	fi.Machine, fi.Class = fi.architecture()
	for e := range img.FS.All() {
		fi.Count++
		if e.Type == layers.Symlink {
			fi.Named[path.Base(e.Path)] = append(fi.Named[path.Base(e.Path)], "/"+e.Path)
		}
		if e.Object != nil {
			fi.addELF(e)
		}
	}
	return fi
}

func (fi *Files) addELF(e *layers.Entry) {
	o, abs := e.Object, "/"+e.Path
	fi.ELF++
	if o.Fault == "" && len(o.Unread) == 0 && (!o.Dynamic || isStatic(o)) {
		fi.Static++
	}
	if o.Machine != fi.Machine || o.Class() != fi.Class {
		return
	}
	fi.Named[path.Base(abs)] = append(fi.Named[path.Base(abs)], abs)
	if s := o.Soname; s != "" && s != path.Base(abs) {
		fi.Sonames[s] = append(fi.Sonames[s], abs)
	}
	if o.Dynamic && !isStatic(o) {
		object := &Object{Path: abs, ELF: o}
		fi.Objects = append(fi.Objects, object)
		fi.ByPath[abs] = object
		fi.BySoname[o.Soname] = append(fi.BySoname[o.Soname], object)
	}
}

// Loaders are the dynamic loaders of the image, without and with the driver that a
// container runtime mounts.
type Loaders struct {
	img    *Image
	packs  *packs.Packs
	files  *Files
	config *Config

	All     map[string]*elfdeps.Loader // by path of the interpreter
	Primary *elfdeps.Loader            // of the image's programs; nil if there is none

	hosts map[*elfdeps.Loader]*elfdeps.Loader // with the driver

	driverFirst   sync.Once // see driverComesFirst
	driverIsFirst bool
}

// newLoaders opens the image's loaders, and gives each object its own.
func newLoaders(files *Files, config *Config) *Loaders {
	lo := &Loaders{
		img: files.img, packs: files.packs, files: files, config: config,
		All: map[string]*elfdeps.Loader{}, hosts: map[*elfdeps.Loader]*elfdeps.Loader{},
	}
	lo.Primary = lo.findPrimary()
	for _, o := range files.Objects {
		o.Loader = lo.loaderOf(o.ELF)
	}
	return lo
}

// Packages are the image's packages and Pythons, and the versions that they tell of
// libraries.
type Packages struct {
	img     *Image
	packs   *packs.Packs
	files   *Files
	config  *Config
	loaders *Loaders
	inv     *inventory.Inventory

	dists        map[string][]Dist // by directory
	changedFiles map[string]bool   // wheels' files of another size than their RECORD says; nil: not looked
	chosen       []Chosen          // what choose has found; nil before
}
