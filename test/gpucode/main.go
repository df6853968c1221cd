//go:build ignore

// Command gpucode compares what `imgcheck gpus --files` lists with what cuobjdump lists,
// for the files below a directory:
//
//	go run ./test/gpucode/main.go CUOBJDUMP DIR
//
// CUOBJDUMP is the program of Debian's nvidia-cuda-toolkit (non-free), or of CUDA's. The
// numbers of SASS and PTX entries by architecture must be equal, in .nv_fatbin and, with
// __nv_relfatbin, for cuobjdump -all. cuobjdump names family code (100f) without its
// suffix, and relocatable code for older GPUs with an a, which no such code has. The exit
// status is 1 if a file differs, or none was compared.
package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gpucode CUOBJDUMP DIR")
		os.Exit(2)
	}
	equal, different, err := compareAll(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpucode:", err)
		os.Exit(2)
	}
	fmt.Printf("%d lists equal, %d different\n", equal, different)
	if different > 0 || equal == 0 {
		os.Exit(1)
	}
}

// compareAll compares the lists of all files below dir.
func compareAll(cuobjdump, dir string) (equal, different int, err error) {
	ctx := context.Background()
	img, err := layers.Open(ctx, "dir:"+dir, layers.Options{})
	if err != nil {
		return 0, 0, err
	}
	defer img.Close()
	fsys, err := img.Index(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range targets.Files(fsys) {
		if f.Containers == 0 && f.Form == "" {
			continue
		}
		for _, all := range []bool{false, true} {
			theirs, err := list(cuobjdump, dir+f.Path, all)
			if err != nil {
				return equal, different, err
			}
			ours := map[string]int{}
			add(ours, &f.Entries)
			if all {
				add(ours, f.Relocatable)
			}
			if maps.Equal(ours, theirs) {
				equal++
				continue
			}
			different++
			fmt.Printf("%s, all=%v:\n  imgcheck  %v\n  cuobjdump %v\n", f.Path, all, ours, theirs)
		}
	}
	return equal, different, nil
}

// add counts entries by kind and architecture, as cuobjdump names them.
func add(to map[string]int, e *targets.Entries) {
	if e == nil {
		return
	}
	for kind, counts := range map[string]targets.Counts{"cubin": e.SASS, "ptx": e.PTX} {
		for arch, n := range counts {
			to["sm_"+strings.TrimSuffix(arch, "f")+" "+kind] += n
		}
	}
}

var listed = regexp.MustCompile(`(?m)^(?:ELF|PTX) file +\d+: .*\.(sm_\d+)(a?)f?\.(cubin|ptx)$`)

// list returns the numbers of entries that cuobjdump lists in a file.
func list(cuobjdump, name string, all bool) (map[string]int, error) {
	counts := map[string]int{}
	for _, flag := range []string{"-lelf", "-lptx"} {
		args := []string{flag, name}
		if all {
			args = append([]string{"-all"}, args...)
		}
		out, err := exec.Command(cuobjdump, args...).CombinedOutput()
		if err != nil && !bytes.Contains(out, []byte("does not contain device code")) {
			return nil, fmt.Errorf("%s %s: %w: %s", cuobjdump, strings.Join(args, " "), err, out)
		}
		for _, m := range listed.FindAllSubmatch(out, -1) {
			name := string(m[1])
			if n := gpucode.CompareNames(name[len("sm_"):], "90"); n >= 0 {
				name += string(m[2])
			}
			counts[name+" "+string(m[3])]++
		}
	}
	return counts, nil
}
