package fix

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

// wheels are distributions that one command installs into a Python of the image.
type wheels struct {
	python       *inventory.Python
	requirements []string // "nvidia-cudnn-cu12==9.1.0.70", each once
	index        string   // the address of an index, or empty
	remove       []string // uninstalled before
	again        bool     // some are installed already, in that release
	deps         bool     // pip installs what they require as well
	find         string   // the address of a page with links to them, or empty
	here         bool     // their setup takes the build for what is installed
}

// wheelOf returns the wheel that has the library of a step in the directory of the step, in the
// release that the metadata of the image's packages says: that of a requirement, else that
// of the wheel which is installed there. It returns nil if there is no such wheel, or no
// Python that pip would install it for.
func (m *maker) wheelOf(s *Step) *wheels {
	lib := provide.LibraryOf(s.Library)
	if lib == nil || m.inventory == nil || otherCUDA(lib, s.Library) {
		return nil
	}
	p := m.pythonWith(lib, s.Path)
	if p == nil {
		return nil
	}
	there := m.inventory.Wheels(p)
	if f := s.found; f != nil {
		return foundWheel(f, p, there)
	}
	cuda, _ := m.wanted(s)
	for _, g := range m.groups {
		if f := g.finding; f == nil || !slices.ContainsFunc(g.steps, func(o Step) bool { return o.Library == s.Library && o.Path == s.Path }) {
			continue
		}
		for _, n := range g.finding.NeededBy {
			for _, pkg := range wheelsOf(m.inventory, n.Path) {
				r := exactly(pkg, lib, cuda)
				if r == nil {
					continue
				}
				if o := there[r.Name]; o != nil && o.Version != strings.TrimPrefix(r.Specifiers, "==") {
					return nil // pip would take the files of the other release away
				}
				return &wheels{python: p, requirements: []string{r.Name + r.Specifiers}, again: there[r.Name] != nil}
			}
		}
	}
	if pkg := only(there, lib, s.Path); pkg != nil && (cuda == "" || isWheelName(lib, cuda, pkg.Name)) {
		return &wheels{python: p, requirements: []string{pkg.Name + "==" + pkg.Version}, again: true}
	}
	return nil
}

// foundWheel returns the wheel of an index that a source has found, or nil if it is from elsewhere,
// or pip would take the files of another release away.
func foundWheel(f *provide.Found, p *inventory.Python, there map[string]*inventory.Package) *wheels {
	if f.Archive == nil || f.Archive.Wheel == "" || !plainWord(f.Archive.Wheel+f.Version) {
		return nil
	}
	old := there[f.Archive.Wheel]
	if old != nil && old.Version != f.Version {
		return nil
	}
	return &wheels{python: p, requirements: []string{f.Archive.Wheel + "==" + f.Version}, index: f.Archive.Index, again: old != nil}
}

// freeWheel returns the wheel that has the library of a step in the directory of the step, if no
// package says its release, or nil.
func (m *maker) freeWheel(s *Step) *wheels {
	lib := provide.LibraryOf(s.Library)
	if lib == nil || m.inventory == nil || s.found != nil {
		return nil
	}
	p := m.pythonWith(lib, s.Path)
	cuda, versions := m.wanted(s)
	names := lib.WheelNames(cuda)
	if p == nil || cuda == "" || len(names) != 1 {
		return nil
	}
	r := inventory.Requirement{Name: inventory.Normalize(names[0]), Specifiers: strings.Join(versions, ",")}
	if m.inventory.Wheels(p)[r.Name] != nil {
		return nil
	}
	return &wheels{python: p, requirements: []string{m.fitted(p, r)}}
}

// otherCUDA reports whether a name of a library of CUDA has a number that no CUDA with wheels has:
// libcudart.so.10.2.
func otherCUDA(lib *provide.Library, name string) bool {
	_, number, _ := strings.Cut(name, ".so.")
	return len(lib.CUDA) > 0 && number != "" && provide.CUDAOf([]string{name}) == ""
}

// wheelCUDA are the major versions of CUDA that NVIDIA has wheels for.
var wheelCUDA = []string{"11", "12", "13"}

