package lint

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Checks of packages that do not fit together. What a wheel's own metadata
// requires counts more than any table.

// buildOf is what a framework of an environment says of its own build, nil when
// it says nothing.
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

// version is a package's, with the local part that only the framework's own build
// tells (2.6.0+cu124).
func (w *world) version(p *inventory.Python, pkg *inventory.Package) string {
	if b := w.buildOf(p, pkg.Name); b != nil && numbers(b.Version, 3) == numbers(pkg.Version, 3) {
		return b.Version
	}
	return pkg.Version
}

// localOf is the local part of a version: cu124, cpu; empty when there is none.
func localOf(version string) string {
	_, local, _ := strings.Cut(version, "+")
	return local
}

// cudaOf is the CUDA version that a local part tells: 12.4 of cu124, 11.8 of
// cu118, 13.0 of cu130.
func cudaOf(local string) string {
	m := cudaLocal.FindStringSubmatch(local)
	if m == nil {
		return ""
	}
	return m[1] + "." + m[2]
}

var cudaLocal = regexp.MustCompile(`^cu(\d{2})(\d)$`)

// unmet is a requirement that what is installed does not meet.
type unmet struct {
	by, of *inventory.Package
	wants  string
}

// unmetOf are the requirements of a package that are there in another version.
// What is not there at all, or cannot be told, is no matter of versions.
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

// torchPairs holds torchvision and torchaudio against torch: by what their
// metadata requires, else by the packs' pairs; and the CUDA versions that they
// are built for.
func (w *world) torchPairs() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		for _, pair := range w.packs.Pairs {
			pkg, base := wheels[pair.Package], wheels[pair.For]
			if pkg == nil || base == nil {
				continue
			}
			has, have := w.version(p, pkg), w.version(p, base)
			want := ""
			requires := slices.ContainsFunc(pkg.Requires, func(line string) bool {
				r, err := inventory.ParseRequirement(line)
				return err == nil && r.Name == pair.For && strings.Contains(r.Specifiers, "==")
			})
			if requires {
				for _, u := range w.unmetOf(p, pkg, wheels) {
					if u.of == base {
						want = fmt.Sprintf("its metadata requires %s%s", pair.For, u.wants)
					}
				}
			} else if fits, known := pair.Versions[numbers(have, 2)]; known && numbers(has, 2) != fits {
				want = fmt.Sprintf("%s %s goes with %s %s", pair.For, numbers(have, 2), pair.Package, fits)
			}
			f := Finding{
				Message:  fmt.Sprintf("%s %s is not made for the %s %s beside it", pair.Package, has, pair.For, have),
				Effects:  []Effect{{fmt.Sprintf("`import %s` fails, or its operators do", pair.Package), pair.Error}},
				NeededBy: []File{w.file(pkg.Path)}, Present: []File{w.file(base.Path)},
			}
			fit := pair.Versions[numbers(have, 2)]
			if fit != "" && isVersion440(have) {
				f.Fixes = []string{fmt.Sprintf("pip install 'torch==%s' '%s==%s.*'%s", have, pair.Package, fit, fromIndex(have))}
			}
			f.Fixes = append(f.Fixes, fmt.Sprintf("install %s and %s in one command and from one index, so that pip chooses both", pair.For, pair.Package))
			switch a, b := w.cudaBuild(p, base), w.cudaBuild(p, pkg); {
			case want != "":
				f.Message += ": " + want
				list = append(list, f)
			case localOf(has) == "cpu" && a != "":
				f.Severity = Warning
				f.Message = fmt.Sprintf("%s %s is the build without CUDA, and %s %s is built for CUDA %s", pair.Package, has, pair.For, have, a)
				f.Effects = []Effect{{"its operators do not run on the GPU", fmt.Sprintf("Could not run '%s::nms' with arguments from the 'CUDA' backend", pair.Package)}}
				list = append(list, f)
			case a != "" && b != "" && pair.CUDA != "" && numbers(a, pair.cudaNumbers()) != numbers(b, pair.cudaNumbers()):
				f.Message = fmt.Sprintf("%s %s is built for CUDA %s, and %s %s for CUDA %s", pair.Package, has, b, pair.For, have, a)
				f.Effects = []Effect{{fmt.Sprintf("`import %s` fails", pair.Package), pair.CUDAError}}
				list = append(list, f)
			}
		}
	}
	return list
}

