package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/fleet"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/source"
)

func fleetCommand() *cli.Command {
	return &cli.Command{
		Name:      "fleet",
		Usage:     "write a job for Kubernetes that scans many images",
		UsageText: "imgcheck fleet [options] [IMAGE...] [-- SCAN-FLAGS]\n   imgcheck fleet merge [options] [REPORT.json...]",
		Description: "fleet writes a Kubernetes Job or CronJob, or a workflow of GitHub or Argo: each shard of it is an\n" +
			"`imgcheck scan --shard I/N` of the same list. It keeps no state, and may run any number of times.\n" +
			"IMAGE is an image in a registry; -i FILE has one in a line, or is what `kubectl get pods -o json`\n" +
			"writes. SCAN-FLAGS are flags of imgcheck scan for each shard.\n\n" +
			"fleet merge joins the reports of shards, in any order and also if one is there twice, into one report. It\n" +
			"fails if the report of a shard is missing. --from fetches them from the repository of --reports.\n" +
			"The exit status is 0 whatever the reports say.\n\n" +
			"Examples:\n" +
			"   imgcheck fleet -i list --image ghcr.io/org/imgcheck:1 -- --gpu L4\n" +
			"   kubectl get pods -A -o json | imgcheck fleet --emit github -i -\n" +
			"   imgcheck fleet merge --from ghcr.io/org/reports:imgcheck-1a2b3c4d",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "emit", Value: "job", Usage: "write for `ENGINE`: " + oneOf(fleet.Kinds)},
			&cli.StringFlag{Name: "input", Aliases: []string{"i"}, Usage: "the images in `FILE`, one in a line, or pods as JSON; - is the standard input"},
			&cli.IntFlag{Name: "shards", Usage: "divide the images into `N` shards", DefaultText: "one for each 20 images"},
			&cli.IntFlag{Name: "parallel", Usage: "run `N` shards at a time", DefaultText: "8 at most"},
			&cli.StringFlag{Name: "config", Usage: "the policy `FILE` of all scans, which the objects carry with them", DefaultText: "none"},
			&cli.BoolFlag{Name: "pin", Usage: "ask the registries for the digests of tags, and scan those"},
			&cli.StringFlag{Name: "reports", Usage: "shards store their reports in the `REPOSITORY` of a registry"},
			&cli.StringFlag{Name: "claim", Usage: "shards write their reports to the volume of a PersistentVolumeClaim `NAME` (ReadWriteMany)"},
			&cli.StringFlag{Name: "name", Value: "imgcheck", Usage: "the `NAME` with which the names of objects begin"},
			&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Usage: "the `NAMESPACE` in Kubernetes"},
			&cli.StringFlag{Name: "image", Usage: "the `IMAGE` that pods run, which has imgcheck: docs/fleet.md says how to make one"},
			&cli.StringFlag{Name: "secret", Usage: "a Secret `NAME` with the logins to registries (kubernetes.io/dockerconfigjson)"},
			&cli.StringFlag{Name: "queue", Usage: "the `QUEUE` of Kueue that the Job waits in"},
			&cli.StringFlag{Name: "schedule", Usage: "run at these times: the five fields of `CRON`"},
			&cli.StringFlag{Name: "release", Value: "latest", Usage: "the `RELEASE` of imgcheck that a job of GitHub installs"},
			&cli.StringFlag{Name: "from", Usage: "merge: fetch the reports from `REPOSITORY:NAME`, as a fleet with --reports names them"},
			&cli.BoolFlag{Name: "insecure", Usage: "allow plain HTTP and unverified TLS to the registry"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "merge: show notes and whole lists in the text report"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "merge: only a table"},
			templateFlag(),
		}, outputFlags()),
		Action: func(c *cli.Context) error {
			if c.Args().First() == "merge" {
				return mergeFleet(c, c.Args().Tail())
			}
			return emitFleet(c)
		},
	}
}

// mergeFlags and emitFlags are flags of one of the two forms of the command.
var (
	mergeFlags = []string{"from", "format", "output", "category", "template", "all", "quiet"}
	emitFlags  = []string{"emit", "input", "shards", "parallel", "config", "pin", "reports", "claim", "name", "namespace", "image", "secret", "queue", "schedule", "release"}
)

