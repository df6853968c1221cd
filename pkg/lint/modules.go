package lint

import (
	"cmp"
	"debug/elf"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// moduleName matches the file name of an extension module with a tag: _C.cpython-312-….so,
// cd.abi3.so. Libraries that other libraries need have no tag (libc10.so). Nor do some
// modules, which the frameworks' steps name.
var moduleName = regexp.MustCompile(`^(\w+)\.(?:cpython-3\d+\w*-[\w-]+|abi3)\.so$`)

// taggedFor reports whether the file name of a module has the tag of a machine.
func taggedFor(file string, m elf.Machine) bool {
	tag, ok := moduleMachines[m]
	return ok && strings.Contains(path.Base(file), "-"+tag+"-")
}

// moduleMachines has the names of machines in the file names of modules (the triplet of
// sysconfig's EXT_SUFFIX).
var moduleMachines = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// forTests matches the paths of modules that only tests import: numpy/_core/_umath_tests,
// scipy/special/tests/x.
var forTests = regexp.MustCompile(`(?:^|[/_.])tests?(?:[/_.]|$)`)

// lostModule is an extension module that cannot be imported.
type lostModule struct {
	file   string
	reads  string // the error of the import
	gone   bool
	steps  []stepOf
	module string                 // its name in an import
	absent *packs.Exception       // the row of a package that does without it, or nil
	ends   []*replay.StartFailure // imports of it that end programs of the image
}

// stepOf is a step of a framework that opens a file.
type stepOf struct {
	of   *packs.Framework
	step *packs.Step
}

// modulesLost returns a finding for each wheel with extension modules in its RECORD that are
// gone or are not libraries. Modules that lack a library are found by the replay.
func modulesLost(pass *Pass) []Finding {
	var list []Finding
	ends := endsByModule(pass)
	for p, pkg := range pass.Packages.EachWheel() {
		lost := lostModulesOf(pass, p, pkg)
		for i := range lost {
			lost[i].ends = ends[lost[i].module]
		}
		if len(lost) > 0 {
			list = append(list, modulesFinding(pass, pkg, pass.Packages.Version(p, pkg), lost))
		}
	}
	return list
}

// lostModulesOf returns the modules of an environment's wheel that cannot be imported, in the order of their files.
func lostModulesOf(pass *Pass, p *inventory.Python, pkg *inventory.Package) []lostModule {
	var lost []lostModule
	for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
		if m, ok := lostModuleAt(pass, pkg.Dir, file, pkg.Files[file]); ok && !(m.gone && hasOther(pass, p, pkg, file)) {
			lost = append(lost, m)
		}
	}
	return lost
}

// hasOther reports whether a wheel has a module also in another file, where the one that is gone is not known to be that
// for the environment's Python: Debian's RECORDs list a file for each release for which a package was built.
func hasOther(pass *Pass, p *inventory.Python, pkg *inventory.Package, gone string) bool {
	of := moduleRelease.FindStringSubmatch(path.Base(gone))
	if of == nil || p.Version == "3."+of[2] {
		return false
	}
	for file := range pkg.Files {
		other := moduleRelease.FindStringSubmatch(path.Base(file))
		if file == gone || other == nil || other[1] != of[1] || path.Dir(file) != path.Dir(gone) || p.Version != "" && p.Version != "3."+other[2] {
			continue
		}
		if pass.Image.IsFile(file) {
			return true
		}
	}
	return false
}

// moduleRelease matches the file name of an extension module for one release of CPython: _C.cpython-312-….so.
var moduleRelease = regexp.MustCompile(`^(\w+)\.cpython-3(\d+)\w*-[\w-]+\.so$`)

// endsByModule returns the imports that end Python programs of the image without an error of
// the loader, by the name of the module that is not there.
func endsByModule(pass *Pass) map[string][]*replay.StartFailure {
	by := map[string][]*replay.StartFailure{}
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			if f := &s.Failures[i]; endsImport(s, f) {
				if name := absentModule(f); name != "" {
					by[name] = append(by[name], f)
				}
			}
		}
	}
	return by
}

// absentModule returns the name of the module that an import does not find, or "".
func absentModule(f *replay.StartFailure) string {
	switch f.Type {
	case "ModuleNotFoundError":
		last := f.Path[len(f.Path)-1]
		if name, ok := strings.CutPrefix(f.Text, "No module named '"); ok && last.File != "" {
			name, _, _ = strings.Cut(name, "'") // that a module raises once more, after it has caught it (onnxruntime)
			return name
		}
		return last.Name
	case "ImportError":
		if m := missingName.FindStringSubmatch(f.Text); m != nil {
			return m[2] + "." + m[1]
		}
	}
	return ""
}

