package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/buildchecks"
	"github.com/imgcheck/imgcheck/pkg/builds"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/imagerefs"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/predict"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
	"github.com/imgcheck/imgcheck/pkg/pylock"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Limits of a lint: files, their bytes, and the directories that are searched for them.
const (
	lintFiles = 1000
	lintSize  = 1 << 20 // of a Dockerfile; a lock file may have pylock.MaxSize
	lintDirs  = 100_000
)

func lintCommand() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "read Dockerfiles and report what will fail in their images",
		UsageText: "imgcheck lint [options] [FILE|DIRECTORY|-]…",
		Description: "lint reads Dockerfiles before anything is built: BuildKit's own checks, and what breaks images for\n" +
			"GPUs. In a directory, here without an argument, it takes the files named Dockerfile, Dockerfile.gpu,\n" +
			"gpu.Dockerfile, Containerfile and the like, and the builds of Compose files, of docker-bake.json and\n" +
			"of devcontainer.json; - is the standard input. A comment on the line before,\n" +
			"`# imgcheck ignore=RULE reason`, sets findings of a rule apart.\n\n" +
			"The exit status is 0 if there is no finding at or above --fail-on, 1 if there is one, and 2 if\n" +
			"a file could not be read.\n\n" +
			"Examples:\n" +
			"   imgcheck lint Dockerfile\n" +
			"   imgcheck lint --all docker/ services/api/Dockerfile.gpu\n" +
			"   imgcheck lint -o sarif=lint.sarif -o github=- .",
		Flags: fromEnvironment(slices.Concat(outputFlags(), []cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "exit with 1 for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "show notes, and what cannot be predicted, in the text report"},
			&cli.StringFlag{Name: "context", Usage: "the `DIRECTORY` of the build context, from which requirements files are read", DefaultText: "that of the Dockerfile"},
			&cli.StringFlag{Name: "index", Value: pyindex.PyPI, Usage: "the `URL` of the package index that is asked what a package requires, or none"},
			askIndexFlag(),
			&cli.IntFlag{Name: "wheels", Usage: "read in the wheels of the package index which libraries their files need, at most `MB` of each"},
			&cli.BoolFlag{Name: "offline", Usage: "read no base images and package indexes, and predict nothing that depends on them"},
			rulesFlag(), configFlag(),
		}, imageFlags())),
		Action: func(c *cli.Context) error {
			l, err := newLinting(c)
			if err != nil {
				return err
			}
			doc, err := l.files(c.Context, c.Args().Slice())
			l.progress.done()
			l.tellFetched(c.App.ErrWriter)
			if !c.Bool("quiet") {
				l.tellAsked(c.App.ErrWriter)
			}
			if err != nil {
				return err
			}
			o := report.Options{All: c.Bool("all"), Quiet: c.Bool("quiet") && !c.Bool("all"), FailOn: l.failOn}
			if o.FailOn == "" {
				o.FailOn = report.Never
			}
			if err := l.write(c, doc, o); err != nil {
				return err
			}
			return l.status(doc)
		},
	}
}

// linting is a lint with its checked flags.
type linting struct {
	outputs outputs
	failOn  packs.Severity // empty: never
	known   *dockerlint.Knowledge
	decided *decisions
	// nearest has the decisions for each file.
	nearest *policies
	stdin   io.Reader
	// context is the directory of --context, or "".
	context string
	offline bool
	// pushed is set for the hook: no build context is read, and the base images are scanned by
	// others.
	pushed bool
	// typed is set for the text of an editor that is not saved: nothing is asked for what it
	// names.
	typed    bool
	scan     scan.Options
	progress *progress
	reading  sync.Mutex
	index    *pyindex.Index // nil: none is asked
	address  string         // of index
	// named are the indexes that Dockerfiles name, by their addresses.
	named        map[string]*pyindex.Index
	namedOptions pyindex.Options
	bases        map[[2]string]lintBase // that were read, by reference and platform
	// mayName has the indexes of --ask-index, which Dockerfiles may name besides those of the
	// table.
	mayName []string
	// wheels says how the files of packages are read; Most is 0 if they are not.
	wheels  predict.Options
	fetched map[string]int64 // bytes by wheels
	// asked are the packages that indexes were asked about, by their hosts.
	asked map[string]map[string]bool
}

// lintBase is a base image, or why it is not known.
type lintBase struct {
	*dockerlint.Base
	platform ocispec.Platform
	why      string
	absent   bool // the registry does not have it
	files    predict.Base
}

