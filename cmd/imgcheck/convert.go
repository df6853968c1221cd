package main

import (
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
		Usage:     "write a saved JSON report in another format",
		UsageText: "imgcheck convert [options] REPORT.json",
		Description: "REPORT.json is a file that `imgcheck scan --format json` wrote, or - for the standard input.\n" +
			"convert scans nothing, and its exit status is 0 whatever the report says.\n\n" +
			"Examples:\n" +
			"   imgcheck convert --format sarif report.json > report.sarif\n" +
			"   imgcheck convert report.json -o junit=report.xml -o markdown=summary.md",
		Flags: append(outputFlags(),
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("convert takes one report, not %d: see `imgcheck convert --help`", c.NArg())
			}
			outs, err := outputsOf(c, reports)
			if err != nil {
				return err
			}
			doc, err := readReport(c.Args().First(), c.App.Reader)
			if err != nil {
				return err
			}
			return outs.write(c, doc, report.Options{All: c.Bool("all")})
		},
	}
}

// readReport reads a saved report and adds what imgcheck's own packs say of its rules.
func readReport(name string, stdin io.Reader) (*report.Document, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("reading the report: %w", err)
		}
		defer f.Close()
		from = f
	}
	doc, err := report.Read(from)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		return nil, err
	}
	doc.Rules = set.Rules
	return doc, nil
}
