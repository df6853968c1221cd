package main

import (
	"fmt"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/policy"
)

// imageFlags returns the flags of every command that reads an image.
func imageFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "platform", Usage: "take the image for `OS/ARCH` of an image for several platforms", DefaultText: "linux/amd64, or the only one"},
		insecureFlag(),
	}, append(cacheFlags(), progressFlags()...)...)
}

func insecureFlag() cli.Flag {
	return &cli.BoolFlag{Name: "insecure", Usage: "allow plain HTTP and unverified TLS to the registry"}
}

// rootEnvFlag returns the flag for the environment of a directory's programs, of which
// the directory says nothing.
func rootEnvFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "env", Usage: "with dir:, assume that programs run with `NAME=VALUE`; may be repeated"}
}

// rootEnv returns the value of rootEnvFlag, checked for ref.
func rootEnv(c *cli.Context, ref string) ([]string, error) {
	list := c.StringSlice("env")
	if len(list) > 0 && !strings.HasPrefix(ref, "dir:") {
		return nil, fmt.Errorf("--env goes with dir: only: %s has an environment of its own", ref)
	}
	for _, v := range list {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return nil, fmt.Errorf("--env %q: write it like LD_LIBRARY_PATH=/opt/lib", v)
		}
	}
	return list, nil
}

// imageOptions returns the values of imageFlags and indexFlags, for a command without a policy.
func imageOptions(c *cli.Context) (layers.Options, error) {
	o, err := readingOptions(c)
	if err == nil {
		err = checkIndexFlags(c, nil)
	}
	if err == nil {
		o.Indexes, err = indexesFrom(c, policy.Indexes{})
	}
	return o, err
}

// readingOptions returns the values of imageFlags.
func readingOptions(c *cli.Context) (layers.Options, error) {
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

// platformNamed parses a platform; it returns nil for "".
func platformNamed(s string) (*v1.Platform, error) {
	if s == "" {
		return nil, nil
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return nil, fmt.Errorf("%q is not a platform: write it like linux/amd64 or linux/arm64/v8", s)
	}
	return p, nil
}
