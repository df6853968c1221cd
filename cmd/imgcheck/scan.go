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
	"github.com/imgcheck/imgcheck/pkg/fleet"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
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
		UsageText: "imgcheck scan [options] [IMAGE...]",
		Description: "IMAGE is an image in a registry, or one of\n" + sources() + "\n" +
			"Without IMAGE, scan takes the first image in .imgcheck.yaml (imgcheck init writes that file).\n\n" +
			"Several images, --all-images or --input give one report: a table first, then the causes that images\n" +
			"share, then each image. A layer that images share is read once. An image that cannot be scanned\n" +
			"does not end the others. --platform all scans an image for each of its platforms.\n\n" +
			"The exit status is 0 if there is no finding at or above --fail-on, 1 if there is one, and 2 if\n" +
			"an image could not be scanned.\n\n" +
			"Examples:\n" +
			"   imgcheck scan ghcr.io/org/app:1.0\n" +
			"   imgcheck scan --gpu L4 --driver 535.183 ghcr.io/org/app:1.0\n" +
			"   imgcheck scan ghcr.io/org/app:1.0 ghcr.io/org/worker:1.0\n" +
			"   docker save app | imgcheck scan docker-archive:-",
		Flags: fromEnvironment(slices.Concat(outputFlags(), []cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "exit with 1 for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes and whole lists in the text report"},
			&cli.StringFlag{Name: "severity", Usage: "leave findings below this `SEVERITY` out of the text report, which still counts them: error, warning or note"},
			&cli.BoolFlag{Name: "no-fixes", Usage: "do not plan fixes"},
			&cli.StringFlag{Name: "dockerfile", Usage: "name the lines of the Dockerfile `FILE` that the image is built from, if its provenance does not; of a directory, that of the Dockerfile that fits"},
			templateFlag(), rulesFlag(), rootEnvFlag(),
		}, manyFlags(), machineFlags(), policyFlags(), imageFlags(), indexFlags(), indexToFlags())),
		Action: func(c *cli.Context) error {
			o, err := scanOptions(c)
			if err != nil {
				return err
			}
			images, many, err := o.policy.images(c)
			if err != nil {
				return err
			}
			if c.String("shard") != "" {
				if !many && c.NArg() == 0 {
					return errors.New("--shard takes a part of a list: say -i FILE or --all-images")
				}
				if images, o.shard, err = shardOf(images, c.String("shard")); err != nil {
					return err
				}
			}
			many = many || o.shard != nil || o.storeAs != ""
			if o.everyPlatform {
				images = eachPlatform(c.Context, images, o.layers)
				many = many || len(images) > 1
			}
			if many {
				return o.scanMany(c, images)
			}
			image, err := o.forImage(c, images[0])
			if err != nil {
				return err
			}
			o.progress = watch(c, &image.Layers)
			doc, err := scanImage(c.Context, images[0].Ref, image.Options)
			o.progress.done()
			if err != nil {
				return err
			}
			doc = o.decide(doc, image)
			if err := o.write(c, doc); err != nil {
				return err
			}
			o.indexTo.store(c, images[0].Ref, image.Options)
			if o.reaches(doc) {
				return errFindings
			}
			return nil
		},
	}
}

// decide returns a document as the policy leaves it, and warns of what the policy and the
// Dockerfile lack.
func (o *options) decide(doc *report.Document, image imageScan) *report.Document {
	o.policy.unused(doc)
	if len(image.Dockerfiles) > 0 && !image.guessed && doc.Image.NoDockerfile != "" {
		fmt.Fprintln(o.policy.stderr, "imgcheck: findings have no line: "+oneLine(doc.Image.NoDockerfile))
	}
	return o.policy.apply(doc)
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

// options are the checked flags of a scan, for all its images.
type options struct {
	policy   *decisions
	outputs  outputs
	layers   layers.Options
	failOn   packs.Severity // empty: never
	all      bool
	quiet    bool
	least    packs.Severity // empty: every finding
	progress *progress
	indexTo  *indexStore
	// everyPlatform scans an image for each of its platforms.
	everyPlatform bool
	// shard is the part of the images that is scanned, or nil for all.
	shard *report.Shard
	// storeAs is the name in a registry for the report of several images, or "".
	storeAs string
}

// imageScan are the options of the scan of one image.
type imageScan struct {
	scan.Options
	guessed bool // the Dockerfiles are those of a directory
}

func scanOptions(c *cli.Context) (*options, error) {
	o := &options{all: c.Bool("all"), quiet: c.Bool("quiet") && !c.Bool("all")}
	var err error
	if o.policy, err = readDecisions(c); err != nil {
		return nil, err
	}
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
	if o.everyPlatform = c.String("platform") == "all"; o.everyPlatform {
		if err := c.Set("platform", ""); err != nil { // it is no platform
			return nil, err
		}
	}
	if o.layers, err = readingOptions(c); err != nil {
		return nil, err
	}
	if err = checkIndexFlags(c, o.policy.Policy); err != nil {
		return nil, err
	}
	if o.storeAs = c.String("report-to"); o.storeAs != "" { // before an image is read
		if err := fleet.CheckStore(o.storeAs, o.layers.Insecure); err != nil {
			return nil, fmt.Errorf("--report-to %q: %w", o.storeAs, err)
		}
	}
	o.indexTo, err = indexStoreOf(c, o.layers.Cache)
	return o, err
}

// forImage returns the options of the scan of an image: its own of the policy, unless a flag
// has another.
func (o *options) forImage(c *cli.Context, image policy.Image) (s imageScan, err error) {
	s.Options = o.policy.scanning()
	s.NoPlan = c.Bool("no-fixes")
	s.Overview = o.outputs.have("html")
	if s.Machines, err = machinesOf(c, o.policy.Policy, image); err != nil {
		return s, err
	}
	if s.Dockerfiles, s.guessed, err = dockerfilesFor(c.String("dockerfile"), o.policy.Policy, image); err != nil {
		return s, err
	}
	s.Layers = o.layers
	if s.Layers.Indexes, err = indexesFrom(c, o.policy.Policy.IndexesOf(image)); err != nil {
		return s, err
	}
	if s.Layers.Env, err = rootEnv(c, image.Ref); err != nil {
		return s, err
	}
	if s.Layers.Platform == nil {
		s.Layers.Platform, err = platformNamed(image.Platform)
	}
	return s, err
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
	return o.outputs.write(c, doc, o.shown())
}

// shown returns how reports are shown.
func (o *options) shown() report.Options {
	return report.Options{All: o.all, Quiet: o.quiet, Least: o.least, FailOn: cmp.Or(o.failOn, report.Never)}
}

// reaches reports whether a finding reaches --fail-on.
func (o *options) reaches(doc *report.Document) bool {
	return o.failOn != "" && slices.ContainsFunc(doc.Findings, func(f lint.Finding) bool { return f.Severity.AtLeast(o.failOn) })
}
