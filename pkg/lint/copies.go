package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Copies are the files of an image that are one GPU library.
type Copies struct {
	Family  string `json:"family"`  // "cudnn"
	Library string `json:"library"` // its SONAME
	Files   []Copy `json:"files"`   // by path
}

// Copy is one file of a library.
type Copy struct {
	File
	// Version is empty when neither the file's name nor the distribution that
	// brings it tells.
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size"` // in bytes
	// UsedBy are the processes that get this file.
	UsedBy []User `json:"used_by,omitempty"`
}

// User is a process that gets a copy.
type User struct {
	Process string `json:"process"` // "PyTorch at /…/torch", or a program's path
	How     string `json:"how"`     // the step of the search that found it
	By      string `json:"by,omitempty"`
}

// Process is what one process is foretold to load.
type Process struct {
	Title   string `json:"title"`             // "PyTorch at /…/torch", or a program's path
	Program string `json:"program,omitempty"` // absent where none of the image's would load it
	// Mapped are the files, by path; the driver's that are injected are not in the
	// image and not among them.
	Mapped []string `json:"mapped"`
}

// isCopy reports whether a module is a GPU library of the image.
func (w *world) isCopy(m loaded) bool {
	return m.File != nil && w.packs.family(m.Object.Soname) != nil && w.byPath[m.Real()] != nil
}

// copies lists every GPU library of the image; stubs, which are there for linking,
// are none.
func (w *world) copies() []Copies {
	type key struct{ family, soname string }
	all, users := map[key][]Copy{}, w.users()
	for _, o := range w.objects {
		fam := w.packs.family(o.elf.Soname)
		if fam == nil || isStub(o.path) {
			continue
		}
		e, _, ok := w.img.FS.Lookup(o.path)
		if !ok || e.Type != layers.Regular {
			continue
		}
		k := key{fam.ID, o.elf.Soname}
		all[k] = append(all[k], Copy{File: w.file(o.path), Version: w.releaseOf(o.path).String(), Size: e.Size, UsedBy: users[o.path]})
	}
	var list []Copies
	for k, files := range all {
		list = append(list, Copies{k.family, k.soname, files})
	}
	slices.SortFunc(list, func(a, b Copies) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Library, b.Library))
	})
	return list
}

// isStub reports whether a path is that of a library for linking alone.
func isStub(p string) bool { return strings.Contains(p, "/stubs/") }

// maxStub is more than any stub of libcuda has (70 KB in CUDA 13.0) and less than any
// driver's (10 MB and more), in bytes.
const maxStub = 1 << 20

// copiedStub reports whether a file of the image is a stub of libcuda that was copied
// out of its directory: the driver's own has its release in its name.
func (w *world) copiedStub(real string) bool {
	e, _, ok := w.img.FS.Lookup(real)
	base := path.Base(real)
	return ok && (base == "libcuda.so.1" || base == "libcuda.so") && e.Size > 0 && e.Size < maxStub && !strings.Contains(real, "/wsl/")
}

// users are the processes that get a file, by the paths of GPU libraries.
func (w *world) users() map[string][]User {
	all := map[string][]User{}
	for _, r := range w.runs {
		for _, m := range r.loaded {
			if m.File != nil && w.packs.family(m.Object.Soname) != nil {
				all[m.Real()] = append(all[m.Real()], User{Process: r.title, How: w.how(m), By: m.by})
			}
		}
	}
	return all
}

// howOf returns the step of the search that found a module, or "" if it was opened by
// its path.
func howOf(m *elfdeps.Module) string {
	if len(m.Names) > 0 && strings.Contains(m.Names[0], "/") {
		return ""
	}
	return m.How
}

// how returns how a module was found, in words.
func (w *world) how(m loaded) string { return cmp.Or(m.how, w.phrase("by-path", nil)) }

// processes are what the plans' processes load.
func (w *world) processes() []Process {
	var list []Process
	for _, r := range w.runs {
		p := Process{Title: r.title, Program: r.program}
		for _, m := range r.loaded {
			if real := m.Real(); real != "" {
				if _, _, ok := w.img.FS.Lookup(real); ok {
					p.Mapped = append(p.Mapped, real)
				}
			}
		}
		slices.Sort(p.Mapped)
		p.Mapped = slices.Compact(p.Mapped)
		list = append(list, p)
	}
	return list
}

