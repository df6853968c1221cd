package lint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Checks of packages that do not fit together. A wheel's own metadata counts more than
// the tables of the packs.

// buildOf returns what a framework of an environment says about its own build, nil if it
// says nothing.
func (w *world) buildOf(p *inventory.Python, name string) *inventory.Build {
	for _, site := range p.Sites {
		for _, b := range w.inv.Builds {
			if b.Name == name && b.Dir == site {
				return b
			}
		}
	}
	return nil
}

// version returns a package's version, with the local part that only the framework's own
// build has (2.6.0+cu124).
func (w *world) version(p *inventory.Python, pkg *inventory.Package) string {
	if b := w.buildOf(p, pkg.Name); b != nil && numbers(b.Version, 3) == numbers(pkg.Version, 3) {
		return b.Version
	}
	return pkg.Version
}

// localOf returns the local part of a version (cu124, cpu), or "".
func localOf(version string) string {
	_, local, _ := strings.Cut(version, "+")
	return local
}

// cudaOf returns the CUDA version in the local part of a version, or "": 12.4 for cu124,
// 11.8 for cu118, 13.0 for cu130.
func cudaOf(local string) string {
	m := cudaLocal.FindStringSubmatch(local)
	if m == nil {
		return ""
	}
	return m[1] + "." + m[2]
}

var cudaLocal = regexp.MustCompile(`^cu(\d{2})(\d)$`)

// unmet is a requirement of the package by that the installed package of does not meet.
type unmet struct {
	by, of *inventory.Package
	wants  string
}

// unmetOf returns the requirements of a package that installed packages do not meet.
// Requirements on missing packages or with unparsable versions are ignored.
func (w *world) unmetOf(p *inventory.Python, pkg *inventory.Package, wheels wheelSet) []unmet {
	var list []unmet
	env := w.marker(p)
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || r.Specifiers == "" {
			continue
		}
		of := wheels[r.Name]
		if holds, known := r.Applies(env); of == nil || !holds || !known {
			continue
		}
		if ok, err := version.Satisfies(w.version(p, of), r.Specifiers); err == nil && !ok {
			list = append(list, unmet{pkg, of, r.Specifiers})
		}
	}
	return list
}

// torchPairs returns a finding for each package of the packs' pairs that is not made for
// the package beside it: by what its metadata requires, else by the packs' releases, else
// by the CUDA versions that the two are built for.
func (w *world) torchPairs() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		for _, pair := range w.packs.Pairs {
			pkg, base := wheels[pair.Package], wheels[pair.For]
			if pkg == nil || base == nil {
				continue
			}
			if f, unfit := w.pairFinding(p, pair, pkg, base, wheels); unfit {
				f.NeededBy, f.Present = []File{w.file(pkg.Path)}, []File{w.file(base.Path)}
				list = append(list, f)
			}
		}
	}
	return list
}

// pairFinding returns what is wrong with a pair of packages of an environment.
func (w *world) pairFinding(p *inventory.Python, pair *Pair, pkg, base *inventory.Package, wheels wheelSet) (f Finding, unfit bool) {
	const rule = "torch-pair"
	has, installed := w.version(p, pkg), w.version(p, base)
	cuda, other := w.cudaBuild(p, base), w.cudaBuild(p, pkg)
	fits, known := pair.Versions[numbers(installed, 2)]
	wants, requires := w.pairRequirement(p, pair, pkg, base, wheels)
	v := values{
		"package": pair.Package, "version": has, "for": pair.For, "installed": installed, "release": numbers(installed, 2), "fits": fits,
		"wants": wants, "cuda": cuda, "other": other, "error": pair.Error, "cuda-error": pair.CUDAError,
	}
	switch {
	case wants != "":
		f = w.say(rule, "unfit", v)
		w.also(&f, "required", v)
	case !requires && known && numbers(has, 2) != fits:
		f = w.say(rule, "unfit", v)
		w.also(&f, "announced", v)
	case localOf(has) == "cpu" && cuda != "":
		f = w.say(rule, "cpu", v)
	case cuda != "" && other != "" && pair.CUDA != "" && numbers(cuda, pair.cudaNumbers()) != numbers(other, pair.cudaNumbers()):
		f = w.say(rule, "cuda", v)
	default:
		return f, false
	}
	switch v["index"] = pair.indexOf(installed); {
	case fits == "" || !isVersion440(installed):
	case v["index"] != "":
		w.also(&f, "release-of-index", v)
	default:
		w.also(&f, "release", v)
	}
	w.also(&f, "together", v)
	return f, true
}

