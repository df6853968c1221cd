package lint

import (
	"cmp"
	"debug/elf"
	"errors"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Checks of extension modules: modules that wheels have installed and the image has lost,
// and modules of Python's own library that packages import.

// moduleName matches the file name of an extension module by its tag: _C.cpython-312-….so,
// cd.abi3.so. Libraries for other libraries have no tag (libc10.so), nor do some modules,
// which the frameworks' steps name.
var moduleName = regexp.MustCompile(`^(\w+)\.(?:cpython-3\d+\w*-[\w-]+|abi3)\.so$`)

// taggedFor reports whether the file name of a module has the tag of a machine.
func taggedFor(file string, m elf.Machine) bool {
	tag, ok := moduleMachines[m]
	return ok && strings.Contains(path.Base(file), "-"+tag+"-")
}

// moduleMachines are the names of machines in the file names of modules (the triplet in
// sysconfig's EXT_SUFFIX).
var moduleMachines = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// forTests matches the path of a module that only tests import: numpy/_core/_umath_tests,
// scipy/special/tests/x.
var forTests = regexp.MustCompile(`(?:^|[/_.])tests?(?:[/_.]|$)`)

// lostModule is an extension module that cannot be imported.
type lostModule struct {
	file   string
	reads  string // what the import says
	gone   bool
	steps  []stepOf
	module string     // its name in an import
	absent *Exception // why its package does without it; nil if it does not
}

// stepOf is a step of a framework that opens a file.
type stepOf struct {
	of   *Framework
	step *Step
}

// modulesLost returns a finding for each wheel with extension modules in its RECORD that
// are gone or are no libraries. The replay covers modules that lack something else.
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
// because the file is gone, is no library, or is for another machine.
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
		m.reads = w.phrase("no-module", values{"module": m.module})
		return m, true
	case len(m.steps) > 0 && !other || w.primary == nil:
		return m, false // the replay of the framework has met it
	}
	misses := w.openPath(w.programFor(file, w.primary), file)
	if len(misses) == 0 {
		return m, false
	}
	if !other { // what the loader says of that is what it says of a file that is not there
		m.reads = w.phrase("import-error", values{"error": misses[0].Error()})
	}
	return m, true
}

// mayBeSkipped reports whether the image may have a file that was not looked at: the file
// or a directory above it was skipped, or so many were skipped that not all are listed.
func (w *world) mayBeSkipped(file string) bool {
	return slices.ContainsFunc(w.img.FS.Skipped, func(s layers.LayerSkip) bool {
		return s.Path == "" || isIn(file, path.Join("/", s.Path))
	})
}

// stepsOf returns the steps of the image's frameworks that open a file, by its path below
// a directory of packages.
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

// modulesFinding returns the finding for the modules that a wheel has lost.
func (w *world) modulesFinding(pkg *inventory.Package, version string, lost []lostModule) Finding {
	first := firstLost(lost)
	v := values{"file": path.Base(first.file), "package": pkg.Name, "version": version, "machine": w.otherMachine(first.file), "more": strconv.Itoa(len(lost) - 1)}
	f := w.lostFinding(first, v)
	switch n := len(lost) - 1; {
	case n == 1:
		w.also(&f, "another", v)
	case n > 1:
		w.also(&f, "more", v)
	}
	f.Subject = first.file
	f.advise(w.reinstall(pkg.Name, pkg.Version)...)
	loads, aside := false, ""
	for _, m := range lost {
		f.Affected = append(f.Affected, m.file)
		if r, ok := w.img.FS.Removed(strings.TrimPrefix(m.file, "/")); ok {
			f.Removed = append(f.Removed, Removed{File{m.file, w.layerRef(r.Had)}, w.layerRef(r.By)})
		}
		for _, s := range m.steps {
			if s.of.Aside {
				aside = s.of.Title
			} else {
				loads = true
			}
			f.effect(Effect{Text: s.step.Effect, Error: cmp.Or(s.step.Absent, m.reads)})
		}
	}
	switch {
	case first.absent != nil:
		w.lower(&f, "absent", values{"why": first.absent.Why})
		f.effect(Effect{Text: first.absent.Effect, Error: first.absent.Error})
	case !loads && aside != "":
		w.lower(&f, "aside", values{"framework": aside})
	case !loads:
		w.lower(&f, "no-step", nil)
	}
	if len(f.Effects) == 0 {
		w.also(&f, "import", values{"module": first.module, "error": first.reads})
	}
	return f
}

// firstLost returns the module that the finding names: one that a framework's step opens,
// else one that its package needs, else the first.
func firstLost(lost []lostModule) lostModule {
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return len(m.steps) > 0 }); i >= 0 {
		return lost[i]
	}
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return m.absent == nil }); i >= 0 {
		return lost[i]
	}
	return lost[0]
}

// lostFinding returns the finding that says what is wrong with a module.
func (w *world) lostFinding(m lostModule, v values) Finding {
	clause, kind := "no-library", Unusable
	switch {
	case v["machine"] != "":
		clause = "other-machine"
	case m.gone:
		clause, kind = "gone", Missing
	}
	f := w.say("module-lost", clause, v)
	f.Kind = kind
	return f
}

// effect adds an effect unless the finding has one with its text.
func (f *Finding) effect(e Effect) {
	if !slices.ContainsFunc(f.Effects, func(o Effect) bool { return o.Text == e.Text }) {
		f.Effects = append(f.Effects, e)
	}
}

