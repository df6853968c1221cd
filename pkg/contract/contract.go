// Package contract writes the verdicts on an image, GPU by GPU, for others: as a table for a
// pull request ([Image.Markdown]), as a page ([Image.HTML]), and as conditions by which a
// cluster or a container runtime keeps the image from machines on which it fails ([Image.Emit]).
// [Image.Attach] stores such conditions beside the image in its registry.
//
// The conditions say what the verdicts say, and no more: they hold for each GPU whose verdict
// is not "fails", with a driver that is not older than the verdict's, and for no other known
// one. A GPU on which the image perhaps runs, or runs in part, is admitted: to refuse a machine
// that works is worse.
// The package does not know how a verdict comes about, nor images.
package contract

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Image is an image with its verdicts.
type Image struct {
	Ref  string         // as it was given
	Rows []*targets.Row // by architecture; nil if the image has no GPU code
	// Compat is the directory of a compatibility driver (cuda-compat) in the image, or "".
	// With it older drivers may serve, and which ones is not known here: no condition asks
	// for a driver then.
	Compat string
	// Subject describes the image's manifest. It is needed by Attach only.
	Subject v1.Descriptor
}

// condition admits the GPUs of some architectures with a driver.
type condition struct {
	driver release   // the oldest; zero for any
	caps   []compute // sorted
}

// compute is a compute capability.
type compute struct {
	major, minor int
	tegra        bool
}

func (c compute) String() string { return fmt.Sprintf("%d.%d", c.major, c.minor) }

func compareCompute(a, b compute) int { return 10*(a.major-b.major) + a.minor - b.minor }

// release is a release of the driver: up to three numbers, as in 550.54.14.
type release [3]int

func parseRelease(s string) (release, error) {
	var r release
	if s == "" {
		return r, nil
	}
	parts := strings.Split(s, ".")
	if len(parts) > len(r) {
		return r, fmt.Errorf("%q is no release of a driver", s)
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return r, fmt.Errorf("%q is no release of a driver", s)
		}
		r[i] = n
	}
	return r, nil
}

// String returns the release without zeros at its end: 550.54.14, 580.
func (r release) String() string {
	switch {
	case r[2] > 0:
		return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2])
	case r[1] > 0:
		return fmt.Sprintf("%d.%d", r[0], r[1])
	}
	return strconv.Itoa(r[0])
}

// semver returns the release with all three numbers.
func (r release) semver() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

func compareReleases(a, b release) int { return slices.Compare(a[:], b[:]) }

// fails is the verdict of a row that excludes its GPUs.
const fails = "fails"

// errNothing are the reasons why there is nothing to emit.
var (
	errNoCode = errors.New("no library or program of the image carries GPU code: there is no condition to write")
	errNoGPU  = errors.New("the image runs on no GPU that imgcheck knows: a condition would refuse every machine")
)

// conditions returns the conditions of the verdicts, by driver, then by architecture: each
// admitted architecture is in one of them.
func (img *Image) conditions() ([]condition, error) {
	if len(img.Rows) == 0 {
		return nil, errNoCode
	}
	var list []condition
	for _, r := range img.Rows {
		if r.Verdict == fails {
			continue
		}
		c, driver, err := img.of(r)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(have condition) bool { return have.driver == driver })
		if i < 0 {
			i = len(list)
			list = append(list, condition{driver: driver})
		}
		list[i].caps = append(list[i].caps, c)
	}
	if len(list) == 0 {
		return nil, errNoGPU
	}
	slices.SortFunc(list, func(a, b condition) int { return compareReleases(a.driver, b.driver) })
	for _, c := range list {
		slices.SortFunc(c.caps, compareCompute)
	}
	return list, nil
}

// of returns the compute capability of a row, and the driver that it needs.
func (img *Image) of(r *targets.Row) (c compute, driver release, err error) {
	if _, err := fmt.Sscanf(r.Arch, "%d.%d", &c.major, &c.minor); err != nil {
		return c, driver, fmt.Errorf("%q is no compute capability: %w", r.Arch, err)
	}
	if a := targets.Known().Architecture(uint32(10*c.major + c.minor)); a != nil {
		c.tegra = a.Tegra
	}
	if img.Compat != "" {
		return c, driver, nil
	}
	driver, err = parseRelease(r.Driver)
	return c, driver, err
}

// byMajor returns the minor numbers of the capabilities by their major numbers, in order.
func (c condition) byMajor() (majors []int, minors map[int][]int) {
	minors = map[int][]int{}
	for _, one := range c.caps {
		if minors[one.major] == nil {
			majors = append(majors, one.major)
		}
		minors[one.major] = append(minors[one.major], one.minor)
	}
	return majors, minors
}

// remarks returns lines that say what a condition cannot: the GPUs that fail, with the first
// file that does, those that run in part or perhaps, and what is not known.
func (img *Image) remarks() []string {
	var list []string
	add := func(verdict, text string) {
		var gpus []string
		for _, r := range img.Rows {
			if r.Verdict == verdict {
				gpus = append(gpus, fmt.Sprintf("%s (%s)", r.Arch, strings.Join(r.Products, ", ")))
			}
		}
		if len(gpus) > 0 {
			list = append(list, text+": "+strings.Join(gpus, ", "))
		}
	}
	add(fails, "fails on")
	add(string(targets.FitsPartly), "runs in part on")
	add(string(targets.Unsure), "perhaps runs on")
	if img.Compat != "" {
		list = append(list, "any driver, since the image has a compatibility driver in "+img.Compat)
	}
	return list
}