// isVersion440 reports whether a text from the image is a version and nothing
// else: fixes are commands that people copy.
func isVersion440(s string) bool {
	_, err := version.Parse(s)
	return err == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}

// cudaNumbers is how many numbers of the CUDA versions must agree.
func (p *Pair) cudaNumbers() int {
	if p.CUDA == "major" {
		return 1
	}
	return 2
}

// cudaBuild is the CUDA version that a package of an environment is built for: what its
// own file says (torch has it as cuda, its companions in their version's local part),
// else what the local part of its metadata's version says.
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

// requirementsUnmet looks at what the packs' pinned packages require.
func (w *world) requirementsUnmet() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		for name, pkg := range wheels.sorted() {
			for _, u := range w.unmetOf(p, pkg, wheels) {
				pin := w.pin(name, u.of.Name)
				if pin == nil {
					continue
				}
				list = append(list, w.unmetFinding(p, u, "requires", pin.Severity, Effect{Text: pin.Why}))
			}
			list = append(list, w.madeForOther(p, pkg, wheels)...)
		}
	}
	return list
}

// unmetFinding writes a requirement up that is not met.
func (w *world) unmetFinding(p *inventory.Python, u unmet, verb string, severity Severity, effect Effect) Finding {
	return Finding{
		Severity: severity,
		Message:  fmt.Sprintf("%s %s %s %s%s, and %s is installed", u.by.Name, u.by.Version, verb, u.of.Name, u.wants, w.version(p, u.of)),
		Effects:  []Effect{effect},
		NeededBy: []File{w.file(u.by.Path)}, Present: []File{w.file(u.of.Path)},
		Fixes: []string{fmt.Sprintf("pip install '%s%s', or a release of %s that is made for %s %s", u.of.Name, u.wants, u.by.Name, u.of.Name, u.of.Version)},
	}
}

// madeForOther are what the packs know of a package's needs, where its own metadata
// does not say it.
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
			list = append(list, w.unmetFinding(p, unmet{pkg, wheels[r.Name], r.Specifiers}, "is made for", n.Severity, Effect{n.Effect, n.Error}))
		}
	}
	return list
}

// pin is the first row that looks at what a package requires of another.
func (w *world) pin(name, required string) *Pinned {
	for _, row := range w.packs.Pinned {
		if matchAny(row.Packages, name) && matchAny(row.Requires, required) {
			return row
		}
	}
	return nil
}

// found is one copy of a library, as far as its version is known.
type found struct {
	version, path string
	wheel         bool
}

// cudnns are the copies of cuDNN that an environment could find: its own wheel's
// and conda's, the system's.
func (w *world) cudnns(p *inventory.Python, wheels wheelSet) []found {
	var list []found
	for name, pkg := range wheels {
		if strings.HasPrefix(name, "nvidia-cudnn-cu") {
			list = append(list, found{pkg.Version, pkg.Path, true})
		}
	}
	for _, pkg := range w.inv.Packages {
		switch {
		case pkg.Kind == inventory.Conda && pkg.Dir == p.Prefix && (pkg.Name == "cudnn" || pkg.Name == "libcudnn"):
			list = append(list, found{pkg.Version, pkg.Path, false})
		case (pkg.Kind == inventory.Deb || pkg.Kind == inventory.RPM) && strings.HasPrefix(pkg.Name, "libcudnn") && !strings.Contains(pkg.Name, "-dev") && !strings.Contains(pkg.Name, "header"):
			list = append(list, found{version.Upstream(pkg.Version), pkg.Path, false})
		}
	}
	for _, c := range w.inv.Components {
		if c.Name == "cudnn" && c.From == "file name" {
			list = append(list, found{c.Version, c.Path, false})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.named)) {
		if major := majorOf(name); strings.HasPrefix(name, "libcudnn.so.") && major != "" && !slices.ContainsFunc(list, func(f found) bool { return numbers(f.version, 1) == major }) {
			for _, file := range w.present(name) {
				list = append(list, found{major, file, false})
			}
		}
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version)) })
	return list
}

