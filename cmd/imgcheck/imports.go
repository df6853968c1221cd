package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/imports"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func importsCommand() *cli.Command {
	return &cli.Command{
		Name:      "imports",
		Usage:     "show what the image's Python program imports and opens",
		UsageText: "imgcheck imports [options] IMAGE [MODULE…]",
		Description: "imports follows ENTRYPOINT and CMD through scripts to Python programs, and these through their own\n" +
			"source: every import in its order, the extension modules and libraries that the imports open, which\n" +
			"failures the program catches, and what is not known and why. With MODULE it follows\n" +
			"`python -c \"import MODULE\"` instead, each in a process of its own. IMAGE is a reference as for scan.\n\n" +
			"The exit status is 0 if the imports could be followed, whatever they show, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck imports ghcr.io/org/app:1.0\n" +
			"   imgcheck imports --all docker-archive:app.tar torch\n" +
			"   imgcheck imports --python /opt/venv/bin/python dir:/mnt/root numpy scipy",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text, or json (one line for each program)"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "draw every import, also those that lead to no library"},
			&cli.StringFlag{Name: "python", Usage: "the `PATH` of the interpreter that imports MODULE; without it that of the image's program, or python3 of its PATH"},
		}, fromEnvironment(append(imageFlags(), indexFlags()...))...),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return errors.New("imports needs an image: see `imgcheck imports --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			for _, name := range c.Args().Tail() {
				if strings.ContainsAny(name, "/ ") || strings.HasPrefix(name, ".") {
					return fmt.Errorf("%q is not the name of a module: say it as in an import, numpy.linalg", name)
				}
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			starts, err := scan.Imports(c.Context, c.Args().First(), scan.Options{Layers: o}, c.String("python"), c.Args().Tail())
			shown.done()
			if err != nil {
				return err
			}
			if c.String("format") == "json" {
				return imports.JSON(c.App.Writer, starts)
			}
			return imports.Tree(c.App.Writer, starts, imports.Options{All: c.Bool("all"), Color: colored(c.App.Writer)})
		},
	}
}
