package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// machineFlags returns the flags for the GPUs and the driver that an image is to run on.
func machineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "gpu", Usage: "judge the image for a `GPU`: L4, \"RTX 4090\", sm_89 or 8.9; may be repeated, and GPU@DRIVER has a driver of its own"},
		&cli.StringFlag{Name: "driver", Usage: "judge the image for a `RELEASE` of NVIDIA's driver, 535.183.01 or the first numbers of it"},
	}
}

// machinesOf returns the machines of the flags, else those of the policy for an image.
func machinesOf(c *cli.Context, p *policy.Policy, image policy.Image) ([]targets.Machine, error) {
	gpus := slices.DeleteFunc(c.StringSlice("gpu"), func(s string) bool { return strings.TrimSpace(s) == "" }) // CI systems set variables to ""
	driver := strings.TrimSpace(c.String("driver"))
	switch {
	case len(gpus) == 0 && driver == "":
		return p.MachinesOf(image), nil
	case len(gpus) == 0:
		gpus = []string{""}
	}
	var list []targets.Machine
	for _, g := range gpus {
		if !strings.Contains(g, "@") {
			g += "@" + driver
		}
		m, err := targets.Known().ParseMachine(g)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list, nil
}
