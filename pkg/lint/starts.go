package lint

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// startMisses adds the libraries that the Python programs of the image do not find or cannot
// use.
func startMisses(pass *Pass, causes *causes, groups map[string]*noneServing) {
	ends := map[string]bool{} // causes that end a program of the image's start
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			by := f
			if again := raisedAgain(s, f); again != nil {
				by = again
			}
			e := by.Loader()
			if e == nil || e.Kind == elfdeps.SymbolError || e.Kind == elfdeps.RelocationError || e.Missing() && pass.Packs.FromDriver(e.Name) {
				continue
			}
			file := replay.RealPath(pass.Image.FS, by.File())
			g := groups[file]
			if g == nil && e.By != nil {
				g = groups[e.By.Real()]
			}
			if g != nil {
				g.meet(s, f.Verdict, f.Effects)
				continue // the other files of the group serve as well
			}
			c := causes.of(e)
			c.loading = true
			c.meet(e, file, f.Verdict)
			if s.Package != "" && ends[c.id] {
				continue // the program's own way to it says more
			}
			c.effect(f.Effects...)
			ends[c.id] = ends[c.id] || s.Package == "" && f.Ends
		}
	}
}

// raisedAgain returns the failure of the loader that a program has caught, and whose exception
// another failure raises once more, or nil (onnxruntime does so after its other imports).
func raisedAgain(s *replay.Start, f *replay.StartFailure) *replay.StartFailure {
	if f.Loader() != nil || !f.Ends {
		return nil
	}
	for i := range s.Failures {
		if first := &s.Failures[i]; first.Loader() != nil && first.Text == f.Text {
			return first
		}
	}
	return nil
}

// endsImport reports whether an import surely ends a Python program without an error of the
// loader.
func endsImport(s *replay.Start, f *replay.StartFailure) bool {
	return f.Ends && f.Loader() == nil && f.Doubt == "" && raisedAgain(s, f) == nil
}

// importsFail returns a finding for each import that ends a Python program of the image
// without an error of the loader. Those of modules that a wheel has lost, and of a need that is not
// met, are in those findings.
func importsFail(pass *Pass) []Finding {
	lost := map[string]bool{}
	if len(endsByModule(pass)) > 0 {
		for p, pkg := range pass.Packages.EachWheel() {
			for _, m := range lostModulesOf(pass, p, pkg) {
				lost[m.module] = true
			}
		}
	}
	var messages []string
	by := map[string][]*replay.StartFailure{}
	for _, s := range pass.Evidence.Starts {
		for i := range s.Failures {
			f := &s.Failures[i]
			if !endsImport(s, f) || lost[absentModule(f)] {
				continue
			}
			message := f.Type + ": " + f.Failure.Text
			if f.Unread != nil && f.Unread.About {
				message = f.Type
			}
			if by[message] == nil {
				messages = append(messages, message)
			}
			by[message] = append(by[message], f)
		}
	}
	var list []Finding
	for _, m := range messages {
		if !ofNeed(pass, m) {
			list = append(list, importFinding(pass, m, by[m]))
		}
	}
	return list
}

// importFinding returns the finding for failures with one message.
func importFinding(pass *Pass, message string, failures []*replay.StartFailure) Finding {
	x := pass.say("import-fails", "raises", packs.Values{"error": message})
	for _, f := range failures {
		x.addEffects(f.Effects...)
	}
	pass.lowerTo(&x, worstVerdict(failures))
	x.Subject = failures[0].File()
	for _, n := range failures[0].Path {
		if n.File != "" {
			x.NeededBy = []replay.File{pass.Image.File(replay.RealPath(pass.Image.FS, n.File))}
			x.Affected = []string{n.File}
		}
	}
	if first := failures[0].InPlaceOf; first != nil {
		pass.also(&x, "in-place-of", packs.Values{"error": first.Type + ": " + first.Text})
	}
	pass.adviseSyntax(&x, failures[0])
	pass.adviseModule(&x, failures[0])
	pass.adviseRequirements(&x, failures[0])
	pass.adviseAddon(&x, failures[0])
	pass.adviseProgram(&x, failures[0])
	pass.adviseLibrary(&x, failures[0])
	pass.adviseMetadata(&x, failures[0])
	pass.adviseSaid(&x, failures[0])
	return x
}

