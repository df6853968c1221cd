package replay

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Packages are the packages and Pythons of the image, and the releases of libraries that
// they show.
type Packages struct {
	img     *Image
	packs   *packs.Packs
	files   *Files
	config  *Config
	loaders *Loaders
	inv     *inventory.Inventory

	// Caches, which are filled by the first call.
	dists        sync.Map // directory → []Dist
	last         lastSeen
	changedFiles func() map[string]bool
	chosen       func() []Chosen
	cuda         func() string
}

// newPackages reads the inventory of an image, unless img has one.
func newPackages(img *Image, set *packs.Packs, loaders *Loaders) (*Packages, error) {
	pa := &Packages{img: img, packs: set, files: loaders.files, config: loaders.config, loaders: loaders, inv: img.Inventory}
	pa.changedFiles, pa.chosen, pa.cuda = sync.OnceValue(pa.findChanged), sync.OnceValue(pa.choose), sync.OnceValue(func() string { return cudaOf(set, loaders.files) })
	if pa.inv != nil {
		return pa, nil
	}
	inv, err := inventory.Read(img.FS)
	if err != nil {
		return nil, fmt.Errorf("looking for what is installed: %w", err)
	}
	inv.Components = append(inventory.FromEnv(pa.config.Env().Vars), inv.Components...)
	pa.inv = inv
	return pa, nil
}

// Inventory returns the packages of the image as they are installed.
func (pa *Packages) Inventory() *inventory.Inventory { return pa.inv }

// GpuUsers returns the files that show that an image is for a GPU: files that need a
// library of CUDA or of the driver and are not CUDA's own, and the wheels for a GPU,
// whose files open libraries by name.
func (pa *Packages) GpuUsers() []string {
	var list []string
	for _, o := range pa.files.Objects {
		if pa.packs.Family(o.Path) != nil || pa.packs.FromDriver(o.Path) {
			continue
		}
		if pa.files.IsRoot(o) || slices.ContainsFunc(o.ELF.Needed, pa.packs.FromDriver) {
			list = append(list, o.Path)
		}
	}
	for _, p := range pa.inv.Packages {
		if p.Kind == inventory.Wheel && pa.IsGPUWheel(p.Name) {
			list = append(list, p.Path)
		}
	}
	return list
}

// IsGPUWheel reports whether a wheel is of use on a GPU only.
func (pa *Packages) IsGPUWheel(name string) bool { return pa.packs.GPUWheels.Has(name) }

// OwnerOf returns the wheel that owns a file, by its RECORD, else by the file's
// directory, with its environment and the wheels of that. It returns nil if no wheel owns
// the file.
func (pa *Packages) OwnerOf(file string) (*inventory.Python, *inventory.Package, WheelSet) {
	for _, p := range pa.inv.Pythons {
		for _, site := range p.Sites {
			if !IsIn(file, site) {
				continue
			}
			wheels, sorted := pa.last.wheelsOf(pa.inv, p)
			for _, pkg := range sorted {
				if _, ok := pkg.Files[file]; ok {
					return p, pkg, wheels
				}
			}
			top, _, _ := strings.Cut(strings.TrimPrefix(file, site+"/"), "/")
			if pkg := onlyWith(wheels, strings.TrimSuffix(top, ".py")); pkg != nil {
				return p, pkg, wheels
			}
			for _, name := range []string{inventory.Normalize(top), inventory.Normalize(top) + "-gpu"} {
				if pkg := wheels[name]; pkg != nil {
					return p, pkg, wheels
				}
			}
		}
	}
	return nil, nil, nil
}

// seen are the wheels that an environment sees, also in their order.
type seen struct {
	by     *inventory.Python
	wheels WheelSet
	sorted []*inventory.Package
}

// lastSeen remembers what one environment sees: its files come after one another.
type lastSeen struct{ atomic.Pointer[seen] }

// wheelsOf returns the wheels that an environment sees. The caller does not change them.
func (l *lastSeen) wheelsOf(inv *inventory.Inventory, p *inventory.Python) (WheelSet, []*inventory.Package) {
	s := l.Load()
	if s == nil || s.by != p {
		s = &seen{by: p, wheels: inv.Wheels(p)}
		for _, pkg := range s.wheels.Sorted() {
			s.sorted = append(s.sorted, pkg)
		}
		l.Store(s)
	}
	return s.wheels, s.sorted
}

// onlyWith returns the wheel that has a top-level module, or nil if none or several have it.
func onlyWith(wheels WheelSet, module string) (of *inventory.Package) {
	for _, pkg := range wheels {
		if slices.Contains(pkg.Modules(), module) {
			if of != nil {
				return nil
			}
			of = pkg
		}
	}
	return of
}

// BuildOf returns what a package of an environment says about its own build (version.py),
// or nil.
func (pa *Packages) BuildOf(p *inventory.Python, name string) *inventory.Build {
	for _, site := range p.Sites {
		for _, b := range pa.inv.Builds {
			if b.Name == name && b.Dir == site {
				return b
			}
		}
	}
	return nil
}

// buildOfInstall returns what a framework says about its own build, or nil.
func (pa *Packages) buildOfInstall(in *Install) *inventory.Build {
	for _, b := range pa.inv.Builds {
		if b.Dir == in.Site && slices.Contains(in.Dist, b.Name) {
			return b
		}
	}
	return nil
}

// Version returns the version of a package, with the local part (2.6.0+cu124) if only the
// package's own build has it.
func (pa *Packages) Version(p *inventory.Python, pkg *inventory.Package) string {
	if b := pa.BuildOf(p, pkg.Name); b != nil && packs.Numbers(b.Version, 3) == packs.Numbers(pkg.Version, 3) {
		return b.Version
	}
	return pkg.Version
}
