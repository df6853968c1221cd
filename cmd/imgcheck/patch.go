package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/buildkit"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func patchCommand() *cli.Command {
	return &cli.Command{
		Name:      "patch",
		Usage:     "publish the image with its fixes in one more layer",
		UsageText: "imgcheck patch [options] IMAGE -t NEWREF",
		Description: "patch plans fixes for the findings of a scan, tries them on the image in memory, lays them over the\n" +
			"image as one more layer and a new config, scans the result, and publishes it. It runs nothing of the\n" +
			"image, and does not copy its layers.\n\n" +
			"NEWREF is an image in a registry, oci:DIR[:TAG], docker-archive:FILE[:TAG] or docker:NAME; or\n" +
			"layer:FILE for the new layer alone, as a tar. For a directory (dir:ROOT) it must be layer:FILE.\n\n" +
			"--from names sources of missing libraries, which are asked in order:\n" + fromSources() + "\n" +
			"patch prints NEWREF@sha256:… on the standard output, everything else on the standard error. After\n" +
			"layer:FILE it prints the variables that the layer needs, each as NAME=VALUE; unset those without\n" +
			"a value.\n\n" +
			"An image without anything to fix is published as NEWREF unchanged, but for the variables of --require.\n\n" +
			"--dry-run prints the plan. Without --from it is the plan of a scan, with empty libraries in the\n" +
			"place of those that need a source: it says which values of --from have them, and prints the\n" +
			"lines for the Dockerfile and the command that publishes the patched image.\n\n" +
			"The exit status is 0 if NEWREF was published, 1 if the result would not be strictly better, and\n" +
			"2 if it could not be made. With --dry-run it is 0 if there is a plan, also one that lacks only\n" +
			"sources, or if there is nothing to fix.\n\n" +
			"Examples:\n" +
			"   imgcheck patch ghcr.io/org/app:1.0 --dry-run\n" +
			"   imgcheck patch ghcr.io/org/app:1.0 -t ghcr.io/org/app:1.0-fixed \\\n" +
			"      --from pypi: --add cudnn=9.1.0.70 --accept-nvidia-license",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "tag", Aliases: []string{"t"}, Usage: "publish the result as `NEWREF`; may be repeated"},
			&cli.StringSliceFlag{Name: "from", Usage: "take missing libraries from `SOURCE`; may be repeated", DefaultText: "the policy's"},
			&cli.StringSliceFlag{Name: "add", Usage: "take this release of a library, `LIBRARY=VERSION` (cudnn=9.1.0.70); may be repeated"},
			&cli.BoolFlag{Name: "accept-nvidia-license", Usage: "accept the licences of NVIDIA's libraries"},
			&cli.BoolFlag{Name: "require", Usage: "set NVIDIA_REQUIRE_* as `imgcheck gpus --emit require` writes it: NVIDIA's container runtime refuses machines that do not serve the image"},
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "print the plan and what it resolves, and publish nothing"},
			&cli.BoolFlag{Name: "allow-copy", Usage: "copy the image's layers if the target cannot reference them"},
			&cli.BoolFlag{Name: "undo", Usage: "make the name of a patched IMAGE name its original again"},
			&cli.StringFlag{Name: "emit", Usage: "write the change as `FORM` instead of publishing it: dockerfile=DIR (a directory for docker build), dockerfile (a Dockerfile alone) or llb (for buildctl build)"},
			&cli.StringFlag{Name: "buildkit", Usage: "let the buildkitd at `ADDR` copy the layers, so that none crosses this machine"},
			rulesFlag(), rootEnvFlag(),
		}, machineFlags(), policyFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			p, err := patchOptions(c)
			if err != nil {
				return err
			}
			if p.undo {
				return p.undone(c.Context)
			}
			return p.run(c.Context)
		},
	}
}

func fromSources() string {
	var b strings.Builder
	for _, s := range provide.Schemes {
		fmt.Fprintf(&b, "   %-16s %s\n", s.Prefix, s.Means)
	}
	return b.String()
}

// errRefused ends a command that refuses to go on; its exit status is that of findings.
type errRefused struct {
	why      string
	hopeless bool // no change makes the image better
}

func (e errRefused) Error() string { return e.why }

func refuse(format string, args ...any) error { return errRefused{why: fmt.Sprintf(format, args...)} }

// hopeless refuses an image that no change makes better.
func hopeless(ref string, plan *fix.Plan) error {
	return errRefused{fmt.Sprintf("%s: no change makes it better: %s", ref, reasons(plan)), true}
}

