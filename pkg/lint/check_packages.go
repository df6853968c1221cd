package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// found is one copy of a library.
type found struct {
	version string // "9" where only the major version is known
	path    string // of its file, or of the metadata of its package
	wheel   bool
}

// torchPairs returns a finding for each package of the packs' pairs that is not made for
// the package beside it: by what its metadata requires, else by the packs' releases, else
// by the CUDA versions that the two are built for.
func torchPairs(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		for _, pair := range pass.Packs.Pairs {
			pkg, base := wheels[pair.Package], wheels[pair.For]
			if pkg == nil || base == nil {
				continue
			}
			if f, unfit := pairFinding(pass, p, pair, pkg, base, wheels); unfit {
				f.NeededBy, f.Present = []replay.File{pass.Image.File(pkg.Path)}, []replay.File{pass.Image.File(base.Path)}
				list = append(list, f)
			}
		}
	}
	return list
}

// pairFinding returns what is wrong with a pair of packages of an environment.
func pairFinding(pass *Pass, p *inventory.Python, pair *packs.Pair, pkg, base *inventory.Package, wheels replay.WheelSet) (f Finding, unfit bool) {
	const rule = "torch-pair"
	has, installed := pass.Packages.Version(p, pkg), pass.Packages.Version(p, base)
	cuda, other := pass.Packages.CudaBuild(p, base), pass.Packages.CudaBuild(p, pkg)
	fits, known := pair.Versions[packs.Numbers(installed, 2)]
	wants, requires := pairRequirement(pass, p, pair, pkg, base, wheels)
	v := packs.Values{
		"package": pair.Package, "version": has, "for": pair.For, "installed": installed, "release": packs.Numbers(installed, 2), "fits": fits,
		"wants": wants, "cuda": cuda, "other": other, "error": pair.Error, "cuda-error": pair.CUDAError,
	}
	switch {
	case wants != "":
		f = pass.say(rule, "unfit", v)
		pass.also(&f, "required", v)
	case !requires && known && packs.Numbers(has, 2) != fits:
		f = pass.say(rule, "unfit", v)
		pass.also(&f, "announced", v)
	case packs.LocalOf(has) == "cpu" && cuda != "":
		f = pass.say(rule, "cpu", v)
	case cuda != "" && other != "" && pair.CUDA != "" && packs.Numbers(cuda, pair.CudaNumbers()) != packs.Numbers(other, pair.CudaNumbers()):
		f = pass.say(rule, "cuda", v)
	default:
		return f, false
	}
	switch v["index"] = pair.IndexOf(installed); {
	case fits == "" || !packs.IsVersion440(installed):
	case v["index"] != "":
		pass.also(&f, "release-of-index", v)
	default:
		pass.also(&f, "release", v)
	}
	pass.also(&f, "together", v)
	return f, true
}

// pairRequirement reports whether the metadata of a pair's package requires one release of
// the other, and returns the requirement that the other does not meet, or "".
func pairRequirement(pass *Pass, p *inventory.Python, pair *packs.Pair, pkg, base *inventory.Package, wheels replay.WheelSet) (wants string, requires bool) {
	requires = slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && r.Name == pair.For && strings.Contains(r.Specifiers, "==")
	})
	if !requires {
		return "", false
	}
	for _, u := range pass.Packages.UnmetOf(p, pkg, wheels) {
		if u.Of == base {
			wants = u.Wants
		}
	}
	return wants, true
}

// requirementsUnmet returns a finding for each unmet requirement of the packages that the
// packs pin or know the needs of.
func requirementsUnmet(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		for name, pkg := range wheels.Sorted() {
			for _, u := range pass.Packages.UnmetOf(p, pkg, wheels) {
				pin := pin(pass, name, u.Of.Name)
				if pin == nil {
					continue
				}
				list = append(list, unmetFinding(pass, p, u, "required", pin.Severity, packs.Values{"effect": pin.Why, "error": ""}))
			}
			list = append(list, madeForOther(pass, p, pkg, wheels)...)
		}
	}
	return list
}

