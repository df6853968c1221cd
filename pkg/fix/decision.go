package fix

import (
	"context"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Decision is a choice between ways to resolve a finding that only a person can make: the image does
// not say which one is meant.
type Decision struct {
	Cause string `json:"cause"` // of the finding
	// Asks says in a sentence what is to be decided.
	Asks string `json:"asks"`
	// Choices are the alternatives, at least two.
	Choices []Choice `json:"choices"`
}

// Choice is an alternative of a decision. Each was replayed behind the lines of the plan's snippet: the
// finding is gone, and none has come.
type Choice struct {
	Says  string   `json:"says"`  // the advice in words
	Lines []string `json:"lines"` // whole instructions for the end of a Dockerfile
}

// maxDecisions limits the decisions of a plan, and the choices of each.
const maxDecisions = 8

// decisions returns the decisions about the findings that a state with installs still has. One of whose
// alternatives fewer than two resolve the finding is left out.
func (p *planner) decisions(ctx context.Context, installs []install, now state) ([]Decision, error) {
	var list []Decision
	for _, k := range now.ledger.order {
		f := *now.ledger.trouble[k].finding
		if f.Decide == "" || len(list) == maxDecisions {
			continue
		}
		d := Decision{Cause: k, Asks: f.Decide}
		alternatives := f.Advice
		f.Decide = ""
		for _, a := range alternatives[:min(len(alternatives), maxDecisions)] {
			f.Advice = []packs.Advice{a}
			i := p.maker.installFor(now.img, &f, installs, map[string]bool{})
			if i == nil {
				continue
			}
			after, err := p.simulateInstalls(ctx, append(slices.Clone(installs), *i))
			if err != nil {
				return nil, err
			}
			if after.ledger.trouble[k] == nil && after.better(&now) == nil && len(after.ledger.since(now.ledger)) == 0 {
				w := &writer{m: &p.maker}
				d.Choices = append(d.Choices, Choice{a.String(), w.lines([]install{*i})})
			}
		}
		if len(d.Choices) > 1 {
			list = append(list, d)
		}
	}
	return list, nil
}
