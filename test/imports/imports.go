//go:build linux

// Package imports compares imgcheck's predictions of imports with real ones, for the
// top-level modules of the Python of a Debian root file system.
//
//	test/imports/record.sh ROOT UPPER RECORD.jsonl
//	go run ./test/imports/main.go ROOT RECORD.jsonl [MODULE...]
//
// The first makes the record: each module is imported in a chroot, in a process of its own
// (record.py). The second indexes the root, predicts each import of the record, and prints
// how many are equal: the outcome, the text of the exception, and the ELF files that are
// mapped afterwards; and the differences, grouped by their likely cause.
package imports

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Main runs the program.
func Main() {
	c := &comparison{}
	flag.IntVar(&c.causes, "causes", 40, "how many causes of differences to print")
	flag.BoolVar(&c.tree, "tree", false, "print the trees of the modules")
	flag.StringVar(&c.cache, "cache", "", "a directory to keep the index of the root in, which must not change, and with -keep those of the faults")
	flag.Float64Var(&c.text, "text", 0, "fail if outcome and text are equal for a smaller share, in percent")
	flag.Float64Var(&c.maps, "maps", 0, "fail if the mapped files are equal for a smaller share, in percent")
	flag.BoolVar(&c.programs, "programs", false, "start the Python programs of the root's /usr/bin with --help, and fail if one ends well that was predicted for certain to fail")
	flag.IntVar(&c.faults, "faults", 0, "how many random faults to make in the root, in overlays of this mount namespace; without -text and -maps, only these are compared")
	flag.Uint64Var(&c.seed, "seed", 1, "what the random faults depend on")
	flag.StringVar(&c.keep, "keep", "", "a directory to keep the faults and their records in, which are taken from there the next time")
	flag.StringVar(&c.libstdcxx, "libstdcxx", "", "a libstdc++ that some faults put in front of the root's")
	flag.StringVar(&c.recorder, "recorder", "test/imports/record.sh", "the program that records imports")
	flag.Float64Var(&c.agree, "agree", 0, "fail if outcome and text are equal after faults for a smaller share, in percent")
	flag.StringVar(&python, "python", python, "the interpreter in the root that made the record")
	flag.Func("env", "a variable `NAME=VALUE` of the recorded processes; may be repeated", func(v string) error {
		name, value, _ := strings.Cut(v, "=")
		environment[name] = value
		return nil
	})
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: imports [-causes N] [-text P] [-maps P] ROOT RECORD [MODULE...]")
		os.Exit(2)
	}
	ok, err := c.run(context.Background(), flag.Arg(0), flag.Arg(1), flag.Args()[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "imports:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// comparison holds the values of the flags.
type comparison struct {
	causes     int
	tree       bool
	cache      string
	text, maps float64
	programs   bool

	faults              int
	seed                uint64
	libstdcxx, recorder string
	agree               float64
	keep                string
}

// run compares, and reports whether the floors are reached.
func (c *comparison) run(ctx context.Context, root, record string, only []string) (bool, error) {
	f, err := os.Open(record)
	if err != nil {
		return false, err
	}
	defer f.Close()
	list, base, err := readRecords(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", record, err)
	}
	if base == nil {
		return false, fmt.Errorf("%s has no line of the module sys", record)
	}
	fs, err := openRoot(ctx, root, c.cache)
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(r *Record) bool {
		return r.Outcome == Timeout || r.Outcome == Excluded || len(only) > 0 && !slices.Contains(only, r.Module)
	})
	ok := true
	if c.faults == 0 || c.text > 0 || c.maps > 0 {
		if ok, err = c.compareAll(ctx, fs, list, base); err != nil {
			return false, err
		}
	}
	if c.programs {
		wrong, err := comparePrograms(ctx, fs, root)
		if err != nil {
			return false, err
		}
		ok = ok && wrong == 0
	}
	if c.faults == 0 {
		return ok, nil
	}
	all, err := c.tryFaults(ctx, fs, root, list, base)
	if err != nil {
		return false, err
	}
	return c.judgeFaults(all) && ok, nil
}

// compareAll predicts each record, prints the comparison, and reports whether the floors are
// reached.
func (c *comparison) compareAll(ctx context.Context, fs *layers.FS, list []*Record, base *Record) (bool, error) {
	verdicts, err := compareSome(ctx, fs, nil, list, base)
	if err != nil {
		return false, err
	}
	for _, v := range verdicts {
		if c.tree {
			b, _ := json.MarshalIndent(v.pred.tree, "", " ")
			fmt.Printf("%s\n", b)
		}
	}
	t := count(verdicts)
	t.write(os.Stdout)
	writeCauses(os.Stdout, verdicts, c.causes)
	return t.reaches(c.text, c.maps), nil
}

// judgeFaults prints what did not agree after a fault, and reports whether the floor is
// reached and nothing was a false alarm.
func (c *comparison) judgeFaults(all []*tried) bool {
	var verdicts []*verdict
	for _, one := range all {
		verdicts = append(verdicts, one.verdicts...)
		for _, v := range one.verdicts {
			if !v.text {
				fmt.Printf("\nfault %s\n", one.Name)
				v.write(os.Stdout)
				if c.tree {
					b, _ := json.MarshalIndent(v.pred.tree, "", " ")
					fmt.Printf("%s\n", b)
				}
			}
		}
	}
	t := count(verdicts)
	fmt.Printf("\nafter %d faults:\n", len(all))
	t.write(os.Stdout)
	return t.reaches(c.agree, 0)
}

// compareSome predicts each record, and returns the comparisons in the order of the records.
func compareSome(ctx context.Context, fs *layers.FS, env map[string]string, list []*Record, base *Record) ([]*verdict, error) {
	var names []string
	for _, r := range list {
		names = append(names, r.Module)
	}
	all, err := predict(ctx, fs, env, names)
	if err != nil {
		return nil, err
	}
	var verdicts []*verdict
	for _, r := range list {
		verdicts = append(verdicts, compare(r, all[r.Module], base))
	}
	return verdicts, nil
}

// reaches reports whether nothing is a false alarm and the shares are as large as the
// floors, in percent.
func (t tally) reaches(text, maps float64) bool {
	all := float64(t.modules)
	return t.modules > 0 && t.falseAlarms == 0 && 100*float64(t.text) >= text*all && 100*float64(t.set) >= maps*all
}
