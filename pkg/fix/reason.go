package fix

import (
	"cmp"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Reason says why no lines at the end of a Dockerfile fix a finding: the fault lies before them (in a
// program's build, the base image, a file that the author has to bring), or the image does not name
// the package or file that the lines would need.
type Reason struct {
	Cause string `json:"cause"` // of the finding
	Why   string `json:"why"`
}

// reasons returns the reasons for the findings of an image that neither the snippet nor a decision of a
// plan resolves, as far as the packs have one: that of a step that no instruction can make, of the first
// fix, of the finding's clauses, or of its rule.
func (p *planner) reasons(plan *Plan) (list []Reason) {
	for _, k := range p.first.order {
		decided := slices.ContainsFunc(plan.Decisions, func(d Decision) bool { return d.Cause == k })
		if decided || plan.Snippet != nil && slices.Contains(plan.Snippet.Resolved, k) {
			continue
		}
		if why := p.reason(plan, p.first.trouble[k].finding); why != "" {
			list = append(list, Reason{k, why})
		}
	}
	return list
}

func (p *planner) reason(plan *Plan, f *lint.Finding) string {
	steps := ""
	for _, g := range p.groups {
		if g.key == f.Cause {
			steps = plan.NoSnippet
		}
	}
	if plan.Snippet != nil {
		for _, l := range plan.Snippet.Left {
			if slices.ContainsFunc(p.groups, func(g group) bool {
				return g.key == f.Cause && slices.ContainsFunc(g.steps, func(s Step) bool { return s.Text == l.Step })
			}) {
				steps = l.Why
			}
		}
	}
	first := ""
	if len(f.Advice) > 0 {
		first = f.Advice[0].NoLines
	}
	general := ""
	if r := p.packs.Rule(f.Rule); r != nil {
		general = r.NoLines
	}
	return cmp.Or(steps, p.maker.held(f), first, f.NoLines, general)
}

// held says which package requires the installed release of a wheel that the first fix of a finding would
// replace, or returns "".
func (m *maker) held(f *lint.Finding) string {
	if len(f.Advice) == 0 || m.inventory == nil {
		return ""
	}
	reqs, _, _, ok := f.Advice[0].Wheels()
	if !ok {
		return ""
	}
	p := m.pythonFor(reqs, nil, f)
	if p == nil {
		return ""
	}
	there := m.inventory.Wheels(p)
	for _, text := range reqs {
		r, err := inventory.ParseRequirement(text)
		if err != nil {
			continue
		}
		old, to := there[r.Name], chosen(r.Specifiers)
		for _, name := range slices.Sorted(maps.Keys(there)) {
			for _, line := range there[name].Requires {
				q, err := inventory.ParseRequirement(line)
				if err == nil && q.Name == r.Name && q.Specifiers != "" && to != "" && meets(old.Version, q.Specifiers) && !meets(to, q.Specifiers) {
					return name + " requires " + q.Name + q.Specifiers + ", which is installed: the two do not go together"
				}
			}
		}
	}
	return ""
}
