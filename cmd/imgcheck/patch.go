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
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func patchCommand() *cli.Command {
	return &cli.Command{
		Name:      "patch",
		Usage:     "publish the image with what mends it as one more layer",
		UsageText: "imgcheck patch [options] IMAGE -t NEWREF",
		Description: "patch plans what makes the findings of a scan go away, tries it on the image in memory, lays it over\n" +
			"the image as one more layer and a new config, scans the result, and publishes it. Nothing is run, and\n" +
			"the layers of the image are not moved.\n\n" +
			"NEWREF is an image in a registry, oci:DIR[:TAG],\n" +
			"docker-archive:FILE[:TAG] or docker:NAME; or layer:FILE, for the new layer alone as a tar, which is what\n" +
			"there can be of a directory (dir:ROOT).\n\n" +
			"Libraries that are missing are taken from the sources that --from names, in their order:\n" + fromSources() + "\n" +
			"NEWREF@sha256:… goes to the standard output, everything else to the standard error; after a layer: also\n" +
			"the variables that it needs, each as NAME=VALUE, empty for one to be unset.\n\n" +
			"An image that has nothing to be mended becomes NEWREF as it is.\n\n" +
			"The exit status is 0 when NEWREF is there; 1 when the result would not be strictly better, and\n" +
			"2 when it could not be made.\n\n" +
			"Examples:\n" +
			"   imgcheck patch ghcr.io/org/app:1.0 --dry-run\n" +
			"   imgcheck patch ghcr.io/org/app:1.0 -t ghcr.io/org/app:1.0-fixed \\\n" +
			"      --from pypi: --add cudnn=9.1.0.70 --accept-nvidia-license",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringSliceFlag{Name: "tag", Aliases: []string{"t"}, Usage: "publish the result as `NEWREF`; may be repeated"},
			&cli.StringSliceFlag{Name: "from", Usage: "take missing libraries from `SOURCE`; may be repeated", DefaultText: "the policy's"},
			&cli.StringSliceFlag{Name: "add", Usage: "take this release of a library, `LIBRARY=VERSION` (cudnn=9.1.0.70); may be repeated"},
			&cli.BoolFlag{Name: "accept-nvidia-license", Usage: "accept the licences that NVIDIA's libraries come under"},
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "print the plan and what it resolves, and publish nothing"},
			&cli.BoolFlag{Name: "allow-copy", Usage: "copy the image's layers where the target cannot take them from where they are"},
			&cli.BoolFlag{Name: "undo", Usage: "give the name of a patched IMAGE its original back"},
			&cli.StringFlag{Name: "emit", Usage: "write the same change as `FORM` instead: dockerfile=DIR (a directory for docker build), dockerfile (its Dockerfile alone, where that needs no files) or llb (for buildctl build)"},
			&cli.StringFlag{Name: "buildkit", Usage: "have the buildkitd at `ADDR` put the layers in place, so that none crosses this machine"},
			rulesFlag(), rootEnvFlag(),
		}, policyFlags(), imageFlags())),
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

// errRefused ends a command that could have gone on and must not; the exit status
// is that of findings.
type errRefused struct{ why string }

func (e errRefused) Error() string { return e.why }

func refuse(format string, args ...any) error { return errRefused{fmt.Sprintf(format, args...)} }

// patching are the flags of a patch, checked, and what it needs.
type patching struct {
	ref       string
	targets   []string
	from      []string
	cacheDir  string // as the user has given it
	pins      map[string]string
	accept    bool
	dry, undo bool
	emit      string // one of emits, or empty
	emitDir   string // of dockerfile=DIR
	buildkit  string // address of a buildkitd
	scan      scan.Options
	patch     patch.Options
	out, errs io.Writer
	progress  *progress
	close     []func() error // what is held until all is published
}

// done lets go of what is held.
func (p *patching) done() {
	p.progress.done()
	for _, f := range p.close {
		f()
	}
}

// sources opens what --from names. Without a cache, what is downloaded is kept
// until the end.
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

// parseEmit reads --emit: a form, and of dockerfile=DIR the directory, in which a
// context can be made.
func parseEmit(s string) (form, dir string, err error) {
	form, dir, to := strings.Cut(s, "=")
	switch {
	case to && form == "dockerfile" && dir != "":
		if err := buildkit.CheckPlace(dir); err != nil {
			return "", "", fmt.Errorf("--emit %s: %w", s, err)
		}
	case to || s != "" && s != "dockerfile" && s != "llb":
		return "", "", fmt.Errorf("there is nothing to --emit as %q: say dockerfile=DIR, dockerfile or llb", s)
	}
	return form, dir, nil
}

