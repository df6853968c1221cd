package lint

import (
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

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