// lostModuleAt reports whether a file listed in a RECORD is a module that cannot be imported,
// because the file is gone, is not a library, or is for another machine.
func lostModuleAt(pass *Pass, site, file string, listed inventory.Listed) (m lostModule, lost bool) {
	if !strings.HasSuffix(file, ".so") || !strings.HasPrefix(file, site+"/") {
		return m, false
	}
	e, _, ok := pass.Image.FS.Lookup(file)
	other := ok && taggedFor(file, pass.Files.Machine) && pass.Files.OtherMachine(file) != ""
	if ok && (e.Object != nil && !other || e.Fault != "" || listed.Size == 0) || !ok && pass.Image.MayBeSkipped(file) {
		return m, false
	}
	rel := strings.TrimPrefix(file, site+"/")
	m = lostModule{file: file, steps: stepsOf(pass, rel), gone: !ok || e.Type != layers.Regular}
	base, _, _ := strings.Cut(path.Base(rel), ".")
	tagged := moduleName.MatchString(path.Base(rel))
	m.module = strings.ReplaceAll(path.Join(path.Dir(rel), base), "/", ".")
	switch {
	case pass.Packs.Optional.For(file) != nil, forTests.MatchString(rel):
		return m, false // images often lack tests, to save space
	case !tagged && (len(m.steps) == 0 || strings.HasPrefix(base, "lib")):
		return m, false // a library that others need, whose absence the replay shows
	case m.gone:
		if !ok { // not a directory, say, which the package would open
			m.absent = pass.Packs.Absent.For(file)
		}
		m.reads = pass.Packs.Phrase("no-module", packs.Values{"module": m.module})
		return m, true
	case len(m.steps) > 0 && !other || pass.Loaders.Primary == nil:
		return m, false // the replay of the framework reports it
	}
	misses := pass.Loaders.OpenPath(pass.Loaders.ProgramFor(file, pass.Loaders.Primary), file)
	if len(misses) == 0 {
		return m, false
	}
	if !other { // the loader reports a file for another machine as missing
		m.reads = pass.Packs.Phrase("import-error", packs.Values{"error": misses[0].Error()})
	}
	return m, true
}

// stepsOf returns the steps of the image's frameworks that open a file. rel is its path below
// the directory of packages.
func stepsOf(pass *Pass, rel string) []stepOf {
	var list []stepOf
	for _, f := range pass.Packs.Frameworks {
		if f.Package == "" || !slices.ContainsFunc(pass.Evidence.Installs, func(in *replay.Install) bool { return in.Framework == f }) {
			continue
		}
		for i := range f.Steps {
			if packs.Match(path.Join(f.Package, f.Steps[i].Open), rel) {
				list = append(list, stepOf{f, &f.Steps[i]})
			}
		}
	}
	return list
}

// modulesFinding returns the finding for the lost modules of a wheel.
func modulesFinding(pass *Pass, pkg *inventory.Package, version string, lost []lostModule) Finding {
	first := firstLost(lost)
	v := packs.Values{"file": path.Base(first.file), "package": pkg.Name, "version": version, "machine": pass.Files.OtherMachine(first.file), "more": strconv.Itoa(len(lost) - 1)}
	f := lostFinding(pass, first, v)
	switch n := len(lost) - 1; {
	case n == 1:
		pass.also(&f, "another", v)
	case n > 1:
		pass.also(&f, "more", v)
	}
	f.Subject = first.file
	f.advise(reinstall(pass, pkg.Name, pkg.Version)...)
	for _, m := range lost {
		addLost(pass, &f, m)
	}
	lowerLost(pass, &f, first, lost)
	if len(f.Effects) == 0 {
		pass.also(&f, "import", packs.Values{"module": first.module, "error": first.reads})
	}
	return f
}

// addLost adds a lost module to a finding, with the effects on the steps that open it.
func addLost(pass *Pass, f *Finding, m lostModule) {
	f.Affected = append(f.Affected, m.file)
	if r, ok := pass.Image.FS.Removed(strings.TrimPrefix(m.file, "/")); ok {
		f.Removed = append(f.Removed, removedFile(pass, m.file, r))
	}
	for _, s := range m.steps {
		f.addEffectText(packs.Effect{Text: s.step.Effect, Error: cmp.Or(s.step.Absent, m.reads)})
	}
	for _, s := range m.ends {
		for _, e := range s.Effects {
			f.addEffectText(packs.Effect{Text: e.Text, Error: cmp.Or(e.Error, s.Type+": "+s.Text)})
		}
	}
}

// lowerLost lowers the severity of a finding about modules unless the step of a framework
// opens one, or a program imports one. It adds the effect on a package that does without the module.
func lowerLost(pass *Pass, f *Finding, first lostModule, lost []lostModule) {
	loads, aside := false, ""
	var ends []*replay.StartFailure
	for _, m := range lost {
		ends = append(ends, m.ends...)
		for _, s := range m.steps {
			if s.of.Aside {
				aside = s.of.Title
			} else {
				loads = true
			}
		}
	}
	switch {
	case !loads && len(ends) > 0:
		pass.lowerTo(f, worstVerdict(ends))
	case first.absent != nil:
		pass.lower(f, "absent", packs.Values{"why": first.absent.Why})
		f.addEffectText(packs.Effect{Text: first.absent.Effect, Error: first.absent.Error})
	case !loads && aside != "":
		pass.lower(f, "aside", packs.Values{"framework": aside})
	case !loads:
		pass.lower(f, "no-step", nil)
	}
}

// removedFile returns a file that a layer deletes.
func removedFile(pass *Pass, file string, r layers.Removal) replay.Removed {
	return replay.Removed{File: replay.File{Path: file, Layer: pass.Image.LayerRef(r.Had)}, By: pass.Image.LayerRef(r.By)}
}

// firstLost returns the module that the finding names: one that ends a program, else one that a
// framework's step opens, else one that its package needs, else the first.
func firstLost(lost []lostModule) lostModule {
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return len(m.ends) > 0 }); i >= 0 {
		return lost[i]
	}
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return len(m.steps) > 0 }); i >= 0 {
		return lost[i]
	}
	if i := slices.IndexFunc(lost, func(m lostModule) bool { return m.absent == nil }); i >= 0 {
		return lost[i]
	}
	return lost[0]
}

// lostFinding returns the finding for one lost module, by the way in which it is lost.
func lostFinding(pass *Pass, m lostModule, v packs.Values) Finding {
	clause, kind := "no-library", packs.Unusable
	switch {
	case v["machine"] != "":
		clause = "other-machine"
	case m.gone:
		clause, kind = "gone", packs.Missing
	}
	f := pass.say("module-lost", clause, v)
	f.Kind = kind
	return f
}
