package main

import (
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// imageFlags are those of every command that reads an image.
func imageFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "platform", Usage: "of an image for several platforms, take the one for `OS/ARCH`", DefaultText: "linux/amd64, or the only one"},
		&cli.BoolFlag{Name: "insecure", Usage: "allow plain HTTP and unverified TLS to the registry"},
	}, append(cacheFlags(), progressFlags()...)...)
}

// rootEnvFlag is of commands that judge: what programs of a directory run with
// stands nowhere in it.
func rootEnvFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Usage: "with dir:, judge it as programs that run with `NAME=VALUE`; may be repeated"}
}

// rootEnv is what rootEnvFlag was set to, for what ref names.
func rootEnv(c *cli.Context, ref string) ([]string, error) {
	list := c.StringSlice("env")
	if len(list) > 0 && !strings.HasPrefix(ref, "dir:") {
		return nil, fmt.Errorf("--env is for a directory: %s says itself what its programs run with", ref)
	}
	for _, v := range list {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return nil, fmt.Errorf("--env %q: write it like LD_LIBRARY_PATH=/opt/lib", v)
		}
	}
	return list, nil
}

// imageOptions are what imageFlags were set to.
func imageOptions(c *cli.Context) (layers.Options, error) {
	o := layers.Options{Insecure: c.Bool("insecure")}
	var err error
	if o.Platform, err = platformNamed(c.String("platform")); err != nil {
		return o, err
	}
	o.Cache, err = openCache(c, func(text string) {
		if c.Bool("verbose") {
			fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(text))
		}
	})
	return o, err
}

// platformNamed is a platform as one types it, nil for none.
func platformNamed(s string) (*v1.Platform, error) {
	if s == "" {
		return nil, nil
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return nil, fmt.Errorf("%q is no platform: write it like linux/amd64 or linux/arm64/v8", s)
	}
	return p, nil
}
