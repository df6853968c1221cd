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
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Copies are the files of an image that are one GPU library.
type Copies struct {
	Family  string `json:"family"`  // "cudnn"
	Library string `json:"library"` // its SONAME
	Files   []Copy `json:"files"`   // by path
}

// Copy is one file of a library.
type Copy struct {
	replay.File
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

// copies lists every GPU library of the image; stubs, which are there for linking,
// are none.
func copies(pass *Pass) []Copies {
	type key struct{ family, soname string }
	all, users := map[key][]Copy{}, users(pass)
	for _, o := range pass.Files.Objects {
		fam := pass.Packs.Family(o.ELF.Soname)
		if fam == nil || replay.IsStub(o.Path) {
			continue
		}
		e, _, ok := pass.Image.FS.Lookup(o.Path)
		if !ok || e.Type != layers.Regular {
			continue
		}
		k := key{fam.ID, o.ELF.Soname}
		all[k] = append(all[k], Copy{File: pass.Image.File(o.Path), Version: pass.Packages.ReleaseOf(o.Path).String(), Size: e.Size, UsedBy: users[o.Path]})
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

// users are the processes that get a file, by the paths of GPU libraries.
func users(pass *Pass) map[string][]User {
	all := map[string][]User{}
	for _, r := range pass.Evidence.Processes {
		for _, m := range r.Loaded {
			if m.File != nil && pass.Packs.Family(m.Object.Soname) != nil {
				all[m.Real()] = append(all[m.Real()], User{Process: r.Title, How: how(pass, m), By: m.By})
			}
		}
	}
	return all
}

// how returns how a module was found, in words.
func how(pass *Pass, m replay.Loaded) string { return cmp.Or(m.How, pass.Packs.Phrase("by-path", nil)) }

// processes are what the plans' processes load.
func processes(pass *Pass) []Process {
	var list []Process
	for _, r := range pass.Evidence.Processes {
		p := Process{Title: r.Title, Program: r.Program}
		for _, m := range r.Loaded {
			if real := m.Real(); real != "" {
				if _, _, ok := pass.Image.FS.Lookup(real); ok {
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

// mixtures returns the findings about processes that get libraries which do not go
// together: parts of two releases, a copy other than the framework's own, a symbol that
// another release has. Of a family whose libraries come together, a process has the
// worst finding only.
func mixtures(pass *Pass) []Finding {
	var list []Finding
	for _, r := range pass.Evidence.Processes {
		worst := map[string]bool{} // families that have it
		for _, find := range []func(*Pass, *replay.Process) []Finding{brokenParts, refusals, twoReleases, shadowed, otherCUDA} {
			found := slices.DeleteFunc(find(pass, r), func(f Finding) bool { return worst[f.Family] })
			for _, f := range found {
				worst[f.Family] = worst[f.Family] || pass.Packs.ComeTogether(f.Family)
			}
			list = append(list, found...)
		}
	}
	return list
}

// brokenParts are opens that end at a symbol which the library that defines it
// lacks: the two are of different releases.
func brokenParts(pass *Pass, r *replay.Process) []Finding {
	var list []Finding
	for _, m := range r.Missed {
		if m.Err.Kind != elfdeps.SymbolError {
			continue
		}
		f := symbolFinding(pass, replay.UnboundOf(r.Title, m.Err, m.Effect))
		f.Effects = append(f.Effects, m.Also...)
		if !m.Verdict.Severity.AtLeast(f.Severity) {
			pass.lowerTo(&f, m.Verdict)
		}
		if len(f.NeededBy) > 0 {
			asks := f.NeededBy[0].Path
			f.Affected = []string{asks}
			if fam := pass.Packs.Family(asks); fam != nil {
				f.Family = fam.ID
			}
			if f.BoundTo != nil {
				f.Advice = oneReleaseFix(pass, asks, f.BoundTo.Path)
			}
		}
		list = append(list, f)
	}
	return list
}

// oneReleaseFix returns the fixes that bring two files of one library together.
func oneReleaseFix(pass *Pass, stray, with string) []packs.Advice {
	dir, first := path.Dir(stray), path.Dir(with)
	v := packs.Values{"dir": dir, "first": first}
	old, set := pass.Config.Getenv("LD_LIBRARY_PATH")
	if !set {
		return pass.advice("one-release", v)
	}
	var rest []string
	for d := range strings.SplitSeq(old, ":") {
		if d != "" && !pass.Image.SameDir(d, dir) {
			rest = append(rest, d)
		}
	}
	if v["search-path"] = strings.Join(rest, ":"); v["search-path"] != old {
		return pass.advice("one-release-by-dropping", v)
	}
	rest = slices.DeleteFunc(rest, func(d string) bool { return d == first })
	v["search-path"] = strings.Join(append([]string{first}, rest...), ":")
	return pass.advice("one-release-by-order", v)
}

// twoReleases looks for libraries that must be of one release and are not.
func twoReleases(pass *Pass, r *replay.Process) []Finding {
	var list []Finding
	for _, fam := range pass.Packs.Families {
		if len(fam.Together) == 0 {
			continue
		}
		if f, ok := mixture(pass, r, fam, partsOf(pass, r, fam)); ok {
			list = append(list, f)
		}
	}
	return list
}

// partsOf are the files of a library that go together, in the order in which a
// process has loaded them.
func partsOf(pass *Pass, r *replay.Process, fam *packs.Family) []replay.Loaded {
	var parts []replay.Loaded
	for _, m := range r.Loaded {
		if pass.Files.IsCopy(m) && packs.MatchAny(fam.Together, m.Object.Soname) {
			parts = append(parts, m)
		}
	}
	return parts
}

// mixture compares the releases of parts of one library. Parts of one directory
// are of one release where nothing else is known.
func mixture(pass *Pass, r *replay.Process, fam *packs.Family, parts []replay.Loaded) (Finding, bool) {
	byMajor := map[string][]replay.Loaded{}
	for _, m := range parts {
		byMajor[packs.MajorOf(m.Object.Soname)] = append(byMajor[packs.MajorOf(m.Object.Soname)], m)
	}
	for _, major := range slices.Sorted(maps.Keys(byMajor)) {
		list := byMajor[major]
		first := list[0]
		rel := pass.Packages.ReleaseOfModule(first.Module)
		for _, m := range list[1:] {
			other := pass.Packages.ReleaseOfModule(m.Module)
			if path.Dir(m.Real()) == path.Dir(first.Real()) && (rel == nil || other == nil) {
				continue
			}
			if rel != nil && other != nil && rel.Agrees(other) {
				continue
			}
			if rel == nil || other == nil {
				if !ownsBoth(pass, first, m) {
					continue
				}
			}
			return mixtureFinding(pass, r, fam, list, first, m), true
		}
	}
	return Finding{}, false
}

// ownsBoth reports whether the directories of two parts each have both of them: two
// whole sets, of which a process takes some of each.
func ownsBoth(pass *Pass, a, b replay.Loaded) bool {
	for _, dir := range []string{path.Dir(a.Real()), path.Dir(b.Real())} {
		for _, m := range []replay.Loaded{a, b} {
			if e, _, ok := pass.Image.FS.Lookup(path.Join(dir, m.Object.Soname)); !ok || e.Object == nil {
				return false
			}
		}
	}
	return true
}

// mixtureFinding returns the finding of a process that has parts of two releases: list
// are all parts, first and stray two that differ.
func mixtureFinding(pass *Pass, r *replay.Process, fam *packs.Family, list []replay.Loaded, first, stray replay.Loaded) Finding {
	fails := mixedEffects(pass, r, list)
	f := pass.say("mixed-releases", "parts", packs.Values{"family": fam.Title, "parts": partsInWords(pass, list), "process": r.Title})
	for _, x := range fails {
		f.Effects = append(f.Effects, packs.Effect{Text: x.Effect, Error: x.Error})
	}
	switch {
	case len(fails) == 0 && partsAreNewer(pass, first, stray):
		pass.lower(&f, "newer-parts", nil)
	case !slices.ContainsFunc(fails, func(x packs.Mixed) bool { return x.Severity == "" }):
		pass.lower(&f, "parts-may-fail", nil)
	}
	f.Family, f.Library = fam.ID, stray.Object.Soname
	for _, m := range list {
		f.Present, f.Affected = append(f.Present, pass.Image.File(m.Real())), append(f.Affected, m.Real())
	}
	if d := pass.Packages.DistOf(first.Real()); d.Name != "" && path.Dir(stray.Real()) == path.Dir(first.Real()) {
		f.advise(reinstall(pass, d.Name, d.Version)...)
	} else {
		f.advise(oneReleaseFix(pass, stray.Real(), first.Real())...)
	}
	return f
}

// partsInWords names the parts of a library with their releases and directories, one of
// each directory and release.
func partsInWords(pass *Pass, list []replay.Loaded) string {
	var said []string
	seen := map[string]bool{}
	for _, m := range list {
		dir, version := path.Dir(m.Real()), pass.Packages.ReleaseOfModule(m.Module).String()
		if seen[dir+" "+version] {
			continue
		}
		seen[dir+" "+version] = true
		if version == "" {
			version = pass.Packs.Phrase("unknown-release", nil)
		}
		said = append(said, pass.Packs.Phrase("part-of-release", packs.Values{"library": m.Object.Soname, "release": version, "dir": dir, "how": how(pass, m)}))
	}
	return strings.Join(said, ", ")
}

// partsAreNewer reports whether a part is of a newer release than the library that opens
// it. cuDNN 9's front library passes calls on, and a newer graph library takes those of
// an older one.
func partsAreNewer(pass *Pass, first, part replay.Loaded) bool {
	front := pass.Packages.ReleaseOfModule(first.Module)
	return len(front) > 0 && front[0] >= 9 && front.Before(pass.Packages.ReleaseOfModule(part.Module))
}

// mixedEffects are what fails in a framework whose process has these parts of a
// library.
func mixedEffects(pass *Pass, r *replay.Process, parts []replay.Loaded) []packs.Mixed {
	if r.In == nil || len(parts) == 0 {
		return nil
	}
	var list []packs.Mixed
	odd := oddParts(pass, parts)
	for _, x := range r.In.Mixed {
		if slices.ContainsFunc(odd, func(m replay.Loaded) bool { return packs.Match(x.Library, m.Object.Soname) }) {
			list = append(list, x)
		}
	}
	return list
}

// oddParts are the parts of a library that are of another release than most of them.
// The library that opens them, however often it is there, is none.
func oddParts(pass *Pass, list []replay.Loaded) []replay.Loaded {
	parts := slices.DeleteFunc(slices.Clone(list), func(m replay.Loaded) bool {
		return m.Object.Soname == list[0].Object.Soname || pass.Packages.ReleaseOfModule(m.Module) == nil
	})
	of := map[string]int{}
	most := ""
	for _, m := range parts {
		r := pass.Packages.ReleaseOfModule(m.Module).String()
		if of[r]++; of[r] > of[most] {
			most = r
		}
	}
	return slices.DeleteFunc(parts, func(m replay.Loaded) bool { return pass.Packages.ReleaseOfModule(m.Module).String() == most })
}

// refusals are checks of a framework that fail for what its process gets.
func refusals(pass *Pass, r *replay.Process) []Finding {
	if r.In == nil {
		return nil
	}
	var list []Finding
	for _, x := range r.In.Refuses {
		for _, m := range r.Loaded {
			if !pass.Files.IsCopy(m) || !packs.Match(x.Library, m.Object.Soname) {
				continue
			}
			found := pass.Packages.ReleaseOfModule(m.Module)
			own := ownLike(pass, r.In, x.Own)
			wants := pass.Packages.ReleaseOf(own)
			var required *inventory.Requirement
			if own == "" { // its wheel may say what it was made for
				if _, pkg, _, req := pass.Packages.Requirement(path.Join(r.In.Home, "__init__.py"), m.Object.Soname); pkg != nil {
					wants, required = packs.ParseRelease(strings.TrimPrefix(req.Specifiers, "==")), &req
				}
			}
			if len(wants) < x.Numbers || len(found) < x.Numbers || found[0] != wants[0] || !found[:x.Numbers].Before(wants[:x.Numbers]) {
				continue
			}
			v := packs.Values{"process": r.Title, "library": m.Object.Soname, "found": found.String(), "dir": path.Dir(m.Real()), "how": how(pass, m), "wants": wants.String()}
			clause := "refused"
			if required != nil {
				clause, v["package"], v["specifiers"] = "refused-as-required", required.Name, required.Specifiers
			}
			f := pass.say("shadowed-library", clause, v)
			f.Family, f.Library, f.Affected = pass.Packs.Family(m.Object.Soname).ID, m.Object.Soname, []string{m.Real()}
			f.Effects = []packs.Effect{{Text: x.Effect, Error: packs.Expand(x.Error, "{own}", tuple(wants), "{found}", tuple(found))}}
			f.Present = []replay.File{pass.Image.File(m.Real())}
			for _, x := range mixedEffects(pass, r, partsOf(pass, r, pass.Packs.Family(m.Object.Soname))) {
				f.Effects = append(f.Effects, packs.Effect{Text: x.Effect, Error: x.Error})
			}
			if own != "" {
				f.Present = append(f.Present, pass.Image.File(own))
				f.advise(oneReleaseFix(pass, m.Real(), own)...)
			}
			list = append(list, f)
			break
		}
	}
	return list
}

// ownLike is the framework's own file of a SONAME that fits a pattern, empty when
// there is none.
func ownLike(pass *Pass, in *replay.Install, pattern string) string {
	for _, o := range pass.Files.Objects {
		if packs.Match(pattern, o.ELF.Soname) && slices.Contains(pass.Files.Own(in, o.ELF.Soname), o.Path) {
			return o.Path
		}
	}
	return ""
}

// tuple writes a version as Python shows it.
func tuple(r packs.ReleaseNumbers) string {
	return "(" + strings.ReplaceAll(r[:min(3, len(r))].String(), ".", ", ") + ")"
}

// shadowed are the libraries of which a framework's process gets another copy than
// the framework's own, and an older one.
func shadowed(pass *Pass, r *replay.Process) []Finding {
	if r.In == nil {
		return nil
	}
	var list []Finding
	for _, m := range r.Loaded {
		if !pass.Files.IsCopy(m) {
			continue
		}
		own := pass.Files.Own(r.In, m.Object.Soname)
		if len(own) == 0 || slices.Contains(own, m.Real()) {
			continue
		}
		has, gets := pass.Packages.ReleaseOf(own[0]), pass.Packages.ReleaseOfModule(m.Module)
		if has != nil && gets != nil && gets.Agrees(has) {
			continue
		}
		v := packs.Values{
			"process": r.Title, "library": m.Object.Soname, "dir": path.Dir(m.Real()), "how": how(pass, m), "own-dir": path.Dir(own[0]),
			"gets": gets.String(), "has": has.String(),
		}
		clause := "older"
		switch {
		case has == nil || gets == nil:
			clause = "unknown"
		case has.Before(gets):
			clause = "newer"
		}
		f := pass.say("shadowed-library", clause, v)
		f.Family, f.Library = pass.Packs.Family(m.Object.Soname).ID, m.Object.Soname
		f.Present, f.Affected = []replay.File{pass.Image.File(m.Real()), pass.Image.File(own[0])}, []string{m.Real()}
		if clause == "older" {
			f.advise(oneReleaseFix(pass, m.Real(), own[0])...)
		}
		list = append(list, f)
	}
	return list
}

// otherCUDA are libraries whose name two major versions of CUDA share and that are
// of another one than the process's runtime.
func otherCUDA(pass *Pass, r *replay.Process) []Finding {
	cuda := pass.Files.ProcessCUDA(r)
	if cuda == "" {
		return nil
	}
	var list []Finding
	for _, m := range r.Loaded {
		if !pass.Files.IsCopy(m) {
			continue
		}
		of := cudaOf(pass, m.Real())
		if of == "" || of == cuda || pass.Packs.Family(m.Object.Soname).ID != "cuda" {
			continue
		}
		if has := pass.Packs.CudaOf(m.Object.Soname); len(has) > 0 && !slices.Contains(has, cuda) {
			continue // whoever asks for that name is built for the other CUDA
		}
		f := pass.say("cuda-major-mismatch", "other-cuda", packs.Values{"process": r.Title, "cuda": cuda, "library": m.Object.Soname, "of": of, "how": how(pass, m)})
		f.Family, f.Library = "cuda", m.Object.Soname
		f.Present, f.Affected = []replay.File{pass.Image.File(m.Real())}, []string{m.Real()}
		list = append(list, f)
	}
	return list
}

// cudaOf is the major version of CUDA that a library's place tells: a toolkit's
// directory, or a wheel's; empty when it does not.
func cudaOf(pass *Pass, real string) string {
	for part := range strings.SplitSeq(real, "/") {
		for _, prefix := range []string{"cuda-", "cu"} {
			if rest, ok := strings.CutPrefix(part, prefix); ok {
				if r := packs.ParseRelease(rest); len(r) > 0 && r[0] > 8 && r[0] < 100 {
					return r[:1].String()
				}
			}
		}
	}
	return ""
}

// drivers returns the findings about libraries of the driver in the image.
func drivers(pass *Pass) []Finding {
	var list []Finding
	for _, r := range pass.Evidence.Processes {
		for _, m := range r.Loaded {
			real := m.Real()
			if real == "" || !pass.Packs.FromDriver(real) {
				continue
			}
			if _, _, ok := pass.Image.FS.Lookup(real); !ok {
				continue // the injected one
			}
			if f, ok := driver(pass, r, m); ok {
				f.Library, f.Present, f.Affected = m.Object.Soname, []replay.File{pass.Image.File(real)}, []string{real}
				list = append(list, f)
			}
		}
	}
	return list
}

// driver returns the finding about a stub or a compatibility library that a process gets
// instead of the driver.
func driver(pass *Pass, r *replay.Process, m replay.Loaded) (_ Finding, ok bool) {
	real := m.Real()
	stub := replay.IsStub(real) || pass.Files.CopiedStub(real)
	v := packs.Values{"process": r.Title, "file": real, "how": how(pass, m), "mounted": replay.MountedDriver}
	switch {
	case pass.Loaders.OnPath(path.Dir(real)) && (replay.IsStub(real) || !stub):
		return Finding{}, false // stubs-on-path and compat-on-path say so
	case !stub && strings.Contains(real, "/compat/"):
		return pass.say("stub-driver", "compat", v), true
	case !stub:
		return Finding{}, false
	}
	f := pass.say("stub-driver", "stub", v)
	if m.How != "LD_LIBRARY_PATH" && slices.ContainsFunc(pass.Loaders.PathEntries(), func(e string) bool { return path.Clean(e) == replay.MountedDriver }) {
		pass.lower(&f, "mounted-first", v)
	}
	pass.also(&f, stubFix(m), v)
	return f, true
}

// stubFix returns the clause that has the fix of a stub.
func stubFix(m replay.Loaded) string {
	switch {
	case !replay.IsStub(m.Real()):
		return "copied"
	case strings.HasPrefix(m.How, "RPATH of "), strings.HasPrefix(m.How, "RUNPATH of "):
		return "by-runpath"
	case m.How == "":
		return "opened-by-path"
	}
	return "searched"
}
