//go:build ignore

// Command gpucode compares what `imgcheck gpus --files` lists with what cuobjdump lists,
// for the files below a directory:
//
//	go run ./test/gpucode/main.go [-table] CUOBJDUMP DIR
//	go run ./test/gpucode/main.go -code DIR
//
// With -code it compares nothing, and prints the code of each file: its path, and the containers
// as text images have them.
//
// With -table it also prints, as Markdown, the use that each GPU has for each file: for the
// programs of nvcc/build.sh, to be run on GPUs.
//
// CUOBJDUMP is the program of Debian's nvidia-cuda-toolkit (non-free), or of CUDA's. The
// numbers of SASS and PTX entries by architecture must be equal, in .nv_fatbin and, with
// __nv_relfatbin, for cuobjdump -all. They are those that cuobjdump prints without an option, by
// the entries' headers, as the driver reads them: -lelf takes the flags of the cubin within,
// which differ where a header was changed, and say sm_90 for the cubin without a kernel in
// a program for sm_90a. cuobjdump names family code (100f) without its suffix. The exit status
// is 1 if a file differs, or none was compared.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func main() {
	table := flag.Bool("table", false, "print the use that each GPU has for each file")
	code := flag.Bool("code", false, "print the code of the files, without cuobjdump")
	flag.Parse()
	if *code && flag.NArg() == 1 {
		if err := printCode(context.Background(), flag.Arg(0)); err != nil {
			fmt.Fprintln(os.Stderr, "gpucode:", err)
			os.Exit(2)
		}
		return
	}
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: gpucode [-table] CUOBJDUMP DIR, or gpucode -code DIR")
		os.Exit(2)
	}
	c := comparison{cuobjdump: flag.Arg(0), dir: flag.Arg(1)}
	fsys, err := c.run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpucode:", err)
		os.Exit(2)
	}
	if *table {
		printTable(fsys)
	}
	fmt.Printf("%d lists equal, %d different\n", c.equal, c.different)
	if c.different > 0 || c.equal == 0 {
		os.Exit(1)
	}
}

// comparison compares the lists of all files below dir.
type comparison struct {
	cuobjdump, dir   string
	equal, different int // lists
}

func (c *comparison) run(ctx context.Context) (*layers.FS, error) {
	img, err := layers.Open(ctx, "dir:"+c.dir, layers.Options{})
	if err != nil {
		return nil, err
	}
	defer img.Close()
	fsys, err := img.Index(ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range targets.Files(fsys) {
		if f.Containers == 0 && f.Form == "" {
			continue
		}
		for _, all := range []bool{false, true} {
			theirs, err := list(c.cuobjdump, c.dir+f.Path, all)
			if err != nil {
				return nil, err
			}
			c.compare(f, all, theirs)
		}
	}
	return fsys, nil
}

// compare compares a file's lists.
func (c *comparison) compare(f *targets.File, all bool, theirs map[string]int) {
	ours := map[string]int{}
	add(ours, &f.Entries)
	if all {
		add(ours, f.Relocatable)
	}
	switch {
	case maps.Equal(ours, theirs):
		c.equal++
	default:
		c.different++
		fmt.Printf("%s, all=%v:\n  imgcheck  %v\n  cuobjdump %v\n", f.Path, all, ours, theirs)
	}
}

// printCode prints the containers of all files below a directory, a line for those of a file that
// have the same entries.
func printCode(ctx context.Context, dir string) error {
	img, err := layers.Open(ctx, "dir:"+dir, layers.Options{})
	if err != nil {
		return err
	}
	defer img.Close()
	fsys, err := img.Index(ctx)
	if err != nil {
		return err
	}
	for e := range fsys.All() {
		if e.GPU() == nil || e.GPU().Form != gpucode.Sections {
			continue
		}
		for _, g := range e.GPU().Groups {
			fmt.Printf("/%s\tsection=%s count=%d%s\n", e.Path, g.Section, g.Containers, entries(g))
		}
	}
	return nil
}

// entries returns the entries of a container as text images have them.
func entries(g gpucode.Group) string {
	var b strings.Builder
	if g.Cut {
		b.WriteString(" cut")
	}
	if targets.Empty(g) {
		b.WriteString(" empty")
	}
	for _, e := range g.Entries {
		word := " " + map[gpucode.Kind]string{gpucode.SASS: "sm_", gpucode.PTX: "compute_", gpucode.IR: "lto_"}[e.Kind] + e.Name()
		if e.Kind == gpucode.PTX {
			word += "@" + e.ISA.String()
		}
		switch {
		case e.Flags&gpucode.Zstd != 0:
			word += "/zstd"
		case e.Flags&gpucode.LZ4 != 0:
			word += "/lz4"
		}
		b.WriteString(strings.Repeat(word, int(e.Count)))
	}
	return b.String()
}

// printTable prints the outcome of each program on each GPU.
func printTable(fsys *layers.FS) {
	known := targets.Known()
	fmt.Print("| program |")
	for _, a := range known.Architectures {
		fmt.Printf(" %d.%d |", a.Arch/10, a.Arch%10)
	}
	fmt.Printf("\n|---|%s\n", strings.Repeat("---|", len(known.Architectures)))
	for e := range fsys.All() {
		if e.GPU() == nil {
			continue
		}
		fmt.Printf("| %s |", e.Path)
		for _, a := range known.Architectures {
			fit, _ := known.Fit(path.Base(e.Path), e.GPU(), targets.Machine{Arch: a.Arch}, targets.Settings{})
			cell := string(fit.Outcome)
			if fit.Outcome == targets.FitsByJIT {
				cell = "JIT " + fit.Driver
			}
			fmt.Printf(" %s |", cell)
		}
		fmt.Println()
	}
}

// add counts entries by kind and architecture, as cuobjdump names them.
func add(to map[string]int, e *targets.Entries) {
	if e == nil {
		return
	}
	for kind, counts := range map[string]targets.Counts{"elf": e.SASS, "ptx": e.PTX} {
		for arch, n := range counts {
			to["sm_"+strings.TrimSuffix(arch, "f")+" "+kind] += n
		}
	}
}

var listed = regexp.MustCompile(`(?m)^Fatbin (elf|ptx) code:\n=+\narch = (sm_\d+a?)f?$`)

// list returns the numbers of entries that cuobjdump lists in a file, by their headers.
func list(cuobjdump, name string, all bool) (map[string]int, error) {
	args := []string{name}
	if all {
		args = []string{"-all", name}
	}
	out, err := exec.Command(cuobjdump, args...).CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("does not contain device code")) {
		return nil, fmt.Errorf("%s %s: %w: %s", cuobjdump, strings.Join(args, " "), err, out)
	}
	counts := map[string]int{}
	for _, m := range listed.FindAllSubmatch(out, -1) {
		counts[string(m[2])+" "+string(m[1])]++
	}
	return counts, nil
}