// patching are the checked flags of a patch, and the state of its run.
type patching struct {
	ref       string
	targets   []string
	from      []string
	cacheDir  string // --cache-dir, or empty
	pins      map[string]string
	accept    bool
	dry, undo bool
	require   bool   // set NVIDIA_REQUIRE_*
	several   bool   // images behind the reference
	emit      string // dockerfile, llb or empty
	emitDir   string // of dockerfile=DIR
	buildkit  string // address of a buildkitd
	scan      scan.Options
	patch     patch.Options
	out, errs io.Writer
	progress  *progress
	close     []func() error // after the last image is published
}

// done ends the progress and frees what the run holds.
func (p *patching) done() {
	p.progress.done()
	for _, f := range p.close {
		f()
	}
}

// sources opens the sources of --from. Without a cache, downloads are kept until done.
func (p *patching) sources(ctx context.Context) (*provide.Sources, error) {
	o := provide.Options{Insecure: p.scan.Layers.Insecure, Indexes: p.scan.Layers.Cache, Progress: p.progress.told}
	switch {
	case p.scan.Layers.Cache == nil:
		dir, err := os.MkdirTemp("", "imgcheck-*")
		if err != nil {
			return nil, err
		}
		p.close = append(p.close, func() error { return os.RemoveAll(dir) })
		o.Cache = dir
	case p.cacheDir != "":
		o.Cache = filepath.Join(p.cacheDir, "downloads")
	}
	return provide.Open(ctx, p.from, o)
}

func patchOptions(c *cli.Context) (*patching, error) {
	if c.NArg() != 1 {
		return nil, fmt.Errorf("patch takes one image, not %d: see `imgcheck patch --help`", c.NArg())
	}
	p := &patching{
		ref: c.Args().First(), targets: c.StringSlice("tag"), from: c.StringSlice("from"), cacheDir: c.String("cache-dir"), accept: c.Bool("accept-nvidia-license"),
		require: c.Bool("require"), dry: c.Bool("dry-run"), undo: c.Bool("undo"), buildkit: c.String("buildkit"), pins: map[string]string{}, out: c.App.Writer, errs: c.App.ErrWriter,
	}
	var err error
	if p.emit, p.emitDir, err = parseEmit(c.String("emit")); err != nil {
		return nil, err
	}
	if p.emit == "llb" && isTerminal(p.out) {
		return nil, errors.New("--emit llb writes no text, and the standard output is a terminal: redirect it, imgcheck patch … --emit llb > FILE")
	}
	published := len(p.targets) > 0
	switch {
	case slices.Contains(p.targets, ""):
		return nil, errors.New("-t is empty: say where the patched image goes, as NAME:TAG")
	case p.emit != "" && len(p.targets) > 1:
		return nil, errors.New("--emit takes one name: leave out all but one -t")
	case p.emit != "" && p.dry:
		return nil, errors.New("--emit publishes nothing: leave out --dry-run; the plan goes to the standard error")
	case p.require && (p.undo || p.emit != "" || strings.HasPrefix(p.ref, "dir:")):
		return nil, errors.New("--require sets variables of an image that is published: leave out --undo and --emit (imgcheck gpus --emit require writes the lines for a Dockerfile)")
	case p.undo && (published || p.dry || p.emit != ""):
		return nil, errors.New("--undo takes the patched image and no other flag: imgcheck patch --undo REF")
	case p.buildkit != "" && (!published || p.emit != ""):
		return nil, errors.New("--buildkit needs -t, and excludes --emit: a buildkitd publishes the image")
	case !published && !p.dry && !p.undo && p.emit == "":
		return nil, errors.New("say with -t where the patched image goes, or --dry-run to see the plan: see `imgcheck patch --help`")
	case strings.HasPrefix(p.ref, "dir:") && (slices.ContainsFunc(p.targets, func(t string) bool { return !patch.IsLayer(t) }) || p.emit != ""):
		return nil, fmt.Errorf("%s is a directory, not an image: its fixes are a layer to unpack over it: say -t layer:FILE", p.ref)
	case p.buildkit != "" && slices.ContainsFunc(p.targets, patch.IsLayer):
		return nil, errors.New("--buildkit publishes an image, layer:FILE is a layer alone: leave out one of them")
	case strings.HasPrefix(p.ref, "oci-archive:"):
		return nil, fmt.Errorf("%s is an archive, which cannot be patched: unpack it (mkdir DIR && tar -C DIR -xf FILE) and say oci:DIR", p.ref)
	}
	for _, s := range c.StringSlice("add") {
		lib, version, ok := strings.Cut(s, "=")
		if !ok || lib == "" || version == "" {
			return nil, fmt.Errorf("--add %q: write it like cudnn=9.1.0.70", s)
		}
		if known := provide.Libraries(); !slices.Contains(known, lib) {
			return nil, fmt.Errorf("--add %s: unknown library: say one of %s", lib, strings.Join(known, ", "))
		}
		p.pins[lib] = version
	}
	decided, err := readDecisions(c)
	if err != nil {
		return nil, err
	}
	if len(p.from) == 0 {
		p.from = decided.Policy.From
	}
	p.scan = decided.scanning()
	p.scan.Stage = activityOf(c.Context).begins
	if p.scan.Machines, err = machinesOf(c, decided.Policy, policy.Image{Ref: p.ref}); err != nil {
		return nil, err
	}
	of := &p.scan.Layers
	if *of, err = imageOptions(c); err != nil {
		return nil, err
	}
	if of.Env, err = rootEnv(c, p.ref); err != nil {
		return nil, err
	}
	p.progress = watch(c, of)
	p.patch = patch.Options{Platform: of.Platform, Insecure: of.Insecure, Env: of.Env, AllowCopy: c.Bool("allow-copy"), Note: func(line string) { p.say(oneLine(line)) }}
	_, err = p.scan.Rules.Packs() // their errors come first
	return p, err
}

