package fix

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// trial is a candidate that was tried, and the state that it leads to.
type trial struct {
	state
	group  group
	gain   int           // files of the finding that it resolves
	whole  bool          // the finding is gone
	worse  error         // why the image is not strictly better with it
	seen   bool          // the state has the troubles of an earlier one
	behind *lint.Finding // a finding that the state before did not have, or did not show
	broken bool          // a file that could be loaded before cannot be loaded
	breaks string        // that file and its finding, in a line
}

// why returns the objection to a trial, or "".
func (t *trial) why() string {
	switch {
	case t.broken:
		return t.breaks
	case t.gain > 0 && t.worse != nil:
		return t.worse.Error()
	}
	return ""
}

// done reports whether no better trial is possible.
func (t *trial) done() bool { return t.whole && t.worse == nil }

// beats reports whether a trial is better than another: one that leaves the image strictly
// better is, then the one that resolves more files.
func (t *trial) beats(o *trial) bool {
	if (t.worse == nil) != (o.worse == nil) {
		return t.worse == nil
	}
	return t.gain > o.gain
}

// try replays the image with one more candidate.
func (p *planner) try(ctx context.Context, k string, c candidate) (*trial, error) {
	g := group{steps: c.steps, key: k, text: c.text}
	if why := p.unwritable(g); why != nil {
		p.blocked[k] = fmt.Sprintf("%s cannot be written: %v", c.text, why)
		return &trial{state: p.now, group: g, broken: true, breaks: fmt.Sprintf("it cannot be written: %v", why)}, nil
	}
	after, err := p.simulate(ctx, append(slices.Clone(p.groups), g))
	if err != nil {
		return nil, err
	}
	t := &trial{state: after, group: g}
	t.behind, _ = worse(p.now.ledger, after.ledger, p.now.img.FS, true)
	broken, file := worse(p.now.ledger, after.ledger, p.now.img.FS, false)
	t.broken, t.breaks = broken != nil, breaks(broken, file)
	t.gain = p.now.ledger.gain(k, after.ledger)
	t.group.gain = t.gain
	_, there := after.ledger.trouble[k]
	t.whole = !there
	t.worse = after.ledger.better(p.now.ledger)
	t.seen = p.seen[after.ledger.String()]
	if c.grow != nil && p.trials < p.Trials {
		if more := c.grow(after.res); more != nil {
			return p.try(ctx, k, *more)
		}
	}
	return t, nil
}

// unwritable returns an error if no layer can hold the files of the steps with one more
// group: for the file system in memory, a path may lead through a file or a dangling link.
func (p *planner) unwritable(g group) error {
	var files []patch.File
	d := newDraft(p.base, stepsOf(append(slices.Clone(p.groups), g)))
	for _, s := range d.steps {
		for _, f := range s.files {
			if old := d.replaced(&f); old != nil && old.Caps {
				return fmt.Errorf("%s: the file has capabilities, which its replacement would lose", f.Path)
			}
			files = append(files, f.File)
		}
	}
	return patch.Writable(p.base.FS, files)
}

// simulate returns the state of the image with the steps of groups.
func (p *planner) simulate(ctx context.Context, groups []group) (state, error) {
	p.trials++
	d := newDraft(p.base, stepsOf(groups))
	img := d.image()
	if img.FS == p.base.FS {
		img.Inventory = p.inventory
	}
	res, err := lint.Run(ctx, img, p.packs)
	if err != nil {
		return state{}, err
	}
	return state{img, res, newLedger(res, p.Counts)}, nil
}

// better returns nil if a state is strictly better than another, else the reason why not;
// see [Better].
func (s *state) better(before *state) error {
	if broken := breaks(worse(before.ledger, s.ledger, before.img.FS, false)); broken != "" {
		return errors.New("it " + broken)
	}
	return s.ledger.better(before.ledger)
}

func stepsOf(groups []group) []Step {
	var list []Step
	for _, g := range groups {
		list = append(list, g.steps...)
	}
	return list
}