// pairRequirement reports whether the metadata of a pair's package requires one release of
// the other, and returns the requirement that the other does not meet, or "".
func (w *world) pairRequirement(p *inventory.Python, pair *Pair, pkg, base *inventory.Package, wheels wheelSet) (wants string, requires bool) {
	requires = slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && r.Name == pair.For && strings.Contains(r.Specifiers, "==")
	})
	if !requires {
		return "", false
	}
	for _, u := range w.unmetOf(p, pkg, wheels) {
		if u.of == base {
			wants = u.wants
		}
	}
	return wants, true
}

// isVersion440 reports whether a text from the image is a version and nothing else. Fixes
// are commands that people copy, so no other text from an image may stand in them.
func isVersion440(s string) bool {
	_, err := version.Parse(s)
	return err == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}

// cudaNumbers returns how many numbers of the CUDA versions must agree.
func (p *Pair) cudaNumbers() int {
	if p.CUDA == "major" {
		return 1
	}
	return 2
}

// indexOf returns the URL of the index that has a build of the other package by the local
// part of its version (PyPI has no 2.6.0+cu124), or "".
func (p *Pair) indexOf(version string) string {
	build := localOf(version)
	if !matchAny(p.Builds, build) {
		return ""
	}
	return fill(p.Index, values{"build": build})
}

// cudaBuild returns the CUDA version that a package of an environment is built for, or "":
// from the package's own file (torch names it, its companions have it in the local part of
// their version), else from the local part of the version in its metadata.
func (w *world) cudaBuild(p *inventory.Python, pkg *inventory.Package) string {
	b := w.buildOf(p, pkg.Name)
	switch {
	case b == nil:
		return cudaOf(localOf(pkg.Version))
	case b.CUDA != "" || b.CPU:
		return b.CUDA
	}
	return cudaOf(localOf(b.Version))
}

// requirementsUnmet returns a finding for each unmet requirement of the packages that the
// packs pin or know the needs of.
func (w *world) requirementsUnmet() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		for name, pkg := range wheels.sorted() {
			for _, u := range w.unmetOf(p, pkg, wheels) {
				pin := w.pin(name, u.of.Name)
				if pin == nil {
					continue
				}
				list = append(list, w.unmetFinding(p, u, "required", pin.Severity, values{"effect": pin.Why, "error": ""}))
			}
			list = append(list, w.madeForOther(p, pkg, wheels)...)
		}
	}
	return list
}

// unmetFinding returns the finding for an unmet requirement, in the words of a clause.
// effect holds the values of the shared clause "effect".
func (w *world) unmetFinding(p *inventory.Python, u unmet, clause string, severity Severity, effect values) Finding {
	f := w.say("requirement-unmet", clause, values{
		"package": u.by.Name, "version": u.by.Version, "of": u.of.Name, "of-version": u.of.Version, "wants": u.wants, "installed": w.version(p, u.of),
	})
	w.also(&f, "effect", effect)
	f.Severity = f.Severity.atMost(severity)
	f.NeededBy, f.Present = []File{w.file(u.by.Path)}, []File{w.file(u.of.Path)}
	return f
}

// madeForOther returns a finding for each need of a package that only the packs know and
// that the installed packages do not meet.
func (w *world) madeForOther(p *inventory.Python, pkg *inventory.Package, wheels wheelSet) []Finding {
	var list []Finding
	for _, n := range w.packs.MadeFor {
		if fits, err := version.Satisfies(pkg.Version, n.Versions); !match(n.Package, pkg.Name) || err != nil || !fits {
			continue
		}
		r, err := inventory.ParseRequirement(n.of(pkg.Version))
		if err != nil || wheels[r.Name] == nil || slices.ContainsFunc(w.unmetOf(p, pkg, wheels), func(u unmet) bool { return u.of == wheels[r.Name] && w.pin(pkg.Name, r.Name) != nil }) {
			continue
		}
		if ok, err := version.Satisfies(wheels[r.Name].Version, r.Specifiers); err == nil && !ok {
			list = append(list, w.unmetFinding(p, unmet{pkg, wheels[r.Name], r.Specifiers}, "made-for", n.Severity, values{"effect": n.Effect, "error": n.Error}))
		}
	}
	return list
}

