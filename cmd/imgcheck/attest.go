package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func attestCommand() *cli.Command {
	return &cli.Command{
		Name:      "attest",
		Usage:     "print the result of a scan as an in-toto statement, to sign",
		UsageText: "imgcheck attest [options] IMAGE",
		Description: "attest scans an image and prints a statement about its digest with the predicate\n" +
			report.PredicateType + ": PASSED, WARNED or FAILED, and the rules that the image passes and\n" +
			"fails. --predicate prints the predicate alone, for `cosign attest --predicate FILE --type URI IMAGE`.\n" +
			"--report takes the result of a saved report, which may have several images, instead of a scan.\n" +
			"attest signs nothing. What the policy ignores, and a baseline knows, does not count.\n\n" +
			"The exit status is 0 whatever the result is, and 2 if there is none.\n\n" +
			"Examples:\n" +
			"   imgcheck attest ghcr.io/org/app:1.0\n" +
			"   imgcheck attest --predicate --report fleet.json ghcr.io/org/app:1.0",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "report", Usage: "take the result from a saved JSON report `FILE`, or - for the standard input"},
			&cli.BoolFlag{Name: "predicate", Usage: "print the predicate alone"},
			rulesFlag(),
		}, machineFlags(), policyFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("attest takes an image, not %d: see `imgcheck attest --help`", c.NArg())
			}
			ref := c.Args().First()
			var s *report.Statement
			var err error
			if saved := c.String("report"); saved != "" {
				s, err = attestSaved(c, ref, saved)
			} else {
				s, err = attestScan(c, ref)
			}
			if err != nil {
				return err
			}
			if c.Bool("predicate") {
				return plain.JSON(c.App.Writer, s.Predicate, "  ")
			}
			return plain.JSON(c.App.Writer, s, "  ")
		},
	}
}

// attestScan returns the statement of a scan.
func attestScan(c *cli.Context, ref string) (*report.Statement, error) {
	o, err := scanOptions(c)
	if err != nil {
		return nil, err
	}
	if o.everyPlatform {
		return nil, errors.New("attest takes one platform: each has a digest of its own")
	}
	image, err := o.forImage(c, policy.Image{Ref: ref})
	if err != nil {
		return nil, err
	}
	image.NoPlan = true
	o.progress = watch(c, &image.Layers)
	doc, err := scanImage(c.Context, ref, image.Options)
	o.progress.done()
	if err != nil {
		return nil, err
	}
	var files []report.Descriptor
	if name := o.policy.Policy.File; name != "" {
		d, err := fileDescriptor(name)
		if err != nil {
			return nil, err
		}
		files = append(files, d)
	}
	return statement(o.decide(doc, image), ref, image.Machines, files...)
}

// fileDescriptor returns the base name and the digest of a file.
func fileDescriptor(name string) (report.Descriptor, error) {
	f, err := os.Open(name)
	if err != nil {
		return report.Descriptor{}, source.PathError(err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return report.Descriptor{}, source.PathError(err)
	}
	return report.Descriptor{Name: filepath.Base(name), Digest: map[string]string{"sha256": hex.EncodeToString(sum.Sum(nil))}}, nil
}

// attestSaved returns the statement of an image's saved report. It does not know for which
// machines the image was judged.
func attestSaved(c *cli.Context, ref, saved string) (*report.Statement, error) {
	doc, set, err := readReports(saved, c.App.Reader)
	if err != nil {
		return nil, err
	}
	if doc != nil {
		set = report.NewSet("", []report.Scanned{{Ref: doc.Image.Ref, Report: doc}})
	}
	var found *report.Scanned
	for i, im := range set.Images {
		switch {
		case im.Ref != ref || c.String("platform") != "" && (im.Report == nil || im.Report.Image.Platform != c.String("platform")):
		case found != nil:
			return nil, fmt.Errorf("%s has several platforms of %s: say --platform", saved, ref)
		default:
			found = &set.Images[i]
		}
	}
	switch {
	case found == nil:
		return nil, fmt.Errorf("%s has no report of %s", saved, ref)
	case found.Report == nil:
		return nil, fmt.Errorf("%s was not scanned: %s", ref, found.Error)
	}
	return statement(found.Report, ref, nil)
}

// statement returns the statement about an image, with the name of its repository.
func statement(doc *report.Document, ref string, machines []targets.Machine, files ...report.Descriptor) (*report.Statement, error) {
	name := ref
	if scheme, rest := source.Split(ref); scheme == "registry" {
		if parsed, err := source.ParseReference(rest, false); err == nil {
			name = source.WrittenName(parsed.Context().Name())
		}
	}
	s, err := report.NewStatement(doc, name, machines, files...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	return s, nil
}
