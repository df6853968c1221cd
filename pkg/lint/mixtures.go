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

// mixtures returns the findings about processes whose libraries do not fit together: parts of
// two releases, a copy that is not the framework's own, a symbol of another release. A
// process has one finding, the first of this order, for each family whose libraries must be
// of one release.
func mixtures(pass *Pass) []Finding {
	var list []Finding
	for _, r := range pass.Evidence.Processes {
		reported := map[string]bool{} // families of libraries that must be of one release
		for _, find := range []func(*Pass, *replay.Process) []Finding{brokenParts, refusals, twoReleases, shadowed, otherCUDA} {
			found := slices.DeleteFunc(find(pass, r), func(f Finding) bool { return reported[f.Family] })
			for _, f := range found {
				reported[f.Family] = reported[f.Family] || pass.Packs.ComeTogether(f.Family)
			}
			list = append(list, found...)
		}
	}
	return list
}

// brokenParts returns a finding for each library that a process cannot open because a symbol
// is undefined: it and the library that should define the symbol are of different releases.
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

// twoReleases returns a finding for each family whose libraries must be of one release and,
// in the process, are not.
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

// partsOf returns the libraries of a family that must be of one release, in the order in
// which the process loads them.
func partsOf(pass *Pass, r *replay.Process, fam *packs.Family) []replay.Loaded {
	var parts []replay.Loaded
	for _, m := range r.Loaded {
		if pass.Files.IsCopy(m) && packs.MatchAny(fam.Together, m.Object.Soname) {
			parts = append(parts, m)
		}
	}
	return parts
}

// mixture returns the finding for the first two parts with different releases, and whether
// there are any. Of parts with an unknown release, those of one directory count as one
// release, and others as two only if each directory has both parts.
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
			differ := rel != nil && other != nil && !rel.Agrees(other)
			if rel == nil || other == nil {
				differ = path.Dir(m.Real()) != path.Dir(first.Real()) && ownsBoth(pass, first, m)
			}
			if differ {
				return mixtureFinding(pass, r, fam, list, first, m), true
			}
		}
	}
	return Finding{}, false
}

// ownsBoth reports whether the directory of each of two parts has both parts: the process
// loads from two whole sets.
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

// mixtureFinding returns the finding for a process with parts of two releases. list has all
// parts, and first and stray differ.
func mixtureFinding(pass *Pass, r *replay.Process, fam *packs.Family, list []replay.Loaded, first, stray replay.Loaded) Finding {
	fails := mixedEffects(pass, r, list)
	f := pass.say("mixed-releases", "parts", packs.Values{"family": fam.Title, "parts": partsInWords(pass, list), "process": r.Title})
	for _, x := range fails {
		f.Effects = append(f.Effects, packs.Effect{Text: x.Effect, Error: x.Error})
	}
	switch {
	case len(fails) == 0 && partsAreNewer(pass, fam, first, stray):
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

// partsInWords returns the names of parts with their releases and directories, one for each
// directory and release.
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

// partsAreNewer reports whether a part is of a newer release than the library that opens it,
// and that library works with newer parts.
func partsAreNewer(pass *Pass, fam *packs.Family, first, part replay.Loaded) bool {
	front := pass.Packages.ReleaseOfModule(first.Module)
	fits, known := front.Within(fam.NewerParts)
	return fam.NewerParts != "" && fits && known && front.Before(pass.Packages.ReleaseOfModule(part.Module))
}

// mixedEffects returns the failures of a process's framework that come from parts of
// different releases.
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

// oddParts returns the parts that are of another release than most. The first, which opens
// the others, does not count.
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

// otherCUDA returns a finding for each library of another major version of CUDA than the
// process's runtime, under a name that both versions have.
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
		of := cudaOf(m.Real())
		if of == "" || of == cuda || pass.Packs.Family(m.Object.Soname).ID != "cuda" {
			continue
		}
		if has := pass.Packs.CudaOf(m.Object.Soname); len(has) > 0 && !slices.Contains(has, cuda) {
			continue // the file that needs the name is built for the other CUDA
		}
		f := pass.say("cuda-major-mismatch", "other-cuda", packs.Values{"process": r.Title, "cuda": cuda, "library": m.Object.Soname, "of": of, "how": how(pass, m)})
		f.Family, f.Library = "cuda", m.Object.Soname
		f.Present, f.Affected = []replay.File{pass.Image.File(m.Real())}, []string{m.Real()}
		list = append(list, f)
	}
	return list
}

// cudaOf returns the major version of CUDA in the name of a toolkit's or a wheel's directory
// (/usr/local/cuda-12.4, nvidia/cu13), or "".
func cudaOf(real string) string {
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
