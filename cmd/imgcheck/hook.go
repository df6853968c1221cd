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
		Description: "install has git run `imgcheck hook run` before a push: by husky, lefthook or pre-commit where one of\n" +
			"them runs the hooks, else by a pre-push hook. A hook that is there runs first, under its own name.\n" +
			"uninstall takes that away again. run reads git's lines and\n" +
			"scans what the Dockerfiles in the pushed commits build on, what their Compose files, Kubernetes\n" +
			"manifests and Helm values newly name, and the images of .imgcheck.yaml when what is installed in\n" +
			"them may change. A finding stops the push, unless a later instruction of the Dockerfile may mend\n" +
			"it. An image that cannot be reached is told and does not stop the push; nor does a limit, or the\n" +
			"time: --timeout.\n" +
			"IMGCHECK_SKIP=1 git push pushes without it.\n\n" +
			"Examples:\n" +
			"   imgcheck hook install\n" +
			"   echo \"HEAD $(git rev-parse HEAD) main $(git rev-parse HEAD~1)\" |\n" +
			"      imgcheck hook run origin",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "fail-on", Value: "error", Usage: "stop a push for findings of this `SEVERITY` and above: error, warning, note or never"},
			&cli.StringFlag{Name: "timeout", Value: "5m", Usage: "let a push go on after this `TIME` (90s, 5m), whatever is not scanned by then; 0 sets no limit"},
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
		fmt.Fprintln(c.App.ErrWriter, "The hook that was there runs before it.")
	}
	if in.Shared {
		fmt.Fprintln(c.App.ErrWriter, "core.hooksPath is set: the hook serves every repository that uses this directory.")
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
			fmt.Fprintf(c.App.ErrWriter, "Removed from %s, which is as it was before.\n", in.Path)
		} else {
			fmt.Fprintf(c.App.ErrWriter, "Removed %s\n", in.Path)
		}
	}
	return nil
}