// mixtures adds to findings those about processes that get libraries which do not
// go together: parts of two releases, a copy other than the framework's own, a
// symbol that another release has. A library of which a missing symbol is told
// already is not told again.
func (w *world) mixtures(list []Finding) []Finding {
	all := tellingOf(list)
	broken := map[string]bool{}
	for _, f := range list {
		if f.Symbol != "" {
			broken[f.Library] = true
		}
	}
	for _, r := range w.runs {
		told := map[string]bool{} // families that have their worst finding and are to have no other
		for _, tell := range []func(*run) []Finding{w.brokenParts, w.refusals, w.twoReleases, w.shadowed, w.otherCUDA} {
			found := slices.DeleteFunc(tell(r), func(f Finding) bool { return told[f.Family] || f.Symbol == "" && broken[f.Library] })
			for _, f := range found {
				all.add(f)
			}
			for _, f := range found {
				told[f.Family] = told[f.Family] || w.packs.comeTogether(f.Family)
			}
		}
	}
	return all.list
}

// onPath reports whether LD_LIBRARY_PATH or ld.so.conf names a directory.
func (w *world) onPath(dir string) bool {
	for named := range w.searchDirs() {
		if w.sameDir(named, dir) {
			return true
		}
	}
	return false
}

// telling is a list of findings to which others are added that may say the same.
type telling struct {
	list []Finding
	at   map[[2]string]int // the first of a rule and cause
}

func tellingOf(list []Finding) *telling {
	t := &telling{list, map[[2]string]int{}}
	for i, f := range list {
		if _, ok := t.at[[2]string{f.Rule, f.Cause}]; !ok {
			t.at[[2]string{f.Rule, f.Cause}] = i
		}
	}
	return t
}

// add puts a finding to those that say the same of another process, or at the end.
func (t *telling) add(f Finding) {
	i, ok := t.at[[2]string{f.Rule, f.Cause}]
	if !ok {
		t.at[[2]string{f.Rule, f.Cause}] = len(t.list)
		t.list = append(t.list, f)
		return
	}
	for _, e := range f.Effects {
		if !slices.Contains(t.list[i].Effects, e) {
			t.list[i].Effects = append(t.list[i].Effects, e)
		}
	}
	if !t.list[i].Severity.AtLeast(f.Severity) {
		t.list[i].Severity, t.list[i].Because = f.Severity, f.Because
	}
}

// brokenParts are opens that end at a symbol which the library that defines it
// lacks: the two are of different releases.
func (w *world) brokenParts(r *run) []Finding {
	var list []Finding
	for _, m := range r.missed {
		if m.err.Kind != elfdeps.SymbolError {
			continue
		}
		f := w.symbolFinding(unboundOf(r.title, m.err, m.effect))
		f.Effects = append(f.Effects, m.also...)
		if !m.verdict.severity.AtLeast(f.Severity) {
			w.lowerTo(&f, m.verdict)
		}
		if len(f.NeededBy) > 0 {
			asks := f.NeededBy[0].Path
			f.Affected = []string{asks}
			if fam := w.packs.family(asks); fam != nil {
				f.Family = fam.ID
			}
			if f.BoundTo != nil {
				f.Advice = w.oneReleaseFix(asks, f.BoundTo.Path)
			}
		}
		list = append(list, f)
	}
	return list
}

// oneReleaseFix returns the fixes that bring two files of one library together.
func (w *world) oneReleaseFix(stray, with string) []Advice {
	dir, first := path.Dir(stray), path.Dir(with)
	v := values{"dir": dir, "first": first}
	old, set := w.getenv("LD_LIBRARY_PATH")
	if !set {
		return w.advice("one-release", v)
	}
	var rest []string
	for d := range strings.SplitSeq(old, ":") {
		if d != "" && !w.sameDir(d, dir) {
			rest = append(rest, d)
		}
	}
	if v["search-path"] = strings.Join(rest, ":"); v["search-path"] != old {
		return w.advice("one-release-by-dropping", v)
	}
	rest = slices.DeleteFunc(rest, func(d string) bool { return d == first })
	v["search-path"] = strings.Join(append([]string{first}, rest...), ":")
	return w.advice("one-release-by-order", v)
}

func (w *world) sameDir(a, b string) bool { return realPath(w.img.FS, a) == realPath(w.img.FS, b) }

// twoReleases looks for libraries that must be of one release and are not.
func (w *world) twoReleases(r *run) []Finding {
	var list []Finding
	for _, fam := range w.packs.Families {
		if len(fam.Together) == 0 {
			continue
		}
		if f, ok := w.mixture(r, fam, w.partsOf(r, fam)); ok {
			list = append(list, f)
		}
	}
	return list
}