// StdlibModule is an extension module of Python's own library. A Python that was built
// without the headers that the module needs does not have it.
type StdlibModule struct {
	Module string `yaml:"module"` // _ctypes; a pattern
	// Packages are directories of packages that cannot be imported without the module.
	Packages []string `yaml:"packages"`
	// Tries are directories of packages that try to import the module and do without. A
	// truncated file of the module kills their import as well.
	Tries []string `yaml:"tries"`
	// With are directories of packages that one of Tries imports and that import the
	// module: without them, Tries do not.
	With   []string `yaml:"with"`
	Python string   `yaml:"python"` // the versions of Python that have it; empty: all
	// Debian is the Debian package with the headers that the module is built with.
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

// minDynload is the least number of modules in lib-dynload for which a module that is not
// there counts as missing. A Python with built-in modules has few or no files there.
const minDynload = 20

// stdlibModules returns a finding for each module of Python's own library that packages of
// an environment import and that its Python lacks or cannot load.
func (w *world) stdlibModules() []Finding {
	var list []Finding
	at := map[string]int{} // directory or file of a module, and message → its finding
	for _, p := range w.inv.Pythons {
		dir, program := w.dynload(p)
		if dir == "" {
			continue
		}
		for _, m := range w.packs.Stdlib {
			needs, tries := w.importers(p, m)
			if len(needs)+len(tries) == 0 {
				continue
			}
			f, killed := w.stdlibModule(m, dir, program)
			effect := "import"
			if killed {
				needs, effect = append(needs, tries...), "import-killed"
			}
			if f == nil || len(needs) == 0 {
				continue
			}
			key := f.Affected[0] + f.Message
			i, ok := at[key]
			if !ok {
				i, list = len(list), append(list, *f)
				at[key] = i
			}
			for _, site := range needs {
				w.also(&list[i], effect, values{"package": moduleOf(p, site), "error": f.Message})
				list[i].NeededBy = append(list[i].NeededBy, w.file(site+"/__init__.py"))
			}
		}
	}
	return list
}

// importers returns the directories of an environment's packages that cannot be imported
// without a module, and of those whose import asks for it and does without.
func (w *world) importers(p *inventory.Python, m *StdlibModule) (needs, tries []string) {
	if fits, known := parseRelease(p.Version).Within(m.Python); !fits || !known {
		return nil, nil
	}
	if len(w.packagesIn(p, m.With)) == len(m.With) {
		tries = w.packagesIn(p, m.Tries)
	}
	return w.packagesIn(p, m.Packages), tries
}

// moduleOf returns the name under which an environment imports a directory of packages.
func moduleOf(p *inventory.Python, dir string) string {
	for _, site := range p.Sites {
		if rel, ok := strings.CutPrefix(dir, site+"/"); ok {
			return strings.ReplaceAll(rel, "/", ".")
		}
	}
	return path.Base(dir)
}

// stdlibModule returns the finding for a module, or nil. killed reports whether the import
// kills the process, because the module or a library that it needs is truncated.
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
		f, killed := w.stdlibUnusable(file, misses)
		return &f, killed
	}
	return nil, false
}

// stdlibUnusable returns the finding for the file of a module that cannot be loaded;
// killed is that of stdlibModule.
func (w *world) stdlibUnusable(file string, misses []*elfdeps.Error) (f Finding, killed bool) {
	miss, clause := misses[0], "unloadable"
	if i := slices.IndexFunc(misses, func(e *elfdeps.Error) bool { return e.Kind == elfdeps.CutError }); i >= 0 {
		miss, clause, killed = misses[i], "cut", true
	}
	f = w.say("stdlib-module", clause, values{"error": miss.Error()})
	f.Kind, f.Subject, f.Library = Unusable, file, miss.Name
	if notOpened(miss) {
		f.Kind, f.Cause = Missing, "missing "+miss.Name
	}
	f.Affected, f.Present = []string{file}, []File{w.file(file)}
	return f, killed
}

// stdlibMissing returns the finding for a module that a Python does not have, or nil if
// the Python may have it: built in, or among files that were not looked at.
func (w *world) stdlibMissing(m *StdlibModule, dir string, program *layers.Entry) *Finding {
	below := slices.ContainsFunc(w.img.FS.Skipped, func(s layers.LayerSkip) bool { return isIn(path.Join("/", s.Path), dir) })
	if below || w.mayBeSkipped(dir) || w.builtin(program, m.Module) || len(w.glob(dir, "*.so")) < minDynload {
		return nil
	}
	f := w.say("stdlib-module", "absent", values{"module": m.Module})
	if f.Affected = []string{dir}; m.Debian != "" {
		w.also(&f, "headers", values{"debian": m.Debian})
	}
	for _, p := range w.img.FS.RemovedPaths() {
		if path.Dir("/"+p) == dir && strings.HasPrefix(path.Base(p), m.Module+".") {
			r, _ := w.img.FS.Removed(p)
			f.Removed = append(f.Removed, Removed{File{"/" + p, w.layerRef(r.Had)}, w.layerRef(r.By)})
		}
	}
	return &f
}

// dynload returns the directory of the extension modules of an environment's Python, and
// the interpreter. The directory is "" if either is not known.
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

// builtin reports whether a module may be built into the interpreter or its libpython. It
// may be if their symbols are not known.
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

// packagesIn returns the directories of the named packages in an environment.
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
