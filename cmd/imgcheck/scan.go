package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/imgcheck/imgcheck/internal/outfile"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/report"
)

func scanCommand() *cli.Command {
	return &cli.Command{
		Name:      "scan",
		Usage:     "read an image and say what will fail in it",
		UsageText: "imgcheck scan [options] [IMAGE]",
		Description: "IMAGE is an image in a registry, or one of\n" + sources() + "\n" +
			"Without IMAGE it is the first that .imgcheck.yaml names (imgcheck init writes one).\n\n" +
			"The exit status is 0 when nothing was found at or above --fail-on, 1 when something was,\n" +
			"and 2 when the image could not be scanned.\n\n" +
			"Examples:\n" +
			"   imgcheck scan ghcr.io/org/app:1.0\n" +
			"   docker save app -o app.tar && imgcheck scan docker-archive:app.tar",
		Flags: fromEnvironment(slices.Concat(outputFlags(), []cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "exit with 1 for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
			&cli.BoolFlag{Name: "no-fixes", Usage: "do not try what imgcheck patch could do"},
			rulesFlag(), rootEnvFlag(),
		}, policyFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			o, err := scanOptions(c)
			if err != nil {
				return err
			}
			doc, err := scanWith(c.Context, o.image, o.layers, planning{none: c.Bool("no-fixes"), policy: o.policy}, o.rules...)
			o.progress.done()
			if err != nil {
				return err
			}
			doc = o.policy.apply(doc)
			if err := o.write(c, doc); err != nil {
				return err
			}
			return o.status(doc)
		},
	}
}

func sources() string {
	var b strings.Builder
	for _, s := range layers.Schemes {
		fmt.Fprintf(&b, "   %-16s %s\n", s.Prefix, s.Means)
	}
	return b.String()
}

// scan is the program: open, index, judge, by the rules of the program and of
// directories, and plan what would mend what is found.
func scan(ctx context.Context, ref string, o layers.Options, rulesDirs ...string) (*report.Document, error) {
	return scanWith(ctx, ref, o, planning{}, rulesDirs...)
}

// planning says what a scan plans for.
type planning struct {
	none   bool       // for nothing
	policy *decisions // for what counts by it; nil for all
}

// scanWith is scan, with a plan for what is to be planned for.
func scanWith(ctx context.Context, ref string, o layers.Options, plan planning, rulesDirs ...string) (*report.Document, error) {
	files, err := packFiles(rulesDirs)
	if err != nil {
		return nil, err
	}
	o.Keep, o.Extract, o.KeepID = inventory.Wants, inventory.Extract, inventory.WantsID
	img, err := layers.Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	if c := img.Config; c != nil && c.OS != "" && c.OS != "linux" {
		return nil, fmt.Errorf("%s: is an image for %s: imgcheck judges images for Linux", img.Ref, c.Platform())
	}
	kept, err := verdictOf(img, o, files, fmt.Sprint("fixes ", !plan.none), plan.policy.id(ref))
	if err != nil {
		return nil, err
	}
	if doc := kept.load(img); doc != nil {
		return known(doc, ref, o), nil
	}
	packs, fsys, err := readBoth(ctx, img, files)
	if err != nil {
		return nil, err
	}
	judging()
	read := &lint.Image{FS: fsys, Config: img.Config}
	res, err := lint.Run(ctx, read, packs)
	if err != nil {
		return nil, err
	}
	doc := report.New(describe(img), res)
	counts := plan.policy.counting(ref, packs.Rules)
	if !plan.none && counted(counts, res.Findings) {
		if doc.Plan, err = fix.Find(ctx, read, packs, res, fix.Options{Counts: counts}); err != nil {
			return nil, err
		}
		if path, ok := doc.Plan.SearchPath(doc.Findings); ok {
			lint.SetSearchPath(doc.Findings, path)
		}
	}
	doc.Rules = packs.Rules
	if err := kept.store(img, doc); err != nil && o.Note != nil {
		o.Note(-1, err.Error())
	}
	return known(doc, ref, o), nil
}

// readBoth reads the packs beside the image's layers. What is wrong with a pack is told
// first, whatever else is wrong, and ends the reading.
func readBoth(ctx context.Context, img *layers.Image, files []fs.FS) (packs *lint.Packs, fsys *layers.FS, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		packs, err = lint.LoadPacks(files...)
		return err
	})
	fsys, err = img.Index(ctx)
	if wrong := g.Wait(); wrong != nil {
		err = wrong
	}
	if err != nil {
		return nil, nil, err
	}
	return packs, fsys, nil
}

// counted reports whether a finding counts, and is a warning or more.
func counted(counts func([]lint.Finding) []lint.Finding, findings []lint.Finding) bool {
	if counts != nil {
		findings = counts(findings)
	}
	return slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Severity.AtLeast(lint.Warning) })
}

// known is a document with what is not kept of it: the command that patches what
// was scanned now.
func known(doc *report.Document, ref string, o layers.Options) *report.Document {
	if doc.Plan != nil {
		doc.Plan.Command = patchCommandFor(ref, o, doc.Plan)
	}
	return doc
}

