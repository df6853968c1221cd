// Package fix plans what makes an image's findings go away.
//
// [Find] takes each finding, tries the changes that its rule names in the packs
// on the merged file system with one more layer in memory, replays all loads
// again, and keeps a change only when the finding goes away and nothing that
// could be loaded before cannot be loaded after. What it finds is a [Plan]:
// steps as data, what they resolve, and what was tried and resolves less.
//
// Where no source of libraries is given, a library that has to be added is
// stood in for by one of that name that needs nothing. That shows where it has
// to go and what it would resolve, and not that a real one would be whole.
//
// The package does not know how a layer is written or published (pkg/patch), nor
// where libraries come from (pkg/provide). It judges nothing itself: whether a
// change helps is what lint says of the changed image.
package fix

import (
	"context"
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Options say how far a plan goes.
type Options struct {
	// Trials is how often the image may be replayed; 0 is 24.
	Trials int
}

// Plan is what would mend an image, and the proof.
type Plan struct {
	// Steps are the changes, in the order in which they are made.
	Steps []Step `json:"steps"`
	// Cures tell of each finding that is a warning or more what becomes of it, in
	// the order of the findings.
	Cures []Cure `json:"findings"`
	// Trials is how many changed images were replayed.
	Trials int `json:"trials"`
	// Truncated is set when more could have been tried.
	Truncated bool `json:"truncated,omitempty"`

	// After is what lint says of the image with the steps; of the image as it is
	// when there are none.
	After *lint.Result `json:"-"`
	draft draft
}

// Step is one change of an image.
type Step struct {
	// Kind is one of lint.Mends.
	Kind string `json:"kind"`
	// Text says what it does, in one line.
	Text string `json:"text"`
	// Path is the file that is made, replaced or removed, or the directory that a
	// search path gains or loses.
	Path string `json:"path,omitempty"`
	// Link is what a symbolic link at Path says.
	Link string `json:"link,omitempty"`
	// Variable is changed by the step, and has the value Value after all of them.
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value,omitempty"`
	// Library is the name that is added or replaced, and Files are all that come
	// with it, below the directory Path.
	Library string   `json:"library,omitempty"`
	Files   []string `json:"files,omitempty"`
	// StandIn is set when no source was given to take Library from: it was
	// simulated by a library of that name that needs nothing.
	StandIn bool `json:"stand_in,omitempty"`

	edit  edit   // of Variable
	files []file // of the layer
}

// Cure says what becomes of a finding.
type Cure struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
	// Of is how many files were affected, at least 1, and Resolves how many of
	// these are not any more.
	Of       int `json:"of"`
	Resolves int `json:"resolves"`
	// Steps are those that were found for it, counted from 1. A finding that goes
	// away with another has none.
	Steps []int `json:"steps,omitempty"`
	// Tried are the changes that do less.
	Tried []Attempt `json:"tried,omitempty"`
	// Why says why it stays, where it does.
	Why string `json:"why,omitempty"`
}

// Attempt is a change that was tried and not taken.
type Attempt struct {
	Text     string `json:"text"`
	Resolves int    `json:"resolves"`
	Why      string `json:"why,omitempty"` // what it would break
}

// Better reports whether the image with the plan's steps is strictly better
// than without.
func (p *Plan) Better() bool { return len(p.Steps) > 0 }

// Complete reports whether no finding that is a warning or more is left.
func (p *Plan) Complete() bool {
	return !p.After.Worst().AtLeast(lint.Warning) || p.After.Worst() == ""
}

// Find plans what makes the findings of res, which lint.Run has given for img,
// go away. The same image gives the same plan.
func Find(ctx context.Context, img *lint.Image, packs *lint.Packs, res *lint.Result, o Options) (*Plan, error) {
	if o.Trials == 0 {
		o.Trials = 24
	}
	p := &planner{Options: o, packs: packs, base: img, first: newLedger(res), given: map[string]string{}, tried: map[string][]Attempt{}}
	p.now = state{img: img, res: res, ledger: p.first}
	for {
		k := p.next()
		if k == "" {
			break
		}
		if err := p.mend(ctx, k); err != nil {
			return nil, err
		}
	}
	if err := p.prune(ctx); err != nil {
		return nil, err
	}
	return p.plan(), nil
}

// planner looks for a plan.
type planner struct {
	Options
	packs  *lint.Packs
	base   *lint.Image
	first  *ledger
	now    state
	groups []group // that were taken
	trials int
	short  bool // more could have been tried
	given  map[string]string
	tried  map[string][]Attempt
}

// state is an image with what was found in it.
type state struct {
	img    *lint.Image
	res    *lint.Result
	ledger *ledger
}

// group are steps that belong together, taken for one finding.
type group struct {
	steps []Step
	key   string
	text  string
}

// next is the heaviest finding that nothing was said of yet; empty at the end.
func (p *planner) next() string {
	for _, k := range p.now.ledger.order {
		if _, done := p.given[k]; !done {
			return k
		}
	}
	return ""
}