func patchOptions(c *cli.Context) (*patching, error) {
	if c.NArg() != 1 {
		return nil, fmt.Errorf("patch takes one image, not %d: see `imgcheck patch --help`", c.NArg())
	}
	p := &patching{
		ref: c.Args().First(), targets: c.StringSlice("tag"), from: c.StringSlice("from"), cacheDir: c.String("cache-dir"), accept: c.Bool("accept-nvidia-license"),
		dry: c.Bool("dry-run"), undo: c.Bool("undo"), buildkit: c.String("buildkit"), pins: map[string]string{}, out: c.App.Writer, errs: c.App.ErrWriter,
	}
	var err error
	if p.emit, p.emitDir, err = parseEmit(c.String("emit")); err != nil {
		return nil, err
	}
	published := len(p.targets) > 0
	switch {
	case slices.Contains(p.targets, ""):
		return nil, errors.New("-t names nothing: say where the patched image goes, as NAME:TAG")
	case p.emit != "" && len(p.targets) > 1:
		return nil, errors.New("--emit names the image once: leave all but one -t away")
	case p.emit != "" && p.dry:
		return nil, errors.New("--emit publishes nothing: leave --dry-run away; the plan goes to the standard error")
	case p.undo && (published || p.dry || p.emit != ""):
		return nil, errors.New("--undo takes the name of the patched image and nothing else: imgcheck patch --undo REF")
	case p.buildkit != "" && (!published || p.emit != ""):
		return nil, errors.New("--buildkit goes with -t: it has a buildkitd publish the image")
	case !published && !p.dry && !p.undo && p.emit == "":
		return nil, errors.New("say with -t where the patched image goes, or --dry-run to see the plan: see `imgcheck patch --help`")
	case strings.HasPrefix(p.ref, "dir:") && (slices.ContainsFunc(p.targets, func(t string) bool { return !patch.IsLayer(t) }) || p.emit != ""):
		return nil, fmt.Errorf("%s is a directory, not an image: what mends it is a layer, to be unpacked over it: say -t layer:FILE", p.ref)
	case p.buildkit != "" && slices.ContainsFunc(p.targets, patch.IsLayer):
		return nil, errors.New("--buildkit publishes an image, and layer: is a layer alone: leave one of them away")
	case strings.HasPrefix(p.ref, "oci-archive:"):
		return nil, fmt.Errorf("%s cannot be patched where it is: unpack it (mkdir DIR && tar -C DIR -xf FILE) and say oci:DIR", p.ref)
	}
	for _, s := range c.StringSlice("add") {
		lib, version, ok := strings.Cut(s, "=")
		if !ok || lib == "" || version == "" {
			return nil, fmt.Errorf("--add %q: write it like cudnn=9.1.0.70", s)
		}
		if known := provide.Libraries(); !slices.Contains(known, lib) {
			return nil, fmt.Errorf("--add %s: no such library is known: say one of %s", lib, strings.Join(known, ", "))
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
	p.scan.Stage = pacing
	of := &p.scan.Layers
	if *of, err = imageOptions(c); err != nil {
		return nil, err
	}
	if of.Env, err = rootEnv(c, p.ref); err != nil {
		return nil, err
	}
	p.progress = watch(c, of)
	p.patch = patch.Options{Platform: of.Platform, Insecure: of.Insecure, Env: of.Env, AllowCopy: c.Bool("allow-copy"), Note: func(line string) { p.say(oneLine(line)) }}
	_, err = p.scan.Rules.Packs() // what is wrong with them comes before all else
	return p, err
}

// say tells something on the standard error.
func (p *patching) say(line string) {
	p.progress.pause()
	fmt.Fprintln(p.errs, line)
}

// undone gives a name its original back.
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

// run is the program: find the image, plan, lay the plan over it, prove that it
// helps, publish.
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
	var plans []*fix.Plan
	defer func() {
		for _, d := range done {
			d.Close()
		}
	}()
	var refused error
	clean := 0
	for _, img := range base.Images {
		w, err := p.plan(ctx, img, sources)
		if errors.As(err, new(errRefused)) {
			refused = err
			if len(base.Images) > 1 {
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
		patched, err := p.laid(ctx, w)
		if err != nil {
			return err
		}
		if patched != nil {
			done, plans = append(done, patched), append(plans, w.plan)
		}
	}
	switch {
	case len(done) > 0 && p.emit != "":
		return p.emitted(ctx, done, plans)
	case len(done) > 0:
		return p.published(ctx, base, done)
	case refused != nil:
		return refused
	case clean == len(base.Images):
		return p.unchanged(ctx, base)
	}
	return nil
}

// laid lays a plan over its image; nil where the plan is all that is asked for.
func (p *patching) laid(ctx context.Context, w *work) (*patch.Patched, error) {
	if p.dry {
		return nil, nil
	}
	return p.apply(ctx, w)
}

// published puts patched images where they belong, one target after the other, and
// prints what they are called there.
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

// print prints results, a line each.
func (p *patching) print(lines []string) {
	p.progress.pause()
	for _, line := range lines {
		fmt.Fprintln(p.out, line)
	}
}

// unchanged publishes an image that needs no patch as it is: whoever names a target
// goes on with what is there.
func (p *patching) unchanged(ctx context.Context, base *patch.Base) error {
	what := "no finding"
	if p.scan.Policy.ID(p.ref) != "" {
		what = "no finding that counts by the policy and"
	}
	line := fmt.Sprintf("nothing to do: %s has %s that is a warning or more", p.ref, what)
	if p.dry || p.emit != "" {
		p.say(line)
		return nil
	}
	p.say(line + ", and is published as it is")
	for _, to := range p.targets {
		ref, err := patch.PublishUnchanged(ctx, base, to, p.patch)
		if err != nil {
			return err
		}
		p.print([]string{ref})
	}
	return nil
}

// newRef is what the patched image is called in a command that builds it.
func (p *patching) newRef() string {
	if len(p.targets) > 0 {
		return p.targets[0]
	}
	return "NEWREF"
}

// variables are those that a patch sets, which a layer has no place for, a line
// each.
func variables(done []*patch.Patched) ([]string, error) {
	var list []string
	for _, d := range done {
		for _, e := range d.Env {
			line := e.Name + "=" + e.Value
			if plain.Text(line) != line {
				return nil, fmt.Errorf("the value of %s has more than one line, or what a terminal or a CI system obeys: it cannot be told beside a layer", e.Name)
			}
			list = append(list, line)
		}
	}
	return list, nil
}

// emitted writes a patched image in the form that --emit names, and tells how it is
// built.
func (p *patching) emitted(ctx context.Context, done []*patch.Patched, plans []*fix.Plan) error {
	if len(done) > 1 {
		return fmt.Errorf("%s has images for several platforms: choose one with --platform", p.ref)
	}
	if p.emit == "llb" {
		return p.emitLLB(ctx, done[0])
	}
	return p.emitDockerfile(ctx, done[0], plans[0])
}

// emitLLB writes a patched image as LLB, and tells how it is solved.
func (p *patching) emitLLB(ctx context.Context, done *patch.Patched) error {
	def, err := buildkit.Definition(ctx, done, p.ref, p.patch.Insecure)
	if err != nil {
		return err
	}
	line, err := buildkit.Command(done, p.newRef(), "FILE")
	if err != nil {
		return err
	}
	p.say("to solve it: " + line)
	_, err = p.out.Write(def)
	return err
}

// emitDockerfile writes a patched image as a build context, or, where that is a
// Dockerfile and nothing else, to the standard output.
func (p *patching) emitDockerfile(ctx context.Context, done *patch.Patched, plan *fix.Plan) error {
	var copies []buildkit.Copy
	for _, c := range plan.Copies() {
		copies = append(copies, buildkit.Copy{Path: c.Path, Image: c.Ref, Digest: c.Digest, From: c.From})
	}
	built, err := buildkit.NewContext(done, p.ref, p.patch.Insecure, copies, plan.Published())
	if err != nil {
		return fmt.Errorf("--emit dockerfile: %w", err)
	}
	build := "docker build -t " + fix.Shell(p.newRef())
	if p.emitDir != "" {
		if err := built.Write(ctx, p.emitDir); err != nil {
			return fmt.Errorf("--emit dockerfile: %w", err)
		}
		p.say("to build it: " + build + " " + fix.Shell(p.emitDir))
		return nil
	}
	if !built.Alone() {
		return errors.New("--emit dockerfile: the fix adds files, which have to lie beside the Dockerfile: say --emit dockerfile=DIR for a directory with both")
	}
	text, err := built.Dockerfile()
	if err != nil {
		return fmt.Errorf("--emit dockerfile: %w", err)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if plain.Text(line) != line {
			return fmt.Errorf("--emit dockerfile: a CI system or a terminal would obey %q: say --emit dockerfile=DIR", line)
		}
	}
	p.say("to build it: " + build + " - < FILE")
	_, err = io.WriteString(p.out, text)
	return err
}

// work is one image and its plan.
type work struct {
	*scan.JudgedBase
	plan *fix.Plan
}

// plan reads an image and plans. It is nil when there is nothing to mend, and an
// errRefused when nothing helps.
func (p *patching) plan(ctx context.Context, img *patch.Image, sources *provide.Sources) (*work, error) {
	j, err := scan.JudgeBase(ctx, p.ref, img, p.scan)
	if err != nil {
		return nil, err
	}
	p.close = append(p.close, j.Close)
	plan, err := j.Plan(ctx, sources, p.pins)
	if err != nil || plan == nil {
		return nil, err
	}
	if !plan.Better() {
		return nil, refuse("%s: no change makes it better: %s", p.ref, reasons(plan))
	}
	for _, id := range slices.Sorted(maps.Keys(p.pins)) {
		if !plan.Adds(id) {
			return nil, refuse("%s: --add %s=%s: the plan does without it: leave --add away to have that", p.ref, id, p.pins[id])
		}
	}
	if img.Patched != "" {
		p.say(fmt.Sprintf("%s is a patched image: the plan is for its original, %s", p.ref, img.Digest))
	}
	if err := p.show(plan); err != nil {
		return nil, err
	}
	asks := plan.Asks()
	if len(asks) > 0 && !p.accept && !p.dry {
		return nil, refuse("%s", strings.Join(asks, "; "))
	}
	return &work{j, plan}, nil
}

// reasons are why findings stay, each once.
func reasons(plan *fix.Plan) string {
	var list []string
	for _, c := range plan.Cures {
		if c.Why != "" && len(list) < 3 {
			list = append(list, fmt.Sprintf("%s (%s)", c.Message, c.Why))
		}
	}
	return strings.Join(list, "; ")
}

// show prints a plan: to the standard output where it is what was asked for.
func (p *patching) show(plan *fix.Plan) error {
	p.progress.pause()
	to := p.errs
	if p.dry {
		to = p.out
	}
	doc := &report.Document{Plan: plan}
	return report.Plan(to, doc, fitted(to, report.Options{All: true}))
}

// apply lays the plan over the image. It is an errRefused where the image is no better
// for it.
func (p *patching) apply(ctx context.Context, w *work) (*patch.Patched, error) {
	change, err := w.plan.Change()
	if err != nil {
		return nil, err
	}
	if p.emit == "dockerfile" {
		change.Env = settable(change.Env)
	}
	change.CreatedBy = "imgcheck patch"
	change.Comment = strings.Join(w.plan.Published(), "; ")
	patched, err := w.Apply(ctx, change)
	if errors.As(err, new(*scan.NotBetterError)) {
		return nil, refuse("%v; nothing was published", err)
	}
	return patched, err
}

// settable is an environment as a Dockerfile can set it, which has no instruction
// that unsets a variable.
func settable(list []patch.EnvEdit) []patch.EnvEdit {
	var out []patch.EnvEdit
	for _, e := range list {
		out = append(out, patch.EnvEdit{Name: e.Name, Value: e.Value})
	}
	return out
}

// patchCommandFor is the command that carries a plan out on what was scanned;
// empty where nothing can.
func patchCommandFor(ref string, o layers.Options, p *fix.Plan) string {
	target := "NEWREF"
	switch scheme, _, _ := strings.Cut(ref, ":"); scheme {
	case "oci-archive":
		return ""
	case "dir":
		target = "layer:FILE"
	case "docker": // its layers can be read as one stream only
		if slices.ContainsFunc(p.Steps, func(s fix.Step) bool { return s.Kind == "execstack" }) {
			return ""
		}
		target = "docker:NEWNAME"
	case "docker-archive":
		target = "docker-archive:NEWFILE"
	case "oci":
		target = "oci:NEWDIR"
	}
	if len(p.Steps) == 0 {
		return ""
	}
	words := []string{"imgcheck patch", fix.Shell(ref), "-t", target}
	for _, v := range o.Env {
		words = append(words, "--env", fix.Shell(v))
	}
	if o.Platform != nil {
		words = append(words, "--platform", o.Platform.String())
	}
	if o.Insecure {
		words = append(words, "--insecure")
	}
	if p.StandIn() {
		words = append(words, "--from pypi: --accept-nvidia-license")
	}
	return strings.Join(words, " ")
}