// refuseFlags returns an error if one of the flags was said.
func refuseFlags(c *cli.Context, flags []string, form string) error {
	for _, f := range flags {
		if c.IsSet(f) {
			return fmt.Errorf("%s has no --%s: see `imgcheck fleet --help`", form, f)
		}
	}
	return nil
}

// emitFleet writes a fleet.
func emitFleet(c *cli.Context) error {
	if err := refuseFlags(c, mergeFlags, "fleet without merge"); err != nil {
		return err
	}
	args := c.Args().Slice()
	end := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") })
	if end < 0 {
		end = len(args)
	}
	words := args[end:]
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	scan, err := scanFlags(words)
	if err != nil {
		return err
	}
	refs := args[:end]
	if in := c.String("input"); in != "" {
		listed, err := listedImages(in, c.App.Reader)
		if err != nil {
			return fmt.Errorf("--input: %w", err)
		}
		refs = append(slices.Clip(refs), listed...)
	}
	images, err := fleet.Images(refs)
	if err != nil {
		return err
	}
	if c.Bool("pin") {
		if images, err = pinned(c, images); err != nil {
			return err
		}
	}
	rules, err := fleetPolicy(c)
	if err != nil {
		return err
	}
	f := &fleet.Fleet{
		Policy: rules,
		Name:   c.String("name"), Namespace: c.String("namespace"), Images: images, Shards: c.Int("shards"), Parallel: c.Int("parallel"),
		Imgcheck: c.String("image"), Release: c.String("release"), Queue: c.String("queue"), Secret: c.String("secret"),
		Schedule: c.String("schedule"), Reports: c.String("reports"), Claim: c.String("claim"), Scan: scan,
	}
	return f.Write(c.App.Writer, c.String("emit"))
}

// fleetPolicy returns the text of --config. It refuses a policy that names files: it is read in a
// directory of its own, as a shard reads it.
func fleetPolicy(c *cli.Context) (string, error) {
	name := c.String("config")
	if name == "" || name == "none" {
		return "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("--config: %w", source.PathError(err))
	}
	defer f.Close()
	text, err := readPolicyText(f)
	if err != nil {
		return "", fmt.Errorf("--config %s: %w", name, err)
	}
	dir, err := os.MkdirTemp("", "imgcheck-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	alone := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(alone, text, 0o600); err != nil {
		return "", err
	}
	p, err := policy.Load(alone)
	if err == nil {
		p, err = p.Resolve(policyFrom(c))
	}
	if err != nil {
		return "", errors.New(strings.ReplaceAll("--config: "+err.Error(), alone, name))
	}
	named := func(k policy.Key) bool { return k.Path != "" }
	files := p.Rules != "" || p.Baseline != "" || slices.ContainsFunc(p.Indexes.Keys, named)
	for _, im := range p.Images {
		files = files || im.Dockerfile != "" || slices.ContainsFunc(im.Indexes.Keys, named)
	}
	if files {
		return "", fmt.Errorf("--config %s: it names files (rules, baseline, dockerfile or keys), which the shards do not have", name)
	}
	return string(text), nil
}

// fleetsOwn are the flags of a scan that a fleet sets, or that name files of this machine.
var fleetsOwn = []string{"input", "shard", "output", "format", "report-to", "all-images", "template", "fail-on", "config", "baseline", "dockerfile", "rules", "cache-dir", "env", "sign-key"}