// unmetFinding returns the finding for an unmet requirement, in the words of a clause.
// effect holds the values of the shared clause "effect".
func unmetFinding(pass *Pass, p *inventory.Python, u replay.Unmet, clause string, severity packs.Severity, effect packs.Values) Finding {
	f := pass.say("requirement-unmet", clause, packs.Values{
		"package": u.By.Name, "version": u.By.Version, "of": u.Of.Name, "of-version": u.Of.Version, "wants": u.Wants, "installed": pass.Packages.Version(p, u.Of),
	})
	pass.also(&f, "effect", effect)
	f.Severity = f.Severity.AtMost(severity)
	f.NeededBy, f.Present = []replay.File{pass.Image.File(u.By.Path)}, []replay.File{pass.Image.File(u.Of.Path)}
	return f
}

// madeForOther returns a finding for each need of a package that only the packs know and
// that the installed packages do not meet.
func madeForOther(pass *Pass, p *inventory.Python, pkg *inventory.Package, wheels replay.WheelSet) []Finding {
	var list []Finding
	for _, n := range pass.Packs.MadeFor {
		if fits, err := version.Satisfies(pkg.Version, n.Versions); !packs.Match(n.Package, pkg.Name) || err != nil || !fits {
			continue
		}
		r, err := inventory.ParseRequirement(n.Of(pkg.Version))
		if err != nil || wheels[r.Name] == nil || slices.ContainsFunc(pass.Packages.UnmetOf(p, pkg, wheels), func(u replay.Unmet) bool { return u.Of == wheels[r.Name] && pin(pass, pkg.Name, r.Name) != nil }) {
			continue
		}
		if ok, err := version.Satisfies(wheels[r.Name].Version, r.Specifiers); err == nil && !ok {
			list = append(list, unmetFinding(pass, p, replay.Unmet{By: pkg, Of: wheels[r.Name], Wants: r.Specifiers}, "made-for", n.Severity, packs.Values{"effect": n.Effect, "error": n.Error}))
		}
	}
	return list
}

// pin returns the first row that covers the requirement of a package on another, or nil.
func pin(pass *Pass, name, required string) *packs.Pinned {
	for _, row := range pass.Packs.Pinned {
		if packs.MatchAny(row.Packages, name) && packs.MatchAny(row.Requires, required) {
			return row
		}
	}
	return nil
}

// copiesIn returns the copies of a carrier's library that an environment could find: its
// own wheel's and conda's, and the system's.
func copiesIn(pass *Pass, p *inventory.Python, wheels replay.WheelSet, c *packs.Carrier) []found {
	var list []found
	for name, pkg := range wheels {
		if packs.MatchAny(c.Wheels, name) {
			list = append(list, found{pkg.Version, pkg.Path, true})
		}
	}
	for _, pkg := range pass.Inventory.Packages {
		switch {
		case pkg.Kind == inventory.Conda && pkg.Dir == p.Prefix && packs.MatchAny(c.Conda, pkg.Name):
			list = append(list, found{pkg.Version, pkg.Path, false})
		case (pkg.Kind == inventory.Deb || pkg.Kind == inventory.RPM) && packs.MatchAny(c.System, pkg.Name) && !packs.MatchAny(c.Except, pkg.Name):
			list = append(list, found{version.Upstream(pkg.Version), pkg.Path, false})
		}
	}
	for _, component := range pass.Inventory.Components {
		if component.Name == c.Family && component.From == "file name" {
			list = append(list, found{component.Version, component.Path, false})
		}
	}
	for major, names := range majorsOf(pass, c) {
		if slices.ContainsFunc(list, func(f found) bool { return packs.Numbers(f.version, 1) == major }) {
			continue
		}
		for _, file := range firstPresent(pass, names) {
			list = append(list, found{major, file, false})
		}
	}
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return list
}

// majorsOf returns the names of the image's files that have the major version of a
// carrier's library in them, by that version.
func majorsOf(pass *Pass, c *packs.Carrier) map[string][]string {
	majors := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pass.Files.Named)) {
		if major := packs.MajorOf(name); major != "" && packs.MatchAny(c.Files, name) {
			majors[major] = append(majors[major], name)
		}
	}
	return majors
}