func newLinting(c *cli.Context) (*linting, error) {
	l := &linting{stdin: c.App.Reader, context: c.String("context"), offline: c.Bool("offline"), bases: map[[2]string]lintBase{}}
	var err error
	if l.decided, err = readDecisions(c); err != nil {
		return nil, err
	}
	l.nearest = newPolicies(c, l.decided)
	if l.outputs, err = outputsOf(c, reports); err != nil {
		return nil, err
	}
	if l.failOn, err = severityNamed(l.decided.failOn(c)); err != nil {
		return nil, err
	}
	l.scan = l.decided.scanning()
	l.scan.Machines = l.decided.Policy.Targets
	if l.scan.Layers, err = imageOptions(c); err != nil {
		return nil, err
	}
	if address := c.String("index"); address != "none" && !l.offline {
		o := pyindex.Options{Insecure: c.Bool("insecure")}
		if l.scan.Layers.Cache != nil {
			o.Cache = l.scan.Layers.Cache
		}
		if l.index, err = pyindex.New(address, o); err != nil {
			return nil, fmt.Errorf("--index: %w", err)
		}
		o.Timeout = namedTime
		l.address = address
		l.named, l.namedOptions = map[string]*pyindex.Index{}, o
	}
	if l.mayName, err = indexesToAsk(c); err != nil {
		return nil, err
	}
	l.progress = watch(c, &l.scan.Layers)
	set, err := l.decided.rules.Packs()
	if err != nil {
		return nil, err
	}
	if most := c.Int("wheels"); most < 0 || most > maxWheels {
		return nil, fmt.Errorf("--wheels %d: say a number of megabytes up to %d", most, maxWheels)
	} else if most > 0 && !l.offline {
		l.readWheels(int64(most)*1e6, set)
	}
	l.known, err = dockerlint.Load(set)
	return l, err
}

// maxWheels limits --wheels, in megabytes.
const maxWheels = 100_000

// files lints what the arguments name.
func (l *linting) files(ctx context.Context, args []string) (*report.Dockerfiles, error) {
	if len(args) == 0 {
		args = []string{"."}
	}
	paths, err := dockerfilesOf(args)
	if err != nil {
		return nil, err
	}
	jobs, more, err := l.jobs(paths)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if _, err := l.nearest.of(j.path); err != nil { // before anything is read
			return nil, err
		}
	}
	files := more
	for _, j := range jobs {
		files = merged(files, l.one(ctx, j))
	}
	for _, w := range l.weigh(files) {
		fmt.Fprintln(l.decided.stderr, "imgcheck: "+oneLine(w))
	}
	doc := report.NewDockerfiles(files, l.known.RulesOf(files))
	doc.Imgcheck = version()
	return doc, nil
}

// weigh gives the findings of files the weights of the nearest policy of each, and returns the
// warnings of these.
func (l *linting) weigh(files []*dockerlint.File) (warnings []string) {
	var order []*decisions
	of := map[*decisions][]*dockerlint.File{}
	for _, f := range files {
		d := l.decidedFor(f.Path)
		if of[d] == nil {
			order = append(order, d)
		}
		of[d] = append(of[d], f)
	}
	for _, d := range order {
		warnings = append(warnings, d.Policy.Dockerfiles(of[d], l.known.Rules(), d.Today)...)
	}
	return warnings
}

// decidedFor returns the decisions for a file: the command's own if its nearest policy has a
// mistake.
func (l *linting) decidedFor(path string) *decisions {
	if d, err := l.nearest.of(path); err == nil {
		return d
	}
	return l.decided
}

