// Package scan judges container images. It is imgcheck as a library: the commands
// scan, patch, hook and explain are made of it.
//
// [Image] is a whole scan: it opens an image, indexes its layers, replays what the
// image's loader and frameworks would do, plans fixes for what it finds, and returns a
// [report.Document], which pkg/report formats. [Judge] stops before the plan and returns
// the files and the typed result. [JudgeBase] does the same for an image that is to be
// patched: [JudgedBase.Plan] plans fixes that can be carried out, and [JudgedBase.Apply]
// lays a planned change over the image and returns it only if the image is strictly
// better with it.
//
// With [layers.Options.Cache] set, Image keeps its documents there as well, and returns
// the kept one while the image, the rule packs, the options and the program stay the
// same.
//
// The package reads no flags and no policy files, writes to no terminal, and never
// ends the process. It does not know how documents are formatted (pkg/report), nor how
// a patched image is published (pkg/patch).
package scan

import (
	"context"
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Options say how an image is read and judged. The zero value judges an image of a
// registry for linux/amd64, by imgcheck's own rules and without a cache.
type Options struct {
	// Layers say how the image is found and read: its platform, access to the
	// registry, the cache, and the callbacks about progress. The scan itself sets Keep,
	// Extract and KeepID.
	Layers layers.Options
	// Machines are the GPUs and drivers that the image is to run on; without them nothing
	// is said about single ones.
	Machines []targets.Machine
	// Dockerfiles have the one that the image is built from, for the lines of the layers if the
	// image's provenance does not have them. Of several, exactly one must fit.
	Dockerfiles []Dockerfile
	// Rules are the rule packs; nil means imgcheck's own.
	Rules *Rules
	// NoPlan leaves out the plan of fixes, which replays the image up to 24 times.
	NoPlan bool
	// Overview adds the verdict for each GPU, and where the bytes of the image are, which a page
	// of HTML shows.
	Overview bool
	// Policy chooses the findings that are planned for; nil plans for all errors and
	// warnings. The document has all findings, as they weigh without the policy:
	// [policy.Decisions.Apply] sets those apart that do not count.
	Policy *policy.Decisions
	// Admit, if set, is called before the layers of an image are read, with the bytes of its
	// layers as they are stored, 0 if that is not known. It may wait until other images have
	// freed the [Memory] for it; its error ends the scan.
	Admit func(stored int64) error
	// Stage, if set, is called when a stage begins, never at the same time as itself.
	// A scan that returns a kept document has no stages.
	Stage func(Stage)
}

// Memory returns about how many bytes an image takes while it is scanned, by the bytes of its
// layers as they are stored, 0 if that is not known: at most the 1 GiB that layers bounds its
// index to. A CUDA 13 machine of 6 GB takes 0.2 GB for its index, and as much for the replay.
func Memory(stored int64) int64 {
	const least, unknown, most = 64 << 20, 256 << 20, 1 << 30
	if stored <= 0 {
		return unknown
	}
	return min(most, least+stored/12)
}

// admit waits for the memory that an image takes.
func (o *Options) admit(img *source.Image) error {
	if o.Admit == nil {
		return nil
	}
	var stored int64
	for _, l := range img.Layers {
		stored += l.Size
	}
	return o.Admit(stored)
}

// Dockerfile is a Dockerfile that was read.
type Dockerfile struct {
	Name string // as reports show it
	Text []byte
}

// Stage is a part of a scan.
type Stage string

// The stages, in their order. Planning is left out if there is nothing to plan for.
const (
	Reading  Stage = "reading"  // the layers
	Judging  Stage = "judging"  // what was read
	Planning Stage = "planning" // fixes
	// Rewriting reads layers again, and writes them anew.
	Rewriting Stage = "rewriting"
)

func (o *Options) begin(s Stage) {
	if o.Stage != nil {
		o.Stage(s)
	}
}

// reading returns Layers, set to keep what the rules read of an image's files.
func (o *Options) reading() layers.Options {
	l := o.Layers
	l.Keep, l.Extract, l.KeepID = replay.Wants, replay.Extractor(), replay.WantsID
	return l
}

func (o *Options) rules() *Rules {
	if o.Rules == nil {
		return own
	}
	return o.Rules
}

// Image scans the image that ref names, in one of the forms of [layers.Open], and
// returns its document. The Command of its plan is empty.
func Image(ctx context.Context, ref string, o Options) (*report.Document, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	kept, err := verdictOf(img, o)
	if err != nil {
		return nil, err
	}
	if doc := kept.load(img, o.Layers.Indexes); doc != nil {
		return doc, nil
	}
	if err := o.admit(img.Image); err != nil {
		return nil, err
	}
	j, err := judge(ctx, ref, img, o)
	if err != nil {
		return nil, err
	}
	sure := j.locate(ctx, img.Image)
	doc, err := j.document(ctx)
	if err != nil {
		return nil, err
	}
	if !sure {
		return doc, nil
	}
	if err := kept.store(img, doc, j.Packs); err != nil && o.Layers.Note != nil {
		o.Layers.Note(-1, err.Error())
	}
	return doc, nil
}

// Open finds the image that ref names, to be indexed as Image does. The caller closes it.
func Open(ctx context.Context, ref string, o Options) (*layers.Image, error) {
	img, err := layers.Open(ctx, ref, o.reading())
	if err != nil {
		return nil, err
	}
	if c := img.Config; c != nil && c.OS != "" && c.OS != "linux" {
		img.Close()
		return nil, fmt.Errorf("%s: is an image for %s: imgcheck judges images for Linux", img.Ref, c.Platform())
	}
	return img, nil
}
