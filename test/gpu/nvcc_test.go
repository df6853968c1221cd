package gpu

import (
	"archive/tar"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// nvccProgram is a program of testdata/nvcc.txt.
type nvccProgram struct {
	name string
	real []string // the output without a variable, with JIT forced, and with JIT disabled
	code []imagetest.Fatbin
}

func nvccPrograms(t *testing.T) []*nvccProgram {
	t.Helper()
	b, err := os.ReadFile("testdata/nvcc.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []*nvccProgram
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		switch code, inner := strings.CutPrefix(line, "  "); {
		case strings.HasPrefix(line, "#"):
		case inner:
			f, err := imagetest.ParseFatbin(code)
			if err != nil {
				t.Fatal(err)
			}
			p := list[len(list)-1]
			p.code = append(p.code, f)
		default:
			name, rest, _ := strings.Cut(line, ": ")
			words := strings.Fields(rest)
			list = append(list, &nvccProgram{name: words[3] + " " + name, real: words[:3]})
		}
	}
	return list
}

// TestPrograms compares the outcomes that are foretold for nvcc's programs with those on a GPU.
// Relocatable PTX, which the driver links, may run.
func TestPrograms(t *testing.T) {
	// 500 is the error of a program whose relocatable code cannot be linked: "named symbol not found".
	ends := map[targets.Outcome]string{targets.NoCode: "209", targets.JITOff: "223", targets.Fits: "runs", targets.FitsByJIT: "runs"}
	unsure := 0
	all := nvccPrograms(t)
	for _, p := range all {
		elf := &imagetest.ELF{GPU: p.code}
		m := &imagetest.Image{Layers: []imagetest.Layer{{Files: []imagetest.File{{Name: "a", Mode: 0o755, Type: tar.TypeReg, ELF: elf, Size: int64(len(elf.Bytes()))}}}}}
		code := targets.CodeOf(index(t, m), "/a")
		for i, s := range []targets.Settings{{}, {ForceJIT: true}, {DisableJIT: true}} {
			fit, ok := targets.Known().Fit("a", code, targets.Machine{Arch: 90, Driver: "580.159.04"}, s)
			switch {
			case fit.Outcome == targets.Unsure && fit.Linked || !ok:
				unsure++
			case fit.Outcome == targets.NoCode && p.real[i] == "500" && p.relocatable():
			case ends[fit.Outcome] != p.real[i]:
				t.Errorf("%s, %+v: foretold %s, the program says %s", p.name, s, fit.Outcome, p.real[i])
			}
		}
	}
	if len(all) < 40 || unsure > 9 {
		t.Errorf("%d programs, %d runs without a verdict", len(all), unsure)
	}
}

// relocatable reports whether a program has code that is linked before it is launched.
func (p *nvccProgram) relocatable() bool {
	return slices.ContainsFunc(p.code, func(f imagetest.Fatbin) bool { return f.Section == gpucode.RelocatableSection })
}