// pin returns the first row that covers the requirement of a package on another, or nil.
func (w *world) pin(name, required string) *Pinned {
	for _, row := range w.packs.Pinned {
		if matchAny(row.Packages, name) && matchAny(row.Requires, required) {
			return row
		}
	}
	return nil
}

// found is one copy of a library.
type found struct {
	version string // "9" where only the major version is known
	path    string // of its file, or of the metadata of its package
	wheel   bool
}

// copiesIn returns the copies of a carrier's library that an environment could find: its
// own wheel's and conda's, and the system's.
func (w *world) copiesIn(p *inventory.Python, wheels wheelSet, c *Carrier) []found {
	var list []found
	for name, pkg := range wheels {
		if matchAny(c.Wheels, name) {
			list = append(list, found{pkg.Version, pkg.Path, true})
		}
	}
	for _, pkg := range w.inv.Packages {
		switch {
		case pkg.Kind == inventory.Conda && pkg.Dir == p.Prefix && matchAny(c.Conda, pkg.Name):
			list = append(list, found{pkg.Version, pkg.Path, false})
		case (pkg.Kind == inventory.Deb || pkg.Kind == inventory.RPM) && matchAny(c.System, pkg.Name) && !matchAny(c.Except, pkg.Name):
			list = append(list, found{version.Upstream(pkg.Version), pkg.Path, false})
		}
	}
	for _, component := range w.inv.Components {
		if component.Name == c.Family && component.From == "file name" {
			list = append(list, found{component.Version, component.Path, false})
		}
	}
	for major, names := range w.majorsOf(c) {
		if slices.ContainsFunc(list, func(f found) bool { return numbers(f.version, 1) == major }) {
			continue
		}
		for _, file := range w.firstPresent(names) {
			list = append(list, found{major, file, false})
		}
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version)) })
	return list
}

// majorsOf returns the names of the image's files that have the major version of a
// carrier's library in them, by that version.
func (w *world) majorsOf(c *Carrier) map[string][]string {
	majors := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(w.named)) {
		if major := majorOf(name); major != "" && matchAny(c.Files, name) {
			majors[major] = append(majors[major], name)
		}
	}
	return majors
}

// firstPresent returns the files with the first of the names that the image has.
func (w *world) firstPresent(names []string) []string {
	for _, name := range names {
		if files := w.present(name); len(files) > 0 {
			return files
		}
	}
	return nil
}

// stackOf returns the CUDA libraries that a package of an environment needs, nil if they
// are not known. requirement is the line of its metadata that names them, or "" if a table
// of the packs does.
func (w *world) stackOf(p *inventory.Python, pkg *inventory.Package) (s *Stack, requirement string) {
	if s, requirement = w.stackRequired(p, pkg); s != nil {
		return s, requirement
	}
	for _, row := range w.packs.Stacks {
		if row.Package != pkg.Name || row.Build != "" && numbers(w.cudaBuild(p, pkg), 2) != row.Build {
			continue
		}
		if ok, err := version.Satisfies(w.version(p, pkg), row.Versions); err == nil && ok {
			return row, ""
		}
	}
	return nil, ""
}

// stackRequired returns the release of cuDNN that the metadata of a package requires, or
// nil if it requires none or several.
func (w *world) stackRequired(p *inventory.Python, pkg *inventory.Package) (s *Stack, requirement string) {
	c := w.packs.carrier("cudnn")
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || !matchAny(c.Wheels, r.Name) {
			continue
		}
		version, exact := strings.CutPrefix(r.Specifiers, "==")
		if holds, known := r.Applies(w.marker(p)); !exact || !holds || !known || strings.ContainsAny(version, "*,") {
			continue
		}
		s = &Stack{Package: pkg.Name, CUDNN: version}
		if i := slices.IndexFunc(w.packs.Stacks, func(row *Stack) bool { return row.Package == pkg.Name }); i >= 0 {
			row := w.packs.Stacks[i]
			s.Effect, s.Error, s.Incidental = row.Effect, row.Error, row.Incidental
		}
		return s, r.Name + r.Specifiers
	}
	return nil, ""
}

// stacked calls f for each package of each environment whose needs of CUDA libraries are
// known.
func (w *world) stacked(f func(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, requirement string)) {
	for p, wheels := range w.environments() {
		for _, pkg := range wheels.sorted() {
			if s, requirement := w.stackOf(p, pkg); s != nil {
				f(p, wheels, pkg, s, requirement)
			}
		}
	}
}

