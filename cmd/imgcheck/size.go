package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/scan"
)

func sizeCommand() *cli.Command {
	return &cli.Command{
		Name:      "size",
		Usage:     "show which bytes of an image can go",
		UsageText: "imgcheck size [options] IMAGE",
		Description: "size lists the files that an image can do without, the surest first: files that a later layer hides,\n" +
			"caches of package managers, and the parts of CUDA for developers. Each class says what it assumes, and how a\n" +
			"Dockerfile leaves its files out. Bytes are compressed, as a pull transfers them, and estimated by each\n" +
			"file's share of its layer. IMAGE is a reference as for scan.\n\n" +
			"The exit status is 0 if the image could be read, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck size ghcr.io/org/app:1.0\n" +
			"   imgcheck size --format json docker-archive:app.tar",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text or json"},
		}, fromEnvironment(imageFlags())...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("size needs one image: see `imgcheck size --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			r, err := scan.Size(c.Context, c.Args().First(), scan.Options{Layers: o})
			shown.done()
			if err != nil {
				return err
			}
			if c.String("format") == "json" {
				return r.JSON(c.App.Writer)
			}
			return r.Text(c.App.Writer)
		},
	}
}
