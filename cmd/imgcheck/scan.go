package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

func scanCommand() *cli.Command {
	return &cli.Command{
		Name:      "scan",
		Usage:     "read an image and report what will fail in it, and why",
		UsageText: "imgcheck scan [options] [IMAGE]",
		Description: "IMAGE is an image in a registry, or one of\n" + sources() + "\n" +
			"Without IMAGE, scan takes the first image in .imgcheck.yaml (imgcheck init writes that file).\n\n" +
			"The exit status is 0 if there is no finding at or above --fail-on, 1 if there is one, and 2 if\n" +
			"the image could not be scanned.\n\n" +
			"Examples:\n" +
			"   imgcheck scan ghcr.io/org/app:1.0\n" +
			"   imgcheck scan --gpu L4 --driver 535.183 ghcr.io/org/app:1.0\n" +
			"   docker save app -o app.tar && imgcheck scan docker-archive:app.tar",
		Flags: fromEnvironment(slices.Concat(outputFlags(), []cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "exit with 1 for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
			&cli.StringFlag{Name: "severity", Usage: "leave findings below this `SEVERITY` out of the text report, which still counts them: error, warning or note"},
			&cli.BoolFlag{Name: "no-fixes", Usage: "do not plan fixes"},
			&cli.StringFlag{Name: "dockerfile", Usage: "name the lines of the Dockerfile `FILE` that the image is built from, if its provenance does not; of a directory, that of the Dockerfile that fits"},
			rulesFlag(), rootEnvFlag(),
		}, machineFlags(), policyFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			o, err := scanOptions(c)
			if err != nil {
				return err
			}
			doc, err := scanImage(c.Context, o.image, o.scan)
			o.progress.done()
			if err != nil {
				return err
			}
			o.policy.unused(doc)
			if len(o.scan.Dockerfiles) > 0 && !o.guessed && doc.Image.NoDockerfile != "" {
				fmt.Fprintln(o.policy.stderr, "imgcheck: findings have no line: "+oneLine(doc.Image.NoDockerfile))
			}
			doc = o.policy.apply(doc)
			if err := o.write(c, doc); err != nil {
				return err
			}
			return o.status(doc)
		},
	}
}

func sources() string {
	var b strings.Builder
	for _, s := range source.Schemes {
		fmt.Fprintf(&b, "   %-16s %s\n", s.Prefix, s.Means)
	}
	return b.String()
}

