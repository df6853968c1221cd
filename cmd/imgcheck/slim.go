package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func slimCommand() *cli.Command {
	return &cli.Command{
		Name:      "slim",
		Usage:     "publish the image without what no container needs",
		UsageText: "imgcheck slim [options] IMAGE -t NEWREF",
		Description: "slim writes the layers anew that have files which can go, as `imgcheck size` lists them, and publishes\n" +
			"the image with them. Without --drop these are files that a later layer removes or rewrites, caches of\n" +
			"package managers, and copies of GPU libraries to which nothing leads. Layers without such files are referenced or mounted, as they are. Nothing of the image\n" +
			"runs, and layers are streams: they take no disk here, but in an OCI layout.\n\n" +
			"With --gpu, GPU code that no named GPU needs becomes zeros in its files: a pull transfers less, while files\n" +
			"keep their sizes. Libraries whose licence forbids changes stay as they are, unless --modify names its clause.\n\n" +
			"Before anything is published, imgcheck judges the image without these bytes. slim is refused unless no\n" +
			"finding is new, each process loads the same files and each named GPU has the same verdict as before.\n\n" +
			"IMAGE is in a registry or an OCI layout, and so is NEWREF. slim prints NEWREF@sha256:… on the standard\n" +
			"output, everything else on the standard error. Signatures and attestations are of the old image, and are\n" +
			"not carried over.\n\n" +
			"The exit status is 0 if NEWREF was published, 1 if slim is refused, and 2 if NEWREF could not be made.\n\n" +
			"Examples:\n" +
			"   imgcheck slim ghcr.io/org/app:1.0 --dry-run\n" +
			"   imgcheck slim ghcr.io/org/app:1.0 -t ghcr.io/org/app:1.0-l40s \\\n" +
			"      --gpu L40S --compress zstd",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "tag", Aliases: []string{"t"}, Usage: "publish the result as `NEWREF`"},
			&cli.StringSliceFlag{Name: "drop", Usage: "drop the files of `CLASS`, as size names it, in place of the safe classes; may be repeated", DefaultText: strings.Join(scan.SafeClasses, ", ")},
			&cli.StringSliceFlag{Name: "gpu", Usage: "drop the GPU code that `GPU` does not need (L40S, sm_89, 8.9); may be repeated: the code for each stays"},
			&cli.BoolFlag{Name: "accept-nvidia-license", Usage: "accept the licences of NVIDIA's libraries"},
			&cli.StringSliceFlag{Name: "modify", Usage: "change libraries of NVIDIA's against `CLAUSE` of their licence (cuda-1.2, cudnn-2.2), because another agreement lets you; may be repeated"},
			&cli.StringFlag{Name: "compress", Usage: "compress new layers with `gzip or zstd`", DefaultText: "as the old layer"},
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "judge the image without the files, print what can go, and publish nothing"},
			&cli.BoolFlag{Name: "allow-copy", Usage: "copy the image's other layers if the target cannot reference them"},
		}, imageFlags())),
		Action: func(c *cli.Context) error {
			s, err := slimOptions(c)
			if err != nil {
				return err
			}
			defer s.progress.done()
			return s.run(c.Context)
		},
	}
}

// slimming are the checked flags of a slim, and the state of its run.
type slimming struct {
	ref, target string
	what        scan.SlimOptions
	compress    string
	dry, quiet  bool
	scan        scan.Options
	patch       patch.Options
	out, errs   io.Writer
	progress    *progress
}