// only returns the installed wheel that has a library, if it is the only one of them.
func only(there map[string]*inventory.Package, lib *provide.Library, dir string) *inventory.Package {
	var found *inventory.Package
	for _, pkg := range there {
		if !slices.ContainsFunc(wheelCUDA, func(cuda string) bool { return isWheelName(lib, cuda, pkg.Name) }) || !strings.HasPrefix(dir, pkg.Dir+"/") {
			continue
		}
		if found != nil {
			return nil
		}
		found = pkg
	}
	return found
}

// recorded returns the directories in which wheels have installed a library that is gone, sorted.
func (m *maker) recorded(library string) []string {
	var list []string
	if m.inventory == nil {
		return nil
	}
	for _, pkg := range m.inventory.Packages {
		for file := range pkg.Files {
			if path.Base(file) != library {
				continue
			}
			if _, _, there := m.base.FS.Lookup(file); !there && !slices.Contains(list, path.Dir(file)) {
				list = append(list, path.Dir(file))
			}
		}
	}
	slices.Sort(list)
	return list[:min(len(list), maxOfKind)]
}

// open returns the requirements that several releases meet.
func (w *wheels) open() (list []string) {
	for _, text := range w.requirements {
		if r, err := inventory.ParseRequirement(text); err != nil || !exact.MatchString(r.Specifiers) {
			list = append(list, text)
		}
	}
	return list
}

// exactly returns the requirement of one release of the wheel that has a library, or nil.
func exactly(pkg *inventory.Package, lib *provide.Library, cuda string) *inventory.Requirement {
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err == nil && isWheelName(lib, cuda, r.Name) && exact.MatchString(r.Specifiers) {
			return &r
		}
	}
	return nil
}

// exact matches a specifier of one release.
var exact = regexp.MustCompile(`^==[A-Za-z0-9.!+_-]+$`)

// pythonWith returns the Python for which pip installs wheels that have a library in a
// directory, or nil.
func (m *maker) pythonWith(lib *provide.Library, dir string) *inventory.Python {
	for _, d := range lib.Dirs {
		if site, ok := strings.CutSuffix(dir, "/"+d); ok {
			return m.pythonOf(site)
		}
	}
	return nil
}

// pythonOf returns the Python whose packages pip installs into a directory, or nil.
func (m *maker) pythonOf(site string) *inventory.Python {
	for _, p := range m.inventory.Pythons {
		if p.Interpreter != "" && len(p.Sites) > 0 && p.Sites[0] == site && plainWord(p.Interpreter) {
			return p
		}
	}
	return nil
}

// plainWord reports whether shells and Dockerfiles read a word unchanged.
func plainWord(s string) bool { return s != "" && Shell(s) == s && !strings.ContainsAny(s, "$\\\"'") }

// addWheels adds wheels to those that the same command installs.
func addWheels(list []*wheels, w *wheels) []*wheels {
	for _, o := range list {
		if o.python == w.python && o.index == w.index && o.deps == w.deps && o.find == w.find && o.here == w.here {
			o.requirements = addRequirements(o.requirements, w.requirements)
			for _, r := range w.remove {
				if !slices.Contains(o.remove, r) {
					o.remove = append(o.remove, r)
				}
			}
			o.again = o.again || w.again
			return list
		}
	}
	return append(list, w)
}

// addRequirements adds requirements to a list that do not have them. One with extras takes the place
// of the same one without: jax[cuda12]==0.4.38 of jax==0.4.38.
func addRequirements(list, more []string) []string {
	list = addNew(slices.Clone(list), more...)
	return slices.DeleteFunc(list, func(r string) bool {
		name, _, _ := strings.Cut(r, "==")
		return !strings.Contains(name, "[") && slices.ContainsFunc(list, func(o string) bool {
			of, rest, extra := strings.Cut(o, "[")
			_, version, _ := strings.Cut(rest, "]")
			return extra && of == name && r == of+version
		})
	})
}