// metadataRequires returns what a message says of the requirement that stackOf returned.
func (w *world) metadataRequires(requirement string) string {
	if requirement == "" {
		return ""
	}
	return w.phrase("metadata-requires", values{"requirement": requirement})
}

// stackFinding returns the finding of a rule for a package whose stack the image does not
// have.
func (w *world) stackFinding(rule string, s *Stack, wheels wheelSet, pkg *inventory.Package, v values) Finding {
	f := w.say(rule, "unfit", v)
	if s.Effect != "" {
		w.also(&f, "effect", values{"effect": s.Effect, "error": s.Error})
	}
	if other := w.incidental(wheels, s); other != "" {
		w.lower(&f, "incidental", values{"other": other, "package": s.Package})
	}
	f.NeededBy = []File{w.file(pkg.Path)}
	return f
}

// ownCopy reports whether a framework brings a carrier's library in its own directory.
func (w *world) ownCopy(pkg *inventory.Package, c *Carrier) bool {
	return slices.ContainsFunc(w.installs, func(in *install) bool {
		return in.ID == pkg.Name && in.site == pkg.Dir && c.Own != "" && len(w.glob(in.home, c.Own)) > 0
	})
}

// incidental returns another package of the environment that uses the GPU, or "". Where
// there is one, a framework that is often installed for its CPU side may not matter.
func (w *world) incidental(wheels wheelSet, s *Stack) string {
	if !s.Incidental {
		return ""
	}
	for name := range wheels.sorted() {
		if name != s.Package && slices.ContainsFunc(w.packs.Stacks, func(o *Stack) bool { return o.Package == name && !o.Incidental }) {
			return name
		}
	}
	return ""
}

// cudnnVersions returns a finding for each framework that can find only releases of cuDNN
// that it refuses.
func (w *world) cudnnVersions() []Finding {
	var list []Finding
	carrier := w.packs.carrier("cudnn")
	w.stacked(func(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, requirement string) {
		have, wants := w.copiesFor(p, wheels, pkg, carrier), parseRelease(s.CUDNN)
		if wants == nil || len(have) == 0 || fitsAny(have, wants) || w.ownCopy(pkg, carrier) {
			return
		}
		major := numbers(s.CUDNN, 1)
		var versions []string
		var present []File
		for _, c := range have {
			versions = append(versions, c.version)
			present = append(present, w.file(c.path))
		}
		slices.Sort(versions)
		f := w.stackFinding("cudnn-version", s, wheels, pkg, values{
			"package": pkg.Name, "version": w.version(p, pkg), "least": numbers(s.CUDNN, 2), "next": strconv.Itoa(wants[0] + 1),
			"why": w.metadataRequires(requirement), "installed": strings.Join(slices.Compact(versions), ", "), "cuda": w.cudaFor(p, pkg, s),
		})
		f.Library, f.Family, f.Present = carrier.Library+"."+major, carrier.Family, present
		list = append(list, f)
	})
	return list
}

// copiesFor returns the copies of a carrier's library that a package of an environment may
// load: those of wheels if its metadata requires one, since it finds them first (by RPATH,
// or a preload by full path), else all.
func (w *world) copiesFor(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, c *Carrier) []found {
	list := w.copiesIn(p, wheels, c)
	requires := slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && matchAny(c.Wheels, r.Name)
	})
	if requires && slices.ContainsFunc(list, func(f found) bool { return f.wheel }) {
		list = slices.DeleteFunc(list, func(f found) bool { return !f.wheel })
	}
	return list
}

// fitsAny reports whether one of the copies has the major version of wants and no older
// minor. A minor version that is not known counts as new enough.
func fitsAny(copies []found, wants version.Release) bool {
	return slices.ContainsFunc(copies, func(c found) bool {
		has := parseRelease(c.version)
		return numbers(c.version, 1) == wants.First(1).String() && !has.First(2).Before(wants.First(2))
	})
}

// cudaFor returns the major version of CUDA that a framework is built for, or "" if
// neither the framework nor the packs say it.
func (w *world) cudaFor(p *inventory.Python, pkg *inventory.Package, s *Stack) string {
	return cmp.Or(numbers(w.cudaBuild(p, pkg), 1), s.CUDA)
}