// partsOf are the files of a library that go together, in the order in which a
// process has loaded them.
func (w *world) partsOf(r *run, fam *Family) []loaded {
	var parts []loaded
	for _, m := range r.loaded {
		if w.isCopy(m) && matchAny(fam.Together, m.Object.Soname) {
			parts = append(parts, m)
		}
	}
	return parts
}

// mixture compares the releases of parts of one library. Parts of one directory
// are of one release where nothing else is known.
func (w *world) mixture(r *run, fam *Family, parts []loaded) (Finding, bool) {
	byMajor := map[string][]loaded{}
	for _, m := range parts {
		byMajor[majorOf(m.Object.Soname)] = append(byMajor[majorOf(m.Object.Soname)], m)
	}
	for _, major := range slices.Sorted(maps.Keys(byMajor)) {
		list := byMajor[major]
		first := list[0]
		rel := w.releaseOfModule(first.Module)
		for _, m := range list[1:] {
			other := w.releaseOfModule(m.Module)
			if path.Dir(m.Real()) == path.Dir(first.Real()) && (rel == nil || other == nil) {
				continue
			}
			if rel != nil && other != nil && rel.Agrees(other) {
				continue
			}
			if rel == nil || other == nil {
				if !w.ownsBoth(first, m) {
					continue
				}
			}
			return w.mixtureFinding(r, fam, list, first, m), true
		}
	}
	return Finding{}, false
}

// ownsBoth reports whether the directories of two parts each have both of them: two
// whole sets, of which a process takes some of each.
func (w *world) ownsBoth(a, b loaded) bool {
	for _, dir := range []string{path.Dir(a.Real()), path.Dir(b.Real())} {
		for _, m := range []loaded{a, b} {
			if e, _, ok := w.img.FS.Lookup(path.Join(dir, m.Object.Soname)); !ok || e.Object == nil {
				return false
			}
		}
	}
	return true
}

// mixtureFinding returns the finding of a process that has parts of two releases: list
// are all parts, first and stray two that differ.
func (w *world) mixtureFinding(r *run, fam *Family, list []loaded, first, stray loaded) Finding {
	fails := w.mixedEffects(r, list)
	f := w.say("mixed-releases", "parts", values{"family": fam.Title, "parts": w.partsInWords(list), "process": r.title})
	for _, x := range fails {
		f.Effects = append(f.Effects, Effect{Text: x.Effect, Error: x.Error})
	}
	switch {
	case len(fails) == 0 && w.partsAreNewer(first, stray):
		w.lower(&f, "newer-parts", nil)
	case !slices.ContainsFunc(fails, func(x Mixed) bool { return x.Severity == "" }):
		w.lower(&f, "parts-may-fail", nil)
	}
	f.Family, f.Library = fam.ID, stray.Object.Soname
	for _, m := range list {
		f.Present, f.Affected = append(f.Present, w.file(m.Real())), append(f.Affected, m.Real())
	}
	if d := w.distOf(first.Real()); d.name != "" && path.Dir(stray.Real()) == path.Dir(first.Real()) {
		f.advise(w.reinstall(d.name, d.version)...)
	} else {
		f.advise(w.oneReleaseFix(stray.Real(), first.Real())...)
	}
	return f
}

// partsInWords names the parts of a library with their releases and directories, one of
// each directory and release.
func (w *world) partsInWords(list []loaded) string {
	var said []string
	seen := map[string]bool{}
	for _, m := range list {
		dir, version := path.Dir(m.Real()), w.releaseOfModule(m.Module).String()
		if seen[dir+" "+version] {
			continue
		}
		seen[dir+" "+version] = true
		if version == "" {
			version = w.phrase("unknown-release", nil)
		}
		said = append(said, w.phrase("part-of-release", values{"library": m.Object.Soname, "release": version, "dir": dir, "how": w.how(m)}))
	}
	return strings.Join(said, ", ")
}

// partsAreNewer reports whether a part is of a newer release than the library that opens
// it. cuDNN 9's front library passes calls on, and a newer graph library takes those of
// an older one.
func (w *world) partsAreNewer(first, part loaded) bool {
	front := w.releaseOfModule(first.Module)
	return len(front) > 0 && front[0] >= 9 && front.Before(w.releaseOfModule(part.Module))
}

// mixedEffects are what fails in a framework whose process has these parts of a
// library.
func (w *world) mixedEffects(r *run, parts []loaded) []Mixed {
	if r.in == nil || len(parts) == 0 {
		return nil
	}
	var list []Mixed
	odd := w.oddParts(parts)
	for _, x := range r.in.Mixed {
		if slices.ContainsFunc(odd, func(m loaded) bool { return match(x.Library, m.Object.Soname) }) {
			list = append(list, x)
		}
	}
	return list
}

