package lint

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// check is a rule that needs no replay: it looks at what is installed, at the
// image's config, and at names of files.
type check struct {
	rule string // of its findings
	find func(*world) []Finding
}

// checks has the checks in their order.
var checks = []check{
	{"ld-path-missing", (*world).ldPathMissing},
	{"ld-path-file", (*world).ldPathFile},
	{"ld-path-empty", (*world).ldPathEmpty},
	{"preload-ignored", (*world).preloadsIgnored},
	{"stubs-on-path", (*world).stubsOnPath},
	{"compat-on-path", (*world).compatOnPath},
	{"driver-path-lost", (*world).driverPathLost},
	{"driver-in-image", (*world).driverInImage},
	{"gpu-hidden", (*world).gpuHidden},
	{"devices-hidden", (*world).devicesHidden},
	{"driver-capabilities", (*world).driverCapabilities},
	{"require-cuda", (*world).requireCUDA},
	{"conda-activate-only", (*world).condaActivateOnly},
	{"shell-only-path", (*world).shellOnly},
	{"glibc-on-musl", (*world).glibcOnMusl},
	{"wrong-architecture", (*world).wrongArchitecture},
	{"wrong-python", (*world).wrongPythons},
	{"torch-pair", (*world).torchPairs},
	{"requirement-unmet", (*world).requirementsUnmet},
	{"cudnn-version", (*world).cudnnVersions},
	{"cuda-major-absent", (*world).cudaMajors},
	{"cuda-differs", (*world).cudaDiffers},
	{"cpu-build", (*world).cpuBuilds},
	{"feature-needs", (*world).unmetNeeds},
	{"build-not-there", (*world).choiceMissing},
	{"double-owner", (*world).doubleOwners},
	{"wheel-file-changed", (*world).wheelFilesChanged},
	{"stub-library", (*world).stubCopies},
	{"unusable-library", (*world).shortLibraries},
	{"module-lost", (*world).modulesLost},
	{"stdlib-module", (*world).stdlibModules},
	{"python-home", (*world).pythonHome},
}

// check returns the findings of the checks.
func (w *world) check() []Finding {
	var list []Finding
	for _, c := range checks {
		list = append(list, c.find(w)...)
	}
	return list
}

// fold adds the findings of the checks to those of the replay. Where a library
// is missing because the image has another major version of it, the check says
// why: that is one cause, and one finding.
func fold(list, more []Finding) []Finding {
	replayed := list
	for _, c := range more {
		i := slices.IndexFunc(replayed, func(f Finding) bool { return c.explains(&f) })
		if i < 0 {
			list = append(list, c)
			continue
		}
		list[i].Effects = append(list[i].Effects, Effect{Text: c.Message})
	}
	return list
}

// explains reports whether a check of the same installation says why a library of a
// family is missing.
func (f *Finding) explains(missing *Finding) bool {
	return f.Family != "" && missing.Family == f.Family && missing.Kind == Missing && missing.Severity != Note && sameSite(missing.NeededBy, f.NeededBy)
}

// sameSite reports whether files are in the directory of Python packages that
// the metadata of others is in: PACKAGES/NAME.dist-info/METADATA.
func sameSite(files, metadata []File) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		return slices.ContainsFunc(metadata, func(m File) bool { return isIn(f.Path, path.Dir(path.Dir(m.Path))) })
	})
}

// takeStock reads what is installed, and what the environment says of it.
func (w *world) takeStock() error {
	if w.inv = w.img.Inventory; w.inv != nil {
		return nil
	}
	var err error
	if w.inv, err = inventory.Read(w.img.FS); err != nil {
		return fmt.Errorf("looking for what is installed: %w", err)
	}
	w.inv.Components = append(inventory.FromEnv(w.env().Vars), w.inv.Components...)
	return nil
}

// getenv returns the value of a variable of the image's config, and whether it is set; of
// several with one name, the last.
func (w *world) getenv(name string) (string, bool) {
	vars := w.env().Vars
	for i := len(vars) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(vars[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// gpuUsers returns the files that make an image one for a GPU: those that ask for a library
// of CUDA or of the driver and are not CUDA's own, and packages for a GPU, whose files
// ask at run time.
func (w *world) gpuUsers() []string {
	var list []string
	for _, o := range w.objects {
		if w.packs.family(o.path) != nil || w.packs.fromDriver(o.path) {
			continue
		}
		if w.isRoot(o) || slices.ContainsFunc(o.elf.Needed, w.packs.fromDriver) {
			list = append(list, o.path)
		}
	}
	for _, p := range w.inv.Packages {
		if p.Kind == inventory.Wheel && w.isGPUWheel(p.Name) {
			list = append(list, p.Path)
		}
	}
	return list
}

// isGPUWheel reports whether a wheel is there for a GPU only.
func (w *world) isGPUWheel(name string) bool { return known(w.packs.GPUWheels, name) }

// marker returns the environment in which the markers of requirements are evaluated.
func (w *world) marker(p *inventory.Python) inventory.MarkerEnv {
	env := inventory.MarkerEnv{
		"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
		"implementation_name": "cpython", "platform_python_implementation": "CPython",
	}
	for arch, m := range machines {
		if m.m == w.machine && m.c == w.class {
			env["platform_machine"] = cmp.Or(map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}[arch], arch)
		}
	}
	if p.Version != "" {
		env["python_version"] = p.Version
	}
	return env
}

// filesOf describes paths, sorted.
func (w *world) filesOf(paths []string) []File {
	paths = slices.Compact(slices.Sorted(slices.Values(paths)))
	var list []File
	for _, p := range paths {
		list = append(list, w.file(p))
	}
	return list
}

// numbers returns the first n numbers of a version: 9.1 of 9.1.0.70.
func numbers(version string, n int) string {
	return parseRelease(version).First(n).String()
}

// isIn reports whether a path is a directory or below it.
func isIn(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// hasElement reports whether a directory or one above it has a name.
func hasElement(p, name string) bool { return slices.Contains(strings.Split(path.Clean(p), "/"), name) }
