package contract

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/envline"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Variable is an environment variable of an image.
type Variable struct{ Name, Value string }

// Require returns variables by which NVIDIA's container runtime refuses machines. It evaluates
// each NVIDIA_REQUIRE_*, in which blanks separate alternatives and commas conditions (dsl.c of
// libnvidia-container, internal/requirements of nvidia-container-toolkit); a machine must meet
// all of them. An error names the first alternative: the one that reads best stands there.
//
// Architectures are ranges between those that fail, so that a newer GPU that imgcheck does
// not know is refused only if the newest known one fails. For a system on a chip the toolkit
// knows no driver and refuses each condition on one; CUDA's release stands in for it.
func (img *Image) Require() ([]Variable, error) {
	list, err := img.conditions()
	if err != nil {
		return nil, err
	}
	vars := []Variable{{"NVIDIA_REQUIRE_ARCH", strings.Join(img.ranges(list), " ")}}
	if list[0].driver == (release{}) && len(list) == 1 {
		return vars, nil
	}
	if cuda := cudaOf(list[0].driver); cuda != "" && list[0].driver != (release{}) {
		vars = append(vars, Variable{"NVIDIA_REQUIRE_CUDA", "cuda>=" + cuda})
	}
	return append(vars, Variable{"NVIDIA_REQUIRE_DRIVER", strings.Join(img.drivers(list), " ")}), nil
}

// cudaOf returns the release of CUDA that came with a driver.
func cudaOf(r release) string {
	return targets.Known().CUDA(targets.Machine{Driver: r.String()})
}

// ranges returns alternatives on the architecture.
func (img *Image) ranges(list []condition) []string {
	return img.runs(func(c compute) bool {
		return slices.ContainsFunc(list, func(have condition) bool { return slices.Contains(have.caps, c) })
	})
}

// runs returns the ranges of known architectures for which ok holds. The last one has no end
// if it has the newest architecture.
func (img *Image) runs(ok func(compute) bool) []string {
	var list []string
	begin := ""
	for _, r := range img.Rows {
		c, _, err := img.of(r)
		switch {
		case err != nil:
		case ok(c) && begin == "":
			begin = "arch>=" + c.String()
		case !ok(c) && begin != "":
			list = append(list, begin+",arch<"+c.String())
			begin = ""
		}
	}
	if begin != "" {
		list = append(list, begin)
	}
	return list
}

// drivers returns alternatives on the driver: the newest that some GPU needs serves all; then
// the older ones, each with its GPUs; then systems on a chip.
func (img *Image) drivers(list []condition) []string {
	newest := list[len(list)-1]
	all := []string{"driver>=" + newest.driver.String()}
	for _, c := range slices.Backward(list[:len(list)-1]) {
		for _, run := range img.runs(func(one compute) bool { return slices.Contains(c.caps, one) }) {
			if c.driver != (release{}) {
				run += ",driver>=" + c.driver.String()
			}
			all = append(all, run)
		}
	}
	for _, c := range list {
		for _, one := range c.caps {
			if !one.tegra || c.driver == (release{}) {
				continue
			}
			alternative := "arch=" + one.String()
			if cuda := cudaOf(c.driver); cuda != "" {
				alternative += ",cuda>=" + cuda
			}
			all = append(all, alternative)
		}
	}
	return all
}

// requireLines returns the variables as instructions of a Dockerfile.
func (img *Image) requireLines() ([]byte, error) {
	vars, err := img.Require()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(img.header("NVIDIA's container runtime refuses machines that do not serve " + img.Ref))
	for _, v := range vars {
		line, err := envline.Of(v.Name, v.Value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&b, line)
	}
	return []byte(b.String()), nil
}