// stackOf is what a package of an environment wants, and which of its own words
// tell (" (its metadata …)", empty for the packs' tables); nil when nothing is
// known.
func (w *world) stackOf(p *inventory.Python, pkg *inventory.Package) (*Stack, string) {
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || !strings.HasPrefix(r.Name, "nvidia-cudnn-cu") {
			continue
		}
		version, exact := strings.CutPrefix(r.Specifiers, "==")
		if holds, known := r.Applies(w.marker(p)); !exact || !holds || !known || strings.ContainsAny(version, "*,") {
			continue
		}
		s := &Stack{Package: pkg.Name, CUDNN: version}
		for _, row := range w.packs.Stacks {
			if row.Package == pkg.Name {
				s.Effect, s.Error, s.Incidental = row.Effect, row.Error, row.Incidental
				break
			}
		}
		return s, " (its metadata requires " + r.Name + r.Specifiers + ")"
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

// stacked calls f for each package of each environment that wants something of
// the CUDA libraries.
func (w *world) stacked(f func(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, why string)) {
	for p, wheels := range w.environments() {
		for _, pkg := range wheels.sorted() {
			if s, why := w.stackOf(p, pkg); s != nil {
				f(p, wheels, pkg, s, why)
			}
		}
	}
}

// ownCUDNN reports whether a framework brings cuDNN in its own directory.
func (w *world) ownCUDNN(pkg *inventory.Package) bool {
	return slices.ContainsFunc(w.installs, func(in *install) bool {
		return in.ID == pkg.Name && in.site == pkg.Dir && len(w.glob(in.home, "lib/libcudnn*.so*")) > 0
	})
}

// incidental says why a framework's GPU side may not matter: another package of
// the environment has a GPU side of its own.
func (w *world) incidental(wheels wheelSet, s *Stack) string {
	if !s.Incidental {
		return ""
	}
	for name := range wheels.sorted() {
		if name != s.Package && slices.ContainsFunc(w.packs.Stacks, func(o *Stack) bool { return o.Package == name && !o.Incidental }) {
			return fmt.Sprintf("the libraries may be there for %s, and %s for its CPU side", name, s.Package)
		}
	}
	return ""
}

// cudnnVersions holds the cuDNN that a framework was built with against those
// that there are.
func (w *world) cudnnVersions() []Finding {
	var list []Finding
	w.stacked(func(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, why string) {
		have, wants := w.cudnns(p, wheels), parseRelease(s.CUDNN)
		if wants == nil || len(have) == 0 || w.ownCUDNN(pkg) {
			return
		}
		if slices.ContainsFunc(have, func(c found) bool { return c.wheel }) && slices.ContainsFunc(pkg.Requires, func(line string) bool { return strings.HasPrefix(line, "nvidia-cudnn-cu") }) {
			// It finds its own wheel first (RPATH, or a preload by full path).
			have = slices.DeleteFunc(have, func(c found) bool { return !c.wheel })
		}
		major := numbers(s.CUDNN, 1)
		f := Finding{
			Library: "libcudnn.so." + major, Family: "cudnn", NeededBy: []File{w.file(pkg.Path)},
			Because: w.incidental(wheels, s),
			Fixes:   withCUDA([]string{fmt.Sprintf("install cuDNN %s or later of the same major: `pip install 'nvidia-cudnn-cu{cuda}>=%s,<%d'`, or another base image", numbers(s.CUDNN, 2), numbers(s.CUDNN, 2), wants[0]+1)}, w.cudaFor(p, pkg, s)),
		}
		var versions []string
		fits := false
		for _, c := range have {
			same := numbers(c.version, 1) == major
			fits = fits || same && !parseRelease(c.version).First(2).Before(wants.First(2))
			versions = append(versions, c.version)
			f.Present = append(f.Present, w.file(c.path))
		}
		if fits {
			return
		}
		slices.Sort(versions)
		f.Message = fmt.Sprintf("%s %s wants cuDNN %s%s, and the image has %s", pkg.Name, w.version(p, pkg), numbers(s.CUDNN, 2), why, strings.Join(slices.Compact(versions), ", "))
		if s.Effect != "" {
			f.Effects = []Effect{{s.Effect, s.Error}}
		}
		if f.Because != "" {
			f.Severity = Note
		}
		list = append(list, f)
	})
	return list
}

// pytorchBuild is the build in a version of torch that PyPI does not have.
var pytorchBuild = regexp.MustCompile(`\+(cu\d{2,3}|cpu)$`)

// fromIndex is what pip has to be told to find a build of torch: PyPI knows no
// 2.6.0+cu124.
func fromIndex(version string) string {
	build := pytorchBuild.FindStringSubmatch(version)
	if build == nil {
		return ""
	}
	return " --index-url https://download.pytorch.org/whl/" + build[1]
}

// cudaFor is the CUDA major for which a framework is built, empty where neither it
// nor the packs tell.
func (w *world) cudaFor(p *inventory.Python, pkg *inventory.Package, s *Stack) string {
	return cmp.Or(numbers(w.cudaBuild(p, pkg), 1), s.CUDA)
}

// cudaMajors holds the CUDA major that a framework opens by name at run time
// against those that there are. What is asked for by DT_NEEDED is told by the
// loader.
func (w *world) cudaMajors() []Finding {
	majors := map[string][]string{}
	for name, paths := range w.named {
		if strings.HasPrefix(name, "libcudart") || strings.HasPrefix(name, "libcublas.so") || strings.HasPrefix(name, "libcublas-") {
			if major := majorOf(name); major != "" {
				majors[major] = append(majors[major], paths...)
			}
		}
	}
	var list []Finding
	w.stacked(func(p *inventory.Python, wheels wheelSet, pkg *inventory.Package, s *Stack, why string) {
		if s.CUDA == "" || len(majors) == 0 || majors[s.CUDA] != nil {
			return
		}
		f := Finding{
			Message: fmt.Sprintf("%s %s wants CUDA %s%s, and the image has CUDA %s", pkg.Name, pkg.Version, s.CUDA, why, strings.Join(slices.Sorted(maps.Keys(majors)), ", ")),
			Library: "libcudart.so." + s.CUDA, Family: "cuda", NeededBy: []File{w.file(pkg.Path)},
			Because: w.incidental(wheels, s),
			Fixes:   []string{fmt.Sprintf("base the image on CUDA %s, or install a release of %s that is built for the CUDA that is there", s.CUDA, pkg.Name)},
		}
		for _, major := range slices.Sorted(maps.Keys(majors)) {
			f.Present = append(f.Present, w.file(slices.Min(majors[major])))
		}
		if s.Effect != "" {
			f.Effects = []Effect{{s.Effect, s.Error}}
		}
		if f.Because != "" {
			f.Severity = Note
		}
		list = append(list, f)
	})
	return list
}

// cudaDiffers tells that a framework brings another CUDA than the system has:
// worth knowing where something is compiled, and no fault.
func (w *world) cudaDiffers() []Finding {
	system, from := "", ""
	there := map[string]bool{}
	for _, c := range w.inv.Components {
		if c.Name == "cuda" && c.Path != "" && (c.From == "version.json" || c.From == "directory name") {
			system, from = c.Version, c.Path
			there[numbers(c.Version, 2)] = true
		}
	}
	if v, ok := w.getenv("CUDA_VERSION"); ok && system == "" {
		system, from = v, "ENV CUDA_VERSION"
	}
	if system == "" {
		return nil
	}
	var list []Finding
	for _, b := range w.inv.Builds {
		if b.Name != "torch" || b.CUDA == "" || numbers(b.CUDA, 2) == numbers(system, 2) || there[numbers(b.CUDA, 2)] {
			continue
		}
		list = append(list, Finding{
			Message: fmt.Sprintf("%s %s is built for CUDA %s, and the system has %s (%s)", b.Name, b.Version, numbers(b.CUDA, 2), numbers(system, 2), from),
			Present: []File{w.file(b.Path)},
		})
	}
	return list
}

// cpuBuilds finds frameworks without GPU code where the image is made for one.
func (w *world) cpuBuilds() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		shown := w.cudaImage()
		for name, pkg := range wheels.sorted() {
			if w.isGPUWheel(name) && shown == "" {
				shown = pkg.Path
			}
		}
		for _, row := range w.packs.CPUBuilds {
			pkg := wheels[row.Package]
			if pkg == nil || !w.isCPUBuild(p, pkg) {
				continue
			}
			if files, lacks := w.wantsGPUBuild(p, row); len(files) > 0 {
				list = append(list, Finding{
					Severity: Error, Library: lacks,
					Message:  fmt.Sprintf("%s %s has no GPU code, and %s is built for one that has", pkg.Name, w.version(p, pkg), path.Base(files[0])),
					Effects:  []Effect{{fmt.Sprintf("%s cannot be loaded", path.Base(files[0])), fmt.Sprintf("ImportError: %s: cannot open shared object file: No such file or directory", lacks)}},
					NeededBy: w.filesOf(files), Affected: files, Present: []File{w.file(pkg.Path)},
					Fixes: []string{row.Fix},
				})
				continue
			}
			if shown == "" {
				continue
			}
			other, has := "", false
			for name := range wheels.sorted() {
				has = has || matchAny(row.Unless, name)
				if matchAny(row.Beside, name) {
					other = name
				}
			}
			if has {
				continue
			}
			f := Finding{
				Severity: row.Severity,
				Message:  fmt.Sprintf("%s %s has no GPU code, and the image has CUDA (%s)", pkg.Name, w.version(p, pkg), shown),
				Effects:  []Effect{{Text: row.Effect}},
				Present:  []File{w.file(pkg.Path)},
				Fixes:    []string{row.Fix},
			}
			if other == "" {
				other = w.gpuProgram()
			}
			if other != "" {
				f.Severity, f.Because = Note, fmt.Sprintf("%s may be what the GPU is for", other)
			}
			list = append(list, f)
		}
	}
	return list
}

