package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// refusals returns a finding for each check of a framework that fails because its process
// loads an older library than the framework was built for.
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
			found, built := pass.Packages.ReleaseOfModule(m.Module), builtForOf(pass, r.In, x, m.Object.Soname)
			if refuses(x, found, built.release) {
				list = append(list, refusalFinding(pass, r, x, m, built))
				break
			}
		}
	}
	return list
}

// builtFor is the release of a library that a framework was built for.
type builtFor struct {
	release  version.Release
	own      string                 // the framework's own file of the library, or empty
	required *inventory.Requirement // without an own file, the framework's requirement, or nil
}

// builtForOf returns the release of a library that a framework was built for: that of its
// own copy, or the one that its metadata requires.
func builtForOf(pass *Pass, in *replay.Install, x packs.Refusal, soname string) builtFor {
	own := ownLike(pass, in, x.Own)
	b := builtFor{release: pass.Packages.ReleaseOf(own), own: own}
	if own != "" {
		return b
	}
	if _, pkg, _, r := pass.Packages.Requirement(path.Join(in.Home, "__init__.py"), soname); pkg != nil {
		b.release, b.required = packs.ParseRelease(strings.TrimPrefix(r.Specifiers, "==")), &r
	}
	return b
}

// refuses reports whether a check fails for the release found: it has the major version of
// wants and is older.
func refuses(x packs.Refusal, found, wants version.Release) bool {
	return len(wants) >= x.Numbers && len(found) >= x.Numbers && found[0] == wants[0] && found[:x.Numbers].Before(wants[:x.Numbers])
}

// refusalFinding returns the finding for a check that fails for the library m.
func refusalFinding(pass *Pass, r *replay.Process, x packs.Refusal, m replay.Loaded, b builtFor) Finding {
	found, family := pass.Packages.ReleaseOfModule(m.Module), pass.Packs.Family(m.Object.Soname)
	v := packs.Values{"process": r.Title, "library": m.Object.Soname, "found": found.String(), "dir": path.Dir(m.Real()), "how": how(pass, m), "wants": b.release.String()}
	clause := "refused"
	if b.required != nil {
		clause, v["package"], v["specifiers"] = "refused-as-required", b.required.Name, b.required.Specifiers
	}
	f := pass.say("shadowed-library", clause, v)
	f.Family, f.Library, f.Affected, f.Present = family.ID, m.Object.Soname, []string{m.Real()}, []replay.File{pass.Image.File(m.Real())}
	f.Effects = []packs.Effect{{Text: x.Effect, Error: packs.Expand(x.Error, "{own}", tuple(b.release), "{found}", tuple(found))}}
	for _, x := range mixedEffects(pass, r, partsOf(pass, r, family)) {
		f.Effects = append(f.Effects, packs.Effect{Text: x.Effect, Error: x.Error})
	}
	if b.own != "" {
		f.Present = append(f.Present, pass.Image.File(b.own))
		f.advise(oneReleaseFix(pass, m.Real(), b.own)...)
	}
	return f
}

// ownLike returns the framework's own file with a SONAME that matches a pattern, or "".
func ownLike(pass *Pass, in *replay.Install, pattern string) string {
	for _, o := range pass.Files.Objects {
		if packs.Match(pattern, o.ELF.Soname) && slices.Contains(pass.Files.Own(in, o.ELF.Soname), o.Path) {
			return o.Path
		}
	}
	return ""
}

// tuple returns a version as Python prints it.
func tuple(r version.Release) string {
	return "(" + strings.ReplaceAll(r[:min(3, len(r))].String(), ".", ", ") + ")"
}

// shadowed returns a finding for each library of which a framework's process loads a copy that
// is not the framework's own, unless both are of one release.
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
