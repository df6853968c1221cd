package lint

import (
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// requirementsUnmet returns a finding for each unmet requirement that the packs list, and for
// each unmet need that only the packs know.
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

// unmetFinding returns the finding for an unmet requirement with a clause of the rule. effect
// has the values of the shared clause "effect".
func unmetFinding(pass *Pass, p *inventory.Python, u replay.Unmet, clause string, severity packs.Severity, effect packs.Values) Finding {
	f := pass.say("requirement-unmet", clause, packs.Values{
		"package": u.By.Name, "version": u.By.Version, "of": u.Of.Name, "of-version": u.Of.Version, "wants": u.Wants, "installed": pass.Packages.Version(p, u.Of),
	})
	pass.also(&f, "effect", effect)
	f.Severity = f.Severity.AtMost(severity)
	f.NeededBy, f.Present = []replay.File{pass.Image.File(u.By.Path)}, []replay.File{pass.Image.File(u.Of.Path)}
	return f
}

// madeForOther returns a finding for each unmet need of a package that only the packs know.
func madeForOther(pass *Pass, p *inventory.Python, pkg *inventory.Package, wheels replay.WheelSet) []Finding {
	var list []Finding
	for _, n := range pass.Packs.MadeFor {
		if fits, err := version.Satisfies(pkg.Version, n.Versions); !packs.Match(n.Package, pkg.Name) || err != nil || !fits {
			continue
		}
		r, err := inventory.ParseRequirement(n.Of(pkg.Version))
		if err != nil || wheels[r.Name] == nil {
			continue
		}
		of := wheels[r.Name]
		reported := pin(pass, pkg.Name, r.Name) != nil && slices.ContainsFunc(pass.Packages.UnmetOf(p, pkg, wheels), func(u replay.Unmet) bool { return u.Of == of })
		if fits, err := version.Satisfies(of.Version, r.Specifiers); err == nil && !fits && !reported {
			unmet := replay.Unmet{By: pkg, Of: of, Wants: r.Specifiers}
			list = append(list, unmetFinding(pass, p, unmet, "made-for", n.Severity, packs.Values{"effect": n.Effect, "error": n.Error}))
		}
	}
	return list
}

// pin returns the packs' first row for the requirement of one package on another, or nil.
func pin(pass *Pass, name, required string) *packs.Pinned {
	for _, row := range pass.Packs.Pinned {
		if packs.MatchAny(row.Packages, name) && packs.MatchAny(row.Requires, required) {
			return row
		}
	}
	return nil
}