// mend tries what the rule of a finding names, and takes the first change that
// resolves all of it, else the one that resolves most.
func (p *planner) mend(ctx context.Context, k string) error {
	f := p.now.ledger.trouble[k].finding
	var best *trial
	candidates := p.candidates(f)
	for _, c := range candidates {
		if p.trials >= p.Trials {
			p.short = true
			p.give(k, fmt.Sprintf("the bound of %d trials was reached", p.Trials))
			break
		}
		t, err := p.try(ctx, k, c)
		if err != nil {
			return err
		}
		if t.broken == "" && t.gain > 0 && (best == nil || t.gain > best.gain) {
			best = t
		}
		if best == t && t.whole {
			break
		}
		p.attempt(k, Attempt{Text: c.text, Resolves: t.gain, Why: t.broken})
	}
	switch {
	case best != nil:
		p.take(k, best)
	case len(candidates) == 0:
		p.give(k, p.whyNot(f))
	default:
		p.give(k, "nothing that was tried resolves it")
	}
	return nil
}

func (p *planner) give(k, why string) {
	if _, done := p.given[k]; !done {
		p.given[k] = why
	}
}

func (p *planner) attempt(k string, a Attempt) {
	if !slices.ContainsFunc(p.tried[k], func(b Attempt) bool { return b.Text == a.Text }) {
		p.tried[k] = append(p.tried[k], a)
	}
}

// whyNot says why nothing is tried for a finding.
func (p *planner) whyNot(f *lint.Finding) string {
	if r := p.packs.Rule(f.Rule); r == nil || len(r.Mend) == 0 {
		return "it takes more than files and variables to mend it"
	}
	return "no change is known that would mend it"
}

// take makes a trial the state.
func (p *planner) take(k string, t *trial) {
	p.groups = append(p.groups, t.group)
	p.now = t.state
	p.tried[k] = slices.DeleteFunc(p.tried[k], func(a Attempt) bool { return a.Text == t.group.text })
}

// trial is a change that was tried.
type trial struct {
	state
	group  group
	gain   int    // files of the finding that can be loaded
	whole  bool   // the finding is gone
	broken string // what could be loaded before and cannot be after
}

// try replays the image with one more group of steps.
func (p *planner) try(ctx context.Context, k string, c candidate) (*trial, error) {
	g := group{steps: c.steps, key: k, text: c.text}
	after, err := p.simulate(ctx, append(slices.Clone(p.groups), g))
	if err != nil {
		return nil, err
	}
	t := &trial{state: after, group: g, broken: worse(p.now.ledger, after.ledger, after.img.FS)}
	t.gain = p.now.ledger.gain(k, after.ledger)
	_, there := after.ledger.trouble[k]
	t.whole = !there
	return t, nil
}

func (p *planner) simulate(ctx context.Context, groups []group) (state, error) {
	p.trials++
	d := newDraft(p.base, stepsOf(groups))
	img, err := d.image()
	if err != nil {
		return state{}, err
	}
	res, err := lint.Run(ctx, img, p.packs)
	if err != nil {
		return state{}, err
	}
	return state{img, res, newLedger(res)}, nil
}

func stepsOf(groups []group) []Step {
	var list []Step
	for _, g := range groups {
		list = append(list, g.steps...)
	}
	return list
}

// prune leaves out what the other groups have made superfluous and what has
// only put one trouble in the place of another, the first ones first.
func (p *planner) prune(ctx context.Context) error {
	for i := 0; len(p.groups) > 1 && i < len(p.groups) && p.trials < p.Trials; {
		less := slices.Delete(slices.Clone(p.groups), i, i+1)
		after, err := p.simulate(ctx, less)
		if err != nil {
			return err
		}
		if !after.ledger.asGood(p.now.ledger) || worse(p.now.ledger, after.ledger, after.img.FS) != "" {
			i++
			continue
		}
		p.groups, p.now = less, after
	}
	return nil
}

// plan writes up what was found. Steps that do not make the image better as a
// whole are not offered: what they mend has given way to something else.
func (p *planner) plan() *Plan {
	if !p.now.ledger.better(p.first) {
		p.groups = nil
		p.now = state{img: p.base, res: p.first.res, ledger: p.first}
	}
	out := &Plan{Steps: []Step{}, Cures: []Cure{}, Trials: p.trials, Truncated: p.short, After: p.now.res}
	out.draft = newDraft(p.base, stepsOf(p.groups))
	out.Steps = append(out.Steps, out.draft.steps...)
	for _, k := range p.first.order {
		f := p.first.trouble[k].finding
		c := Cure{Rule: f.Rule, Message: f.Message, Of: p.first.count(k), Resolves: p.first.gain(k, p.now.ledger), Tried: p.tried[k]}
		n := 0
		for _, g := range p.groups {
			for range g.steps {
				if n++; g.key == k {
					c.Steps = append(c.Steps, n)
				}
			}
		}
		if c.Resolves < c.Of {
			c.Why = p.given[k]
		}
		out.Cures = append(out.Cures, c)
	}
	return out
}
