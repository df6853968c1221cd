package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/contract"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func gpusCommand() *cli.Command {
	return &cli.Command{
		Name:      "gpus",
		Usage:     "show for which GPUs the image has code",
		UsageText: "imgcheck gpus [options] IMAGE",
		Description: "gpus shows for each GPU whether the image runs on it: by machine code, by PTX, which the driver compiles\n" +
			"at its first use, or not, with the libraries that lack code and what fails then. It counts the files that\n" +
			"the image's frameworks and programs load in the replay; if none of them loads GPU code, every file. The\n" +
			"driver is the oldest that serves the image there, by its CUDA runtime, its PTX and its compression.\n\n" +
			"gpus --files lists the files that carry GPU code, and the architectures that each has it for: machine\n" +
			"code (SASS), intermediate code (PTX), which a driver compiles at its first use, and LTO IR. It finds\n" +
			"code that cuobjdump does not list, too. IMAGE is a reference as for scan.\n\n" +
			"gpus --emit writes the verdicts as conditions that admit the GPUs on which the image does not fail, with\n" +
			"a driver that serves it: nodeaffinity (of a Kubernetes pod, over GPU Feature Discovery's labels), dra (a\n" +
			"DeviceClass and a ResourceClaimTemplate for NVIDIA's DRA driver), require (NVIDIA_REQUIRE_* as lines of a\n" +
			"Dockerfile, by which NVIDIA's container runtime refuses machines) or nfd (Node Feature Discovery's image\n" +
			"compatibility). With --attach, nfd is also stored in the image's registry, as a referrer of the image.\n\n" +
			"The exit status is 0 if the image could be read, whatever it has, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck gpus ghcr.io/org/app:1.0\n" +
			"   imgcheck gpus --emit nodeaffinity ghcr.io/org/app:1.0\n" +
			"   imgcheck gpus --files --format json docker-archive:app.tar",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "files", Usage: "list the files with GPU code"},
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, json (one line for each GPU or file), markdown or html"},
			&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the answer to `[FORMAT=]FILE`, without --format in the format that .json, .md or .html tells; FORMAT=FILE adds an answer to the one of --format, and may be repeated"},
			&cli.StringFlag{Name: "emit", Usage: "write conditions of `KIND` for clusters: " + oneOf(contract.Kinds)},
			&cli.BoolFlag{Name: "attach", Usage: "with --emit nfd, store it in the image's registry, and print its reference"},
		}, imageFlags(), indexFlags())),
		Action: func(c *cli.Context) error {
			g, err := gpusOptions(c)
			if err != nil {
				return err
			}
			if c.Bool("files") {
				return g.files(c.Context)
			}
			return g.table(c.Context)
		},
	}
}

// gpus are the checked flags of the command.
type gpus struct {
	ref      string
	outputs  outputs
	emit     string
	attach   bool
	layers   layers.Options
	stdout   io.Writer
	progress *progress
}

var (
	gpuFormats  = formats{[]string{"text", "json", "markdown", "html"}, map[string]string{".json": "json", ".md": "markdown", ".html": "html"}}
	fileFormats = formats{[]string{"text", "json"}, map[string]string{".json": "json"}}
	// conditionFormats has no format but the kind's own.
	conditionFormats = formats{[]string{"text"}, nil}
)

func gpusOptions(c *cli.Context) (*gpus, error) {
	g := &gpus{ref: c.Args().First(), emit: c.String("emit"), attach: c.Bool("attach"), stdout: c.App.Writer}
	known := gpuFormats
	switch {
	case c.NArg() == 0:
		return nil, errors.New("gpus needs an image: see `imgcheck gpus --help`")
	case c.NArg() > 1:
		return nil, fmt.Errorf("gpus takes one image, and %q is another argument", c.Args().Get(1))
	case g.emit != "" && !slices.Contains(contract.Kinds, g.emit):
		return nil, fmt.Errorf("--emit %s: there is no such kind: say %s", g.emit, oneOf(contract.Kinds))
	case g.emit != "" && (c.Bool("files") || c.IsSet("format")):
		return nil, errors.New("--emit has one form: leave out --files and --format")
	case g.attach && g.emit != "nfd":
		return nil, errors.New("--attach stores what --emit nfd writes: say both")
	case g.attach && c.IsSet("output"):
		return nil, errors.New("--attach writes no file: leave out --output")
	case g.emit != "":
		known = conditionFormats
	case c.Bool("files"):
		known = fileFormats
	}
	var err error
	if g.outputs, err = outputsOf(c, known); err != nil {
		return nil, err
	}
	if g.layers, err = imageOptions(c); err != nil {
		return nil, err
	}
	g.progress = watch(c, &g.layers)
	return g, nil
}

// files lists the files with GPU code.
func (g *gpus) files(ctx context.Context) error {
	_, fsys, err := indexed(ctx, g.ref, g.layers)
	g.progress.done()
	if err != nil {
		return err
	}
	list := targets.Files(fsys)
	return g.outputs.each(g.stdout, func(format string, w io.Writer) error {
		if format == "json" {
			return targets.FilesJSON(w, list)
		}
		return targets.FilesText(w, list)
	})
}

// table writes the verdicts, or conditions.
func (g *gpus) table(ctx context.Context) error {
	img, err := scan.GPUs(ctx, g.ref, scan.Options{Layers: g.layers})
	g.progress.done()
	if err != nil {
		return err
	}
	if g.attach {
		to, err := img.Attach(ctx, source.Options{Insecure: g.layers.Insecure})
		if err != nil {
			return err
		}
		fmt.Fprintln(g.stdout, to)
		return nil
	}
	return g.outputs.each(g.stdout, func(format string, w io.Writer) error {
		switch {
		case g.emit != "":
			return img.Emit(w, g.emit)
		case format == "json":
			return gpusJSON(w, img.Rows)
		case format == "markdown":
			return img.Markdown(w)
		case format == "html":
			return img.HTML(w)
		}
		return targets.RowsText(w, img.Rows)
	})
}

// gpusJSON writes a line for each GPU.
func gpusJSON(w io.Writer, rows []*targets.Row) error {
	for _, r := range rows {
		if err := plain.JSON(w, r, ""); err != nil {
			return err
		}
	}
	return nil
}