// oddParts are the parts of a library that are of another release than most of them.
// The library that opens them, however often it is there, is none.
func (w *world) oddParts(list []loaded) []loaded {
	parts := slices.DeleteFunc(slices.Clone(list), func(m loaded) bool {
		return m.Object.Soname == list[0].Object.Soname || w.releaseOfModule(m.Module) == nil
	})
	of := map[string]int{}
	most := ""
	for _, m := range parts {
		r := w.releaseOfModule(m.Module).String()
		if of[r]++; of[r] > of[most] {
			most = r
		}
	}
	return slices.DeleteFunc(parts, func(m loaded) bool { return w.releaseOfModule(m.Module).String() == most })
}

// own are the files of a library that a framework brings along or opens by its
// full path.
func (w *world) own(in *install, soname string) []string {
	var list []string
	for _, o := range w.bySoname[soname] {
		if strings.HasPrefix(o.path, in.home+"/") || slices.ContainsFunc(in.opens, func(p string) bool { return path.Dir(p) == path.Dir(o.path) }) {
			list = append(list, o.path)
		}
	}
	return list
}

// refusals are checks of a framework that fail for what its process gets.
func (w *world) refusals(r *run) []Finding {
	if r.in == nil {
		return nil
	}
	var list []Finding
	for _, x := range r.in.Refuses {
		for _, m := range r.loaded {
			if !w.isCopy(m) || !match(x.Library, m.Object.Soname) {
				continue
			}
			found := w.releaseOfModule(m.Module)
			own := w.ownLike(r.in, x.Own)
			wants := w.releaseOf(own)
			var required *inventory.Requirement
			if own == "" { // its wheel may say what it was made for
				if _, pkg, _, req := w.requirement(path.Join(r.in.home, "__init__.py"), m.Object.Soname); pkg != nil {
					wants, required = parseRelease(strings.TrimPrefix(req.Specifiers, "==")), &req
				}
			}
			if len(wants) < x.Numbers || len(found) < x.Numbers || found[0] != wants[0] || !found[:x.Numbers].Before(wants[:x.Numbers]) {
				continue
			}
			v := values{"process": r.title, "library": m.Object.Soname, "found": found.String(), "dir": path.Dir(m.Real()), "how": w.how(m), "wants": wants.String()}
			clause := "refused"
			if required != nil {
				clause, v["package"], v["specifiers"] = "refused-as-required", required.Name, required.Specifiers
			}
			f := w.say("shadowed-library", clause, v)
			f.Family, f.Library, f.Affected = w.packs.family(m.Object.Soname).ID, m.Object.Soname, []string{m.Real()}
			f.Effects = []Effect{{Text: x.Effect, Error: expand(x.Error, "{own}", tuple(wants), "{found}", tuple(found))}}
			f.Present = []File{w.file(m.Real())}
			for _, x := range w.mixedEffects(r, w.partsOf(r, w.packs.family(m.Object.Soname))) {
				f.Effects = append(f.Effects, Effect{Text: x.Effect, Error: x.Error})
			}
			if own != "" {
				f.Present = append(f.Present, w.file(own))
				f.advise(w.oneReleaseFix(m.Real(), own)...)
			}
			list = append(list, f)
			break
		}
	}
	return list
}

// ownLike is the framework's own file of a SONAME that fits a pattern, empty when
// there is none.
func (w *world) ownLike(in *install, pattern string) string {
	for _, o := range w.objects {
		if match(pattern, o.elf.Soname) && slices.Contains(w.own(in, o.elf.Soname), o.path) {
			return o.path
		}
	}
	return ""
}

// tuple writes a version as Python shows it.
func tuple(r release) string {
	return "(" + strings.ReplaceAll(r[:min(3, len(r))].String(), ".", ", ") + ")"
}