// say prints a line on the standard error.
func (p *patching) say(line string) {
	p.progress.pause()
	fmt.Fprintln(p.errs, line)
}

// undone gives a name its original image back.
func (p *patching) undone(ctx context.Context) error {
	defer p.progress.done()
	ref, err := patch.Undo(ctx, p.ref, p.patch)
	if err != nil {
		return err
	}
	p.progress.pause()
	fmt.Fprintln(p.out, ref)
	return nil
}

// run patches every image behind the reference: plan, apply, publish.
func (p *patching) run(ctx context.Context) error {
	defer p.done()
	sources, err := p.sources(ctx)
	if err != nil {
		return err
	}
	defer sources.Close()
	base, err := patch.OpenBase(ctx, p.ref, p.patch)
	if err != nil {
		return err
	}
	var done []*patch.Patched
	var works []*work
	defer func() {
		for _, d := range done {
			d.Close()
		}
	}()
	var refused error
	clean := 0
	p.several = len(base.Images) > 1
	for _, img := range base.Images {
		w, err := p.plan(ctx, img, sources)
		if errors.As(err, new(errRefused)) {
			refused = err
			if p.several {
				p.say(oneLine(fmt.Sprintf("%s stays as it is: %v", img.Platform.String(), err)))
			}
			continue
		}
		if err != nil {
			return err
		}
		if w == nil {
			clean++
			continue
		}
		works = append(works, w)
		if p.dry || p.inLines(w.plan) {
			continue
		}
		patched, err := p.apply(ctx, w)
		if err != nil {
			return err
		}
		done = append(done, patched)
	}
	switch {
	case len(works) > 0 && p.emit != "":
		return p.emitted(ctx, works, done)
	case len(done) > 0:
		return p.published(ctx, base, done)
	case refused != nil:
		return refused
	case clean == len(base.Images):
		return p.unchanged(ctx, base)
	}
	return nil
}

// published publishes patched images to one target after the other, and prints their
// references.
func (p *patching) published(ctx context.Context, base *patch.Base, done []*patch.Patched) error {
	for _, to := range p.targets {
		for _, d := range done {
			if p.buildkit == "" {
				break
			}
			o := buildkit.Options{Insecure: p.patch.Insecure, Progress: p.say}
			if err := buildkit.Carry(ctx, p.buildkit, d, p.ref, to, o); err != nil {
				return err
			}
		}
		var vars []string
		var err error
		if patch.IsLayer(to) {
			if vars, err = variables(done); err != nil {
				return err
			}
		}
		ref, err := patch.Publish(ctx, base, done, to, p.patch)
		if err != nil {
			return err
		}
		p.print(append([]string{ref}, vars...))
	}
	return nil
}

// print prints lines on the standard output.
func (p *patching) print(lines []string) {
	p.progress.pause()
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
}