// cudaMajors returns a finding for each framework that opens CUDA libraries of a major
// version that the image does not have by name at run time. The replay covers the libraries
// in DT_NEEDED.
func (w *world) cudaMajors() []Finding {
	var list []Finding
	carrier := w.packs.carrier("cuda")
	majors := w.majorsOf(carrier)
	sorted := slices.Sorted(maps.Keys(majors))
	w.stacked(func(_ *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, requirement string) {
		if s.CUDA == "" || len(majors) == 0 || majors[s.CUDA] != nil {
			return
		}
		f := w.stackFinding("cuda-major-absent", s, wheels, pkg, values{
			"package": pkg.Name, "version": pkg.Version, "cuda": s.CUDA, "why": w.metadataRequires(requirement), "installed": strings.Join(sorted, ", "),
		})
		f.Library, f.Family = carrier.Library+"."+s.CUDA, carrier.Family
		for _, major := range sorted {
			var paths []string
			for _, name := range majors[major] {
				paths = append(paths, w.named[name]...)
			}
			f.Present = append(f.Present, w.file(slices.Min(paths)))
		}
		list = append(list, f)
	})
	return list
}

// cudaDiffers returns a finding for each framework that is built for another CUDA than the
// system has, if extensions are compiled against both. That is no fault of an image in
// which nothing is compiled.
func (w *world) cudaDiffers() []Finding {
	carrier, clause := w.packs.carrier("cuda"), "directory"
	v, there := values{"system": ""}, map[string]bool{}
	for _, c := range w.inv.Components {
		if c.Name == carrier.Family && c.Path != "" && (c.From == "version.json" || c.From == "directory name") {
			v["system"], v["path"] = numbers(c.Version, 2), c.Path
			there[numbers(c.Version, 2)] = true
		}
	}
	if v["system"] == "" {
		version, _ := w.getenv(carrier.variable())
		v["system"], v["variable"], clause = numbers(version, 2), carrier.variable(), "variable"
	}
	var list []Finding
	for _, b := range w.inv.Builds {
		cuda := numbers(b.CUDA, 2)
		if !known(w.packs.ExtensionHosts, b.Name) || cuda == "" || v["system"] == "" || cuda == v["system"] || there[cuda] {
			continue
		}
		v["package"], v["version"], v["cuda"] = b.Name, b.Version, cuda
		f := w.say("cuda-differs", clause, maps.Clone(v))
		f.Present = []File{w.file(b.Path)}
		list = append(list, f)
	}
	return list
}

// cpuBuilds returns a finding for each framework without GPU code in an image that is made
// for a GPU, or beside files that need a library of the framework's GPU build.
func (w *world) cpuBuilds() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		for _, row := range w.packs.CPUBuilds {
			pkg := wheels[row.Package]
			if pkg == nil || !w.isCPUBuild(p, pkg, row) {
				continue
			}
			v := values{"package": pkg.Name, "version": w.version(p, pkg)}
			f, found := w.cpuBuildNeeded(p, row, v)
			if !found {
				f, found = w.cpuBuildUnused(row, wheels, v)
			}
			if found {
				f.Present = []File{w.file(pkg.Path)}
				f.advise(w.adviceOf([]string{row.Fix}, values{})...)
				list = append(list, f)
			}
		}
	}
	return list
}

// cpuBuildNeeded returns the finding for files that need a library of the GPU build.
func (w *world) cpuBuildNeeded(p *inventory.Python, row *CPUBuild, v values) (f Finding, found bool) {
	files, lacks := w.wantsGPUBuild(p, row)
	if len(files) == 0 {
		return f, false
	}
	v["file"], v["library"] = path.Base(files[0]), lacks
	f = w.say("cpu-build", "extension", v)
	f.Library, f.NeededBy, f.Affected = lacks, w.filesOf(files), files
	return f, true
}

// cpuBuildUnused returns the finding for a framework that leaves the image's GPU unused.
func (w *world) cpuBuildUnused(row *CPUBuild, wheels wheelSet, v values) (f Finding, found bool) {
	clause := w.cudaShown(wheels, v)
	other := ""
	for name := range wheels.sorted() {
		found = found || matchAny(row.Unless, name)
		if matchAny(row.Beside, name) {
			other = name
		}
	}
	if clause == "" || found {
		return f, false
	}
	f = w.say("cpu-build", clause, v)
	w.also(&f, "effect", values{"effect": row.Effect, "error": ""})
	f.Severity = f.Severity.atMost(row.Severity)
	if other = cmp.Or(other, w.gpuProgram()); other != "" {
		w.lower(&f, "beside", values{"other": other})
	}
	return f, true
}

