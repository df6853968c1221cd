package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// Set by release/release.sh; empty in other builds.
var releaseVersion, releaseCommit string

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: "In parentheses: the commit that the program was built from, the Go release and the platform.\n\n" +
			"Examples:\n" +
			"   imgcheck version\n" +
			"   imgcheck -v\n" +
			"   imgcheck version | cut -d' ' -f2",
		Action: func(c *cli.Context) error {
			about := []string{runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if id := commit(); id != "" {
				about = append([]string{"commit " + id}, about...)
			}
			_, err := fmt.Fprintf(c.App.Writer, "imgcheck %s (%s)\n", version(), strings.Join(about, ", "))
			return err
		},
	}
}

// version returns the release, or the version that the go command has recorded.
func version() string {
	if releaseVersion != "" {
		return releaseVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return strings.Trim(info.Main.Version, "()")
}

// commit returns the commit of the build, or "".
func commit() string {
	if releaseCommit != "" {
		return releaseCommit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	id, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed since"
		}
	}
	if id == "" {
		return ""
	}
	return id + changed
}
