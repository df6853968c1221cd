package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// What release/release.sh says of a build; empty otherwise.
var releaseVersion, releaseCommit string

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Description: "The commit that the program was built from, the Go release and the platform stand behind it.\n\n" +
			"Examples:\n" +
			"   imgcheck version\n" +
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

// version is the release's, or what the go command has recorded of the build.
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

// commit is the one that was built, empty when it is not known.
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