// one lints a text.
func (l *linting) one(ctx context.Context, j lintJob) *dockerlint.File {
	path, text := j.path, dockerfile.WithArguments(j.text, j.args)
	in := dockerlint.Input{Path: path, Text: text, Target: j.target, Adds: j.adds, Context: l.contextOf(j)}
	if p := l.decidedFor(path).Policy; len(p.Targets) > 0 {
		in.Machines, in.Policy = p.Targets, filepath.Base(p.File)
	}
	if l.index != nil && !l.typed {
		in.Wheel = func(name, spec string, from dockerlint.Indexes) (*dockerlint.Wheel, string) {
			return l.wheel(ctx, name, spec, from)
		}
		in.Newest = func(name, spec string, on dockerlint.Target, from dockerlint.Indexes) (release, why string) {
			return l.newest(ctx, name, spec, on, from)
		}
		in.Index = func(url string) (exists, known bool) {
			l.note("torch", dockerlint.Indexes{URLs: []string{url}})
			return indexExists(ctx, url)
		}
	}
	if l.wheels.Most > 0 && !l.typed {
		in.Predict = func(p dockerlint.Prospect) ([]dockerlint.Predicted, []bool, []dockerlint.NotPredicted) {
			return l.predict(ctx, p)
		}
	}
	bases := l.basesOf(text)
	in.Base = func(ref, platform string) (*dockerlint.Base, string) {
		if !bases[familiar(ref)] {
			return nil, ""
		}
		b := l.base(ctx, ref, platform)
		return b.Base, b.why
	}
	in.Absent = func(ref, platform string) bool { return bases[familiar(ref)] && l.base(ctx, ref, platform).absent }
	warnings, err := buildchecks.Run(ctx, text, ocispec.Platform{OS: "linux", Architecture: "amd64"}, func(ref string) *buildchecks.Base {
		if !bases[familiar(ref)] {
			return nil
		}
		b := l.base(ctx, familiar(ref), "")
		if b.Base == nil {
			return nil
		}
		return &buildchecks.Base{Env: b.Env, Dir: b.Dir, Platform: b.platform}
	})
	if err != nil {
		return &dockerlint.File{Path: path, Findings: []dockerlint.Finding{}, Error: err.Error()}
	}
	for _, w := range warnings {
		in.Checks = append(in.Checks, dockerlint.Warning(w))
	}
	return shift(dockerlint.Lint(in, l.known), j.line)
}

// wheel asks indexes for a release.
func (l *linting) wheel(ctx context.Context, name, spec string, from dockerlint.Indexes) (*dockerlint.Wheel, string) {
	of, why := l.indexes(from)
	if why != "" {
		return nil, why
	}
	l.note(name, from)
	r, err := of.Find(ctx, name, spec)
	if err != nil {
		return nil, oneLine(err.Error())
	}
	return &dockerlint.Wheel{Version: r.Version, Requires: r.Requires, Small: r.Pure || r.Largest > 0 && r.Largest <= pylock.Small}, ""
}

// note keeps that indexes were asked about a package.
func (l *linting) note(name string, from dockerlint.Indexes) {
	for _, address := range from.URLs {
		if address == "" {
			address = l.address
		}
		host := indexHost(address)
		if l.asked[host] == nil {
			if l.asked == nil {
				l.asked = map[string]map[string]bool{}
			}
			l.asked[host] = map[string]bool{}
		}
		l.asked[host][name] = true
	}
}

// newest asks indexes which release pip takes.
func (l *linting) newest(ctx context.Context, name, spec string, on dockerlint.Target, from dockerlint.Indexes) (release, why string) {
	of, why := l.indexes(from)
	if why != "" {
		return "", why
	}
	platform := pyindex.Platform{Python: on.Python, Glibc: on.Glibc}
	if on.Image != nil {
		b := l.base(ctx, on.Image.Ref, on.Image.Platform)
		if b.files.FS == nil {
			return "", "the base image has no files"
		}
		if platform, why = predict.PlatformOf(b.files, *on.Image); why != "" {
			return "", why
		}
	}
	l.note(name, from)
	x, err := of.Wheel(ctx, name, spec, platform)
	if err != nil {
		return "", oneLine(err.Error())
	}
	return x.Version, ""
}

// Limits of the indexes that Dockerfiles name: those of one lint, and the time for an answer of
// one.
const (
	maxNamed  = 20
	namedTime = 30 * time.Second
)

// indexes returns the indexes of an install, or why they are not asked. That of --index takes
// PyPI's place.
func (l *linting) indexes(from dockerlint.Indexes) (s pyindex.Several, why string) {
	if l.index == nil {
		return s, "no index is asked"
	}
	s.First = from.First
	for _, url := range from.URLs {
		if url == "" {
			s.Indexes = append(s.Indexes, l.index)
			continue
		}
		if !l.mayAsk(url) {
			return s, indexHost(url) + " is not asked, because only a Dockerfile names it: --ask-index does"
		}
		if l.named[url] == nil {
			if len(l.named) >= maxNamed {
				return s, fmt.Sprintf("the files name more than %d package indexes", maxNamed)
			}
			x, err := pyindex.New(url, l.namedOptions)
			if err != nil {
				return s, oneLine(err.Error())
			}
			l.named[url] = x
		}
		s.Indexes = append(s.Indexes, l.named[url])
	}
	return s, ""
}