// shadowed are the libraries of which a framework's process gets another copy than
// the framework's own, and an older one.
func (w *world) shadowed(r *run) []Finding {
	if r.in == nil {
		return nil
	}
	var list []Finding
	for _, m := range r.loaded {
		if !w.isCopy(m) {
			continue
		}
		own := w.own(r.in, m.Object.Soname)
		if len(own) == 0 || slices.Contains(own, m.Real()) {
			continue
		}
		has, gets := w.releaseOf(own[0]), w.releaseOfModule(m.Module)
		if has != nil && gets != nil && gets.Agrees(has) {
			continue
		}
		v := values{
			"process": r.title, "library": m.Object.Soname, "dir": path.Dir(m.Real()), "how": w.how(m), "own-dir": path.Dir(own[0]),
			"gets": gets.String(), "has": has.String(),
		}
		clause := "older"
		switch {
		case has == nil || gets == nil:
			clause = "unknown"
		case has.Before(gets):
			clause = "newer"
		}
		f := w.say("shadowed-library", clause, v)
		f.Family, f.Library = w.packs.family(m.Object.Soname).ID, m.Object.Soname
		f.Present, f.Affected = []File{w.file(m.Real()), w.file(own[0])}, []string{m.Real()}
		if clause == "older" {
			f.advise(w.oneReleaseFix(m.Real(), own[0])...)
		}
		list = append(list, f)
	}
	return list
}

// otherCUDA are libraries whose name two major versions of CUDA share and that are
// of another one than the process's runtime.
func (w *world) otherCUDA(r *run) []Finding {
	cuda := w.processCUDA(r)
	if cuda == "" {
		return nil
	}
	var list []Finding
	for _, m := range r.loaded {
		if !w.isCopy(m) {
			continue
		}
		of := w.cudaOf(m.Real())
		if of == "" || of == cuda || w.packs.family(m.Object.Soname).ID != "cuda" {
			continue
		}
		if has := w.packs.cudaOf(m.Object.Soname); len(has) > 0 && !slices.Contains(has, cuda) {
			continue // whoever asks for that name is built for the other CUDA
		}
		f := w.say("cuda-major-mismatch", "other-cuda", values{"process": r.title, "cuda": cuda, "library": m.Object.Soname, "of": of, "how": w.how(m)})
		f.Family, f.Library = "cuda", m.Object.Soname
		f.Present, f.Affected = []File{w.file(m.Real())}, []string{m.Real()}
		list = append(list, f)
	}
	return list
}

// cudaOf is the major version of CUDA that a library's place tells: a toolkit's
// directory, or a wheel's; empty when it does not.
func (w *world) cudaOf(real string) string {
	for part := range strings.SplitSeq(real, "/") {
		for _, prefix := range []string{"cuda-", "cu"} {
			if rest, ok := strings.CutPrefix(part, prefix); ok {
				if r := parseRelease(rest); len(r) > 0 && r[0] > 8 && r[0] < 100 {
					return r[:1].String()
				}
			}
		}
	}
	return ""
}

// drivers returns the findings about libraries of the driver in the image.
func (w *world) drivers() []Finding {
	list := tellingOf(nil)
	for _, r := range w.runs {
		for _, m := range r.loaded {
			real := m.Real()
			if real == "" || !w.packs.fromDriver(real) {
				continue
			}
			if _, _, ok := w.img.FS.Lookup(real); !ok {
				continue // the injected one
			}
			if f, ok := w.driver(r, m); ok {
				f.Library, f.Present, f.Affected = m.Object.Soname, []File{w.file(real)}, []string{real}
				list.add(f)
			}
		}
	}
	return list.list
}

// driver returns the finding about a stub or a compatibility library that a process gets
// instead of the driver.
func (w *world) driver(r *run, m loaded) (_ Finding, ok bool) {
	real := m.Real()
	stub := isStub(real) || w.copiedStub(real)
	v := values{"process": r.title, "file": real, "how": w.how(m), "mounted": mountedDriver}
	switch {
	case w.onPath(path.Dir(real)) && (isStub(real) || !stub):
		return Finding{}, false // stubs-on-path and compat-on-path say so
	case !stub && strings.Contains(real, "/compat/"):
		return w.say("stub-driver", "compat", v), true
	case !stub:
		return Finding{}, false
	}
	f := w.say("stub-driver", "stub", v)
	if m.how != "LD_LIBRARY_PATH" && slices.ContainsFunc(w.pathEntries(), func(e string) bool { return path.Clean(e) == mountedDriver }) {
		w.lower(&f, "mounted-first", v)
	}
	w.also(&f, stubFix(m), v)
	return f, true
}

// stubFix returns the clause that has the fix of a stub.
func stubFix(m loaded) string {
	switch {
	case !isStub(m.Real()):
		return "copied"
	case strings.HasPrefix(m.how, "RPATH of "), strings.HasPrefix(m.how, "RUNPATH of "):
		return "by-runpath"
	case m.how == "":
		return "opened-by-path"
	}
	return "searched"
}
