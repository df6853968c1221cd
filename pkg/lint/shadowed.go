package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

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
