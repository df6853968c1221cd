package lint

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Checks of extension modules: those that wheels have installed and that are gone,
// and those of Python's own library that packages import.

// moduleName is the file name of an extension module by its tag: _C.cpython-312-….so,
// cd.abi3.so. A library for other libraries has none (libc10.so), and jaxlib's modules
// have none either: they are known by the frameworks' steps.
var moduleName = regexp.MustCompile(`^(\w+)\.(?:cpython-3\d+\w*-[\w-]+|abi3)\.so$`)

// taggedFor reports whether a module's file name has a machine's tag.
func taggedFor(file string, m elf.Machine) bool {
	tag, ok := moduleMachines[m]
	return ok && strings.Contains(path.Base(file), "-"+tag+"-")
}

// moduleMachines are the machines by what stands in the names of their modules (the
// triplet of sysconfig's EXT_SUFFIX).
var moduleMachines = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// forTests is the path of a module that only tests import: numpy/_core/_umath_tests,
// scipy/special/tests/x.
var forTests = regexp.MustCompile(`(?:^|[/_.])tests?(?:[/_.]|$)`)

// lostModule is an extension module that cannot be imported.
type lostModule struct {
	file   string
	reads  string // what the import says
	gone   bool
	steps  []stepOf
	module string     // its name in an import
	absent *Exception // its package does without it; nil: it does not
}

// stepOf is a step of a framework that opens a file.
type stepOf struct {
	of   *Framework
	step *Step
}

// modulesLost finds extension modules that a wheel has installed, by its RECORD, and
// that are gone or are no libraries. What is there and lacks something else is the
// replay's.
func (w *world) modulesLost() []Finding {
	var list []Finding
	for p, pkg := range w.eachWheel() {
		var lost []lostModule
		for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
			if m, ok := w.lost(pkg.Dir, file, pkg.Files[file]); ok {
				lost = append(lost, m)
			}
		}
		if len(lost) > 0 {
			list = append(list, w.modulesFinding(pkg, w.version(p, pkg), lost))
		}
	}
	return list
}

// lost reports whether a file that a RECORD lists is a module that cannot be imported
// by its own fault.
func (w *world) lost(site, file string, listed inventory.Listed) (m lostModule, lost bool) {
	if !strings.HasSuffix(file, ".so") || !strings.HasPrefix(file, site+"/") {
		return m, false
	}
	e, _, ok := w.img.FS.Lookup(file)
	other := ok && taggedFor(file, w.machine) && w.otherMachine(file) != ""
	if ok && (e.Object != nil && !other || e.Fault != "" || listed.Size == 0) || !ok && w.mayBeSkipped(file) {
		return m, false
	}
	rel := strings.TrimPrefix(file, site+"/")
	m = lostModule{file: file, steps: w.stepsOf(rel), gone: !ok || e.Type != layers.Regular}
	base, _, _ := strings.Cut(path.Base(rel), ".")
	tagged := moduleName.MatchString(path.Base(rel))
	m.module = strings.ReplaceAll(path.Join(path.Dir(rel), base), "/", ".")
	switch {
	case exception(w.packs.Optional, file) != nil, forTests.MatchString(rel):
		return m, false // a framework does without; tests are left out to save space
	case !tagged && (len(m.steps) == 0 || strings.HasPrefix(base, "lib")):
		return m, false // a library that others need: the replay misses it there
	case m.gone:
		if !ok { // what is there, a directory for one, is opened
			m.absent = exception(w.packs.Absent, file)
		}
		m.reads = fmt.Sprintf("ModuleNotFoundError: No module named '%s'", m.module)
		return m, true
	case len(m.steps) > 0 && !other || w.primary == nil:
		return m, false // the replay of the framework has met it
	}
	misses := w.openPath(w.programFor(file, w.primary), file)
	if len(misses) == 0 {
		return m, false
	}
	if !other { // what the loader says of that is what it says of a file that is not there
		m.reads = "ImportError: " + misses[0].Error()
	}
	return m, true
}

// mayBeSkipped reports whether the image may have a file that was not looked at: one
// of those that were passed over, or below one, or one of more than are listed.
func (w *world) mayBeSkipped(file string) bool {
	return slices.ContainsFunc(w.img.FS.Skipped, func(s layers.LayerSkip) bool {
		return s.Path == "" || isIn(file, path.Join("/", s.Path))
	})
}

// stepsOf are the steps of the frameworks that the image has which open a file of a
// directory of packages.
func (w *world) stepsOf(rel string) []stepOf {
	var list []stepOf
	for _, f := range w.packs.Frameworks {
		if f.Package == "" || !slices.ContainsFunc(w.installs, func(in *install) bool { return in.Framework == f }) {
			continue
		}
		for i := range f.Steps {
			if match(path.Join(f.Package, f.Steps[i].Open), rel) {
				list = append(list, stepOf{f, &f.Steps[i]})
			}
		}
	}
	return list
}

