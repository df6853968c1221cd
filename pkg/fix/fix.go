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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Options say how far a plan goes.
type Options struct {
	// Trials is how often the image may be replayed; 0 is 24.
	Trials int
	// Find asks the sources of libraries ([provide.Sources.Find]). Nil is that
	// there are none: libraries are then stood in for.
	Find func(context.Context, provide.Want) (*provide.Found, error)
	// Content reads a file of the image, e of a layer counted from 0, as the index
	// has it. Nil is that a plan is not to be carried out.
	Content func(ctx context.Context, layer int, e *layers.Entry) (io.ReadCloser, error)
	// Xattrs reads its extended attributes in the same way.
	Xattrs func(ctx context.Context, layer int, e *layers.Entry) (map[string]string, error)
	// Counts gives those of a result's findings that count, as they weigh: what a
	// policy ignores is not planned for. Nil is all, as they are.
	Counts func([]lint.Finding) []lint.Finding
	// Pins are the releases that the user wants, by the library's ID.
	Pins map[string]string
}

// Plan is what would mend an image, and the proof.
type Plan struct {
	// Steps are the changes, in the order in which they are made.
	Steps []Step `json:"steps"`
	// Cures tell of each finding that is a warning or more what becomes of it, in
	// the order of the findings.
	Cures []Cure `json:"findings"`
	// Behind are findings that are a warning or more and show only then: they stood
	// behind those that go away, of files that could not be loaded before.
	Behind []Behind `json:"behind,omitempty"`
	// Trials is how many changed images were replayed.
	Trials int `json:"trials"`
	// Truncated is set when more could have been tried.
	Truncated bool `json:"truncated,omitempty"`
	// Command is the command that carries the plan out, where there is one; it is
	// for the caller to fill in, who knows where the image is.
	Command string `json:"command,omitempty"`

	// After is what lint says of the image with the steps; of the image as it is
	// when there are none.
	After *lint.Result `json:"-"`
	left  int          // findings that count and are a warning or more, after it
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
	// Version and Source are of what is added, and Doubt is what could not be
	// made sure of.
	Version string `json:"version,omitempty"`
	Source  string `json:"source,omitempty"`
	Doubt   string `json:"doubt,omitempty"`
	// License is what it comes under, and LicenseURL where that stands.
	License    string `json:"license,omitempty"`
	LicenseURL string `json:"license_url,omitempty"`

	found  *provide.Found // what it adds, nil for a stand-in
	public string         // Text as it may be published, where that is another
	edit   packs.Edit
	files  []file // of the layer
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

	cause string // of the finding
}

// Behind is a finding that the image has with the steps and did not have without.
type Behind struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Attempt is a change that was tried and not taken.
type Attempt struct {
	Text     string `json:"text"`
	Resolves int    `json:"resolves"`
	Why      string `json:"why,omitempty"` // what speaks against it: "breaks …"
}

// Resolved counts the findings that go away, of all that are a warning or more.
func (p *Plan) Resolved() (n, of int) {
	for _, c := range p.Cures {
		if c.Resolves == c.Of {
			n++
		}
	}
	return n, len(p.Cures)
}

// Better reports whether the image with the plan's steps is strictly better
// than without.
func (p *Plan) Better() bool { return len(p.Steps) > 0 }

// Complete reports whether no finding that counts and is a warning or more is left.
func (p *Plan) Complete() bool { return p.left == 0 }