// instruction returns the RUN that installs wheels: with the environment's pip, else with uv,
// that of the image or, from its own image, a mounted one
// (https://docs.astral.sh/uv/guides/integration/docker/).
func (m *maker) instruction(w *wheels, shell bool) string {
	words := []string{w.python.Interpreter, "-m", "pip", "install", "--no-cache-dir"}
	remove := []string{w.python.Interpreter, "-m", "pip", "uninstall", "-y"}
	force, mount := "--force-reinstall", ""
	if !m.hasPip(w.python) || !shell {
		uv := m.uv()
		if uv == "" || !shell {
			mount, uv = "--mount=from=ghcr.io/astral-sh/uv,source=/uv,target="+mountedUV+" ", mountedUV
		}
		words = []string{uv, "pip", "install", "--no-cache", "--python", w.python.Interpreter}
		remove = []string{uv, "pip", "uninstall", "--python", w.python.Interpreter}
		force = "--reinstall"
	}
	tools := slices.Clone(words) // for the setup of a package that pip builds
	if !w.deps {
		words = append(words, "--no-deps")
	}
	if w.again && len(w.remove) == 0 {
		words = append(words, force)
	}
	if m.external(w.python) {
		words, remove, tools = append(words, "--break-system-packages"), append(remove, "--break-system-packages"), append(tools, "--break-system-packages")
	}
	remove = append(remove, w.remove...)
	if w.index != "" {
		words = append(words, "--index-url", w.index)
	}
	if w.find != "" {
		words = append(words, "--only-binary", ":all:", "--find-links", w.find)
	}
	if w.here {
		words = append(words, "--no-build-isolation")
	}
	words = append(words, slices.Sorted(slices.Values(w.requirements))...)
	if !shell && len(w.remove) == 0 {
		return "RUN " + mount + list(words)
	}
	line := commandLine(words)
	if len(w.remove) > 0 {
		line = commandLine(remove) + " && " + line
	}
	if w.here {
		line = commandLine(append(tools, buildTools...)) + " && " + line
	}
	return "RUN " + mount + line
}

// commandLine returns words as a line for a shell.
func commandLine(words []string) string {
	for i := range words {
		words[i] = Shell(words[i])
	}
	return strings.Join(words, " ")
}

// mountedUV is the place of a mounted uv.
const mountedUV = "/.uv"

// hasPip reports whether a Python has pip: its files or, if the image has only a part of the
// interpreter's library, a layer that pip made.
func (m *maker) hasPip(p *inventory.Python) bool {
	if m.inventory.Wheels(p)["pip"] != nil {
		return true
	}
	for _, site := range p.Sites {
		if _, _, ok := m.base.FS.Lookup(path.Join(site, "pip/__init__.py")); ok {
			return true
		}
	}
	stdlib := strings.TrimPrefix(path.Dir(p.Sites[0]), "/")
	if strings.HasSuffix(p.Sites[0], "/dist-packages") {
		stdlib = "usr/lib/python" + p.Version
	}
	files, _ := fs.ReadDir(m.base.FS, stdlib)
	if len(files) >= wholeStdlib {
		return false
	}
	for _, pkg := range m.inventory.Packages {
		if pkg.Kind != inventory.Wheel || pkg.Dir != p.Sites[0] {
			continue
		}
		if _, layer, ok := m.base.FS.Lookup(pkg.Path); ok && layer >= 0 && layer < len(m.base.FS.Layers) {
			if by := m.base.FS.Layers[layer].CreatedBy; ranPip.MatchString(by) && !strings.Contains(by, "uv pip ") {
				return true
			}
		}
	}
	return false
}

// wholeStdlib is fewer than the files in the directory of any standard library.
const wholeStdlib = 40

// ranPip matches the instruction of a layer that pip made.
var ranPip = regexp.MustCompile(`^(?:RUN|/bin/sh -c) (?:.*[\s/&;])?pip3? install `)

// uv returns the path of the image's uv, or "".
func (m *maker) uv() string {
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/root/.local/bin"} {
		if e, _, ok := m.base.FS.Lookup(dir + "/uv"); ok && !e.IsDir() {
			return dir + "/uv"
		}
	}
	return ""
}

// external reports whether pip refuses to change the packages of a Python, which another
// package manager has installed
// (https://packaging.python.org/en/latest/specifications/externally-managed-environments/).
func (m *maker) external(p *inventory.Python) bool {
	if p.Home != "" {
		return false // a virtual environment
	}
	for _, dir := range []string{"lib", "lib64"} {
		if _, _, ok := m.base.FS.Lookup(path.Join(p.Prefix, dir, "python"+p.Version, "EXTERNALLY-MANAGED")); ok {
			return true
		}
	}
	return false
}
