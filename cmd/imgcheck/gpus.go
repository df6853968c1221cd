package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/scan"
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
			"The exit status is 0 if the image could be read, whatever it has, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck gpus ghcr.io/org/app:1.0\n" +
			"   imgcheck gpus --files --format json docker-archive:app.tar",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "files", Usage: "list the files with GPU code"},
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, or json (one line for each GPU or file)"},
		}, fromEnvironment(imageFlags())...),
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return errors.New("gpus needs an image: see `imgcheck gpus --help`")
			case c.NArg() > 1:
				return fmt.Errorf("gpus takes one image, and %q is another argument", c.Args().Get(1))
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			if !c.Bool("files") {
				rows, err := scan.GPUs(c.Context, c.Args().First(), scan.Options{Layers: o})
				shown.done()
				if err != nil {
					return err
				}
				return gpusTable(c, rows)
			}
			_, fsys, err := indexed(c.Context, c.Args().First(), o)
			shown.done()
			if err != nil {
				return err
			}
			list := targets.Files(fsys)
			if c.String("format") == "json" {
				return targets.FilesJSON(c.App.Writer, list)
			}
			return targets.FilesText(c.App.Writer, list)
		},
	}
}

func gpusTable(c *cli.Context, rows []*targets.Row) error {
	if c.String("format") == "text" {
		return targets.RowsText(c.App.Writer, rows)
	}
	for _, r := range rows {
		if err := plain.JSON(c.App.Writer, r, ""); err != nil {
			return err
		}
	}
	return nil
}
