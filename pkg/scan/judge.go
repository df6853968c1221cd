package scan

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Judged is an image that was read and judged.
type Judged struct {
	Image  *replay.Image // its files and its config
	Packs  *packs.Packs  // what it was judged by
	Result *lint.Result

	about    report.Image
	opts     Options
	counts   func([]lint.Finding) []lint.Finding // the findings that count; nil if all do
	evidence *replay.Evidence                    // nil once it was used
	gpus     []*targets.Row                      // the verdict for each GPU, if it is asked for
	sizes    *size.Summary                       // where the bytes are, if it is asked for
	// follow returns the stages that a file of a layer, from 0, was copied through; nil if
	// that is not known.
	follow func(layer int, path string) []dockerline.Source
}

// Judge reads and judges the image that ref names. It neither plans fixes nor uses kept
// documents.
func Judge(ctx context.Context, ref string, o Options) (*Judged, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	return judge(ctx, ref, img, o)
}

// judge reads and judges img, which the policy knows as ref.
func judge(ctx context.Context, ref string, img *layers.Image, o Options) (*Judged, error) {
	j, read, err := judgeLayers(ctx, ref, img, o)
	if err == nil && o.Overview {
		err = j.overlook(ctx, read)
	}
	if j != nil {
		j.evidence = nil // the plan's replays take as much again
	}
	return j, err
}

// overlook adds what [Options.Overview] asks for. read are the layers of the image.
func (j *Judged) overlook(ctx context.Context, read []*layers.Layer) error {
	j.gpus = lint.GPURows(j.evidence, j.Image, j.Packs)
	sizes, err := sized(ctx, nil, read, j.Image.FS, j.evidence, j.Packs, j.opts.Machines)
	if err != nil {
		return err
	}
	j.sizes = sizes.Summary()
	return nil
}

// judged judges img, of which fsys has the files.
func judged(ctx context.Context, ref string, img *layers.Image, o Options, set *packs.Packs, fsys *layers.FS) (*Judged, error) {
	o.begin(Judging)
	j := &Judged{
		Image: &replay.Image{FS: fsys, Config: img.Config, Machines: o.Machines}, Packs: set,
		about: describe(img), opts: o, counts: o.Policy.Counting(ref, set.Rules),
	}
	var err error
	if j.Result, j.evidence, err = lint.RunWithEvidence(ctx, j.Image, set); err != nil {
		return nil, err
	}
	return j, nil
}

// readBoth parses the packs while it reads the image's layers. An error of the packs
// ends the reading, and comes before one of the image.
func readBoth(ctx context.Context, img *layers.Image, rules *Rules) (set *packs.Packs, read []*layers.Layer, fsys *layers.FS, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		set, err = rules.Packs()
		return err
	})
	read, fsys, err = img.IndexLayers(ctx)
	if wrong := g.Wait(); wrong != nil {
		err = wrong
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return set, read, fsys, nil
}

// describe returns what a document says of an image that was indexed.
func describe(img *layers.Image) report.Image {
	d := report.Image{Ref: img.Ref, Digest: img.Digest}
	if c := img.Config; c != nil && c.Architecture != "" {
		d.Platform = c.Platform().String()
	}
	for i, l := range img.Layers {
		d.Layers = append(d.Layers, report.Layer{Index: i + 1, Digest: l.Digest, DiffID: l.DiffID, CreatedBy: l.CreatedBy, Size: l.Size})
	}
	return d
}

// document returns the image's document, with a plan unless NoPlan is set.
func (j *Judged) document(ctx context.Context) (*report.Document, error) {
	if j.opts.NoPlan {
		return j.unplanned(), nil
	}
	return j.advice(ctx, fix.Options{})
}

// unplanned returns the image's document without a plan.
func (j *Judged) unplanned() *report.Document {
	doc := report.New(j.about, j.Result)
	doc.Rules = j.Packs.Rules
	doc.GPUs, doc.Sizes = j.gpus, j.sizes
	if j.follow != nil {
		doc.Follow(j.follow)
	}
	return doc
}

// advice returns the image's document with a plan.
func (j *Judged) advice(ctx context.Context, o fix.Options) (*report.Document, error) {
	doc := j.unplanned()
	var err error
	if doc.Plan, err = j.plan(ctx, o); err != nil || doc.Plan == nil {
		return doc, err
	}
	if path, ok := doc.Plan.SearchPath(doc.Findings); ok {
		lint.SetSearchPath(doc.Findings, path)
	}
	return doc, nil
}

// plan plans fixes. It returns nil if no finding that counts is an error or a warning.
func (j *Judged) plan(ctx context.Context, o fix.Options) (*fix.Plan, error) {
	list := j.Result.Findings
	if o.Counts = j.counts; o.Counts != nil {
		list = o.Counts(list)
	}
	if !slices.ContainsFunc(list, func(f lint.Finding) bool { return f.Severity.AtLeast(packs.Warning) }) {
		return nil, nil
	}
	j.opts.begin(Planning)
	return fix.Find(ctx, j.Image, j.Packs, j.Result, o)
}
