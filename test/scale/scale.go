//go:build unix

// Package scale scans images that have N of one thing, for two N, and prints the
// time, the memory, and the power of N by which the time grows: 1 is linear, 2 is
// quadratic.
//
//	scale [-keep DIR] IMGCHECK N,N [CASE...]
//	scale make CASE N DIR
//	scale list
//
// The images are OCI layouts of a few megabytes at most. Times are CPU times, which
// depend little on the machine's other load; memory is the largest resident set.
// docs/speed.md has the results.
package scale

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// Main runs the program.
func Main() {
	keep := flag.String("keep", "", "keep the images in this directory")
	flag.Parse()
	args := flag.Args()
	err := errors.New("usage: scale [-keep DIR] IMGCHECK N,N [CASE...], scale make CASE N DIR, scale list")
	switch {
	case len(args) == 1 && args[0] == "list":
		for _, c := range cases {
			fmt.Printf("%-14s %s\n", c.name, c.what)
		}
		err = nil
	case len(args) == 4 && args[0] == "make":
		var n int
		if n, err = strconv.Atoi(args[2]); err == nil {
			err = makeCase(args[1], n, args[3])
		}
	case len(args) >= 2:
		err = run(*keep, args[0], args[1], args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// makeCase writes the image of a case.
func makeCase(name string, n int, dir string) error {
	i := slices.IndexFunc(cases, func(c scaleCase) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("no case is called %s", name)
	}
	im := newImage(dir)
	cases[i].make(im, n)
	return im.finish()
}

// cost is the time and memory that a scan took.
type cost struct {
	cpu  time.Duration
	peak int64 // bytes
	said string
}

// run measures the cases of these names, or all.
func run(keep, imgcheck, numbers string, names []string) error {
	var ns []int
	for s := range strings.SplitSeq(numbers, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of things", s)
		}
		ns = append(ns, n)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if keep == "" {
		if keep, err = os.MkdirTemp("", "scale"); err != nil {
			return err
		}
		defer os.RemoveAll(keep)
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range cases {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		fmt.Fprint(out, c.name)
		var costs []cost
		for _, n := range ns {
			dir := filepath.Join(keep, fmt.Sprintf("%s-%d", c.name, n))
			// In a separate process, since the peak memory of a child is at least that of its parent.
			if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
				if b, err := exec.Command(self, "make", c.name, strconv.Itoa(n), dir).CombinedOutput(); err != nil {
					return fmt.Errorf("making %s of %d: %w: %s", c.name, n, err, b)
				}
			}
			got, err := measure(imgcheck, dir)
			if err != nil {
				return err
			}
			costs = append(costs, got)
			fmt.Fprintf(out, "\t%d\t%.2f s\t%d MB", n, got.cpu.Seconds(), got.peak/1e6)
		}
		fmt.Fprintf(out, "\t%s\t%s\n", power(ns, costs), costs[len(costs)-1].said)
		out.Flush()
	}
	return nil
}

// floor is the time that a scan of a nearly empty image takes.
const floor = 100 * time.Millisecond

// power returns the exponent of N by which the time grows from the first N to the last.
func power(ns []int, costs []cost) string {
	first, last := costs[0].cpu, costs[len(costs)-1].cpu
	if len(ns) < 2 || last < 3*floor {
		return "-"
	}
	return fmt.Sprintf("N^%.1f", math.Log(float64(last)/float64(max(first, floor)))/math.Log(float64(ns[len(ns)-1])/float64(ns[0])))
}

// measure scans a layout, with the pack and the policy that lie beside it.
func measure(imgcheck, dir string) (cost, error) {
	args := []string{"scan", "--no-cache", "--quiet", "--fail-on", "never", "--format", "json"}
	if rules := filepath.Join(dir, "rules"); exists(rules) {
		args = append(args, "--rules", rules)
	}
	config := "none"
	if policy := filepath.Join(dir, "imgcheck.yaml"); exists(policy) {
		config = policy
	}
	args = append(args, "--config", config, "oci:"+dir)
	cmd := exec.Command(imgcheck, args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return cost{}, err
	}
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), u.Maxrss << 10, strings.TrimSpace(said.String())}, nil
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