// askIndexFlag is --ask-index.
func askIndexFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "ask-index", Usage: "ask the package index at `URL`, and those below it, where a Dockerfile names it (several)"}
}

// indexesToAsk returns the addresses of --ask-index.
func indexesToAsk(c *cli.Context) ([]string, error) {
	list := c.StringSlice("ask-index")
	for _, address := range list {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("--ask-index: %q is no address of a package index: write it like %s", plain.Masked(address), pyindex.PyPI)
		}
	}
	return list, nil
}

// mayAsk reports whether an index that a Dockerfile names may be asked: one that lint knows, or
// that the user names. Else a Dockerfile could send requests to any host.
func (l *linting) mayAsk(address string) bool {
	return l.known.KnownIndex(address) || slices.ContainsFunc(l.mayName, func(base string) bool { return dockerlint.Below(address, base) })
}

// indexHost returns the host of an index for a message.
func indexHost(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return plain.Masked(address)
	}
	return u.Host
}

// indexExists asks whether PyTorch has an index.
func indexExists(ctx context.Context, url string) (exists, known bool) {
	x, err := pyindex.New(url, pyindex.Options{})
	if err != nil {
		return false, false
	}
	return x.Exists(ctx, "torch")
}

// concerned matches the words of instructions whose effect depends on the base image.
var concerned = regexp.MustCompile(`\b(pip|uv|poetry|conda|mamba|micromamba|pixi)|LD_LIBRARY_PATH|(?i:cuda|nvidia|torch|tensorflow)`)

// basesOf returns the images that a Dockerfile's targets are built on, if anything in it
// depends on them. Those of other stages, and of files without such instructions, are not
// read: an image may have gigabytes.
func (l *linting) basesOf(text []byte) map[string]bool {
	refs := map[string]bool{}
	if !concerned.Match(text) {
		return refs
	}
	bases, _ := dockerfile.Bases(bytes.NewReader(text)) // Lint reports the error
	for _, b := range bases {
		refs[familiar(b.Ref)] = true
	}
	delete(refs, "")
	return refs
}

// familiar returns the short form of a reference, in which BuildKit asks for
// docker.io/library/debian:12.
func familiar(ref string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/"), ":latest")
}

// base reads an image that a FROM names, once.
func (l *linting) base(ctx context.Context, ref, platform string) lintBase {
	switch {
	case l.offline:
		return lintBase{why: "--offline"}
	case ref == "" || !imagerefs.Valid(ref):
		return lintBase{why: "it is no reference"}
	}
	key := [2]string{familiar(ref), platform}
	l.reading.Lock() // BuildKit asks for several at a time
	defer l.reading.Unlock()
	if b, ok := l.bases[key]; ok {
		return b
	}
	if l.typed {
		return lintBase{why: "the file is not saved"}
	}
	b := l.readBase(ctx, ref, platform)
	l.bases[key] = b
	return b
}

func (l *linting) readBase(ctx context.Context, ref, platform string) (b lintBase) {
	o := l.scan
	if o.Layers.Platform == nil {
		var err error
		if o.Layers.Platform, err = platformNamed(platform); err != nil {
			return lintBase{why: err.Error()}
		}
	}
	fsys, config, err := scan.Files(ctx, source.InRegistry(ref), o)
	if err != nil {
		return lintBase{why: oneLine(err.Error()), absent: errors.Is(err, fs.ErrNotExist)}
	}
	if config == nil {
		return lintBase{Base: dockerlint.NewBase(fsys, nil, "")}
	}
	b.Base = dockerlint.NewBase(fsys, config.Config.Env, config.Config.WorkingDir)
	b.User = config.Config.User
	b.files = predict.Base{FS: fsys, Config: config}
	b.platform = ocispec.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}
	if !l.pushed {
		l.judgeBase(ctx, &b, ref, o)
	}
	return b
}