// firstPresent returns the files with the first of the names that the image has.
func firstPresent(pass *Pass, names []string) []string {
	for _, name := range names {
		if files := pass.Files.Present(name); len(files) > 0 {
			return files
		}
	}
	return nil
}

// stacked calls f for each package of each environment whose needs of CUDA libraries are
// known.
func stacked(pass *Pass, f func(p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string)) {
	for p, wheels := range pass.Packages.Environments() {
		for _, pkg := range wheels.Sorted() {
			if s, requirement := pass.Packages.StackOf(p, pkg); s != nil {
				f(p, wheels, pkg, s, requirement)
			}
		}
	}
}

// metadataRequires returns what a message says of the requirement that stackOf returned.
func metadataRequires(pass *Pass, requirement string) string {
	if requirement == "" {
		return ""
	}
	return pass.Packs.Phrase("metadata-requires", packs.Values{"requirement": requirement})
}

// stackFinding returns the finding of a rule for a package whose stack the image does not
// have.
func stackFinding(pass *Pass, rule string, s *packs.Stack, wheels replay.WheelSet, pkg *inventory.Package, v packs.Values) Finding {
	f := pass.say(rule, "unfit", v)
	if s.Effect != "" {
		pass.also(&f, "effect", packs.Values{"effect": s.Effect, "error": s.Error})
	}
	if other := incidental(pass, wheels, s); other != "" {
		pass.lower(&f, "incidental", packs.Values{"other": other, "package": s.Package})
	}
	f.NeededBy = []replay.File{pass.Image.File(pkg.Path)}
	return f
}

// ownCopy reports whether a framework brings a carrier's library in its own directory.
func ownCopy(pass *Pass, pkg *inventory.Package, c *packs.Carrier) bool {
	return slices.ContainsFunc(pass.Evidence.Installs, func(in *replay.Install) bool {
		return in.ID == pkg.Name && in.Site == pkg.Dir && c.Own != "" && len(pass.Files.Glob(in.Home, c.Own)) > 0
	})
}

// incidental returns another package of the environment that uses the GPU, or "". Where
// there is one, a framework that is often installed for its CPU side may not matter.
func incidental(pass *Pass, wheels replay.WheelSet, s *packs.Stack) string {
	if !s.Incidental {
		return ""
	}
	for name := range wheels.Sorted() {
		if name != s.Package && slices.ContainsFunc(pass.Packs.Stacks, func(o *packs.Stack) bool { return o.Package == name && !o.Incidental }) {
			return name
		}
	}
	return ""
}

// cudnnVersions returns a finding for each framework that can find only releases of cuDNN
// that it refuses.
func cudnnVersions(pass *Pass) []Finding {
	var list []Finding
	carrier := pass.Packs.Carrier("cudnn")
	stacked(pass, func(p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string) {
		have, wants := copiesFor(pass, p, wheels, pkg, carrier), packs.ParseRelease(s.CUDNN)
		if wants == nil || len(have) == 0 || fitsAny(have, wants) || ownCopy(pass, pkg, carrier) {
			return
		}
		major := packs.Numbers(s.CUDNN, 1)
		var versions []string
		var present []replay.File
		for _, c := range have {
			versions = append(versions, c.version)
			present = append(present, pass.Image.File(c.path))
		}
		slices.Sort(versions)
		f := stackFinding(pass, "cudnn-version", s, wheels, pkg, packs.Values{
			"package": pkg.Name, "version": pass.Packages.Version(p, pkg), "least": packs.Numbers(s.CUDNN, 2), "next": strconv.Itoa(wants[0] + 1),
			"why": metadataRequires(pass, requirement), "installed": strings.Join(slices.Compact(versions), ", "), "cuda": pass.Packages.CudaFor(p, pkg, s),
		})
		f.Library, f.Family, f.Present = carrier.Library+"."+major, carrier.Family, present
		list = append(list, f)
	})
	return list
}

