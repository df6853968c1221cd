// Package fix plans the changes that resolve an image's findings.
//
// [Find] takes one finding after the other. The finding's rule names kinds of changes in
// its pack; each kind offers candidates, which are steps of a plan. Find tries a
// candidate on the merged file system with one more layer in memory, replays all loads, and
// keeps it only if it resolves the finding, or a part of it, and no file that could be
// loaded before fails to load. The result is a [Plan]: the steps as data, the findings that
// they resolve, and the candidates that were tried and resolve less.
//
// Without a source of libraries, a stand-in takes the place of a library that has to be
// added: an empty library that needs what rules/provide says. It shows where the library has to go
// and what it would resolve, but not whether the real one is complete.
//
// The package does not know how a layer is written or published (pkg/patch), nor where
// libraries come from (pkg/provide). It does not judge images: lint does, also the changed
// ones.
package fix

import (
	"context"
	"io"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Options limit a plan, and name the sources that its steps are made from.
type Options struct {
	// Trials limits how many changed images are replayed; 0 is 24. An image of very many ELF
	// files gets fewer.
	Trials int
	// Find searches the sources of libraries ([provide.Sources.Find]). Nil means that there
	// is no source: stand-ins take the place of libraries.
	Find func(context.Context, provide.Want) (*provide.Found, error)
	// Content opens a file of the image; layer counts from 0, and e is the file's entry in
	// that layer's index. Nil means that the plan will not be carried out.
	Content func(ctx context.Context, layer int, e *layers.Entry) (io.ReadCloser, error)
	// Xattrs reads the extended attributes of a file in the same way.
	Xattrs func(ctx context.Context, layer int, e *layers.Entry) (map[string]string, error)
	// Counts returns the findings that count, with the severities that a policy gives them;
	// the others are not planned for. Nil means that all count, as they are.
	Counts func([]lint.Finding) []lint.Finding
	// NoSnippet makes no [Plan.Snippet].
	NoSnippet bool
	// Pins are the releases that the user wants, by the library's ID.
	Pins map[string]string
}

// fullTrials is the number of ELF files up to which an image gets all its trials. It is a
// variable for tests.
var fullTrials = 16_384

// trialsOf returns the trials for an image with a number of ELF files: each trial replays all
// of them.
func trialsOf(trials, elf int) int {
	return max(1, trials*fullTrials/max(fullTrials, elf))
}

// Find returns a plan that resolves the findings of res, which is what lint.Run returned
// for img. The same image gives the same plan.
func Find(ctx context.Context, img *replay.Image, set *packs.Packs, res *lint.Result, o Options) (*Plan, error) {
	if o.Trials == 0 {
		o.Trials = 24
	}
	o.Trials = trialsOf(o.Trials, res.Stats.ELF)
	p := newPlanner(img, set, res, o)
	for k := p.next(); k != ""; k = p.next() {
		if err := p.resolve(ctx, k); err != nil {
			return nil, err
		}
	}
	if err := p.prune(ctx); err != nil {
		return nil, err
	}
	plan := p.plan()
	p.offer(plan.Steps)
	if !o.NoSnippet {
		var err error
		if plan.Snippet, err = p.snippet(ctx, plan); err != nil {
			return nil, err
		}
		plan.Reasons = p.reasons(plan)
	}
	return plan, nil
}
