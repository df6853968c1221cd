package scan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/contract"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// JudgedBase is an image to patch that was read and judged. It holds the image open, for
// plans that rewrite files of it. A method value of Close keeps only the open image in memory,
// not the results.
type JudgedBase struct {
	Judged
	Base *patch.Image

	*contents
	ref string
}

// JudgeBase reads and judges base, one of the images that [patch.OpenBase] has found
// behind ref. The caller closes what it returns.
func JudgeBase(ctx context.Context, ref string, base *patch.Image, o Options) (*JudgedBase, error) {
	img, err := base.Open(ctx, o.reading())
	if err != nil {
		return nil, err
	}
	j, err := judge(ctx, ref, img, o)
	if err != nil {
		img.Close()
		return nil, err
	}
	return &JudgedBase{*j, base, &contents{img: img}, ref}, nil
}

// patchTrials limits the changes that are tried for an image to patch.
const patchTrials = 64

// Plan plans fixes that can be carried out, with libraries from sources, in the
// releases that pins has by the libraries' IDs. It tries at most patchTrials changes. It returns
// nil if no finding that counts is an error or a warning.
func (j *JudgedBase) Plan(ctx context.Context, sources *provide.Sources, pins map[string]string) (*fix.Plan, error) {
	return j.planned(ctx, sources, pins, false)
}

// PlanLines is Plan with the instructions of a Dockerfile that make the changes.
func (j *JudgedBase) PlanLines(ctx context.Context, sources *provide.Sources, pins map[string]string) (*fix.Plan, error) {
	return j.planned(ctx, sources, pins, true)
}

func (j *JudgedBase) planned(ctx context.Context, sources *provide.Sources, pins map[string]string, lines bool) (*fix.Plan, error) {
	return j.plan(ctx, fix.Options{Trials: patchTrials, NoSnippet: !lines, Find: sources.Find, Pins: pins, Content: j.content, Xattrs: j.xattrs})
}

// Advise returns the document of a scan, whose plan needs no sources: empty libraries stand
// in for those that the image lacks. It tries as many changes as Plan. The plan is nil if no
// finding that counts is an error or a warning.
func (j *JudgedBase) Advise(ctx context.Context, pins map[string]string) (*report.Document, error) {
	doc, err := j.advice(ctx, fix.Options{Trials: patchTrials, Pins: pins, Content: j.content, Xattrs: j.xattrs})
	if err == nil {
		doc, _ = j.opts.Policy.Apply(doc)
	}
	return doc, err
}

// Apply lays change over the image and judges the result as it will be pulled: the new
// layer and config are read back. It returns a [*NotBetterError] if the result is not
// strictly better, as [fix.Better] defines it. The caller closes what it returns.
func (j *JudgedBase) Apply(ctx context.Context, change patch.Change) (*patch.Patched, error) {
	return j.apply(ctx, change, fix.Better)
}

// Set does what Apply does for a change that is no fix: the result must not be worse.
func (j *JudgedBase) Set(ctx context.Context, change patch.Change) (*patch.Patched, error) {
	return j.apply(ctx, change, fix.NotWorse)
}

// compare compares the results before and after a change.
type compare func(before, after *lint.Result, old *layers.FS, counts func([]lint.Finding) []lint.Finding) error

func (j *JudgedBase) apply(ctx context.Context, change patch.Change, law compare) (*patch.Patched, error) {
	patched, err := patch.Apply(ctx, j.Base, j.Image.FS, change)
	if err != nil {
		return nil, err
	}
	if err := j.prove(ctx, patched, change.CreatedBy, law); err != nil {
		patched.Close()
		return nil, err
	}
	return patched, nil
}

// prove judges a patched image.
func (j *JudgedBase) prove(ctx context.Context, patched *patch.Patched, createdBy string, law compare) error {
	now, err := j.with(patched, createdBy)
	if err != nil {
		return err
	}
	res, err := lint.Run(ctx, now, j.Packs)
	if err != nil {
		return err
	}
	if err := law(j.Result, res, j.Image.FS, j.counts); err != nil {
		return &NotBetterError{j.ref, err}
	}
	return nil
}

// with returns the patched image, as it will be pulled.
func (j *JudgedBase) with(patched *patch.Patched, createdBy string) (*replay.Image, error) {
	reading := j.opts.reading()
	layer, err := patched.Index(reading.Keeps)
	if err != nil {
		return nil, fmt.Errorf("reading the new layer: %w", err)
	}
	var config v1.ConfigFile
	if err := json.NewDecoder(bytes.NewReader(patched.Config)).Decode(&config); err != nil {
		return nil, fmt.Errorf("reading the new config: %w", err)
	}
	now := &replay.Image{FS: j.Image.FS.With(layer, source.Layer{CreatedBy: createdBy}), Config: &config, Machines: j.Image.Machines}
	if j.Image.Config == nil && len(patched.Env) == 0 {
		now.Config = nil // a directory has none
	}
	return now, nil
}

// Require returns the variables by which NVIDIA's container runtime refuses machines that do
// not serve the image with a change.
func (j *JudgedBase) Require(ctx context.Context, change patch.Change) ([]contract.Variable, error) {
	img := j.Image
	if !change.Empty() {
		patched, err := patch.Apply(ctx, j.Base, j.Image.FS, change)
		if err != nil {
			return nil, err
		}
		defer patched.Close()
		if img, err = j.with(patched, change.CreatedBy); err != nil {
			return nil, err
		}
	}
	c, err := contracted(ctx, j.ref, img, j.Packs)
	if err != nil {
		return nil, err
	}
	return c.Require()
}

// NotBetterError says why an image is not strictly better with a change.
type NotBetterError struct {
	Ref    string // of the image
	Reason error
}

func (e *NotBetterError) Error() string {
	return fmt.Sprintf("%s: the patched image is not better than it was: %v", e.Ref, e.Reason)
}

func (e *NotBetterError) Unwrap() error { return e.Reason }