// scanFlags checks that words are flags of imgcheck scan that a shard can have, and returns them in
// one form, --name or --name=value: a scan refuses -j beside the --jobs that a shard has.
func scanFlags(words []string) ([]string, error) {
	cmd := scanCommand()
	limitAll([]*cli.Command{cmd})
	var out []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !strings.HasPrefix(word, "-") {
			return nil, fmt.Errorf("%q: write the images before the flags of the scan", word)
		}
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		at := slices.IndexFunc(cmd.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
		if at < 0 {
			return nil, fmt.Errorf("%s: imgcheck scan has no such flag", word)
		}
		long := cmd.Flags[at].Names()[0]
		switch {
		case slices.Contains(fleetsOwn, long):
			return nil, fmt.Errorf("%s: the shards of a fleet cannot have this flag", word)
		case !has && takesValue(cmd, word):
			if i++; i == len(words) {
				return nil, fmt.Errorf("%s needs a value", word)
			}
			value, has = words[i], true
		}
		if long == "index-key" { // the shards have the keys, not the file
			keys, err := indexKeys(value)
			if err != nil {
				return nil, err
			}
			value = keys.String()
		}
		if has {
			long += "=" + value
		}
		out = append(out, "--"+long)
	}
	return out, nil
}

// pinned returns references with the digests that their tags have now: an image may then run
// any number of times, and is the same one. One that cannot be asked for stays as it is, and the
// standard error says so: its shard will say why.
func pinned(c *cli.Context, refs []string) ([]string, error) {
	out := make([]string, len(refs))
	notes := make([]string, len(refs))
	g, ctx := errgroup.WithContext(c.Context)
	g.SetLimit(8)
	for i, ref := range refs {
		g.Go(func() error {
			var err error
			if out[i], err = pin(ctx, ref, source.Options{Insecure: c.Bool("insecure")}); err != nil {
				out[i], notes[i] = ref, fmt.Sprintf("imgcheck: %s stays without a digest: %s", oneLine(ref), oneLine(err.Error()))
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, note := range notes {
		if note != "" {
			fmt.Fprintln(c.App.ErrWriter, note)
		}
	}
	return fleet.Images(out)
}

// pin returns a reference with the digest that its tag has.
func pin(ctx context.Context, ref string, o source.Options) (string, error) {
	parsed, err := source.ParseReference(ref, o.Insecure)
	if err != nil {
		return "", err
	}
	if _, ok := parsed.(name.Digest); ok {
		return ref, nil
	}
	digest, err := source.NewRepository(parsed.Context(), o).Head(ctx, parsed)
	if err != nil {
		return "", err
	}
	return ref + "@" + digest.String(), nil
}

// mergeFleet writes one report of those of shards.
func mergeFleet(c *cli.Context, names []string) error {
	if err := refuseFlags(c, emitFlags, "fleet merge"); err != nil {
		return err
	}
	from := c.String("from")
	if len(names) == 0 && from == "" {
		return errors.New("fleet merge needs reports: see `imgcheck fleet --help`")
	}
	outs, err := outputsOf(c, reports)
	if err != nil {
		return err
	}
	var sets []*report.Set
	for _, name := range names {
		doc, set, err := readReports(name, c.App.Reader)
		switch {
		case err != nil:
			return err
		case doc != nil:
			set = report.NewSet(doc.Imgcheck, []report.Scanned{{Ref: doc.Image.Ref, Platform: doc.Image.Platform, Report: doc}})
		}
		sets = append(sets, set)
	}
	if from != "" {
		fetched, err := fleet.Fetch(c.Context, from, source.Options{Insecure: c.Bool("insecure")})
		if err != nil {
			return err
		}
		sets = append(sets, fetched...)
	}
	merged, differ, err := report.Merge(sets)
	if err != nil {
		return err
	}
	if err := withRules(merged.Images); err != nil {
		return err
	}
	for _, ref := range differ {
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s: its reports differ, as if its tag had moved between two scans: takes one of them (--pin scans digests)\n", oneLine(ref))
	}
	return outs.writeSet(c, merged, report.Options{All: c.Bool("all"), Quiet: c.Bool("quiet") && !c.Bool("all")})
}

// listOrPods reads references: one in a line, or those of pods as JSON.
func listOrPods(r io.Reader) ([]string, error) {
	head := make([]byte, 0, 512)
	for len(head) < cap(head) {
		n, err := r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if err != nil || strings.TrimSpace(string(head)) != "" {
			break
		}
	}
	all := io.MultiReader(strings.NewReader(string(head)), r)
	if strings.HasPrefix(strings.TrimSpace(string(head)), "{") {
		return fleet.Pods(all)
	}
	return imageLines(all)
}
