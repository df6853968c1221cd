package replay

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// takeStock reads what is installed, and what the environment says of it.
func (pa *Packages) takeStock() error {
	if pa.inv = pa.img.Inventory; pa.inv != nil {
		return nil
	}
	var err error
	if pa.inv, err = inventory.Read(pa.img.FS); err != nil {
		return fmt.Errorf("looking for what is installed: %w", err)
	}
	pa.inv.Components = append(inventory.FromEnv(pa.config.Env().Vars), pa.inv.Components...)
	return nil
}

// Getenv returns the value of a variable of the image's config, and whether it is set; of
// several with one name, the last.
func (co *Config) Getenv(name string) (string, bool) {
	vars := co.Env().Vars
	for i := len(vars) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(vars[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// GpuUsers returns the files that make an image one for a GPU: those that ask for a library
// of CUDA or of the driver and are not CUDA's own, and packages for a GPU, whose files
// ask at run time.
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

// IsGPUWheel reports whether a wheel is there for a GPU only.
func (pa *Packages) IsGPUWheel(name string) bool { return packs.IsKnown(pa.packs.GPUWheels, name) }

// marker returns the environment in which the markers of requirements are evaluated.
func (pa *Packages) marker(p *inventory.Python) inventory.MarkerEnv {
	env := inventory.MarkerEnv{
		"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
		"implementation_name": "cpython", "platform_python_implementation": "CPython",
	}
	for arch, m := range Machines {
		if m.M == pa.files.Machine && m.c == pa.files.Class {
			env["platform_machine"] = cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}[arch], arch)
		}
	}
	if p.Version != "" {
		env["python_version"] = p.Version
	}
	return env
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

// IsIn reports whether a path is a directory or below it.
func IsIn(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// HasElement reports whether a directory or one above it has a name.
func HasElement(p, name string) bool { return slices.Contains(strings.Split(path.Clean(p), "/"), name) }
