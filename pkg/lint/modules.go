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
	module string           // its name in an import
	absent *packs.Exception // why its package does without it; nil if it does not
}

// stepOf is a step of a framework that opens a file.
type stepOf struct {
	of   *packs.Framework
	step *packs.Step
}

// modulesLost returns a finding for each wheel with extension modules in its RECORD that
// are gone or are no libraries. The replay covers modules that lack something else.
func modulesLost(pass *Pass) []Finding {
	var list []Finding
	for p, pkg := range pass.Packages.EachWheel() {
		var lost []lostModule
		for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
			if m, ok := lostModuleAt(pass, pkg.Dir, file, pkg.Files[file]); ok {
				lost = append(lost, m)
			}
		}
		if len(lost) > 0 {
			list = append(list, modulesFinding(pass, pkg, pass.Packages.Version(p, pkg), lost))
		}
	}
	return list
}

// lostModuleAt reports whether a file that a RECORD lists is a module that cannot be imported
// because the file is gone, is no library, or is for another machine.
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
	case packs.ExceptionFor(pass.Packs.Optional, file) != nil, forTests.MatchString(rel):
		return m, false // a framework does without; tests are left out to save space
	case !tagged && (len(m.steps) == 0 || strings.HasPrefix(base, "lib")):
		return m, false // a library that others need: the replay misses it there
	case m.gone:
		if !ok { // what is there, a directory for one, is opened
			m.absent = packs.ExceptionFor(pass.Packs.Absent, file)
		}
		m.reads = pass.Packs.Phrase("no-module", packs.Values{"module": m.module})
		return m, true
	case len(m.steps) > 0 && !other || pass.Loaders.Primary == nil:
		return m, false // the replay of the framework has met it
	}
	misses := pass.Loaders.OpenPath(pass.Loaders.ProgramFor(file, pass.Loaders.Primary), file)
	if len(misses) == 0 {
		return m, false
	}
	if !other { // what the loader says of that is what it says of a file that is not there
		m.reads = pass.Packs.Phrase("import-error", packs.Values{"error": misses[0].Error()})
	}
	return m, true
}

// stepsOf returns the steps of the image's frameworks that open a file, by its path below
// a directory of packages.
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

// modulesFinding returns the finding for the modules that a wheel has lost.
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
	loads, aside := false, ""
	for _, m := range lost {
		f.Affected = append(f.Affected, m.file)
		if r, ok := pass.Image.FS.Removed(strings.TrimPrefix(m.file, "/")); ok {
			f.Removed = append(f.Removed, replay.Removed{File: replay.File{Path: m.file, Layer: pass.Image.LayerRef(r.Had)}, By: pass.Image.LayerRef(r.By)})
		}
		for _, s := range m.steps {
			if s.of.Aside {
				aside = s.of.Title
			} else {
				loads = true
			}
			f.addEffectText(packs.Effect{Text: s.step.Effect, Error: cmp.Or(s.step.Absent, m.reads)})
		}
	}
	switch {
	case first.absent != nil:
		pass.lower(&f, "absent", packs.Values{"why": first.absent.Why})
		f.addEffectText(packs.Effect{Text: first.absent.Effect, Error: first.absent.Error})
	case !loads && aside != "":
		pass.lower(&f, "aside", packs.Values{"framework": aside})
	case !loads:
		pass.lower(&f, "no-step", nil)
	}
	if len(f.Effects) == 0 {
		pass.also(&f, "import", packs.Values{"module": first.module, "error": first.reads})
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