// copiesFor returns the copies of a carrier's library that a package of an environment may
// load: those of wheels if its metadata requires one, since it finds them first (by RPATH,
// or a preload by full path), else all.
func copiesFor(pass *Pass, p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, c *packs.Carrier) []found {
	list := copiesIn(pass, p, wheels, c)
	requires := slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && packs.MatchAny(c.Wheels, r.Name)
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
		has := packs.ParseRelease(c.version)
		return packs.Numbers(c.version, 1) == wants.First(1).String() && !has.First(2).Before(wants.First(2))
	})
}

// cudaMajors returns a finding for each framework that opens CUDA libraries of a major
// version that the image does not have by name at run time. The replay covers the libraries
// in DT_NEEDED.
func cudaMajors(pass *Pass) []Finding {
	var list []Finding
	carrier := pass.Packs.Carrier("cuda")
	majors := majorsOf(pass, carrier)
	sorted := slices.Sorted(maps.Keys(majors))
	stacked(pass, func(_ *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, s *packs.Stack, requirement string) {
		if s.CUDA == "" || len(majors) == 0 || majors[s.CUDA] != nil {
			return
		}
		f := stackFinding(pass, "cuda-major-absent", s, wheels, pkg, packs.Values{
			"package": pkg.Name, "version": pkg.Version, "cuda": s.CUDA, "why": metadataRequires(pass, requirement), "installed": strings.Join(sorted, ", "),
		})
		f.Library, f.Family = carrier.Library+"."+s.CUDA, carrier.Family
		for _, major := range sorted {
			var paths []string
			for _, name := range majors[major] {
				paths = append(paths, pass.Files.Named[name]...)
			}
			f.Present = append(f.Present, pass.Image.File(slices.Min(paths)))
		}
		list = append(list, f)
	})
	return list
}

// cudaDiffers returns a finding for each framework that is built for another CUDA than the
// system has, if extensions are compiled against both. That is no fault of an image in
// which nothing is compiled.
func cudaDiffers(pass *Pass) []Finding {
	carrier, clause := pass.Packs.Carrier("cuda"), "directory"
	v, there := packs.Values{"system": ""}, map[string]bool{}
	for _, c := range pass.Inventory.Components {
		if c.Name == carrier.Family && c.Path != "" && (c.From == "version.json" || c.From == "directory name") {
			v["system"], v["path"] = packs.Numbers(c.Version, 2), c.Path
			there[packs.Numbers(c.Version, 2)] = true
		}
	}
	if v["system"] == "" {
		version, _ := pass.Config.Getenv(carrier.Variable())
		v["system"], v["variable"], clause = packs.Numbers(version, 2), carrier.Variable(), "variable"
	}
	var list []Finding
	for _, b := range pass.Inventory.Builds {
		cuda := packs.Numbers(b.CUDA, 2)
		if !packs.IsKnown(pass.Packs.ExtensionHosts, b.Name) || cuda == "" || v["system"] == "" || cuda == v["system"] || there[cuda] {
			continue
		}
		v["package"], v["version"], v["cuda"] = b.Name, b.Version, cuda
		f := pass.say("cuda-differs", clause, maps.Clone(v))
		f.Present = []replay.File{pass.Image.File(b.Path)}
		list = append(list, f)
	}
	return list
}

// cpuBuilds returns a finding for each framework without GPU code in an image that is made
// for a GPU, or beside files that need a library of the framework's GPU build.
func cpuBuilds(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		for _, row := range pass.Packs.CPUBuilds {
			pkg := wheels[row.Package]
			if pkg == nil || !isCPUBuild(pass, p, pkg, row) {
				continue
			}
			v := packs.Values{"package": pkg.Name, "version": pass.Packages.Version(p, pkg)}
			f, found := cpuBuildNeeded(pass, p, row, v)
			if !found {
				f, found = cpuBuildUnused(pass, row, wheels, v)
			}
			if found {
				f.Present = []replay.File{pass.Image.File(pkg.Path)}
				f.advise(pass.adviceOf([]string{row.Fix}, packs.Values{})...)
				list = append(list, f)
			}
		}
	}
	return list
}