// scanImage returns the document of an image, with imgcheck's version and the command that
// carries out its plan.
func scanImage(ctx context.Context, ref string, o scan.Options) (*report.Document, error) {
	o.Stage = activityOf(ctx).begins
	doc, err := scan.Image(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	doc.Imgcheck = version()
	if doc.Plan != nil {
		doc.Plan.Command = patchCommandFor(ref, o, doc.Plan)
	}
	return doc, nil
}

// options are the checked flags of a scan.
type options struct {
	image    string
	scan     scan.Options
	policy   *decisions
	outputs  outputs
	failOn   packs.Severity // empty: never
	all      bool
	quiet    bool
	least    packs.Severity // empty: every finding
	guessed  bool           // the Dockerfiles are those of a directory
	progress *progress
}

func scanOptions(c *cli.Context) (*options, error) {
	o := &options{all: c.Bool("all"), quiet: c.Bool("quiet") && !c.Bool("all")}
	var err error
	if o.policy, err = readDecisions(c); err != nil {
		return nil, err
	}
	image, err := o.policy.image(c)
	if err != nil {
		return nil, err
	}
	o.image = image.Ref
	if o.outputs, err = outputsOf(c, reports); err != nil {
		return nil, err
	}
	if o.failOn, err = severityNamed(o.policy.failOn(c)); err != nil {
		return nil, err
	}
	o.least = packs.Severity(c.String("severity"))
	if o.least != "" && !slices.Contains(packs.Severities, o.least) {
		return nil, fmt.Errorf("there is no severity %q: say --severity error, warning or note", o.least)
	}
	o.scan = o.policy.scanning()
	o.scan.NoPlan = c.Bool("no-fixes")
	if o.scan.Machines, err = machinesOf(c, o.policy.Policy, image); err != nil {
		return nil, err
	}
	if o.scan.Dockerfiles, o.guessed, err = dockerfilesFor(c.String("dockerfile"), o.policy.Policy, image); err != nil {
		return nil, err
	}
	if o.scan.Layers, err = imageOptions(c); err != nil {
		return nil, err
	}
	if o.scan.Layers.Env, err = rootEnv(c, o.image); err != nil {
		return nil, err
	}
	if o.scan.Layers.Platform == nil {
		if o.scan.Layers.Platform, err = platformNamed(image.Platform); err != nil {
			return nil, err
		}
	}
	o.progress = watch(c, &o.scan.Layers)
	return o, nil
}

// Bounds of Dockerfiles whose history is compared with an image's: bytes of one, and their
// number.
const (
	maxDockerfile = 1 << 20
	mostFiles     = 50
)

// dockerfilesFor reads the Dockerfile that --dockerfile names, or the policy for an image.
// If the flag names a directory, and the policy nothing, it reads all below the directory:
// guessed is true then, and there may be none. A report names them as they are seen from the
// working directory.
func dockerfilesFor(name string, p *policy.Policy, image policy.Image) (files []scan.Dockerfile, guessed bool, err error) {
	st, err := os.Stat(cmp.Or(name, "."))
	if err != nil {
		return nil, false, source.PathError(err)
	}
	own := ""
	if p != nil {
		own = p.DockerfileOf(image)
	}
	switch guessed = name != "" && st.IsDir(); {
	case own != "" && (guessed || name == ""):
		name, guessed = own, false
	case name == "":
		return nil, false, nil
	}
	names := []string{name}
	if guessed {
		if names, err = dockerfilesBelow(name); err != nil {
			return nil, true, err
		}
	}
	for _, name := range names {
		d, err := readDockerfile(name)
		switch {
		case err != nil && guessed:
			continue // a file that cannot be read is not compared
		case err != nil:
			return nil, false, err
		}
		files = append(files, d)
	}
	return files, guessed, nil
}

// dockerfilesBelow returns the Dockerfiles below a directory; none if there are too many to
// be compared.
func dockerfilesBelow(dir string) (names []string, err error) {
	dirs := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil:
			return err
		case e.IsDir() && path != dir && (e.Name() == ".git" || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.IsDir():
			if dirs++; dirs > lintDirs {
				names = nil
				return fs.SkipAll
			}
		case e.Type().IsRegular() && dockerfile.Named(path):
			if names = append(names, path); len(names) > mostFiles {
				names = nil
				return fs.SkipAll
			}
		}
		return nil
	})
	return names, source.PathError(err)
}

func readDockerfile(name string) (d scan.Dockerfile, err error) {
	f, err := os.Open(name)
	if err != nil {
		return d, source.PathError(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDockerfile+1))
	if err != nil {
		return d, source.PathError(err)
	}
	if len(text) > maxDockerfile {
		return d, fmt.Errorf("%s: is larger than %d KiB: it is no Dockerfile", name, maxDockerfile>>10)
	}
	if dir, err := os.Getwd(); err == nil && filepath.IsAbs(name) {
		if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
			name = rel
		}
	}
	return scan.Dockerfile{Name: filepath.ToSlash(filepath.Clean(name)), Text: text}, nil
}

// write writes the reports.
func (o *options) write(c *cli.Context, doc *report.Document) error {
	failOn := o.failOn
	if failOn == "" {
		failOn = report.Never
	}
	return o.outputs.write(c, doc, report.Options{All: o.all, Quiet: o.quiet, Least: o.least, FailOn: failOn})
}

// status returns errFindings if a finding reaches --fail-on.
func (o *options) status(doc *report.Document) error {
	for _, f := range doc.Findings {
		if o.failOn != "" && f.Severity.AtLeast(o.failOn) {
			return errFindings
		}
	}
	return nil
}