// cudaShown adds to v the first sign that an image is made for a GPU: a variable, a file
// outside of Python's packages, or a wheel of an environment. It returns the clause of the
// rule cpu-build for that sign, or "".
func (w *world) cudaShown(wheels wheelSet, v values) string {
	carrier := w.packs.carrier("cuda")
	for _, name := range carrier.Variables {
		if value, _ := w.getenv(name); value != "" {
			v["variable"], v["value"] = name, value
			return "variable"
		}
	}
	if i := slices.IndexFunc(w.inv.Components, func(c *inventory.Component) bool {
		return c.Name == carrier.Family && c.Path != "" && !strings.Contains(c.Path, "-packages/")
	}); i >= 0 {
		v["path"] = w.inv.Components[i].Path
		return "file"
	}
	for name, pkg := range wheels.sorted() {
		if w.isGPUWheel(name) {
			v["path"] = pkg.Path
			return "file"
		}
	}
	return ""
}

// wantsGPUBuild returns the files of an environment that need a library of the build with
// GPU code, and the first such library.
func (w *world) wantsGPUBuild(p *inventory.Python, row *CPUBuild) (files []string, lacks string) {
	if len(row.Lacks) == 0 {
		return nil, ""
	}
	for _, o := range w.objects {
		if !slices.ContainsFunc(p.Sites, func(site string) bool { return isIn(o.path, site) }) {
			continue
		}
		for _, n := range o.elf.Needed {
			if matchAny(row.Lacks, n) && len(w.present(n)) == 0 {
				files, lacks = append(files, o.path), cmp.Or(lacks, n)
				break
			}
		}
	}
	slices.Sort(files)
	return files, lacks
}

// gpuProgram returns a file outside of Python's packages that uses the GPU, or "".
func (w *world) gpuProgram() string {
	for _, file := range w.gpuUsers() {
		if !strings.Contains(file, "-packages/") {
			return file
		}
	}
	return ""
}

// isCPUBuild reports whether a package of a row is a build without GPU code: by what the
// build says of itself, else by the local part of its version, else by its name.
func (w *world) isCPUBuild(p *inventory.Python, pkg *inventory.Package, row *CPUBuild) bool {
	if b := w.buildOf(p, pkg.Name); b != nil {
		return b.CPU
	}
	return row.Local == "" || localOf(pkg.Version) == row.Local
}

// doubleOwners returns a finding for each group of distributions that install the same
// files: the image has those of the distribution that was unpacked last.
func (w *world) doubleOwners() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		grouped := map[string]bool{}
		for _, e := range w.packs.Exclusive {
			var members []*inventory.Package
			for _, name := range e.Members {
				if pkg := wheels[name]; pkg != nil {
					members = append(members, pkg)
					grouped[name] = true
				}
			}
			if len(members) > 1 {
				list = append(list, w.exclusive(p, e, members))
			}
		}
		list = append(list, w.sharedFiles(wheels, grouped)...)
	}
	return list
}

// exclusive returns the finding for members of a group that are installed together.
func (w *world) exclusive(p *inventory.Python, e *Exclusive, members []*inventory.Package) Finding {
	const rule = "double-owner"
	var packages, names []string
	var present []File
	sameVersion := true
	for _, m := range members {
		packages, names = append(packages, m.Name+" "+m.Version), append(names, m.Name)
		present = append(present, w.file(m.Path))
		sameVersion = sameVersion && m.Version == members[0].Version
	}
	keep := e.Keep
	if !slices.Contains(names, keep) {
		keep = names[0]
	}
	f := w.say(rule, "members", values{"packages": strings.Join(packages, " and "), "names": strings.Join(names, " "), "keep": keep})
	w.also(&f, "effect", values{"effect": e.Effect, "error": ""})
	f.Present = present
	switch b := w.buildOf(p, e.ID); {
	case b != nil && b.Package != "" && b.Package != e.Keep && keep == e.Keep:
		w.also(&f, "overwritten", values{"last": b.Package})
	case b != nil && b.Package == e.Keep:
		w.lower(&f, "kept", values{"keep": e.Keep})
	case b == nil && sameVersion:
		w.lower(&f, "same-version", nil)
	default:
		w.lower(&f, "order-unknown", nil)
	}
	return f
}

