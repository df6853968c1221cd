package lint

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// claims returns a finding for each of PyTorch's libraries whose machine code is not for the
// architectures of PyTorch's own list.
func (g *gpuJudge) claims() []Finding {
	var list []Finding
	for _, python := range g.files {
		c := g.codeOf(python)
		if c == nil || len(c.Claims) == 0 {
			continue
		}
		for _, file := range g.files {
			if path.Dir(file) == path.Dir(python) && strings.HasPrefix(path.Base(file), "libtorch") {
				list = append(list, g.claimsOf(file, python, c.Claims)...)
			}
		}
	}
	return list
}

// claimsOf compares a file with the list that another file has. An architecture of the list
// counts if no container of the file serves it; one of the file if each container for several
// generations has machine code for it.
func (g *gpuJudge) claimsOf(file, python string, claims []string) []Finding {
	code := g.codeOf(file)
	var claimed []int
	var lacks []string
	for _, name := range claims {
		number, isCode := strings.CutPrefix(name, "sm_")
		arch, _ := strconv.Atoi(strings.TrimRight(number, "af"))
		if !isCode {
			continue
		}
		claimed = append(claimed, arch)
		fit, ok := g.tables.Fit(path.Base(file), code, targets.Machine{Arch: uint32(arch)}, targets.Settings{})
		if !ok {
			return nil
		}
		if fit.Outcome == targets.NoCode {
			lacks = append(lacks, name)
		}
	}
	var list []Finding
	say := func(clause string, archs []string) {
		if len(archs) == 0 {
			return
		}
		f := g.pass.say("arch-list-differs", clause, packs.Values{"archs": strings.Join(archs, " "), "file": targets.ShortName(file)})
		f.Cause += " " + file
		f.Subject, f.Library, f.Affected = file, path.Base(file), []string{file}
		f.Present = g.pass.Image.FilesOf([]string{file, python})
		list = append(list, f)
	}
	say("no-code", lacks)
	var unnamed []string
	for _, arch := range everywhere(code) {
		// PyTorch takes code of the GPU's major number for enough.
		if !slices.ContainsFunc(claimed, func(c int) bool { return c/10 == int(arch)/10 }) {
			unnamed = append(unnamed, "sm_"+strconv.Itoa(int(arch)))
		}
	}
	say("not-named", unnamed)
	return list
}

// everywhere returns the architectures for which each container of a file has machine code,
// sorted. Containers for a single generation are left out.
func everywhere(code *gpucode.Code) []uint32 {
	var all []uint32
	first := true
	for _, g := range code.Groups {
		var has []uint32
		for _, e := range g.Entries {
			if e.Kind == gpucode.SASS {
				has = append(has, e.Arch)
			}
		}
		if g.Section != gpucode.FatbinSection || targets.Empty(g) || len(has) == 0 || slices.Max(has)/10 == slices.Min(has)/10 {
			continue
		}
		if first {
			all, first = has, false
		}
		all = slices.DeleteFunc(all, func(a uint32) bool { return !slices.Contains(has, a) })
	}
	slices.Sort(all)
	return slices.Compact(all)
}
