package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/rules"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Usage:     "write saved JSON reports in another format",
		UsageText: "imgcheck convert [options] REPORT.json...",
		Description: "REPORT.json is a file that `imgcheck scan --format json` wrote, of one image or of several, or - for\n" +
			"the standard input. Several files become one report of all their images.\n" +
			"convert scans nothing, and its exit status is 0 whatever the report says.\n\n" +
			"Examples:\n" +
			"   imgcheck convert --format sarif report.json > report.sarif\n" +
			"   imgcheck convert report.json -o junit=report.xml -o markdown=summary.md\n" +
			"   imgcheck convert --template @csv a.json b.json",
		Flags: append(outputFlags(), templateFlag(),
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return errors.New("convert takes a report, not 0: see `imgcheck convert --help`")
			}
			outs, err := outputsOf(c, reports)
			if err != nil {
				return err
			}
			var images []report.Scanned
			several := c.NArg() > 1
			for _, name := range c.Args().Slice() {
				doc, set, err := readReports(name, c.App.Reader)
				switch {
				case err != nil:
					return err
				case set != nil:
					several = true
					images = append(images, set.Images...)
				default:
					images = append(images, report.Scanned{Ref: doc.Image.Ref, Report: doc})
				}
			}
			o := report.Options{All: c.Bool("all")}
			if several {
				return outs.writeSet(c, report.NewSet("", images), o)
			}
			return outs.write(c, images[0].Report, o)
		},
	}
}

// readReport reads a saved report and adds what imgcheck's own packs say of its rules.
func readReport(name string, stdin io.Reader) (*report.Document, error) {
	doc, set, err := readReports(name, stdin)
	if set != nil {
		return nil, fmt.Errorf("reading %s: it has the reports of %d images, and one is needed here", name, len(set.Images))
	}
	return doc, err
}

// readReports reads a saved report of one image or of several, and adds what imgcheck's own
// packs say of the rules.
func readReports(name string, stdin io.Reader) (*report.Document, *report.Set, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the report: %w", err)
		}
		defer f.Close()
		from = f
	}
	doc, set, err := report.ReadAny(from)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if doc != nil {
		return doc, nil, withRules([]report.Scanned{{Report: doc}})
	}
	return nil, set, withRules(set.Images)
}

// withRules adds what imgcheck's own packs say of the rules to the reports of images.
func withRules(images []report.Scanned) error {
	known, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return err
	}
	for _, im := range images {
		if d := im.Report; d != nil {
			d.Rules = known.Rules
		}
	}
	return nil
}