// sharedFiles returns a finding for each two distributions that list an ELF file with
// different hashes, unless a group has both.
func (w *world) sharedFiles(wheels wheelSet, grouped map[string]bool) []Finding {
	type owner struct {
		name, hash string
	}
	first := map[string]owner{}
	shared := map[[2]string][]string{}
	for name, pkg := range wheels.sorted() {
		for file, listed := range pkg.Files {
			hash := listed.Hash
			if hash == "" || !strings.Contains(path.Base(file), ".so") || !w.isFile(file) {
				continue
			}
			had, twice := first[file]
			switch {
			case !twice:
				first[file] = owner{name, hash}
			case had.hash != hash && !(grouped[had.name] && grouped[name]):
				shared[[2]string{had.name, name}] = append(shared[[2]string{had.name, name}], file)
			}
		}
	}
	var list []Finding
	pairs := slices.SortedFunc(maps.Keys(shared), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, pair := range pairs {
		a, b := wheels[pair[0]], wheels[pair[1]]
		files := slices.Sorted(slices.Values(shared[pair]))
		f := w.say("double-owner", "shared", values{
			"package": a.Name, "version": a.Version, "other": b.Name, "other-version": b.Version, "file": path.Base(files[0]),
		})
		f.Subject, f.Present, f.Affected = files[0], []File{w.file(a.Path), w.file(b.Path)}, files
		list = append(list, f)
	}
	return list
}

// requiredFixes puts a fix before the others of a missing library if the metadata of the
// package that needs the library requires one release of the wheel that has it.
func (w *world) requiredFixes(list []Finding) {
	for i := range list {
		f := &list[i]
		if f.Rule != "missing-library" && f.Rule != "missing-sublibrary" {
			continue
		}
		for _, n := range f.NeededBy {
			if advice := w.requiredFix(n.Path, path.Base(f.Library)); len(advice) > 0 {
				f.Advice = append(advice, f.Advice...)
				break
			}
		}
	}
}

// requiredFix returns how to install a library for the package that owns a file, nil if
// the package's metadata does not say it.
func (w *world) requiredFix(file, library string) []Advice {
	p, pkg, wheels, r := w.requirement(file, library)
	if pkg == nil {
		return nil
	}
	clause := "required"
	if wheels[r.Name] != nil {
		clause = "required-again"
	}
	return w.advice(clause, values{"requirement": r.Name + r.Specifiers, "package": pkg.Name, "version": w.version(p, pkg)})
}

// requirement returns the package that owns a file, its environment, and its requirement
// of one release of the wheel that has a library. pkg is nil if there is no such requirement.
func (w *world) requirement(file, library string) (p *inventory.Python, pkg *inventory.Package, wheels wheelSet, r inventory.Requirement) {
	p, pkg, wheels = w.ownerOf(file)
	if pkg == nil {
		return nil, nil, nil, r
	}
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || !strings.HasPrefix(r.Specifiers, "==") || strings.ContainsAny(r.Specifiers, "*,") || !w.brings(r.Name, library) {
			continue
		}
		if holds, known := r.Applies(w.marker(p)); !holds || !known || !isVersion440(strings.TrimPrefix(r.Specifiers, "==")) {
			continue
		}
		return p, pkg, wheels, r
	}
	return nil, nil, nil, r
}

// brings reports whether a distribution has a library, by the tables of the packs.
func (w *world) brings(dist, library string) bool {
	for _, d := range w.packs.LibraryDists {
		if rest, ok := strings.CutPrefix(dist, d.Dist); ok && match(d.Match, library) && (rest == "" || strings.HasPrefix(rest, wheelCUDA)) {
			return true
		}
	}
	return false
}

// ownerOf returns the wheel that owns a file, and its environment: by its RECORD, else by
// the directory of the file.
func (w *world) ownerOf(file string) (*inventory.Python, *inventory.Package, wheelSet) {
	for _, p := range w.inv.Pythons {
		for _, site := range p.Sites {
			if !isIn(file, site) {
				continue
			}
			wheels := wheelSet(w.inv.Wheels(p))
			for _, pkg := range wheels.sorted() {
				if _, ok := pkg.Files[file]; ok {
					return p, pkg, wheels
				}
			}
			top, _, _ := strings.Cut(strings.TrimPrefix(file, site+"/"), "/")
			for _, name := range []string{inventory.Normalize(top), inventory.Normalize(top) + "-gpu"} {
				if pkg := wheels[name]; pkg != nil {
					return p, pkg, wheels
				}
			}
		}
	}
	return nil, nil, nil
}
