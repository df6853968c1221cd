package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/targets"
)

func gpusCommand() *cli.Command {
	return &cli.Command{
		Name:      "gpus",
		Usage:     "show for which GPUs the image has code",
		UsageText: "imgcheck gpus --files [options] IMAGE",
		Description: "gpus --files lists the files that carry GPU code, and the architectures that each has it for: machine\n" +
			"code (SASS), intermediate code (PTX), which a driver compiles at its first use, and LTO IR. It finds\n" +
			"code that cuobjdump does not list, too. IMAGE is a reference as for scan.\n\n" +
			"The exit status is 0 if the image could be read, whatever it has, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck gpus --files ghcr.io/org/app:1.0\n" +
			"   imgcheck gpus --files --format json docker-archive:app.tar",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "files", Usage: "list the files with GPU code"},
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, or json (one line for each file)"},
		}, fromEnvironment(imageFlags())...),
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return errors.New("gpus needs an image: see `imgcheck gpus --help`")
			case c.NArg() > 1:
				return fmt.Errorf("gpus takes one image, and %q is another argument", c.Args().Get(1))
			case !c.Bool("files"):
				return errors.New("gpus needs --files: see `imgcheck gpus --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
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