func slimOptions(c *cli.Context) (*slimming, error) {
	s := &slimming{
		ref: c.Args().First(), target: c.String("tag"), compress: c.String("compress"),
		dry: c.Bool("dry-run"), quiet: c.Bool("quiet"), out: c.App.Writer, errs: c.App.ErrWriter,
		what: scan.SlimOptions{Classes: c.StringSlice("drop"), Modify: c.StringSlice("modify")},
	}
	switch {
	case c.NArg() != 1:
		return nil, fmt.Errorf("slim takes one image, not %d: see `imgcheck slim --help`", c.NArg())
	case s.target == "" && !s.dry:
		return nil, errors.New("say with -t where the slim image goes, or --dry-run to see what can go: see `imgcheck slim --help`")
	case s.compress != "" && s.compress != "gzip" && s.compress != "zstd":
		return nil, fmt.Errorf("--compress %s: say gzip or zstd", s.compress)
	}
	for _, scheme := range []string{"dir:", "docker:", "docker-archive:", "oci-archive:"} {
		if strings.HasPrefix(s.ref, scheme) {
			return nil, fmt.Errorf("%s: slim reads images of registries and OCI layouts: push it first, or copy it into a layout (skopeo copy %s oci:DIR)", s.ref, s.ref)
		}
	}
	switch gpus := c.StringSlice("gpu"); {
	case len(s.what.Modify) > 0 && !c.Bool("accept-nvidia-license"):
		return nil, errors.New("--modify changes libraries of NVIDIA's: add --accept-nvidia-license if you may do so")
	case len(s.what.Modify) > 0 && len(gpus) == 0:
		return nil, errors.New("--modify is about GPU code: say with --gpu which stays")
	default:
		for _, name := range gpus {
			m, err := targets.Known().Machine(name, "")
			if err == nil && m.Arch == 0 {
				err = errors.New("is empty: say a GPU, like L40S")
			}
			if err != nil {
				return nil, fmt.Errorf("--gpu: %w", err)
			}
			s.what.GPUs = append(s.what.GPUs, m)
		}
	}
	of := &s.scan.Layers
	var err error
	if *of, err = imageOptions(c); err != nil {
		return nil, err
	}
	s.scan.Stage = activityOf(c.Context).begins
	s.progress = watch(c, of)
	s.patch = patch.Options{Platform: of.Platform, Insecure: of.Insecure, AllowCopy: c.Bool("allow-copy"), AsFound: true, Note: func(line string) { s.say(oneLine(line)) }}
	return s, nil
}

// say prints a line on the standard error.
func (s *slimming) say(line string) {
	s.progress.pause()
	fmt.Fprintln(s.errs, line)
}

// run slims every image behind the reference, and publishes them together.
func (s *slimming) run(ctx context.Context) error {
	base, err := patch.OpenBase(ctx, s.ref, s.patch)
	if err != nil {
		return err
	}
	var list []*patch.Rewrite
	var made []*scan.Slimmed
	for _, img := range base.Images {
		one, err := scan.Slim(ctx, s.ref, img, s.what, s.scan)
		if errors.As(err, new(*scan.WorseError)) {
			return refuse("%v; nothing was published", err)
		}
		if err != nil {
			return err
		}
		if err := s.show(len(base.Images) > 1, img, one); err != nil {
			return err
		}
		if !one.Plan.Empty() {
			r := one.Rewrite()
			r.Compression = s.compress
			s.announce(img, r)
			list, made = append(list, r), append(made, one)
		}
	}
	if s.dry {
		return nil
	}
	s.scan.Stage(scan.Rewriting)
	ref, err := s.publish(ctx, base, list)
	if err != nil {
		return err
	}
	for i, r := range list {
		s.saved(made[i], r)
	}
	s.progress.pause()
	fmt.Fprintln(s.out, ref)
	return nil
}

// announce says of each new layer when it is written, which may take minutes.
func (s *slimming) announce(img *patch.Image, r *patch.Rewrite) {
	if s.quiet {
		return
	}
	for i, write := range r.Layers {
		of := fmt.Sprintf("writing layer %d of %d%s", i+1, len(img.Layers), img.Layers[i].Instruction())
		r.Layers[i] = func(ctx context.Context, w io.Writer) error {
			s.say(of)
			return write(ctx, w)
		}
	}
}

// publish publishes the images, or the old one if nothing can go: the next step of a pipeline
// expects the target.
func (s *slimming) publish(ctx context.Context, base *patch.Base, list []*patch.Rewrite) (string, error) {
	if len(list) == 0 {
		s.say(s.ref + " is published unchanged")
		return patch.PublishUnchanged(ctx, base, s.target, s.patch)
	}
	s.say("the signatures and attestations of " + s.ref + " are of the old image, and are not carried over: sign the new one")
	return patch.PublishRewritten(ctx, base, list, s.target, s.patch)
}

// show prints the plan for an image, with --dry-run on the standard output.
func (s *slimming) show(several bool, img *patch.Image, one *scan.Slimmed) error {
	s.progress.pause()
	to := s.errs
	if s.dry {
		to = s.out
	}
	if several {
		fmt.Fprintf(to, "%s:\n", img.Platform.String())
	}
	for _, k := range one.Kept {
		fmt.Fprintf(to, "kept             %s: %s needs them\n", oneLine(k.Title), oneLine(k.For))
	}
	return one.Plan.Text(to)
}

// saved says what a pull of the image transfers before and after.
func (s *slimming) saved(one *scan.Slimmed, r *patch.Rewrite) {
	var before, after int64
	for i, l := range one.Base.Layers {
		before += l.Size
		if n, ok := r.Sizes[i]; ok {
			after += n
		} else {
			after += l.Size
		}
	}
	s.say(fmt.Sprintf("%d of %d layers are new, and a pull transfers %s instead of %s", len(r.Sizes), len(one.Base.Layers), size.Text(after), size.Text(before)))
}