// wantsGPUBuild are the files of an environment that need a library of the build
// with GPU code, and the first of those.
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

// gpuProgram is a file outside of Python's packages that uses the GPU, empty when
// there is none.
func (w *world) gpuProgram() string {
	for _, file := range w.gpuUsers() {
		if !strings.Contains(file, "-packages/") {
			return file
		}
	}
	return ""
}

// isCPUBuild reports whether a package that comes in builds with and without GPU
// is one without: torch says so itself. The others have a name for each.
func (w *world) isCPUBuild(p *inventory.Python, pkg *inventory.Package) bool {
	if b := w.buildOf(p, pkg.Name); b != nil {
		return b.CPU
	}
	return pkg.Name != "torch" || localOf(pkg.Version) == "cpu"
}

// doubleOwners finds distributions that install the same files, of which the one
// that was unpacked last is what there is.
func (w *world) doubleOwners() []Finding {
	var list []Finding
	for p, wheels := range w.environments() {
		told := map[string]bool{}
		for _, e := range w.packs.Exclusive {
			var members []*inventory.Package
			for _, name := range e.Members {
				if pkg := wheels[name]; pkg != nil {
					members = append(members, pkg)
					told[name] = true
				}
			}
			if len(members) > 1 {
				list = append(list, w.exclusive(p, e, members))
			}
		}
		list = append(list, w.sharedFiles(p, wheels, told)...)
	}
	return list
}

