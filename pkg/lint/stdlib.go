package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// minDynload is the least number of modules in lib-dynload for which an absent module counts
// as missing. A Python with built-in modules has few or no files there.
const minDynload = 20

// stdlibModules returns a finding for each module of Python's standard library that packages
// of an environment import and that its Python lacks or cannot load.
func stdlibModules(pass *Pass) []Finding {
	var list []Finding
	at := map[string]int{} // directory or file of a module, and message → its finding
	for _, p := range pass.Inventory.Pythons {
		dir, program := dynload(pass, p)
		if dir == "" {
			continue
		}
		for _, m := range pass.Packs.Stdlib {
			needs, tries := importers(pass, p, m)
			if len(needs)+len(tries) == 0 {
				continue
			}
			f, killed := stdlibModule(pass, m, dir, program)
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
				pass.also(&list[i], effect, packs.Values{"package": moduleOf(p, site), "error": f.Message})
				list[i].NeededBy = append(list[i].NeededBy, pass.Image.File(site+"/__init__.py"))
			}
		}
	}
	return list
}

// importers returns the directories of the packages that cannot be imported without a
// module, and of those that try to import it and do without.
func importers(pass *Pass, p *inventory.Python, m *packs.StdlibModule) (needs, tries []string) {
	if fits, known := packs.ParseRelease(p.Version).Within(m.Python); !fits || !known {
		return nil, nil
	}
	if len(packagesIn(pass, p, m.With)) == len(m.With) {
		tries = packagesIn(pass, p, m.Tries)
	}
	return packagesIn(pass, p, m.Packages), tries
}

// moduleOf returns the name by which an environment imports a package's directory.
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
func stdlibModule(pass *Pass, m *packs.StdlibModule, dir string, program *layers.Entry) (f *Finding, killed bool) {
	files := pass.Files.Glob(dir, m.Module+".*so")
	if len(files) == 0 {
		return stdlibMissing(pass, m, dir, program), false
	}
	process := processOf(pass, program)
	if process == nil {
		return nil, false
	}
	for _, file := range files {
		misses := pass.Loaders.OpenPath(process, file)
		if len(misses) == 0 {
			continue
		}
		f, killed := stdlibUnusable(pass, file, misses)
		return &f, killed
	}
	return nil, false
}

// processOf returns the process of a program that goes past misses, or nil if its loader is
// unknown.
func processOf(pass *Pass, program *layers.Entry) *elfdeps.Process {
	loader := pass.Loaders.Primary
	if program.Object.Interp != "" {
		loader = pass.Loaders.Loader(program.Object.Interp)
	}
	if loader == nil {
		return nil
	}
	process, err := loader.Trace("/" + program.Path)
	if err != nil || process.Program() == nil {
		return nil
	}
	return process
}

// stdlibUnusable returns the finding for the file of a module that cannot be loaded, and
// whether its import kills the process.
func stdlibUnusable(pass *Pass, file string, misses []*elfdeps.Error) (f Finding, killed bool) {
	miss, clause := misses[0], "unloadable"
	if i := slices.IndexFunc(misses, func(e *elfdeps.Error) bool { return e.Kind == elfdeps.CutError }); i >= 0 {
		miss, clause, killed = misses[i], "cut", true
	}
	f = pass.say("stdlib-module", clause, packs.Values{"error": miss.Error()})
	f.Kind, f.Cause, f.Subject, f.Library = packs.Unusable, unusable(miss.Subject, miss), file, miss.Name
	f.Affected = []string{file}
	if notOpened(miss) {
		f.Kind, f.Cause, f.NeededBy = packs.Missing, "missing "+miss.Name, []replay.File{pass.Image.File(file)}
	} else {
		f.Present = []replay.File{pass.Image.File(file)}
	}
	return f, killed
}

// stdlibMissing returns the finding for a module that a Python lacks, or nil if the Python may
// have it: built in, or among files that could not be examined.
func stdlibMissing(pass *Pass, m *packs.StdlibModule, dir string, program *layers.Entry) *Finding {
	below := slices.ContainsFunc(pass.Image.FS.Skipped, func(s layers.LayerSkip) bool { return replay.IsIn(path.Join("/", s.Path), dir) })
	if below || pass.Image.MayBeSkipped(dir) || builtin(pass, program, m.Module) || len(pass.Files.Glob(dir, "*.so")) < minDynload {
		return nil
	}
	f := pass.say("stdlib-module", "absent", packs.Values{"module": m.Module})
	if f.Affected = []string{dir}; m.Debian != "" {
		pass.also(&f, "headers", packs.Values{"debian": m.Debian})
	}
	for _, p := range pass.Image.FS.RemovedPaths() {
		if path.Dir("/"+p) == dir && strings.HasPrefix(path.Base(p), m.Module+".") {
			r, _ := pass.Image.FS.Removed(p)
			f.Removed = append(f.Removed, removedFile(pass, "/"+p, r))
		}
	}
	return &f
}

// dynload returns the directory of the extension modules of an environment's Python, and
// the interpreter. The directory is "" if either is not known.
func dynload(pass *Pass, p *inventory.Python) (string, *layers.Entry) {
	if p.Interpreter == "" {
		return "", nil
	}
	e, _, ok := pass.Image.FS.Lookup(p.Interpreter)
	if !ok || e.Object == nil || e.Object.Machine != pass.Files.Machine {
		return "", nil
	}
	prefix := path.Dir(path.Dir("/" + e.Path))
	for _, lib := range []string{"/lib", "/lib64"} {
		for _, version := range []string{p.Version, strings.TrimPrefix(path.Base(e.Path), "python")} {
			dir := prefix + lib + "/python" + version + "/lib-dynload"
			if d, _, ok := pass.Image.FS.Lookup(dir); ok && d.IsDir() && version != "" {
				return dir, e
			}
		}
	}
	return "", nil
}

// builtin reports whether a module may be built into the interpreter or its libpython. It may
// if their symbols are unknown.
func builtin(pass *Pass, program *layers.Entry, module string) bool {
	all := []*layers.Entry{program}
	for _, name := range program.Object.Needed {
		if !strings.HasPrefix(name, "libpython") {
			continue
		}
		for _, p := range pass.Files.Present(name) {
			if e, _, ok := pass.Image.FS.Lookup(p); ok {
				all = append(all, e)
			}
		}
	}
	defines := func(name string) bool {
		return slices.ContainsFunc(all, func(e *layers.Entry) bool { return replay.Defines(e.Object, name) })
	}
	return !defines("Py_BytesMain") || defines("PyInit_"+module)
}

// packagesIn returns the directories of an environment's packages with one of the names.
func packagesIn(pass *Pass, p *inventory.Python, names []string) []string {
	var list []string
	for _, name := range names {
		for _, site := range p.Sites {
			if dir := site + "/" + name; pass.Image.IsFile(dir + "/__init__.py") {
				list = append(list, dir)
				break
			}
		}
	}
	return list
}
