package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// configFlag returns the flag for the policy file.
func configFlag() cli.Flag {
	return &cli.StringFlag{Name: "config", Usage: "the policy `FILE`, or none", DefaultText: policy.FileName + " here or in the repository"}
}

// policyFlags returns the flags of every command that follows a policy.
func policyFlags() []cli.Flag {
	return []cli.Flag{
		configFlag(),
		&cli.StringFlag{Name: "baseline", Usage: "a saved JSON `REPORT`, an image with its tag or digest, or none: its findings do not fail the scan"},
	}
}

// fromEnvironment lets IMGCHECK_NAME stand for --name, for the flags that a team sets
// once for its CI.
func fromEnvironment(flags []cli.Flag) []cli.Flag {
	names := map[string]bool{"config": true, "baseline": true, "fail-on": true, "format": true, "category": true, "dockerfile": true, "platform": true, "insecure": true, "rules": true, "from": true, "index-from": true, "index-to": true, "index-key": true, "sign-key": true, "verify-index": true, "gpu": true, "driver": true, "no-cache": true, "no-fixes": true, "quiet": true, "timeout": true, "wheels": true, "ask-index": true}
	for _, f := range flags {
		name := f.Names()[0]
		if !names[name] {
			continue
		}
		vars := []string{"IMGCHECK_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}
		switch f := f.(type) {
		case *cli.StringFlag:
			f.EnvVars = vars
		case *cli.StringSliceFlag:
			f.EnvVars = vars
		case *cli.BoolFlag:
			f.EnvVars = vars
		case *cli.IntFlag:
			f.EnvVars = vars
		}
	}
	return flags
}

// otherVariables are those that stand for no flag: of the cache, of the hook, of the
// installer and of its tests.
var otherVariables = []string{"IMGCHECK_CACHE", "IMGCHECK_CACHE_KEY", "IMGCHECK_SKIP", "IMGCHECK_BELOW", "IMGCHECK_INSTALL", "IMGCHECK_RELEASES", "IMGCHECK_VERSION", "IMGCHECK_BENCH_LAYOUT"}

// unknownVariables writes a line for each variable that begins with IMGCHECK_, is not empty,
// and that no command reads.
func unknownVariables(app *cli.App, environ []string, stderr io.Writer) {
	known := slices.Clone(otherVariables)
	for _, cmd := range app.Commands {
		for _, f := range cmd.Flags {
			if d, ok := f.(cli.DocGenerationFlag); ok {
				known = append(known, d.GetEnvVars()...)
			}
		}
	}
	slices.Sort(environ)
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "IMGCHECK_") && value != "" && !slices.Contains(known, name) {
			fmt.Fprintf(stderr, "imgcheck: no command reads the variable %s%s\n", oneLine(name), nearest.Hint(name, known))
		}
	}
}

// decisions are the policy and the baseline of a command, and its rule packs.
type decisions struct {
	policy.Decisions
	rules  *scan.Rules
	stderr io.Writer
}