// cpuBuildNeeded returns the finding for files that need a library of the GPU build.
func cpuBuildNeeded(pass *Pass, p *inventory.Python, row *packs.CPUBuild, v packs.Values) (f Finding, found bool) {
	files, lacks := wantsGPUBuild(pass, p, row)
	if len(files) == 0 {
		return f, false
	}
	v["file"], v["library"] = path.Base(files[0]), lacks
	f = pass.say("cpu-build", "extension", v)
	f.Library, f.NeededBy, f.Affected = lacks, pass.Image.FilesOf(files), files
	return f, true
}

// cpuBuildUnused returns the finding for a framework that leaves the image's GPU unused.
func cpuBuildUnused(pass *Pass, row *packs.CPUBuild, wheels replay.WheelSet, v packs.Values) (f Finding, found bool) {
	clause := cudaShown(pass, wheels, v)
	other := ""
	for name := range wheels.Sorted() {
		found = found || packs.MatchAny(row.Unless, name)
		if packs.MatchAny(row.Beside, name) {
			other = name
		}
	}
	if clause == "" || found {
		return f, false
	}
	f = pass.say("cpu-build", clause, v)
	pass.also(&f, "effect", packs.Values{"effect": row.Effect, "error": ""})
	f.Severity = f.Severity.AtMost(row.Severity)
	if other = cmp.Or(other, gpuProgram(pass)); other != "" {
		pass.lower(&f, "beside", packs.Values{"other": other})
	}
	return f, true
}

// cudaShown adds to v the first sign that an image is made for a GPU: a variable, a file
// outside of Python's packages, or a wheel of an environment. It returns the clause of the
// rule cpu-build for that sign, or "".
func cudaShown(pass *Pass, wheels replay.WheelSet, v packs.Values) string {
	carrier := pass.Packs.Carrier("cuda")
	for _, name := range carrier.Variables {
		if value, _ := pass.Config.Getenv(name); value != "" {
			v["variable"], v["value"] = name, value
			return "variable"
		}
	}
	if i := slices.IndexFunc(pass.Inventory.Components, func(c *inventory.Component) bool {
		return c.Name == carrier.Family && c.Path != "" && !strings.Contains(c.Path, "-packages/")
	}); i >= 0 {
		v["path"] = pass.Inventory.Components[i].Path
		return "file"
	}
	for name, pkg := range wheels.Sorted() {
		if pass.Packages.IsGPUWheel(name) {
			v["path"] = pkg.Path
			return "file"
		}
	}
	return ""
}

// wantsGPUBuild returns the files of an environment that need a library of the build with
// GPU code, and the first such library.
func wantsGPUBuild(pass *Pass, p *inventory.Python, row *packs.CPUBuild) (files []string, lacks string) {
	if len(row.Lacks) == 0 {
		return nil, ""
	}
	for _, o := range pass.Files.Objects {
		if !slices.ContainsFunc(p.Sites, func(site string) bool { return replay.IsIn(o.Path, site) }) {
			continue
		}
		for _, n := range o.ELF.Needed {
			if packs.MatchAny(row.Lacks, n) && len(pass.Files.Present(n)) == 0 {
				files, lacks = append(files, o.Path), cmp.Or(lacks, n)
				break
			}
		}
	}
	slices.Sort(files)
	return files, lacks
}

// gpuProgram returns a file outside of Python's packages that uses the GPU, or "".
func gpuProgram(pass *Pass) string {
	for _, file := range pass.Packages.GpuUsers() {
		if !strings.Contains(file, "-packages/") {
			return file
		}
	}
	return ""
}

// isCPUBuild reports whether a package of a row is a build without GPU code: by what the
// build says of itself, else by the local part of its version, else by its name.
func isCPUBuild(pass *Pass, p *inventory.Python, pkg *inventory.Package, row *packs.CPUBuild) bool {
	if b := pass.Packages.BuildOf(p, pkg.Name); b != nil {
		return b.CPU
	}
	return row.Local == "" || packs.LocalOf(pkg.Version) == row.Local
}