// adviseSyntax adds the line that the interpreter does not read, and which releases of Python read it.
func (pass *Pass) adviseSyntax(x *Finding, f *replay.StartFailure) {
	if u := f.Unread; u != nil {
		pass.also(x, "syntax", packs.Values{"file": u.File, "line": strconv.Itoa(u.Line), "name": u.Name, "needs": u.Needs, "version": u.Python})
	}
}

// worstVerdict returns the first of the severest verdicts on failures, of which there is one at least.
func worstVerdict(failures []*replay.StartFailure) packs.Verdict {
	v := failures[0].Verdict
	for _, f := range failures {
		if f.Verdict.Severity.AtLeast(v.Severity) && f.Verdict.Severity != v.Severity {
			v = f.Verdict
		}
	}
	return v
}

// sitePython matches the directory of Python packages below an environment.
var sitePython = regexp.MustCompile(`/lib(?:64)?/(python[0-9.]+)/site-packages$`)

// adviseRequirements adds the list of requirements that a module of a program's directory brings
// (packs.Folder).
func (pass *Pass) adviseRequirements(x *Finding, f *replay.StartFailure) {
	if f.Start.Folder == nil || f.Type != "ModuleNotFoundError" || len(f.Path) < 2 {
		return
	}
	file := path.Join(path.Dir(f.Path[1].File), "requirements.txt")
	if path.Base(f.Path[1].File) == "__init__.py" && pass.Image.IsFile(file) {
		pass.also(x, "requirements", packs.Values{"python": f.Start.Python, "file": file, "name": f.Start.Name})
	}
}

// adviseModule adds what to do about a module that is not there: the package may have it
// for another Python.
func (pass *Pass) adviseModule(x *Finding, f *replay.StartFailure) {
	if lack := lackOf(f); lack != nil {
		pass.adviseName(x, f, lack)
	}
	last := f.Path[len(f.Path)-1]
	if f.Type != "ModuleNotFoundError" || last.File != "" { // a module that is there may raise it itself
		return
	}
	name := last.Name
	v := packs.Values{"module": name, "python": path.Base(replay.RealPath(pass.Image.FS, f.Start.Python))}
	if v["file"], v["of"] = pass.otherBuild(name, x.Affected); v["file"] != "" {
		pass.also(x, "other-python", v)
		x.Present = []replay.File{pass.Image.File(v["file"])}
		return
	}
	if pass.adviseSubmodule(x, f, v) {
		return
	}
	if v["dir"] = pass.moduleElsewhere(name); v["dir"] != "" {
		clause := "source-tree"
		if v["venv"] = pass.environmentOf(v["dir"]); v["venv"] != "" {
			clause = "other-environment"
			if m := sitePython.FindStringSubmatch(v["dir"]); m != nil && m[1] != v["python"] && replay.RealPath(pass.Image.FS, v["venv"]+"/bin/python") == replay.RealPath(pass.Image.FS, f.Start.Python) {
				clause, v["of"] = "environment-of-other", m[1]
			}
		}
		pass.also(x, clause, v)
		return
	}
	if v["requirement"] = pass.requirementOf(x, name); v["requirement"] != "" {
		pass.also(x, "known-module", v)
		return
	}
	if pass.isOwn(x, f, name) {
		v["file"] = x.Affected[0]
		pass.also(x, "own-module", v)
		return
	}
	if pass.adviseOwners(x, v) {
		return
	}
	pass.also(x, "no-module", v)
	pass.adviseRequired(x, name)
}

// requirementOf returns the requirement of the package that the packs know to have a module, in the
// releases that the package of the file which imports it requires, or "" if none is known.
func (pass *Pass) requirementOf(x *Finding, module string) string {
	known, err := inventory.ParseRequirement(packs.RequirementOf(pass.Packs.Modules, module))
	if err != nil || len(x.Affected) == 0 {
		return ""
	}
	_, pkg, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, x.Affected[0]))
	if pkg == nil || known.Specifiers != "" {
		return known.Name + known.Specifiers
	}
	for _, line := range pkg.Requires {
		if r, err := inventory.ParseRequirement(line); err == nil && r.Name == known.Name && r.Marker == "" && isPlainSpec.MatchString(r.Specifiers) {
			return r.Name + r.Specifiers
		}
	}
	return known.Name
}

