package lint

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

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
