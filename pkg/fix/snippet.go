package fix

import (
	"context"
	"slices"
)

// Snippet holds instructions for the end of a Dockerfile that make the changes of a plan, and
// install packages of the image's distribution, which a plan cannot.
type Snippet struct {
	// Stages are whole instructions for before the last FROM, which the lines copy from. Only a
	// plan with a source of libraries has them.
	Stages []string `json:"stages,omitempty"`
	// Lines are whole instructions, in their order.
	Lines []string `json:"lines"`
	// Resolved has the causes of the findings that the replay no longer has with the changes
	// of all lines.
	Resolved []string `json:"resolved"`
	// Shows has the causes of warnings that the image has only with the lines: the resolved
	// findings hid them.
	Shows []string `json:"shows,omitempty"`
	// Packages are those of the distribution, and the wheels by their requirements, that the
	// lines install and no step of the plan has. The replay took empty libraries in the place
	// of theirs.
	Packages []string `json:"packages,omitempty"`
	// Assumed are those of Packages of which pip or conda chooses the release: the replay took one that
	// meets the requirement.
	Assumed []string `json:"assumed,omitempty"`
	// Base is another base image that resolves the same, in place of all lines, or nil.
	Base *BaseChange `json:"base,omitempty"`
	// Left are steps of the plan that the lines do not make, because no instruction can. Resolved
	// is without them.
	Left []Left `json:"left,omitempty"`
}

// Left is a step that a snippet does not make.
type Left struct {
	Step string `json:"step"` // its text
	Why  string `json:"why"`
}

// snippet returns the plan as instructions, or nil if there is nothing to do, or no step that
// helps by itself can be written so.
func (p *planner) snippet(ctx context.Context, plan *Plan) (*Snippet, error) {
	q, left, err := p.writable(ctx)
	if err != nil {
		return nil, err
	}
	w := newWriter(&q.maker)
	installs, after, err := q.installed(ctx, w.pip)
	if err != nil {
		return nil, err
	}
	if plan.Decisions, err = q.decisions(ctx, installs, after); err != nil {
		return nil, err
	}
	lines, first := w.lines(installs), p.start()
	if len(left) > 0 && (len(lines) == 0 || after.better(&first) != nil) {
		plan.NoSnippet = left[0].Why
		return nil, nil
	}
	if len(lines) == 0 {
		return nil, nil
	}
	s := &Snippet{Stages: w.stages, Lines: lines, Resolved: []string{}, Left: left}
	for _, p := range w.pip {
		s.Packages, s.Assumed = addNew(s.Packages, p.open()...), addNew(s.Assumed, p.open()...)
	}
	for _, i := range installs {
		s.Packages = addNew(s.Packages, i.packages...)
		if i.wheels != nil {
			s.Assumed = addNew(s.Assumed, i.wheels.open()...)
		}
		if i.manager == "conda" {
			s.Assumed = addNew(s.Assumed, i.packages...)
		}
	}
	for _, k := range p.first.order {
		if after.ledger.trouble[k] == nil {
			s.Resolved = append(s.Resolved, k)
		}
	}
	s.Shows = after.ledger.since(p.first)
	s.Base, err = q.baseChange(ctx, w.steps, s)
	return s, err
}

// writable returns the planner without the groups that have a step which no instruction can make,
// in the state without them, and those steps.
func (p *planner) writable(ctx context.Context) (*planner, []Left, error) {
	w := newWriter(&p.maker)
	var left []Left
	var kept []group
	for _, g := range p.groups {
		n := len(left)
		for i := range g.steps {
			if why := w.cannot(&g.steps[i]); why != "" {
				left = append(left, Left{g.steps[i].Text, why})
			}
		}
		if len(left) == n {
			kept = append(kept, g)
		}
	}
	if len(left) == 0 {
		return p, nil, nil
	}
	q := *p
	q.groups, q.now = kept, p.start()
	var err error
	if len(kept) > 0 {
		q.now, err = p.simulate(ctx, kept)
	}
	return &q, left, err
}

// addNew adds the texts that a list does not have.
func addNew(list []string, texts ...string) []string {
	for _, t := range texts {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list
}