// readPolicy reads the file of --config, or .imgcheck.yaml or .imgcheck.yml from above the file
// of --dockerfile, here or the repository, and names the one that it has found. It returns an
// empty policy if there is none.
func readPolicy(c *cli.Context) (*policy.Policy, error) {
	name, load := c.String("config"), policy.Load
	if name == "" {
		var err error
		if name, err = findPolicy(c.String("dockerfile")); err != nil {
			return nil, err
		}
		load = policy.LoadFound
	}
	if name == "" || name == "none" {
		return new(policy.Policy), nil
	}
	p, err := load(name)
	if err == nil {
		p, err = p.Resolve(policyFrom(c))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	if c.String("config") == "" && !c.Bool("quiet") {
		fmt.Fprintf(c.App.ErrWriter, "policy: %s\n", plain.Name(name))
	}
	return p, nil
}

// policies has the decisions for the files of a repository: of the nearest policy above each, and
// of the command's own for files without one, and for all if --config names it.
type policies struct {
	c     *cli.Context
	own   *decisions
	named bool                  // the command line names the policy: it holds for all files
	known map[string]*decisions // by the policy's path
}

func newPolicies(c *cli.Context, own *decisions) *policies {
	n := &policies{c: c, own: own, named: c.String("config") != "", known: map[string]*decisions{}}
	if at, err := filepath.Abs(own.Policy.File); err == nil && own.Policy.File != "" {
		n.known[at] = own
	}
	return n
}

// of returns the decisions for a file, whose path is relative to the working directory.
func (n *policies) of(file string) (*decisions, error) {
	if n.named {
		return n.own, nil
	}
	name, err := policy.Find(filepath.Dir(filepath.FromSlash(file)))
	if err != nil || name == "" {
		return n.own, err
	}
	if d, ok := n.known[name]; ok {
		return d, nil
	}
	p, err := policy.LoadFound(name)
	if err == nil {
		p, err = p.Resolve(policyFrom(n.c))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	d, err := decisionsOf(n.c, p)
	if err != nil {
		return nil, err
	}
	n.known[name] = d
	if !n.c.Bool("quiet") {
		fmt.Fprintf(n.c.App.ErrWriter, "policy: %s for %s\n", plain.Name(relativeTo(name)), plain.Name(file))
	}
	return d, nil
}

// relativeTo returns a path relative to the working directory, if it is below.
func relativeTo(name string) string {
	here, err := os.Getwd()
	if err != nil {
		return name
	}
	if rel, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return name
}

// readDecisions reads the policy and the baseline, and reports their errors before the
// scan.
func readDecisions(c *cli.Context) (*decisions, error) {
	p, err := readPolicy(c)
	if err != nil {
		return nil, err
	}
	return decisionsOf(c, p)
}

// decisionsOf reads the rule packs and the baseline of a policy, and checks it.
func decisionsOf(c *cli.Context, p *policy.Policy) (*decisions, error) {
	var err error
	d := &decisions{Decisions: policy.Decisions{Policy: p, Today: time.Now().Format(time.DateOnly)}, stderr: c.App.ErrWriter}
	dirs := c.StringSlice("rules")
	if len(dirs) == 0 && p.Rules != "" {
		dirs = []string{p.Rules}
	}
	if d.rules, err = rulesIn(dirs); err != nil {
		return nil, err
	}
	if len(p.Severities)+len(p.Ignores) > 0 || p.Rules != "" {
		set, err := d.rules.Packs()
		if err != nil {
			return nil, err
		}
		known, err := dockerlint.Load(set)
		if err != nil {
			return nil, err
		}
		if err := p.Check(slices.Concat(set.Rules, known.Rules())); err != nil {
			return nil, err
		}
	}
	base := c.String("baseline")
	if base == "" {
		base = p.Baseline
	}
	if base == "" || base == "none" {
		return d, nil
	}
	doc, err := readReport(base, c.App.Reader)
	switch absent := errors.Is(err, fs.ErrNotExist); {
	case absent && base == c.String("baseline") && !strings.HasSuffix(base, ".json") && strings.ContainsAny(base, ":@"):
		doc, err = reportOrImage(c, base, d, nil)
	case absent:
		return nil, fmt.Errorf("there is no baseline %s: make one with `imgcheck scan IMAGE --baseline none --fail-on never -o json=%s`", base, base)
	}
	if err != nil {
		return nil, fmt.Errorf("the baseline: %w", err)
	}
	d.Baseline = policy.NewBaseline(doc)
	return d, nil
}

// findPolicy returns the policy nearest to a Dockerfile, if that is a file, else the one of here
// or of the repository; relative to here, or "".
func findPolicy(dockerfile string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dirs := []string{here}
	if st, err := os.Stat(dockerfile); err == nil && !st.IsDir() {
		dirs = []string{filepath.Dir(dockerfile), here}
	}
	for _, dir := range dirs {
		name, err := policy.Find(dir)
		switch {
		case err != nil:
			return "", err
		case name == "":
			continue
		}
		if rel, err := filepath.Rel(here, name); err == nil {
			return rel, nil
		}
		return name, nil
	}
	return "", nil
}

// apply returns the report that remains, and warns of expired ignores.
func (d *decisions) apply(doc *report.Document) *report.Document {
	out, warnings := d.Apply(doc)
	for _, w := range warnings {
		fmt.Fprintln(d.stderr, "imgcheck: "+oneLine(w))
	}
	return out
}

// unused warns of the ignores that match no finding of the image.
func (d *decisions) unused(doc *report.Document) {
	for _, w := range d.Unused(doc) {
		fmt.Fprintln(d.stderr, "imgcheck: "+oneLine(w))
	}
}

// scanning returns the options of a scan that follows the decisions.
func (d *decisions) scanning() scan.Options {
	return scan.Options{Rules: d.rules, Policy: &d.Decisions}
}

// failOn returns --fail-on or its variable, else the policy's, else "error".
func (d *decisions) failOn(c *cli.Context) string {
	if s := c.String("fail-on"); c.IsSet("fail-on") && s != "" { // CI systems set variables to ""
		return s
	}
	return cmp.Or(string(d.Policy.FailOn), "error")
}

// severityNamed parses --fail-on; it returns "" for never.
func severityNamed(s string) (packs.Severity, error) {
	if s == string(report.Never) {
		return "", nil
	}
	if !slices.Contains(packs.Severities, packs.Severity(s)) {
		return "", fmt.Errorf("there is no severity %q: say --fail-on error, warning, note or never", s)
	}
	return packs.Severity(s), nil
}