// isPlainSpec matches specifiers that a command can state.
var isPlainSpec = regexp.MustCompile(`^[0-9A-Za-z.,<>=!~*+-]*$`)

// missingName matches CPython's text about a name that a module does not have
// (Python/ceval.c, import_from).
var missingName = regexp.MustCompile(`^cannot import name '([^']+)' from (?:partially initialized module )?'([^']+)' (?:\(most likely due to a circular import\) )?\((/[^)]+|unknown location)\)`)

// removedIn matches a package's text about the release that has removed a name (NumPy's of its
// expired attributes).
var removedIn = regexp.MustCompile(`removed in the ([A-Za-z0-9_.-]+) ([0-9]+(?:\.[0-9]+)*) release`)

// lackOf returns the name that a module lacks, of which a failure tells, or nil.
func lackOf(f *replay.StartFailure) *pyimport.Lack {
	if f.Type != "ImportError" {
		return f.Lacks
	}
	m := missingName.FindStringSubmatch(f.Text)
	if m == nil {
		return nil
	}
	return &pyimport.Lack{Name: m[1], Module: m[2], File: strings.TrimPrefix(m[3], "unknown location")}
}

// adviseName adds which packages have releases that do not fit: that of the module that lacks a
// name, and that of the file which imports or uses it.
func (pass *Pass) adviseName(x *Finding, f *replay.StartFailure, lack *pyimport.Lack) {
	if len(x.Affected) == 0 || lack.File != "" && pass.adviseHidden(x, lack.Module, lack.File) {
		return
	}
	p, of, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, lack.File))
	if lack.File == "" {
		if p, of = pass.ownerOfSpace(x.Affected[0], lack); of == nil {
			return
		}
	}
	if of == nil {
		pass.advisePython(x, f, lack)
		return
	}
	v := packs.Values{"name": lack.Name, "module": lack.Module, "uses": "imports"}
	if f.Type == "AttributeError" {
		v["uses"] = "uses"
	}
	v["releases"] = packs.Fitting(pass.Packs.Names, of.Name, pass.Packages.Version(p, of), lack.Module, lack.Name)
	if m := removedIn.FindStringSubmatch(f.Text); m != nil && strings.EqualFold(m[1], of.Name) {
		v["releases"] = "<" + m[2]
	}
	v["place"] = belowSite(p, lack.File)
	pass.adviseRelease(x, ofName, p, of, v)
}

// ownerOfSpace returns the package that has lost a name of a namespace package, which has no
// file that would tell: the installed one of which the packs know it, and which no other such
// package requires. file is one of the same environment.
func (pass *Pass) ownerOfSpace(file string, lack *pyimport.Lack) (*inventory.Python, *inventory.Package) {
	p, _, wheels := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, file))
	if p == nil {
		return nil, nil
	}
	var lost []*inventory.Package
	for _, row := range pass.Packs.Names {
		if pkg := wheels[inventory.Normalize(row.Package)]; pkg != nil && packs.Fitting([]*packs.Names{row}, pkg.Name, pass.Packages.Version(p, pkg), lack.Module, lack.Name) != "" {
			lost = append(lost, pkg)
		}
	}
	for _, pkg := range lost {
		if !slices.ContainsFunc(lost, func(by *inventory.Package) bool { return requires(by, pkg.Name) }) {
			return p, pkg
		}
	}
	return nil, nil
}

// requires reports whether the metadata of a package has another one among its requirements.
func requires(by *inventory.Package, name string) bool {
	return slices.ContainsFunc(by.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && inventory.Normalize(r.Name) == inventory.Normalize(name)
	})
}

// interpreterRelease matches the release in the name of an interpreter's file.
var interpreterRelease = regexp.MustCompile(`^python(3\.[0-9]+)`)

// advisePython adds which releases of Python have a name that a module of the interpreter lacks, if the packs
// know them.
func (pass *Pass) advisePython(x *Finding, f *replay.StartFailure, lack *pyimport.Lack) {
	m := interpreterRelease.FindStringSubmatch(path.Base(replay.RealPath(pass.Image.FS, f.Start.Python)))
	if m == nil || strings.Contains(lack.File, "-packages/") {
		return
	}
	releases := packs.Fitting(pass.Packs.Names, "python", m[1], lack.Module, lack.Name)
	if releases == "" {
		return
	}
	by := path.Base(x.Affected[0])
	if _, of, _ := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, x.Affected[0])); of != nil {
		by = of.Name
	}
	pass.also(x, "name-of-python", packs.Values{"name": lack.Name, "module": lack.Module, "releases": releases, "version": m[1], "by": by})
}

