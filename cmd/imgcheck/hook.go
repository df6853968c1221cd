package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/githook"
)

func hookCommand() *cli.Command {
	return &cli.Command{
		Name:      "hook",
		Usage:     "scan the images that a git push concerns",
		UsageText: "imgcheck hook [options] install|uninstall|run [REMOTE URL]",
		Description: "install makes git run `imgcheck hook run` before each push: by husky, lefthook or pre-commit if one\n" +
			"of them runs the hooks, else by a pre-push hook, which first runs the hook that was there before.\n" +
			"uninstall undoes that. run reads the lines that git gives a pre-push hook, and scans the images\n" +
			"that the pushed commits concern: base images of their Dockerfiles, images that their Compose files,\n" +
			"Kubernetes manifests and Helm values newly name, and the images of .imgcheck.yaml if the push may\n" +
			"change what is installed in them. A finding stops the push, unless a later instruction of the\n" +
			"Dockerfile may fix it. An image out of reach, a limit or --timeout is reported and does not stop\n" +
			"the push.\n" +
			"IMGCHECK_SKIP=1 git push skips the hook.\n\n" +
			"Examples:\n" +
			"   imgcheck hook install\n" +
			"   echo \"HEAD $(git rev-parse HEAD) main $(git rev-parse HEAD~1)\" |\n" +
			"      imgcheck hook run origin",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "stop a push for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.StringFlag{Name: "timeout", Value: "5m", Usage: "let the push go on after this `TIME` (90s, 5m), even if images are not scanned yet; 0 sets no limit"},
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
				return fmt.Errorf("hook needs a subcommand: install, uninstall or run")
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
	if e := (*githook.EntryError)(nil); errors.As(err, &e) {
		fmt.Fprint(c.App.ErrWriter, e.Entry)
	}
	if err != nil {
		return fmt.Errorf("installing the hook: %w", err)
	}
	word, of := "Installed", ""
	if in.Again {
		word = "Installed again:"
	}
	if in.Manager != "" {
		of = ", which " + in.Manager + " runs"
	}
	fmt.Fprintf(c.App.ErrWriter, "%s %s%s\n", word, in.Path, of)
	if in.Before && in.Manager == "" {
		fmt.Fprintln(c.App.ErrWriter, "The hook that was there before runs first.")
	}
	if in.Shared {
		fmt.Fprintln(c.App.ErrWriter, "core.hooksPath is set: the hook runs in every repository that uses this directory.")
	}
	for _, n := range in.Next {
		fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+n)
	}
	return nil
}

func hookUninstall(c *cli.Context) error {
	done, err := githook.Uninstall(c.Context)
	if err != nil {
		return fmt.Errorf("removing the hook: %w", err)
	}
	for _, in := range done {
		if in.Before {
			fmt.Fprintf(c.App.ErrWriter, "Removed from %s, which is as it was before the installation.\n", in.Path)
		} else {
			fmt.Fprintf(c.App.ErrWriter, "Removed %s\n", in.Path)
		}
	}
	return nil
}
