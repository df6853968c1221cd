// Package lint judges the evidence of a replay: its rules return findings, each with its
// cause, the effects that a user meets, and the fixes that it advises.
//
// [Run] replays the image, applies the rules to one [Pass], groups the findings that have
// one cause, and sorts them. A rule reads the pass and returns its own findings. It neither
// sees nor changes those of other rules. To add one:
//
//  1. Write its entry in a pack, rules/*.yaml: ID, kind, severity, texts, sources. The texts
//     are templates, in the entry's clauses.
//  2. Write a function from *Pass to findings. It makes each by pass.say(ID, clause, values)
//     and adds the files that it is about.
//  3. Add a row to the table in table.go.
//  4. Add a text image to testdata/images that has the finding.
//
// The packs decide severities, texts and fixes. The code chooses the clause, and lowers a
// severity only by a clause that says why.
//
// The package does not know how an image is read, how evidence is made (pkg/replay), what a
// plan changes (pkg/fix) and how findings are printed (pkg/report).
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

// Pass is all that a rule sees. Rules do not change it.
type Pass struct {
	Image     *replay.Image
	Inventory *inventory.Inventory
	Packs     *packs.Packs
	Evidence  *replay.Evidence

	// Files, Config, Loaders and Packages are those of Evidence.
	Files    *replay.Files
	Config   *replay.Config
	Loaders  *replay.Loaders
	Packages *replay.Packages

	pythons map[string]string // the titles of frameworks by the path of their interpreter; nil before
}

// Run replays an image and returns the findings of all rules, grouped by cause. It returns
// an error if the image exceeds a limit of the replay, or if the packs lack a text that a
// finding needs.
func Run(ctx context.Context, img *replay.Image, set *packs.Packs) (*Result, error) {
	r, _, err := RunWithEvidence(ctx, img, set)
	return r, err
}

// RunWithEvidence does as [Run], and also returns the replay behind the result.
func RunWithEvidence(ctx context.Context, img *replay.Image, set *packs.Packs) (*Result, *replay.Evidence, error) {
	evidence, err := replay.Run(ctx, img, set)
	if err != nil {
		return nil, nil, err
	}
	pass := newPass(img, set, evidence)
	found, err := apply(pass, table)
	if err != nil {
		return nil, nil, err
	}
	findings := group(found, perProcess(table))
	slices.SortStableFunc(findings, compareFindings)
	oneSearchPath(pass, findings)
	return newResult(pass, findings), evidence, cmp.Or(pass.Config.Spent(), set.Err())
}

func newPass(img *replay.Image, set *packs.Packs, ev *replay.Evidence) *Pass {
	return &Pass{
		Image: img, Inventory: ev.Packages.Inventory(), Packs: set, Evidence: ev,
		Files: ev.Files, Config: ev.Config, Loaders: ev.Loaders, Packages: ev.Packages,
	}
}

// apply returns the findings of all rules, in the order of the table. It returns an error
// for a finding of a rule that is not in its function's row.
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