// unchanged publishes an image that needs no patch as it is: the next step of a pipeline
// expects the target.
func (p *patching) unchanged(ctx context.Context, base *patch.Base) error {
	what := "no error or warning"
	if p.scan.Policy.ID(p.ref) != "" {
		what = "no error or warning that counts by the policy"
	}
	line := fmt.Sprintf("nothing to do: %s has %s", p.ref, what)
	if p.dry || p.emit != "" {
		p.say(line)
		return nil
	}
	p.say(line + "; publishing it unchanged")
	for _, to := range p.targets {
		ref, err := patch.PublishUnchanged(ctx, base, to, p.patch)
		if err != nil {
			return err
		}
		p.print([]string{ref})
	}
	return nil
}

// variables returns the variables that a patch sets, as lines to print beside a layer,
// which cannot hold them.
func variables(done []*patch.Patched) ([]string, error) {
	var list []string
	for _, d := range done {
		for _, e := range d.Env {
			line := e.Name + "=" + e.Value
			if plain.Text(line) != line {
				return nil, fmt.Errorf("the value of %s has several lines, or commands for a terminal or a CI system: it cannot be printed beside a layer", e.Name)
			}
			list = append(list, line)
		}
	}
	return list, nil
}

// work is one image and its plan.
type work struct {
	*scan.JudgedBase
	plan *fix.Plan // nil if there are only variables to set
	// required are the variables of --require.
	required []patch.EnvEdit
}

// plan judges an image and plans. It returns nil if there is nothing to fix, and an
// errRefused if nothing helps.
func (p *patching) plan(ctx context.Context, img *patch.Image, sources *provide.Sources) (*work, error) {
	j, err := scan.JudgeBase(ctx, p.ref, img, p.scan)
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, j.Close)
	if p.require {
		return p.requiring(ctx, j, sources)
	}
	return p.fixing(ctx, j, sources)
}

// fixing plans fixes.
func (p *patching) fixing(ctx context.Context, j *scan.JudgedBase, sources *provide.Sources) (*work, error) {
	if p.advises() {
		return p.advised(ctx, j)
	}
	planned := j.Plan
	if p.emit == "dockerfile" && p.emitDir == "" {
		planned = j.PlanLines
	}
	plan, err := planned(ctx, sources, p.pins)
	if err != nil || plan == nil {
		return nil, err
	}
	if !plan.Better() {
		return nil, hopeless(p.ref, plan)
	}
	if err := p.needed(plan); err != nil {
		return nil, err
	}
	if err := p.show(j.Base, plan); err != nil {
		return nil, err
	}
	asks := plan.Asks()
	if len(asks) > 0 && !p.accept && !p.dry {
		return nil, refuse("%s", strings.Join(asks, "; "))
	}
	return &work{JudgedBase: j, plan: plan}, nil
}

// needed refuses a --add that the plan does not need.
func (p *patching) needed(plan *fix.Plan) error {
	for _, id := range slices.Sorted(maps.Keys(p.pins)) {
		if !plan.Adds(id) {
			return refuse("%s: --add %s=%s: the plan does not need it: leave out --add", p.ref, id, p.pins[id])
		}
	}
	return nil
}

// reasons returns why the first three findings stay.
func reasons(plan *fix.Plan) string {
	var list []string
	for _, c := range plan.Outcomes {
		if c.Why != "" && len(list) < 3 {
			list = append(list, fmt.Sprintf("%s (%s)", c.Message, c.Why))
		}
	}
	return strings.Join(list, "; ")
}

// show prints the plan for an image, with --dry-run on the standard output.
func (p *patching) show(img *patch.Image, plan *fix.Plan) error {
	if img.Patched != "" {
		p.say(fmt.Sprintf("%s is a patched image: the plan is for its original, %s", p.ref, img.Digest))
	}
	p.progress.pause()
	to := p.errs
	if p.dry {
		to = p.out
	}
	if p.several {
		fmt.Fprintf(to, "%s:\n", img.Platform.String())
	}
	doc := &report.Document{Plan: plan}
	return report.Plan(to, doc, fitted(to, report.Options{All: true}))
}

// apply lays the plan over its image. It returns an errRefused if that does not make the
// image better.
func (p *patching) apply(ctx context.Context, w *work) (*patch.Patched, error) {
	change, err := w.change()
	if err != nil {
		return nil, err
	}
	apply := w.Apply
	if w.plan == nil {
		apply = w.Set
	}
	change.Env = append(change.Env, w.required...)
	if p.emit == "dockerfile" {
		change.Env = settable(change.Env)
	}
	patched, err := apply(ctx, change)
	if errors.As(err, new(*scan.NotBetterError)) {
		return nil, refuse("%v; nothing was published", err)
	}
	return patched, err
}