// adviseRequired adds where a module that is not there may come from: the package with the
// import requires one that is not installed, or requires a single one, whose release that is
// installed does not have it.
func (pass *Pass) adviseRequired(x *Finding, module string) {
	if len(x.Affected) == 0 {
		return
	}
	_, pkg, wheels := pass.Packages.OwnerOf(replay.RealPath(pass.Image.FS, x.Affected[0]))
	if pkg == nil {
		return
	}
	var here []*inventory.Package
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || strings.Contains(line, ";") {
			continue // perhaps it does not apply
		}
		if is := wheels[r.Name]; is != nil {
			here = append(here, is)
			continue
		}
		pass.also(x, "required", packs.Values{"requirement": r.Name, "package": pkg.Name})
		return
	}
	if len(here) == 1 {
		pass.also(x, "required-release", packs.Values{"requirement": here[0].Name, "version": here[0].Version, "package": pkg.Name, "module": module})
	}
}

// moduleElsewhere returns the directory of the image that has a module of a dotted name, or "":
// the first, and one of an environment before others. Those of the standard library and the
// inside of packages do not count.
func (pass *Pass) moduleElsewhere(name string) string {
	top, _, _ := strings.Cut(name, ".")
	found := ""
	for e := range pass.Image.FS.All() {
		p, ok := strings.CutSuffix("/"+e.Path, "/"+top+"/__init__.py")
		if !ok {
			p, ok = strings.CutSuffix("/"+e.Path, "/"+top+".py")
		}
		if !ok || p == "" || strings.Contains(p, "/_vendor") || strings.Contains(strings.TrimSuffix(p, "-packages"), "-packages/") {
			continue // a part of a package
		}
		if standardLibrary.MatchString(p) || pass.Image.IsFile(p+"/__init__.py") || !pass.hasModule(p, name) {
			continue // a module of a package has another name
		}
		if packed := strings.HasSuffix(p, "-packages"); found == "" || packed && (!strings.HasSuffix(found, "-packages") || p < found) {
			found = p
		}
	}
	return found
}

// standardLibrary matches the directory of Python's standard library, and those in it.
var standardLibrary = regexp.MustCompile(`/lib(?:64)?/python[0-9.]+(?:/[^-]*)?$`)

// hasModule reports whether a directory has a module or a package of a dotted name.
func (pass *Pass) hasModule(dir, name string) bool {
	p := path.Join(dir, strings.ReplaceAll(name, ".", "/"))
	e, _, ok := pass.Image.FS.Lookup(p)
	return ok && e.IsDir() || pass.Image.IsFile(p+".py")
}

// environmentOf returns the environment of a directory of packages that has an interpreter of
// its own, or "".
func (pass *Pass) environmentOf(site string) string {
	prefix, _, ok := strings.Cut(site, "/lib/python")
	if ok && strings.HasSuffix(site, "/site-packages") && pass.Image.IsFile(prefix+"/bin/python") {
		return prefix
	}
	return ""
}

// otherBuild returns the extension module with the last part of a dotted name that lies
// beside a file and is tagged for another version of Python, and that version, or "".
func (pass *Pass) otherBuild(name string, beside []string) (file, of string) {
	for _, by := range beside {
		list, err := fs.ReadDir(pass.Image.FS, strings.TrimPrefix(path.Dir(by), "/"))
		if err != nil {
			continue
		}
		for _, e := range list {
			tag := extensionTag.FindStringSubmatch(e.Name())
			if base, _, _ := strings.Cut(e.Name(), "."); tag != nil && base == name[strings.LastIndexByte(name, '.')+1:] {
				of = "3." + tag[1]
				if l := pass.Loaders.Primary; l != nil && l.Libc.Musl && strings.Contains(e.Name(), "-linux-gnu") {
					of += " with glibc"
				}
				return path.Join(path.Dir(by), e.Name()), of
			}
		}
	}
	return "", ""
}