// Find plans what makes the findings of res, which lint.Run has given for img,
// go away. The same image gives the same plan.
func Find(ctx context.Context, img *replay.Image, set *packs.Packs, res *lint.Result, o Options) (*Plan, error) {
	if o.Trials == 0 {
		o.Trials = 24
	}
	p := &planner{
		Options: o, packs: set, base: img, first: newLedger(res, o.Counts),
		seen: map[string]bool{}, given: map[string]string{}, tried: map[string][]Attempt{},
		answers: map[string]*provide.Found{}, unfound: map[string]string{}, blocked: map[string]string{}, read: map[*provide.Found]map[string]*elfdeps.Object{},
	}
	p.now = state{img: img, res: res, ledger: p.first}
	p.seen[p.first.String()] = true
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

// again is said of a change that puts another finding in the place of one.
const again = "another finding takes its place"

const nothing = "nothing that was tried resolves it"

// planner looks for a plan.
type planner struct {
	Options
	packs  *packs.Packs
	base   *replay.Image
	first  *ledger
	now    state
	groups []group // that were taken
	trials int
	short  bool                 // more could have been tried
	seen   map[string]bool      // what was wrong in the states that were taken
	given  map[string]string    // why nothing was taken, by finding
	tried  map[string][]Attempt // by finding

	answers map[string]*provide.Found
	unfound map[string]string // why a library was not found, by name
	blocked map[string]string // why a change cannot be written, by finding
	read    map[*provide.Found]map[string]*elfdeps.Object
}

// state is an image with what was found in it.
type state struct {
	img    *replay.Image
	res    *lint.Result
	ledger *ledger
}

// group are steps that belong together, taken for one finding.
type group struct {
	steps []Step
	key   string
	text  string
	gain  int // files of the finding that it resolves
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
	var mend []string
	if r := p.packs.Rule(f.Rule); r != nil {
		mend = r.Mend
	}
	offered := 0
	for _, m := range mend {
		if p.trials >= p.Trials {
			break
		}
		of := kinds[m]
		if of == nil {
			continue
		}
		list, err := of(p, ctx, f)
		if err != nil {
			return err
		}
		offered += len(list)
		t, err := p.tryAll(ctx, k, list[:min(maxOfKind, len(list))])
		if err != nil {
			return err
		}
		if t != nil && (best == nil || t.beats(best)) {
			best = t
		}
		if best != nil && best.done() {
			break
		}
	}
	switch {
	case best != nil:
		p.take(k, best)
	case p.unfound[f.Library] != "":
		p.give(k, p.unfound[f.Library])
	case p.blocked[k] != "":
		p.give(k, p.blocked[k])
	case p.trials >= p.Trials:
		p.short = true
		p.give(k, fmt.Sprintf("%d changes were tried, and that is the bound", p.Trials))
	case len(mend) == 0:
		p.give(k, "no change of files or variables is known that mends it")
	case offered == 0:
		p.give(k, "no change is known that would mend it")
	default:
		p.give(k, nothing)
	}
	return nil
}

// tryAll tries candidates until one resolves all of a finding; else the one that
// resolves most. It is nil when none helps.
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

// extend mends what a trial has broken, or brought to light in a process that now
// comes further: the candidate together with what helps there. It is the trial
// itself when nothing does.
func (p *planner) extend(ctx context.Context, k string, c candidate, t *trial, depth int) (*trial, error) {
	r := p.packs.Rule(t.behind.Rule)
	if r == nil || depth == 0 {
		return t, nil
	}
	then := *p // candidates are made for the image as it would be
	then.now, then.groups = t.state, append(slices.Clone(p.groups), t.group)
	for _, m := range r.Mend {
		of := kinds[m]
		if of == nil {
			continue
		}
		list, err := of(&then, ctx, t.behind)
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

// take makes a trial the state.
func (p *planner) take(k string, t *trial) {
	p.groups = append(p.groups, t.group)
	p.now = t.state
	p.seen[t.ledger.String()] = true
	p.tried[k] = slices.DeleteFunc(p.tried[k], func(a Attempt) bool { return a.Text == t.group.text })
}

// trial is a change that was tried.
type trial struct {
	state
	group  group
	gain   int           // files of the finding that can be loaded
	whole  bool          // the finding is gone
	worse  error         // why the image is not strictly better for it
	seen   bool          // what is wrong then has been wrong before
	behind *lint.Finding // what was not wrong before, or did not show
	broken bool          // something could be loaded before and cannot be after
	breaks string        // that in a line
}

// why says why a trial that resolves something is not taken.
func (t *trial) why() string {
	switch {
	case t.broken:
		return t.breaks
	case t.gain > 0 && t.worse != nil:
		return t.worse.Error()
	}
	return ""
}

// done reports whether nothing better need be looked for.
func (t *trial) done() bool { return t.whole && t.worse == nil }

// beats reports whether a trial is to be taken rather than another: one that does
// not put another finding in the place of this one, then the one that resolves
// more.
func (t *trial) beats(o *trial) bool {
	if (t.worse == nil) != (o.worse == nil) {
		return t.worse == nil
	}
	return t.gain > o.gain
}

// try replays the image with one more group of steps.
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

// unwritable is why no layer can hold the files of the steps with one more group:
// the file system in memory would take them below a file or a link that leads
// nowhere.
func (p *planner) unwritable(g group) error {
	var files []patch.File
	d := newDraft(p.base, stepsOf(append(slices.Clone(p.groups), g)))
	for _, s := range d.steps {
		for _, f := range s.files {
			if old := d.replaced(&f); old != nil && old.Caps {
				return fmt.Errorf("%s: the file has capabilities, which another in its place would not have", f.Path)
			}
			files = append(files, f.File)
		}
	}
	return patch.Writable(p.base.FS, files)
}

func (p *planner) simulate(ctx context.Context, groups []group) (state, error) {
	p.trials++
	d := newDraft(p.base, stepsOf(groups))
	img := d.image()
	if img.FS == p.base.FS {
		img.Inventory = p.first.res.Inventory
	}
	res, err := lint.Run(ctx, img, p.packs)
	if err != nil {
		return state{}, err
	}
	return state{img, res, newLedger(res, p.Counts)}, nil
}

// better is nil when a state is strictly better than another; see [Better].
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

// prune leaves out the groups without which the image is as good: what others
// have made superfluous, and what has only put one trouble in the place of
// another; the first ones first. Where that is needed for a plan that is better
// at all, it goes beyond the bound.
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

// leave gives up a group that resolves something and makes nothing better.
func (p *planner) leave(g group, why error) {
	p.attempt(g.key, Attempt{Text: g.text, Resolves: g.gain, Why: why.Error()})
	p.give(g.key, fmt.Sprintf("%s resolves it, but %v", g.text, why))
}

// start is the image as it is.
func (p *planner) start() state { return state{img: p.base, res: p.first.res, ledger: p.first} }

// plan writes up what was found. Steps that do not make the image better as a
// whole are not offered: what they mend has given way to something else.
func (p *planner) plan() *Plan {
	first := p.start()
	if why := p.now.better(&first); len(p.groups) > 0 && why != nil {
		for _, g := range p.groups {
			p.leave(g, why)
		}
		p.groups, p.now = nil, first
	}
	out := &Plan{Steps: []Step{}, Cures: []Cure{}, Trials: p.trials, Truncated: p.short, After: p.now.res, left: len(p.now.ledger.order)}
	out.draft = newDraft(p.base, stepsOf(p.groups))
	out.Steps = append(out.Steps, out.draft.steps...)
	for _, k := range p.first.order {
		f := p.first.trouble[k].finding
		c := Cure{Rule: f.Rule, Message: f.Message, cause: f.Cause, Of: p.first.count(k), Resolves: p.first.gain(k, p.now.ledger), Tried: p.tried[k]}
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
	for _, k := range p.now.ledger.order {
		if p.first.trouble[k] == nil {
			f := p.now.ledger.trouble[k].finding
			out.Behind = append(out.Behind, Behind{Rule: f.Rule, Message: f.Message})
		}
	}
	return out
}

// Asks are the lines that a user has to agree to before the plan is carried out.
func (p *Plan) Asks() []string {
	var list []*provide.Found
	for _, s := range p.Steps {
		if s.found != nil {
			list = append(list, s.found)
		}
	}
	return provide.Ask(list)
}

// Copy is a file that a plan adds as another image has it.
type Copy struct {
	Path string // real path in the patched image, without a leading slash
	From string // absolute path in the other image
	provide.Origin
}

// Copies are the files that the plan takes unchanged from other images.
func (p *Plan) Copies() []Copy {
	var list []Copy
	for _, s := range p.Steps {
		if s.found == nil || s.found.Image == nil {
			continue
		}
		for _, f := range s.files {
			if name := path.Base(f.Path); slices.Contains(s.Files, name) {
				at := strings.TrimPrefix(realPath(p.draft.base.FS, f.Path), "/")
				list = append(list, Copy{at, path.Join(s.found.Image.Dir, name), *s.found.Image})
			}
		}
	}
	return list
}

// StandIn reports whether a source of libraries is wanting.
func (p *Plan) StandIn() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.StandIn })
}

// Texts are the steps in words, in order.
func (p *Plan) Texts() []string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.Text)
	}
	return list
}

// Published are the steps in words as the patched image tells them: without paths
// of this machine, and the same however these were written.
func (p *Plan) Published() []string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, cmp.Or(s.public, s.Text))
	}
	return list
}

// SearchPath is the value that the plan gives to LD_LIBRARY_PATH, where it does
// nothing else and resolves all findings that are a warning or more and whose fixes
// set the variable.
func (p *Plan) SearchPath(findings []lint.Finding) (value string, ok bool) {
	for _, s := range p.Steps {
		if s.Variable != libraryPath {
			return "", false
		}
		value, ok = s.Value, true
	}
	for _, f := range findings {
		if f.Severity != packs.Note && f.SetsPath() && !slices.ContainsFunc(p.Cures, func(c Cure) bool {
			return c.cause == f.Cause && c.Resolves == c.Of
		}) {
			return "", false
		}
	}
	return value, ok
}

// Adds reports whether a step brings a library, by its ID in rules/provide.
func (p *Plan) Adds(id string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		lib := provide.LibraryOf(s.Library)
		return s.Library != "" && lib != nil && lib.ID == id
	})
}
