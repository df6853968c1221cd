//go:build linux

// Package truth runs the loader of a root file system on each file that imgcheck
// ldd has reported on, and compares the results.
//
//	imgcheck ldd --all --format json dir:ROOT | truth ROOT [NAME=VALUE...]
//
// For each line it runs LD_TRACE_LOADED_OBJECTS=1 ld.so FILE in a chroot, as root.
// For a loader of AArch64, $EMULATOR names an emulator, a static program, which is
// copied into the root. It prints the differences and their number; the exit status
// is 1 if there are any.
package truth

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/ldd"
)

// Main runs the program.
func Main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: truth ROOT [NAME=VALUE...] < LDD.jsonl")
		os.Exit(2)
	}
	bad, all, err := compare(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(2)
	}
	fmt.Fprintf(os.Stderr, "%d of %d files differ\n", bad, all)
	if bad > 0 || all == 0 {
		os.Exit(1)
	}
}

func compare(root string, env []string) (bad, all int, err error) {
	call, err := loader(root)
	if err != nil {
		return 0, 0, err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	files := make(chan ldd.File)
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for f := range files {
				want := ask(root, append(call[:len(call):len(call)], f.Path), env)
				mu.Lock()
				all++
				if d := cmp.Diff(want, f.Trace); d != "" {
					bad++
					if bad <= 20 {
						fmt.Printf("%s (-loader +imgcheck):\n%s\n", f.Path, d)
					}
				}
				mu.Unlock()
			}
		})
	}
	for in.Scan() {
		var f ldd.File
		if err := json.Unmarshal(in.Bytes(), &f); err != nil {
			return 0, 0, err
		}
		files <- f
	}
	close(files)
	workers.Wait()
	return bad, all, in.Err()
}

// interps lists the paths of the loaders that a root may have.
var interps = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}

// loader returns the command that runs the loader of a root.
func loader(root string) ([]string, error) {
	i := slices.IndexFunc(interps, func(p string) bool { _, err := os.Lstat(root + p); return err == nil })
	if i < 0 {
		return nil, fmt.Errorf("%s has no loader: %s", root, strings.Join(interps, ", "))
	}
	emulator := os.Getenv("EMULATOR")
	if emulator == "" {
		return interps[i : i+1], nil
	}
	b, err := os.ReadFile(emulator)
	if err != nil {
		return nil, err
	}
	return []string{"/.emulator", interps[i]}, os.WriteFile(root+"/.emulator", b, 0o755)
}

// ask returns the real loader's answer.
func ask(root string, call, env []string) ldd.Trace {
	cmd := exec.Command(call[0], call[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	cmd.Env = append([]string{"LD_TRACE_LOADED_OBJECTS=1", "LC_ALL=C"}, env...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	t := ldd.Trace{Objects: []ldd.Line{}}
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		t.Exit = exit.ExitCode()
	} else if err != nil {
		t.Stderr = []string{err.Error()}
	}
	for line := range strings.Lines(out.String()) {
		if l, ok := parse(strings.TrimSpace(line)); ok {
			t.Objects = append(t.Objects, l)
		}
	}
	for line := range strings.Lines(errs.String()) {
		t.Stderr = append(t.Stderr, strings.TrimRight(line, "\n"))
	}
	return t
}

var lineRE = regexp.MustCompile(`^(?:(.*) => )?(.*) \(0x[0-9a-f]+\)$`)

func parse(s string) (ldd.Line, bool) {
	if s == "" || strings.HasPrefix(s, "linux-vdso") {
		return ldd.Line{}, false
	}
	if name, ok := strings.CutSuffix(s, " => not found"); ok {
		return ldd.Line{Name: name}, true
	}
	if m := lineRE.FindStringSubmatch(s); m != nil {
		if m[1] == "" {
			m[1] = m[2]
		}
		return ldd.Line{Name: m[1], Path: &m[2]}, true
	}
	return ldd.Line{Text: s}, true
}
