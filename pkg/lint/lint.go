// Package lint turns a file system that was read from an image into findings:
// what will fail when the image runs, in the loader's words, why, and what
// fixes it.
//
// Its knowledge is the packs of rules/: which names are GPU libraries, what the
// driver brings, how frameworks load, and for each rule its severity, its text
// and its fix. Its judgement is the replay of elfdeps: each ELF file is loaded
// as the image's own loader would load it, in the process in which it would be
// loaded, and what that process misses is grouped by cause.
//
// The package does not know how an image was read, and not how a result is
// printed.
package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Pass is all that a rule sees: the image, its packages, the packs, and the evidence of
// the replay.
type Pass struct {
	Image     *replay.Image
	Inventory *inventory.Inventory
	Packs     *packs.Packs
	Evidence  *replay.Evidence

	// The parts of the evidence that most rules ask.
	Files    *replay.Files
	Config   *replay.Config
	Loaders  *replay.Loaders
	Packages *replay.Packages
}

// Run replays an image, applies the rules of the table to what it saw, and groups their
// findings by cause.
func Run(ctx context.Context, img *replay.Image, set *packs.Packs) (*Result, error) {
	evidence, err := replay.Run(ctx, img, set)
	if err != nil {
		return nil, err
	}
	pass := newPass(img, set, evidence)
	found, err := apply(pass, table)
	if err != nil {
		return nil, err
	}
	res := &Result{
		Findings: group(found, perProcess(table)), Inventory: pass.Inventory,
		Copies: copies(pass), Processes: processes(pass), Stats: stats(pass),
	}
	slices.SortStableFunc(res.Findings, compareFindings)
	oneSearchPath(pass, res.Findings)
	return res, cmp.Or(pass.Config.Spent(), set.Err())
}

func newPass(img *replay.Image, set *packs.Packs, ev *replay.Evidence) *Pass {
	return &Pass{
		Image: img, Inventory: ev.Packages.Inventory(), Packs: set, Evidence: ev,
		Files: ev.Files, Config: ev.Config, Loaders: ev.Loaders, Packages: ev.Packages,
	}
}

// apply returns the findings of all rules, in the order of the table.
func apply(pass *Pass, table []rule) ([]Finding, error) {
	var list []Finding
	for _, r := range table {
		for _, f := range r.find(pass) {
			if !slices.Contains(r.ids, f.Rule) {
				return nil, fmt.Errorf("a finding of the rule %q comes from the row of %q", f.Rule, r.ids)
			}
			slices.Sort(f.Affected)
			list = append(list, f)
		}
	}
	return list, nil
}

// perProcess returns the IDs of the rules about processes.
func perProcess(table []rule) map[string]bool {
	set := map[string]bool{}
	for _, r := range table {
		for _, id := range r.ids {
			set[id] = set[id] || r.perProcess
		}
	}
	return set
}