// open reads an image into a file system.
func open(ctx context.Context, ref string, o layers.Options) (*layers.Image, *layers.FS, error) {
	img, err := layers.Open(ctx, ref, o)
	if err != nil {
		return nil, nil, err
	}
	defer img.Close()
	fsys, err := img.Index(ctx)
	return img, fsys, err
}

// imageFlags are those of every command that reads an image.
func imageFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "platform", Usage: "of an image for several platforms, take the one for `OS/ARCH`", DefaultText: "linux/amd64, or the only one"},
		&cli.BoolFlag{Name: "insecure", Usage: "allow plain HTTP and unverified TLS to the registry"},
	}, append(cacheFlags(), progressFlags()...)...)
}

// rootEnvFlag is of commands that judge: what programs of a directory run with
// stands nowhere in it.
func rootEnvFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Usage: "with dir:, judge it as programs that run with `NAME=VALUE`; may be repeated"}
}

// rootEnv is what rootEnvFlag was set to, for what ref names.
func rootEnv(c *cli.Context, ref string) ([]string, error) {
	list := c.StringSlice("env")
	if len(list) > 0 && !strings.HasPrefix(ref, "dir:") {
		return nil, fmt.Errorf("--env is for a directory: %s says itself what its programs run with", ref)
	}
	for _, v := range list {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return nil, fmt.Errorf("--env %q: write it like LD_LIBRARY_PATH=/opt/lib", v)
		}
	}
	return list, nil
}

// imageOptions are what imageFlags were set to.
func imageOptions(c *cli.Context) (layers.Options, error) {
	o := layers.Options{Insecure: c.Bool("insecure")}
	var err error
	if o.Platform, err = platformNamed(c.String("platform")); err != nil {
		return o, err
	}
	o.Cache, err = openCache(c, func(text string) {
		if c.Bool("verbose") {
			fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(text))
		}
	})
	return o, err
}

// platformNamed is a platform as one types it, nil for none.
func platformNamed(s string) (*v1.Platform, error) {
	if s == "" {
		return nil, nil
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return nil, fmt.Errorf("%q is no platform: write it like linux/amd64 or linux/arm64/v8", s)
	}
	return p, nil
}

func describe(img *layers.Image) report.Image {
	d := report.Image{Ref: img.Ref, Digest: img.Digest}
	if p := platformOf(img.Config); p != nil {
		d.Platform = p.String()
	}
	for i, l := range img.Layers {
		d.Layers = append(d.Layers, report.Layer{Index: i + 1, Digest: l.Digest, DiffID: l.DiffID, CreatedBy: l.CreatedBy, Size: l.Size})
	}
	return d
}

func platformOf(c *v1.ConfigFile) *v1.Platform {
	if c == nil || c.Architecture == "" {
		return nil
	}
	return c.Platform()
}

// options are the flags of a scan, checked.
type options struct {
	image    string
	policy   *decisions
	layers   layers.Options
	rules    []string // directories of packs
	outputs  outputs
	failOn   lint.Severity // empty: never
	all      bool
	progress *progress
}

func scanOptions(c *cli.Context) (*options, error) {
	o := &options{all: c.Bool("all")}
	var err error
	if o.policy, err = readDecisions(c); err != nil {
		return nil, err
	}
	image, err := o.policy.image(c)
	if err != nil {
		return nil, err
	}
	o.image, o.rules = image.Ref, o.policy.rules(c)
	if o.outputs, err = parseOutputs(c.String("format"), c.StringSlice("output")); err != nil {
		return nil, err
	}
	if o.failOn, err = severityNamed(o.policy.failOn(c)); err != nil {
		return nil, err
	}
	if o.layers, err = imageOptions(c); err != nil {
		return nil, err
	}
	if o.layers.Env, err = rootEnv(c, o.image); err != nil {
		return nil, err
	}
	if o.layers.Platform == nil {
		if o.layers.Platform, err = platformNamed(image.Platform); err != nil {
			return nil, err
		}
	}
	o.progress = watch(c, &o.layers)
	return o, nil
}

// write puts the reports where they belong.
func (o *options) write(c *cli.Context, doc *report.Document) error {
	failOn := o.failOn
	if failOn == "" {
		failOn = report.Never
	}
	return o.outputs.write(c, doc, report.Options{All: o.all, FailOn: failOn})
}

// status is the command's end: errFindings when something weighs enough.
func (o *options) status(doc *report.Document) error {
	for _, f := range doc.Findings {
		if o.failOn != "" && f.Severity.AtLeast(o.failOn) {
			return errFindings
		}
	}
	return nil
}

// writeFile writes a file that a user named; an error says which.
func writeFile(name string, write func(io.Writer) error) error {
	if err := outfile.Write(name, 0o644, write); err != nil {
		return unwritten(name, err)
	}
	return nil
}

// unwritten is an error of writing a file, which names it and not the one
// that was to become it.
func unwritten(name string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("writing %s: %w", name, err)
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