// exclusive writes up members of a group that are there together.
func (w *world) exclusive(p *inventory.Python, e *Exclusive, members []*inventory.Package) Finding {
	var names []string
	f := Finding{}
	sameVersion := true
	for _, m := range members {
		names = append(names, m.Name+" "+m.Version)
		f.Present = append(f.Present, w.file(m.Path))
		sameVersion = sameVersion && m.Version == members[0].Version
	}
	f.Message = strings.Join(names, " and ") + " install the same files: the one that was unpacked last is what there is"
	keep := e.Keep
	if !slices.ContainsFunc(members, func(m *inventory.Package) bool { return m.Name == keep }) {
		keep = members[0].Name
	}
	var all []string
	for _, m := range members {
		all = append(all, m.Name)
	}
	f.Fixes = []string{fmt.Sprintf("pip uninstall -y %s && pip install %s", strings.Join(all, " "), keep)}
	f.Effects = []Effect{{Text: e.Effect}}
	switch b := w.buildOf(p, e.ID); {
	case b != nil && b.Package != "" && b.Package != e.Keep && keep == e.Keep:
		f.Severity = Error
		f.Message += ", here " + b.Package
	case b != nil && b.Package == e.Keep:
		f.Severity, f.Because = Note, fmt.Sprintf("%s was unpacked last; the next installation may change that", e.Keep)
	case b == nil && sameVersion:
		f.Severity, f.Because = Note, "they are of one version"
	}
	return f
}

