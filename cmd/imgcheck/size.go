package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func sizeCommand() *cli.Command {
	return &cli.Command{
		Name:      "size",
		Usage:     "show which bytes of an image can go",
		UsageText: "imgcheck size [options] IMAGE",
		Description: "size lists the files that an image can do without, the surest first: files that a later layer hides,\n" +
			"caches, copies of GPU libraries that no process gets, what only developers need, and with --gpu the code for\n" +
			"other GPUs. A file that a program of the image uses, as far as imgcheck could follow it, is not listed.\n" +
			"Each class says what it assumes, and how a Dockerfile leaves its files out. Files have the line of the\n" +
			"Dockerfile that made them, by the image's provenance or with --dockerfile. Bytes are compressed, as a pull\n" +
			"transfers them, and estimated by each file's share of its layer. IMAGE is a reference as for scan.\n\n" +
			"The exit status is 0 if the image could be read, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck size ghcr.io/org/app:1.0\n" +
			"   imgcheck size --gpu L40S --gpu H100 ghcr.io/org/app:1.0\n" +
			"   imgcheck size --format html docker-archive:app.tar >size.html",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, json, or html with a picture"},
			&cli.StringSliceFlag{Name: "gpu", Usage: "a `GPU` that the image is for: L4, \"RTX 4090\", sm_89 or 8.9; may be repeated. Without it, the targets of the policy count"},
			&cli.StringFlag{Name: "dockerfile", Usage: "name the lines of the Dockerfile `FILE` that the image is built from, if its provenance does not; of a directory, that of the Dockerfile that fits"},
			configFlag(),
		}, fromEnvironment(imageFlags())...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return errors.New("size needs one image: see `imgcheck size --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" && f != "html" {
				return fmt.Errorf("there is no format %q: say text, json or html", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			p, err := readPolicy(c)
			if err != nil {
				return err
			}
			machines, err := machinesOf(c, p, policy.Image{Ref: c.Args().First()})
			if err != nil {
				return err
			}
			files, guessed, err := dockerfilesFor(c.String("dockerfile"), p, policy.Image{Ref: c.Args().First()})
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			r, unknown, err := scan.Size(c.Context, c.Args().First(), scan.Options{Layers: o, Machines: machines, Dockerfiles: files})
			shown.done()
			if err != nil {
				return err
			}
			if unknown != "" && len(files) > 0 && !guessed {
				fmt.Fprintln(c.App.ErrWriter, "imgcheck: layers have no line: "+oneLine(unknown))
			}
			switch c.String("format") {
			case "json":
				return r.JSON(c.App.Writer)
			case "html":
				return r.HTML(c.App.Writer, c.Args().First())
			}
			return r.Text(c.App.Writer)
		},
	}
}