// modulesFinding is what is told of a wheel's modules.
func (w *world) modulesFinding(pkg *inventory.Package, version string, lost []lostModule) Finding {
	first := lost[0]
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return m.absent == nil }); i >= 0 {
		first = lost[i]
	}
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return len(m.steps) > 0 }); i >= 0 {
		first = lost[i]
	}
	what := "is gone"
	if other := w.otherMachine(first.file); other != "" {
		what = "is for " + other
	} else if !first.gone {
		what = "is no library"
	}
	f := Finding{
		Message: fmt.Sprintf("%s, which %s %s has installed, %s", path.Base(first.file), pkg.Name, version, what),
		Advice:  w.reinstall(pkg.Name, pkg.Version),
	}
	switch n := len(lost) - 1; {
	case n == 1:
		f.Message += ", and so is another of its modules"
	case n > 1:
		f.Message += fmt.Sprintf(", and so are %d more of its modules", n)
	}
	for _, m := range lost {
		f.Affected = append(f.Affected, m.file)
		if r, ok := w.img.FS.Removed(strings.TrimPrefix(m.file, "/")); ok {
			f.Removed = append(f.Removed, Removed{File{m.file, w.layerRef(r.Had)}, w.layerRef(r.By)})
		}
		for _, s := range m.steps {
			if !s.of.Aside {
				f.Severity = Error
			}
			f.effect(Effect{s.step.Effect, cmp.Or(s.step.Absent, m.reads)})
		}
	}
	if first.absent != nil {
		f.Severity, f.Because = Note, first.absent.Why
		f.effect(Effect{first.absent.Effect, first.absent.Error})
	}
	if len(f.Effects) == 0 {
		f.effect(Effect{fmt.Sprintf("`import %s` fails, and what comes to it", first.module), first.reads})
	}
	return f
}

// effect adds an effect that is not there yet.
func (f *Finding) effect(e Effect) {
	if !slices.ContainsFunc(f.Effects, func(o Effect) bool { return o.Text == e.Text }) {
		f.Effects = append(f.Effects, e)
	}
}

// StdlibModule is an extension module of Python's own library, which a Python that
// was built without a library's headers lacks.
type StdlibModule struct {
	Module string `yaml:"module"` // _ctypes; a pattern
	// Packages are directories of packages that cannot be imported without it.
	Packages []string `yaml:"packages"`
	// Tries are directories of packages whose import asks for it and does without. A
	// file that is cut off kills them, too.
	Tries []string `yaml:"tries"`
	// With are directories of packages that must be installed as well: they ask for the
	// module when one of Tries imports them.
	With   []string `yaml:"with"`
	Python string   `yaml:"python"` // the versions of Python that have it; empty: all
	// Debian is the package that the module needs when Python is built.
	Debian  string   `yaml:"debian"`
	Sources []string `yaml:"sources"`
}

func (m *StdlibModule) validate() error {
	if m.Module == "" || len(m.Packages)+len(m.Tries) == 0 || len(m.Sources) == 0 {
		return errors.New("needs a module, packages or tries, and sources")
	}
	if err := version.CheckRange(m.Python); err != nil {
		return err
	}
	return patterns("", []string{m.Module})
}

// minDynload is how many modules a directory lib-dynload has at least that is that
// of a whole Python: one that has its modules built in has few or none.
const minDynload = 20

// stdlibModules finds modules of Python's own library that packages of an environment
// import, and that its Python does not have, or cannot load.
func (w *world) stdlibModules() []Finding {
	var list []Finding
	told := map[string]int{} // module of a directory → its finding
	for _, p := range w.inv.Pythons {
		dir, program := w.dynload(p)
		if dir == "" {
			continue
		}
		for _, m := range w.packs.Stdlib {
			needs, tries := w.packagesIn(p, m.Packages), w.packagesIn(p, m.Tries)
			if len(w.packagesIn(p, m.With)) < len(m.With) {
				tries = nil
			}
			if fits, known := parseRelease(p.Version).Within(m.Python); !fits || !known || len(needs)+len(tries) == 0 {
				continue
			}
			f, killed := w.stdlibModule(m, dir, program)
			if killed {
				needs = append(needs, tries...)
			}
			if f == nil || len(needs) == 0 {
				continue
			}
			says := f.Message
			if killed {
				says = busError
			}
			i, ok := told[f.Affected[0]+f.Message]
			if !ok {
				i, list = len(list), append(list, *f)
				told[f.Affected[0]+f.Message] = i
			}
			for _, site := range needs {
				list[i].effect(Effect{fmt.Sprintf("`import %s` fails", moduleOf(p, site)), says})
				list[i].NeededBy = append(list[i].NeededBy, w.file(site+"/__init__.py"))
			}
		}
	}
	return list
}