// sharedFiles finds ELF files that two distributions of one directory list with
// different hashes.
func (w *world) sharedFiles(p *inventory.Python, wheels wheelSet, told map[string]bool) []Finding {
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
			case had.hash != hash && !(told[had.name] && told[name]):
				shared[[2]string{had.name, name}] = append(shared[[2]string{had.name, name}], file)
			}
		}
	}
	var list []Finding
	pairs := slices.SortedFunc(maps.Keys(shared), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	for _, pair := range pairs {
		a, b := wheels[pair[0]], wheels[pair[1]]
		files := slices.Sorted(slices.Values(shared[pair]))
		list = append(list, Finding{
			Message: fmt.Sprintf("%s %s and %s %s both install %s, with different contents: the one that was unpacked last is what there is", a.Name, a.Version, b.Name, b.Version, path.Base(files[0])),
			Effects: []Effect{{Text: "one of the two gets a library that is not its own; uninstalling either deletes the file"}},
			Present: []File{w.file(a.Path), w.file(b.Path)}, Affected: files,
			Fixes: []string{fmt.Sprintf("keep the one that is needed: pip uninstall -y %s %s, then install it again", a.Name, b.Name)},
		})
	}
	return list
}

// requiredFixes puts the fix that a wheel itself names before the others: where a
// library is missing that the metadata of the package that asks for it requires
// in one release.
func (w *world) requiredFixes(list []Finding) {
	for i := range list {
		f := &list[i]
		if f.Rule != "missing-library" && f.Rule != "missing-sublibrary" {
			continue
		}
		for _, n := range f.NeededBy {
			if fix := w.requiredFix(n.Path, path.Base(f.Library)); fix != "" {
				f.Fixes = append([]string{fix}, f.Fixes...)
				break
			}
		}
	}
}

// requiredFix is how the package that has a file would get a library, empty when
// it does not say.
func (w *world) requiredFix(file, library string) string {
	p, pkg, wheels, r := w.requirement(file, library)
	if pkg == nil {
		return ""
	}
	options := ""
	if wheels[r.Name] != nil {
		options = "--force-reinstall --no-deps "
	}
	return fmt.Sprintf("pip install %s'%s%s', which %s %s requires", options, r.Name, r.Specifiers, pkg.Name, w.version(p, pkg))
}

// requirement is what the package that has a file requires of a library, where it
// is one release; pkg is nil when it does not say.
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

// brings reports whether a distribution is the one that has a library.
func (w *world) brings(dist, library string) bool {
	for _, d := range w.packs.LibraryDists {
		if rest, ok := strings.CutPrefix(dist, d.Dist); ok && match(d.Match, library) && (rest == "" || strings.HasPrefix(rest, "-cu")) {
			return true
		}
	}
	return false
}

// ownerOf is the wheel that a file belongs to, with its environment: by its
// RECORD, else by the directory that it is in.
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
