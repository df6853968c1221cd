package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/report"
)

func hookCommand() *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Usage:     "scan the images that a git push concerns",
		UsageText: "imgcheck hook [options] install|uninstall|run [REMOTE URL]",
		Description: "install writes a pre-push hook into the git repository, before which one that is there already is\n" +
			"run; uninstall takes it away again. The hook runs `imgcheck hook run`, which reads git's lines and\n" +
			"scans what the Dockerfiles in the pushed commits build on, what their Compose files, Kubernetes\n" +
			"manifests and Helm values newly name, and the images of .imgcheck.yaml when what is installed in\n" +
			"them may change. An image that cannot be reached is told and does not stop the push.\n" +
			"IMGCHECK_SKIP=1 git push pushes without it.\n\n" +
			"Examples:\n" +
			"   imgcheck hook install\n" +
			"   echo \"HEAD $(git rev-parse HEAD) main $(git rev-parse HEAD~1)\" |\n" +
			"      imgcheck hook run origin",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "stop a push for findings of this `SEVERITY` and above: error, warning, note or never"},
			rulesFlag(),
		}, policyFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			switch verb := c.Args().First(); verb {
			case "install":
				return hookInstall(c)
			case "uninstall":
				return hookUninstall(c)
			case "run":
				return hookRun(c)
			case "":
				return fmt.Errorf("hook needs a word more: install, uninstall or run")
			default:
				return fmt.Errorf("there is no `hook %s`: say `imgcheck hook install`, `hook uninstall` or `hook run`", verb)
			}
		},
	}
}

func hookInstall(c *cli.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	in, err := githook.Install(c.Context, program)
	if err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	word := "Installed"
	if in.Again {
		word = "Installed again:"
	}
	fmt.Fprintf(c.App.ErrWriter, "%s %s\n", word, in.Path)
	if in.Chained {
		fmt.Fprintf(c.App.ErrWriter, "The hook that was there runs before it, as %s.\n", githook.Chained)
	}
	if in.Shared {
		fmt.Fprintln(c.App.ErrWriter, "core.hooksPath is set: the hook serves every repository that uses this directory.")
	}
	return nil
}

func hookUninstall(c *cli.Context) error {
	in, err := githook.Uninstall(c.Context)
	if err != nil {
		return fmt.Errorf("removing the hook: %w", err)
	}
	fmt.Fprintf(c.App.ErrWriter, "Removed %s\n", in.Path)
	if in.Chained {
		fmt.Fprintln(c.App.ErrWriter, "The hook that was there before is in its place again.")
	}
	return nil
}

func hookRun(c *cli.Context) error {
	if os.Getenv("IMGCHECK_SKIP") == "1" {
		return nil
	}
	remote, updates, err := pushed(c)
	if err != nil {
		return err
	}
	changes, err := githook.Changes(c.Context, remote, updates, githook.Wanted)
	if err != nil {
		return fmt.Errorf("looking at the push: %w", err)
	}
	if len(changes) == 0 {
		return nil
	}
	decided, err := readDecisions(c)
	if err != nil {
		return err
	}
	var own []githook.Image
	for _, im := range decided.Images {
		own = append(own, githook.Image{Ref: im.Ref, Platform: im.Platform, From: policy.FileName, Own: true})
	}
	images, notices := githook.Images(changes, own)
	for _, n := range notices {
		fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(n))
	}
	failed := 0
	for _, im := range images {
		bad, err := hookScan(c, decided, im)
		if err != nil {
			return err
		}
		if bad {
			failed++
		}
	}
	if failed > 0 {
		all := "the image"
		if len(images) > 1 {
			all = fmt.Sprintf("%d of the %d images", failed, len(images))
		}
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: the push is stopped: %s that it concerns would fail; IMGCHECK_SKIP=1 git push pushes nonetheless\n", all)
		return errFindings
	}
	return nil
}

// pushed is what git pushes, and where: by the hook's arguments and lines, or by
// the variables of pre-commit (https://pre-commit.com/#pre-push).
func pushed(c *cli.Context) (remote string, updates []githook.Update, err error) {
	remote = cmp.Or(c.Args().Get(1), os.Getenv("PRE_COMMIT_REMOTE_NAME"), "origin")
	if to := os.Getenv("PRE_COMMIT_TO_REF"); to != "" {
		return remote, []githook.Update{{
			LocalRef: os.Getenv("PRE_COMMIT_LOCAL_BRANCH"), Local: to,
			RemoteRef: os.Getenv("PRE_COMMIT_REMOTE_BRANCH"), Remote: os.Getenv("PRE_COMMIT_FROM_REF"),
		}}, nil
	}
	if isTerminal(c.App.Reader) {
		return "", nil, fmt.Errorf("git runs `imgcheck hook run`, and gives it lines to read: see `imgcheck hook --help`")
	}
	updates, err = githook.ReadUpdates(c.App.Reader)
	return remote, updates, err
}

// hookScan scans one image, and reports whether it stops the push.
func hookScan(c *cli.Context, decided *decisions, im githook.Image) (bool, error) {
	ref := im.Ref
	if !im.Own {
		ref = layers.InRegistry(ref)
	}
	named := oneLine(fmt.Sprintf("%s (%s)", im.Ref, im.From))
	o := &options{}
	var err error
	if o.failOn, err = severityNamed(decided.failOn(c)); err != nil {
		return false, err
	}
	if o.layers, err = imageOptions(c); err != nil {
		return false, err
	}
	if o.layers.Platform == nil {
		if o.layers.Platform, err = platformNamed(im.Platform); err != nil {
			return false, err
		}
	}
	o.progress = watch(c, &o.layers)
	doc, err := scanWith(c.Context, ref, o.layers, planning{policy: decided}, decided.rules(c)...)
	o.progress.done()
	if err != nil {
		if c.Context.Err() != nil {
			return false, context.Cause(c.Context)
		}
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s could not be scanned, and does not stop the push: %s\n", named, oneLine(err.Error()))
		return false, nil
	}
	doc = decided.apply(doc)
	if o.status(doc) == nil {
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s: nothing stops the push\n", named)
		return false, nil
	}
	fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s:\n", named)
	return true, report.Text(c.App.Writer, doc, fitted(c.App.Writer, report.Options{}))
}
