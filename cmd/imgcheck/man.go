package main

import (
	"fmt"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual page",
		UsageText: "imgcheck man",
		Description: "The page has the help of every command.\n\n" +
			"Examples:\n" +
			"   imgcheck man | man -l -\n" +
			"   imgcheck man > /usr/local/share/man/man1/imgcheck.1",
		Action: func(c *cli.Context) error {
			_, err := c.App.Writer.Write(md2man.Render([]byte(manual(c.App))))
			return err
		},
	}
}

// manual returns the manual page in the Markdown that md2man reads.
func manual(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%% IMGCHECK 1 \"\" \"imgcheck %s\" \"User Commands\"\n\n# NAME\n\nimgcheck - %s\n\n# SYNOPSIS\n\n**imgcheck** COMMAND [options] [arguments]\n\n# DESCRIPTION\n\n%s\n\n# COMMANDS\n", app.Version, app.Usage, block(app.Description))
	for _, cmd := range app.VisibleCommands() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", cmd.Name, strings.ToUpper(cmd.Usage[:1])+cmd.Usage[1:])
		if cmd.UsageText != "" {
			fmt.Fprintf(&b, "\n%s\n", block(cmd.UsageText))
		}
		if cmd.Description != "" {
			fmt.Fprintf(&b, "\n%s\n", block(cmd.Description))
		}
		for _, f := range cmd.VisibleFlags() {
			d, ok := f.(cli.DocGenerationFlag)
			if !ok {
				continue
			}
			var names []string
			for _, n := range f.Names() {
				names = append(names, "**"+dashes(n)+"**")
			}
			placeholder, usage := flagText(d)
			fmt.Fprintf(&b, "\n%s%s\n: %s\n", strings.Join(names, ", "), placeholder, usage)
		}
	}
	fmt.Fprint(&b, "\n# EXIT STATUS\n\n0: no finding at or above --fail-on; 1: there are some; 2: the command failed.\n\n"+
		"# FILES\n\n.imgcheck.yaml: the policy, here or above (imgcheck init)\n\n# SEE ALSO\n\nhttps://github.com/imgcheck/imgcheck\n")
	return b.String()
}

// block breaks text into lines and marks them as code, so that md2man keeps them.
func block(s string) string {
	lines := strings.Split(strings.TrimSpace(fill(s, helpWidth-8)), "\n")
	for i := range lines {
		lines[i] = "    " + lines[i]
	}
	return strings.Join(lines, "\n")
}
