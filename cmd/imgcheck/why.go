package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "show all about a problem, or how a file or module is loaded",
		UsageText: "imgcheck why [options] IMAGE [NUMBER|FILE|LIBRARY|MODULE]",
		Description: "With the number of a problem in the report of scan, why shows all that is known about it: where the\n" +
			"loader searched, all files that need the library, other copies, rules. Without a target it shows\n" +
			"all problems so.\n\n" +
			"With another target, why follows the programs of the image's start as imports does, and prints each way to the target: the\n" +
			"steps from ENTRYPOINT or CMD, and whether the last one must succeed, is caught, or is possible only.\n" +
			"If nothing of the start reaches the target, it imports the installed packages, and lists what it could\n" +
			"not follow. The target is the path of a file, the name of a library (libnuma.so.1), or the\n" +
			"name of a module (numpy.linalg). IMAGE is a reference as for scan.\n\n" +
			"The exit status is 0 if a way was found, 1 if nothing reaches the target, and 2 otherwise.\n\n" +
			"Examples:\n" +
			"   imgcheck why ghcr.io/org/app:1.0 1\n" +
			"   imgcheck why ghcr.io/org/app:1.0 libcudnn.so.9\n" +
			"   imgcheck why docker-archive:app.tar sgl_kernel",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the answer: text or json"},
		}, fromEnvironment(slices.Concat(machineFlags(), imageFlags(), indexFlags()))...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 && c.NArg() != 2 {
				return errors.New("why needs an image, and a number, a file, a library or a module: see `imgcheck why --help`")
			}
			if f := c.String("format"); f != "text" && f != "json" {
				return fmt.Errorf("there is no format %q: say text or json", f)
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			shown := watch(c, &o)
			if number, err := strconv.Atoi(c.Args().Get(1)); c.NArg() == 1 || err == nil {
				return explainProblem(c, o, number, shown.done)
			}
			a, err := scan.Why(c.Context, c.Args().First(), scan.Options{Layers: o}, c.Args().Get(1))
			shown.done()
			if err != nil {
				return err
			}
			if c.String("format") == "json" {
				err = a.JSON(c.App.Writer)
			} else {
				err = a.Write(c.App.Writer, colored(c.App.Writer))
			}
			if err == nil && len(a.Ways) == 0 {
				return errFindings // status 1 without another message
			}
			return err
		},
	}
}

// explainProblem scans an image, and prints the details of a problem, or of all if number is 0.
func explainProblem(c *cli.Context, o layers.Options, number int, read func()) error {
	if c.String("format") == "json" {
		return errors.New("--format json is for a file, a library or a module: `imgcheck scan --format json` has all about the problems")
	}
	p, err := readPolicy(c)
	if err != nil {
		return err
	}
	if o.Indexes, err = indexesFrom(c, p.IndexesOf(policy.Image{Ref: c.Args().First()})); err != nil {
		return err
	}
	machines, err := machinesOf(c, p, policy.Image{Ref: c.Args().First()})
	if err != nil {
		return err
	}
	doc, err := scan.Image(c.Context, c.Args().First(), scan.Options{Layers: o, NoPlan: true, Machines: machines})
	read()
	if err != nil {
		return err
	}
	return report.Details(c.App.Writer, doc, number, fitted(c.App.Writer, report.Options{}))
}