// moduleOf returns the name by which an environment imports a directory of a package.
func moduleOf(p *inventory.Python, dir string) string {
	for _, site := range p.Sites {
		if rel, ok := strings.CutPrefix(dir, site+"/"); ok {
			return strings.ReplaceAll(rel, "/", ".")
		}
	}
	return path.Base(dir)
}

// stdlibModule returns what is wrong with one module, or nil. killed says that the
// module, or a library that it needs, is cut off: the process of an import ends there.
func (w *world) stdlibModule(m *StdlibModule, dir string, program *layers.Entry) (f *Finding, killed bool) {
	files := w.glob(dir, m.Module+".*so")
	if len(files) == 0 {
		return w.stdlibMissing(m, dir, program), false
	}
	loader := w.primary
	if program.Object.Interp != "" {
		loader = w.loader(program.Object.Interp)
	}
	if loader == nil {
		return nil, false
	}
	process, err := loader.Trace("/" + program.Path)
	if err != nil || process.Program() == nil {
		return nil, false
	}
	for _, file := range files {
		misses := w.openPath(process, file)
		if len(misses) == 0 {
			continue
		}
		miss, message := misses[0], reads("ImportError: {error}", misses[0])
		if i := slices.IndexFunc(misses, func(e *elfdeps.Error) bool { return e.Kind == elfdeps.CutError }); i >= 0 {
			miss, message, killed = misses[i], misses[i].Error(), true
		}
		return &Finding{Message: message, Affected: []string{file}, Present: []File{w.file(file)}, Library: miss.Name}, killed
	}
	return nil, false
}

// stdlibMissing returns the finding for a module that a Python lacks, or nil where it
// may be there: built in, or among files that were not looked at.
func (w *world) stdlibMissing(m *StdlibModule, dir string, program *layers.Entry) *Finding {
	below := slices.ContainsFunc(w.img.FS.Skipped, func(s layers.LayerSkip) bool { return isIn(path.Join("/", s.Path), dir) })
	if below || w.mayBeSkipped(dir) || w.builtin(program, m.Module) || len(w.glob(dir, "*.so")) < minDynload {
		return nil
	}
	f := &Finding{Message: fmt.Sprintf("ModuleNotFoundError: No module named '%s'", m.Module), Affected: []string{dir}}
	if m.Debian != "" {
		f.Fixes = []string{fmt.Sprintf("install %s before Python is built (pyenv, make), or take a Python that has the module", m.Debian)}
	}
	for _, p := range w.img.FS.RemovedPaths() {
		if path.Dir("/"+p) == dir && strings.HasPrefix(path.Base(p), m.Module+".") {
			r, _ := w.img.FS.Removed(p)
			f.Removed = append(f.Removed, Removed{File{"/" + p, w.layerRef(r.Had)}, w.layerRef(r.By)})
		}
	}
	return f
}

// dynload is the directory of the extension modules of an environment's Python, and
// the interpreter itself; empty where they are not known.
func (w *world) dynload(p *inventory.Python) (string, *layers.Entry) {
	if p.Interpreter == "" {
		return "", nil
	}
	e, _, ok := w.img.FS.Lookup(p.Interpreter)
	if !ok || e.Object == nil || e.Object.Machine != w.machine {
		return "", nil
	}
	prefix := path.Dir(path.Dir("/" + e.Path))
	for _, lib := range []string{"/lib", "/lib64"} {
		for _, version := range []string{p.Version, strings.TrimPrefix(path.Base(e.Path), "python")} {
			dir := prefix + lib + "/python" + version + "/lib-dynload"
			if d, _, ok := w.img.FS.Lookup(dir); ok && d.IsDir() && version != "" {
				return dir, e
			}
		}
	}
	return "", nil
}

// builtin reports whether a module may be a part of the interpreter or of its
// libpython: where their symbols are not known, it may.
func (w *world) builtin(program *layers.Entry, module string) bool {
	all := []*layers.Entry{program}
	for _, name := range program.Object.Needed {
		if !strings.HasPrefix(name, "libpython") {
			continue
		}
		for _, p := range w.present(name) {
			if e, _, ok := w.img.FS.Lookup(p); ok {
				all = append(all, e)
			}
		}
	}
	defines := func(name string) bool {
		return slices.ContainsFunc(all, func(e *layers.Entry) bool { return defines(e.Object, name) })
	}
	return !defines("Py_BytesMain") || defines("PyInit_"+module)
}

// packagesIn are the directories of packages of an environment.
func (w *world) packagesIn(p *inventory.Python, names []string) []string {
	var list []string
	for _, name := range names {
		for _, site := range p.Sites {
			if dir := site + "/" + name; w.isFile(dir + "/__init__.py") {
				list = append(list, dir)
				break
			}
		}
	}
	return list
}