// judgeBase adds the findings of a scan of a base image, as the policy leaves them.
func (l *linting) judgeBase(ctx context.Context, b *lintBase, ref string, o scan.Options) {
	o.NoPlan = true
	doc, err := scan.Image(ctx, source.InRegistry(ref), o)
	if err != nil {
		b.Unscanned = oneLine(err.Error())
		return
	}
	doc, _ = l.decided.Apply(doc)
	for i := range doc.Findings {
		f := &doc.Findings[i]
		b.Findings = append(b.Findings, dockerlint.BaseFinding{
			Rule: f.Rule, Severity: f.Severity, Message: oneLine(f.Message), Because: oneLine(f.Because), Fixes: f.Fixes,
			Library: f.Library, GPU: f.Family != "", Paths: report.Paths(f),
			Start: len(f.Effects) > 0 && !slices.ContainsFunc(f.Effects, func(e packs.Effect) bool { return e.Name != lint.NotStarted }),
		})
	}
}

// contextOf returns a function that reads files of a Dockerfile's build context: below
// --context, else below the Dockerfile's own directory or the working directory.
func (l *linting) contextOf(j lintJob) func(string) ([]byte, bool) {
	if l.pushed {
		return nil
	}
	dirs := []string{l.context}
	switch {
	case l.context != "":
	case j.context != "":
		dirs = []string{j.context}
	case j.path == "-":
		dirs = []string{"."}
	default:
		dirs = []string{filepath.Dir(j.path), "."}
	}
	return func(name string) ([]byte, bool) {
		for _, dir := range dirs {
			root, err := os.OpenRoot(dir) // a Dockerfile is as hostile as its repository
			if err != nil {
				continue
			}
			text, err := readIn(root, name)
			root.Close()
			if err == nil {
				return text, true
			}
		}
		return nil, false
	}
}

// readIn reads a regular file below a directory.
func readIn(root *os.Root, name string) ([]byte, error) {
	if st, err := root.Stat(name); err != nil || !st.Mode().IsRegular() || st.Size() > pylock.MaxSize {
		return nil, cmp.Or(err, errors.New("is no file of a context"))
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, pylock.MaxSize))
}

// read reads a file, or the standard input.
func (l *linting) read(path string) ([]byte, error) {
	r := l.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	text, err := io.ReadAll(io.LimitReader(r, lintSize+1))
	if err == nil && len(text) > lintSize {
		err = fmt.Errorf("reading %s: it is larger than %d KiB", path, lintSize>>10)
	}
	return text, err
}

// dockerfilesOf returns the files that arguments name, each once: a directory stands for
// the Dockerfiles in it and below.
func dockerfilesOf(args []string) (paths []string, err error) {
	dirs := 0
	add := func(p string) error {
		if !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
		if len(paths) > lintFiles {
			return fmt.Errorf("there are more than %d Dockerfiles: name the directories that you mean", lintFiles)
		}
		return nil
	}
	for _, arg := range args {
		st, err := os.Stat(arg)
		switch {
		case arg == "-":
			err = add(arg)
		case err != nil:
		case st.IsDir():
			err = filepath.WalkDir(arg, func(p string, e fs.DirEntry, err error) error {
				switch {
				case errors.Is(err, fs.ErrPermission):
					return fs.SkipDir
				case err != nil:
					return err
				case e.IsDir() && p != arg && (e.Name() == ".git" || e.Name() == "node_modules"):
					return fs.SkipDir
				case e.IsDir():
					if dirs++; dirs > lintDirs {
						return fmt.Errorf("%s has more than %d directories: name those that you mean", arg, lintDirs)
					}
				case e.Type().IsRegular() && (dockerfile.Named(p) || builds.Named(filepath.ToSlash(p))):
					return add(p)
				}
				return nil
			})
		case !st.Mode().IsRegular():
			err = fmt.Errorf("%s is no regular file", arg)
		default:
			err = add(arg)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(paths) == 0 {
		return nil, errors.New("there is no Dockerfile: name it, as in `imgcheck lint docker/app`")
	}
	return paths, nil
}

// write writes the reports.
func (l *linting) write(c *cli.Context, doc *report.Dockerfiles, o report.Options) error {
	o.Version, o.Category = version(), c.String("category")
	return l.outputs.each(c.App.Writer, func(format string, w io.Writer) error {
		return report.DockerfilesFormats[format](w, doc, o)
	})
}

// status returns errFindings if a finding reaches --fail-on.
func (l *linting) status(doc *report.Dockerfiles) error {
	for _, file := range doc.Files {
		if file.Error != "" {
			return fmt.Errorf("%s was not read: %s", file.Path, file.Error)
		}
		for _, f := range file.Findings {
			if l.failOn != "" && f.Severity.AtLeast(l.failOn) {
				return errFindings
			}
		}
	}
	return nil
}
