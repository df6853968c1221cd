package fix

import (
	"context"
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// again is the objection to a candidate that puts another finding in the place of one.
const again = "another finding takes its place"

const nothing = "nothing that was tried resolves it"

// planner searches for a plan. Its maker holds the state that the groups taken so far lead
// to; findings are named by their causes.
type planner struct {
	maker
	first   *ledger // of the image without steps
	trials  int
	short   bool                 // more could have been tried
	seen    map[string]bool      // the ledgers of the states that were taken, as text
	given   map[string]string    // why no more is tried, by finding
	tried   map[string][]Attempt // by finding
	blocked map[string]string    // why a candidate cannot be written, by finding
}

// state is an image with its findings.
type state struct {
	img    *replay.Image
	res    *lint.Result
	ledger *ledger
}

// group holds the steps of a candidate that was taken for one finding.
type group struct {
	steps []Step
	key   string // the finding
	text  string
	gain  int // files of the finding that it resolves
	// finding is that of key, in the state before.
	finding *lint.Finding
}

func newPlanner(img *replay.Image, set *packs.Packs, res *lint.Result, o Options) *planner {
	first := newLedger(res, o.Counts)
	p := &planner{
		maker: maker{Options: o, packs: set, base: img, inventory: res.Inventory, now: state{img, res, first}, stock: newStock(o.Find)},
		first: first, seen: map[string]bool{first.String(): true},
		given: map[string]string{}, tried: map[string][]Attempt{}, blocked: map[string]string{},
	}
	return p
}

// next returns the heaviest finding that was neither resolved nor given up, or "".
func (p *planner) next() string {
	for _, k := range p.now.ledger.order {
		if _, done := p.given[k]; !done {
			return k
		}
	}
	return ""
}

// resolve tries the kinds of changes that the rule of a finding names. It takes the first
// candidate that resolves the whole finding, else the one that resolves most of it.
func (p *planner) resolve(ctx context.Context, k string) error {
	f := p.now.ledger.trouble[k].finding
	var mend []string
	if r := p.packs.Rule(f.Rule); r != nil {
		mend = r.Steps
	}
	best, offered, err := p.best(ctx, k, f, mend)
	switch {
	case err != nil:
		return err
	case best != nil:
		p.take(k, best)
	case p.stock.why[f.Library] != "":
		p.give(k, p.stock.why[f.Library])
	case p.blocked[k] != "":
		p.give(k, p.blocked[k])
	case p.trials >= p.Trials:
		p.short = true
		p.give(k, fmt.Sprintf("%d changes were tried, which is the limit", p.Trials))
	case len(mend) == 0:
		p.give(k, "no change of files or variables is known to fix it")
	case offered == 0:
		p.give(k, "no change is known to fix it")
	default:
		p.give(k, nothing)
	}
	return nil
}

// best returns the best trial for a finding among the kinds of changes, or nil, and how
// many candidates there were.
func (p *planner) best(ctx context.Context, k string, f *lint.Finding, mend []string) (best *trial, offered int, err error) {
	for _, kind := range mend {
		if p.trials >= p.Trials || best != nil && best.done() {
			break
		}
		candidates := kinds[kind]
		if candidates == nil {
			continue
		}
		list, err := candidates(&p.maker, ctx, f)
		if err != nil {
			return nil, 0, err
		}
		offered += len(list)
		t, err := p.tryAll(ctx, k, list[:min(maxOfKind, len(list))])
		if err != nil {
			return nil, 0, err
		}
		if t != nil && (best == nil || t.beats(best)) {
			best = t
		}
	}
	return best, offered, nil
}

// tryAll tries candidates until one resolves the whole finding, and returns the best trial;
// nil if none helps.
func (p *planner) tryAll(ctx context.Context, k string, list []candidate) (*trial, error) {
	var best *trial
	for _, c := range list {
		if p.trials >= p.Trials {
			p.short = true
			break
		}
		t, err := p.try(ctx, k, c)
		if err == nil && t.behind != nil && t.gain > 0 {
			t, err = p.extend(ctx, k, c, t, 3)
		}
		if err != nil {
			return nil, err
		}
		if !t.broken && t.gain > 0 && !t.seen && (best == nil || t.beats(best)) {
			best = t
		}
		if best == t && t.done() {
			break
		}
		p.attempt(k, Attempt{Text: t.group.text, Resolves: t.gain, Why: t.why()})
	}
	return best, nil
}

// extend tries a candidate together with others that resolve the finding behind its trial:
// one that it has caused, or brought to light in a process that now gets further. It
// returns t itself if none does.
func (p *planner) extend(ctx context.Context, k string, c candidate, t *trial, depth int) (*trial, error) {
	r := p.packs.Rule(t.behind.Rule)
	if r == nil || depth == 0 {
		return t, nil
	}
	then := p.maker // makes candidates for the image as it would be
	then.now, then.groups = t.state, append(slices.Clone(p.groups), t.group)
	for _, kind := range r.Steps {
		candidates := kinds[kind]
		if candidates == nil {
			continue
		}
		list, err := candidates(&then, ctx, t.behind)
		if err != nil {
			return nil, err
		}
		for _, more := range list[:min(2, len(list))] {
			if p.trials >= p.Trials {
				return t, nil
			}
			both := candidate{text: c.text + " and " + more.text, steps: slices.Concat(c.steps, more.steps)}
			next, err := p.try(ctx, k, both)
			if err == nil && next.behind != nil && next.behind.Cause != t.behind.Cause && next.gain >= t.gain {
				next, err = p.extend(ctx, k, both, next, depth-1)
			}
			if err != nil {
				return nil, err
			}
			if next.behind == nil && next.gain > 0 {
				return next, nil
			}
		}
	}
	return t, nil
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

// take adds the steps of a trial to the plan.
func (p *planner) take(k string, t *trial) {
	g := t.group
	if of := p.now.ledger.trouble[k]; of != nil {
		g.finding = of.finding
	}
	p.groups = append(p.groups, g)
	p.now = t.state
	p.seen[t.ledger.String()] = true
	p.tried[k] = slices.DeleteFunc(p.tried[k], func(a Attempt) bool { return a.Text == t.group.text })
}

// prune leaves out the groups without which the image is as good: those that later groups
// have made superfluous, and those that only put one trouble in the place of another. It
// begins with the first group. It exceeds the limit on trials if the plan as a whole is not
// better yet.
func (p *planner) prune(ctx context.Context) error {
	first := p.start()
	for i := 0; len(p.groups) > 1 && i < len(p.groups) && (p.trials < p.Trials || p.now.better(&first) != nil); {
		less := slices.Delete(slices.Clone(p.groups), i, i+1)
		after, err := p.simulate(ctx, less)
		if err != nil {
			return err
		}
		why := p.now.better(&after)
		if why == nil {
			i++
			continue
		}
		g := p.groups[i]
		p.groups, p.now = less, after
		if after.ledger.trouble[g.key] != nil {
			p.leave(g, why)
		}
	}
	return nil
}

// leave gives up a group that resolves its finding but does not make the image better.
func (p *planner) leave(g group, why error) {
	p.attempt(g.key, Attempt{Text: g.text, Resolves: g.gain, Why: why.Error()})
	p.give(g.key, fmt.Sprintf("%s resolves it, but %v", g.text, why))
}

// start returns the state of the image without steps.
func (p *planner) start() state { return state{img: p.base, res: p.first.res, ledger: p.first} }

// plan returns the plan. It has no steps if those taken do not make the image better as a
// whole, since other findings have taken the place of those that they resolve.
func (p *planner) plan() *Plan {
	first := p.start()
	if why := p.now.better(&first); len(p.groups) > 0 && why != nil {
		for _, g := range p.groups {
			p.leave(g, why)
		}
		p.groups, p.now = nil, first
	}
	out := &Plan{Steps: []Step{}, Outcomes: []Outcome{}, Trials: p.trials, Truncated: p.short, After: p.now.res, left: len(p.now.ledger.order)}
	out.draft = newDraft(p.base, stepsOf(p.groups))
	out.Steps = append(out.Steps, out.draft.steps...)
	for _, k := range p.first.order {
		out.Outcomes = append(out.Outcomes, p.outcome(k))
	}
	for _, k := range p.now.ledger.order {
		if p.first.trouble[k] == nil {
			f := p.now.ledger.trouble[k].finding
			out.Behind = append(out.Behind, Behind{Rule: f.Rule, Message: f.Message})
		}
	}
	return out
}

// outcome returns how far the groups resolve a finding of the image without steps.
func (p *planner) outcome(k string) Outcome {
	f := p.first.trouble[k].finding
	o := Outcome{Rule: f.Rule, Message: f.Message, cause: f.Cause, Of: p.first.count(k), Resolves: p.first.gain(k, p.now.ledger), Tried: p.tried[k]}
	n := 0
	for _, g := range p.groups {
		for range g.steps {
			if n++; g.key == k {
				o.Steps = append(o.Steps, n)
			}
		}
	}
	if o.Resolves < o.Of {
		o.Why = p.given[k]
	}
	return o
}
