package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "say what an image adds and resolves against another one",
		UsageText: "imgcheck diff [options] BEFORE AFTER",
		Description: "BEFORE and AFTER are images, or JSON reports that `imgcheck scan -o json=FILE` wrote. diff shows the\n" +
			"findings of AFTER that BEFORE does not have, and those of BEFORE that are gone. A layer that both\n" +
			"images have is read once.\n\n" +
			"The exit status is 0 if AFTER adds no finding at or above --fail-on, 1 if it does, and 2 if an image\n" +
			"could not be scanned.\n\n" +
			"Examples:\n" +
			"   imgcheck diff ghcr.io/org/app:1.0 ghcr.io/org/app:1.1\n" +
			"   imgcheck diff --format markdown main.json ghcr.io/org/app:pr-17",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "text", Usage: "`FORMAT` of the report: " + oneOf(diffs.names)},
			&cli.StringSliceFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the report to `[FORMAT=]FILE`; may be repeated, as for scan"},
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "exit with 1 if findings of this `SEVERITY` and above are added: error, warning, note or never"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
			configFlag(), rulesFlag(),
		}, machineFlags(), imageFlags(), indexFlags())),
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return fmt.Errorf("diff takes two images or reports, not %d: see `imgcheck diff --help`", c.NArg())
			}
			outs, err := outputsOf(c, diffs)
			if err != nil {
				return err
			}
			d, err := readDecisions(c)
			if err != nil {
				return err
			}
			failOn, err := severityNamed(d.failOn(c))
			if err != nil {
				return err
			}
			shared := layers.NewShared(keptMemory)
			var docs [2]*report.Document
			for i, name := range c.Args().Slice() {
				if docs[i], err = reportOrImage(c, name, d, shared); err != nil {
					return err
				}
			}
			diff := report.Compare(docs[0], docs[1])
			err = outs.each(c.App.Writer, func(format string, w io.Writer) error {
				o := report.Options{All: c.Bool("all")}
				if w == c.App.Writer {
					o = fitted(w, o)
				}
				return report.DiffFormats[format](w, diff, o)
			})
			if err != nil {
				return err
			}
			if failOn != "" && slices.ContainsFunc(diff.Added, func(f lint.Finding) bool { return f.Severity.AtLeast(failOn) }) {
				return errFindings
			}
			return nil
		},
	}
}

// diffs are the formats of a comparison.
var diffs = formats{[]string{"text", "json", "markdown"}, map[string]string{".json": "json", ".md": "markdown"}}

// reportOrImage reads a saved report, or scans an image as the decisions say, without their
// baseline, which is for scans that fail; without decisions as the flags say. shared may be nil.
func reportOrImage(c *cli.Context, name string, d *decisions, shared *layers.Shared) (*report.Document, error) {
	switch st, err := os.Stat(name); {
	case err == nil && st.IsDir():
		return nil, fmt.Errorf("%s is a directory: say oci:%s or dir:%s for an image", name, name, name)
	case err == nil || name == "-":
		return readReport(name, c.App.Reader)
	case strings.HasSuffix(name, ".json"):
		return nil, source.PathError(err)
	}
	var err error
	if d == nil {
		if d, err = readDecisions(c); err != nil {
			return nil, err
		}
	}
	own := *d
	own.Baseline = nil
	o := own.scanning()
	o.NoPlan = true
	if o.Machines, err = machinesOf(c, d.Policy, policy.Image{Ref: name}); err != nil {
		return nil, err
	}
	if o.Layers, err = readingOptions(c); err != nil {
		return nil, err
	}
	if err = checkIndexFlags(c, d.Policy); err != nil {
		return nil, err
	}
	if o.Layers.Indexes, err = indexesFrom(c, d.Policy.IndexesOf(policy.Image{Ref: name})); err != nil {
		return nil, err
	}
	o.Layers.Shared = shared
	p := watch(c, &o.Layers)
	doc, err := scanImage(c.Context, name, o)
	p.done()
	if err != nil {
		return nil, err
	}
	return own.apply(doc), nil
}