// doubleOwners returns a finding for each group of distributions that install the same
// files: the image has those of the distribution that was unpacked last.
func doubleOwners(pass *Pass) []Finding {
	var list []Finding
	for p, wheels := range pass.Packages.Environments() {
		grouped := map[string]bool{}
		for _, e := range pass.Packs.Exclusive {
			var members []*inventory.Package
			for _, name := range e.Members {
				if pkg := wheels[name]; pkg != nil {
					members = append(members, pkg)
					grouped[name] = true
				}
			}
			if len(members) > 1 {
				list = append(list, exclusive(pass, p, e, members))
			}
		}
		list = append(list, sharedFiles(pass, wheels, grouped)...)
	}
	return list
}

// exclusive returns the finding for members of a group that are installed together.
func exclusive(pass *Pass, p *inventory.Python, e *packs.Exclusive, members []*inventory.Package) Finding {
	const rule = "double-owner"
	var packages, names []string
	var present []replay.File
	sameVersion := true
	for _, m := range members {
		packages, names = append(packages, m.Name+" "+m.Version), append(names, m.Name)
		present = append(present, pass.Image.File(m.Path))
		sameVersion = sameVersion && m.Version == members[0].Version
	}
	keep := e.Keep
	if !slices.Contains(names, keep) {
		keep = names[0]
	}
	f := pass.say(rule, "members", packs.Values{"packages": strings.Join(packages, " and "), "names": strings.Join(names, " "), "keep": keep})
	pass.also(&f, "effect", packs.Values{"effect": e.Effect, "error": ""})
	f.Present = present
	switch b := pass.Packages.BuildOf(p, e.ID); {
	case b != nil && b.Package != "" && b.Package != e.Keep && keep == e.Keep:
		pass.also(&f, "overwritten", packs.Values{"last": b.Package})
	case b != nil && b.Package == e.Keep:
		pass.lower(&f, "kept", packs.Values{"keep": e.Keep})
	case b == nil && sameVersion:
		pass.lower(&f, "same-version", nil)
	default:
		pass.lower(&f, "order-unknown", nil)
	}
	return f
}

// sharedFiles returns a finding for each two distributions that list an ELF file with
// different hashes, unless a group has both.
func sharedFiles(pass *Pass, wheels replay.WheelSet, grouped map[string]bool) []Finding {
	type owner struct {
		name, hash string
	}
	first := map[string]owner{}
	shared := map[[2]string][]string{}
	for name, pkg := range wheels.Sorted() {
		for file, listed := range pkg.Files {
			hash := listed.Hash
			if hash == "" || !strings.Contains(path.Base(file), ".so") || !pass.Image.IsFile(file) {
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
		f := pass.say("double-owner", "shared", packs.Values{
			"package": a.Name, "version": a.Version, "other": b.Name, "other-version": b.Version, "file": path.Base(files[0]),
		})
		f.Subject, f.Present, f.Affected = files[0], []replay.File{pass.Image.File(a.Path), pass.Image.File(b.Path)}, files
		list = append(list, f)
	}
	return list
}

// adviseRequired puts a fix before the others of a missing library if the metadata of the
// package that needs the library requires one release of the wheel that has it.
func adviseRequired(pass *Pass, f *Finding) {
	if f.Rule != "missing-library" && f.Rule != "missing-sublibrary" {
		return
	}
	for _, n := range f.NeededBy {
		if advice := requiredFix(pass, n.Path, path.Base(f.Library)); len(advice) > 0 {
			f.Advice = append(advice, f.Advice...)
			return
		}
	}
}

// requiredFix returns how to install a library for the package that owns a file, nil if
// the package's metadata does not say it.
func requiredFix(pass *Pass, file, library string) []packs.Advice {
	p, pkg, wheels, r := pass.Packages.Requirement(file, library)
	if pkg == nil {
		return nil
	}
	clause := "required"
	if wheels[r.Name] != nil {
		clause = "required-again"
	}
	return pass.advice(clause, packs.Values{"requirement": r.Name + r.Specifiers, "package": pkg.Name, "version": pass.Packages.Version(p, pkg)})
}
