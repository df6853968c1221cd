package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// TestTargets makes the recorded faults in GPU code in the text of the machine, and compares
// today's findings for its GPU and driver with the behaviour of the real programs, step by step.
func TestTargets(t *testing.T) {
	plan, err := LoadTargets()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/targets.json")
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	if err := json.Unmarshal(b, &record); err != nil {
		t.Fatal(err)
	}
	whole(t, plan, &record)
	for i := range record.Faults {
		r := &record.Faults[i]
		t.Run(r.Name, func(t *testing.T) {
			f := plan.Fault(r.Name)
			if f == nil {
				t.Fatal("targets.yaml has no such fault")
			}
			said := f.foretell(t, 90)
			r.Said = said
			verdicts, _ := plan.Judge(r.Programs, said)
			if want := steps(r.Programs); len(verdicts) != want {
				t.Errorf("%d steps are compared, of %d", len(verdicts), want)
			}
			for _, v := range verdicts {
				reason, known := f.Differs[v.Program+" "+v.Step]
				switch {
				case known && v.Agrees():
					t.Errorf("%s, %s is foretold now: it differs no more (%s)", v.Program, v.Step, reason)
				case !known && !v.Agrees():
					t.Errorf("%s, %s: the real program says %q; foretold: %+v", v.Program, v.Step, firstLine(v.Real), v.Foretold)
				}
			}
		})
	}
	document(t, "targets", plan.Table(&record))
}

func steps(programs map[string]*Outcome) (n int) {
	for _, o := range programs {
		n += len(o.Steps)
	}
	return n
}

// TestOtherGPUs checks the law by which a fault stands for another GPU: a library without code
// for X is to X as one without code for sm_90 is to an H200, in the same words.
func TestOtherGPUs(t *testing.T) {
	plan, err := LoadTargets()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"torch_cuda", "cublas+Lt", "cudnn all", "cusparse"} {
		f := *plan.Fault(name)
		want := words(f.foretell(t, 90))
		if len(want) == 0 {
			t.Errorf("%s: nothing is foretold for sm_90", name)
		}
		for _, arch := range []uint32{75, 120} {
			if name == "cusparse" && arch == 120 {
				continue // it has PTX for sm_90, which serves sm_120
			}
			other := f
			other.Retarget = slices.Clone(f.Retarget)
			for i := range other.Retarget {
				other.Retarget[i].From = arch
			}
			// Of other libraries sm_75 lacks code, too: MAGMA's.
			without := words((&Fault{}).foretell(t, arch))
			got := slices.DeleteFunc(words(other.foretell(t, arch)), func(w string) bool { return slices.Contains(without, w) })
			if !slices.Equal(got, want) {
				t.Errorf("%s without code for sm_%d: %q, and for sm_90: %q", name, arch, got, want)
			}
		}
	}
}

// words returns the effects and errors that were foretold, without the GPU's name.
func words(s *Said) []string {
	var list []string
	for _, f := range s.Findings {
		for _, e := range f.Effects {
			list = append(list, e.Text+": "+e.Error)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// foretell makes the fault in the text of the machine, whose libraries get their GPU code, and
// returns the findings about that code on a GPU. For a driver without zstd it asks the tables:
// the machine's CUDA 13 has no such driver.
func (f *Fault) foretell(t *testing.T, arch uint32) *Said {
	t.Helper()
	m := machine(t)
	addGPUCode(t, m)
	if len(f.Zstd) > 0 {
		return f.withoutZstd(t, m, arch)
	}
	f.retarget(t, m)
	f.raise(t, m)
	said := &Said{}
	for _, finding := range f.judge(t, m, targets.Machine{Arch: arch, GPU: fmt.Sprintf("sm_%d", arch), Driver: "580.159.04"}).Findings {
		if !slices.Contains([]string{"no-gpu-code", "ptx-jit", "needs-newer-driver"}, finding.Rule) || finding.Severity == packs.Note {
			continue
		}
		said.Findings = append(said.Findings, foundAs(finding))
	}
	return said
}

func foundAs(f lint.Finding) Finding {
	one := Finding{Rule: f.Rule, Severity: string(f.Severity), Message: f.Message, Because: f.Because}
	for _, e := range f.Effects {
		one.Effects = append(one.Effects, Effect{e.Text, e.Error})
	}
	return one
}

// withoutZstd returns the effects on processes with the files if a driver that does not know zstd meets the files.
func (f *Fault) withoutZstd(t *testing.T, m *imagetest.Image, arch uint32) *Said {
	t.Helper()
	var files []string
	for _, file := range m.Layers[0].Files {
		if matchesAny(f.Zstd, "/"+file.Name) {
			files = append(files, "/"+file.Name)
		}
	}
	var processes []targets.Process
	for _, framework := range []string{"torch", "jax", "cupy"} {
		if len(files) > 1 || framework == "torch" { // a single file is PyTorch's own
			processes = append(processes, targets.Process{Title: framework, Framework: framework, Files: files})
		}
	}
	said := &Said{}
	for _, j := range targets.Known().Judge(index(t, m), processes, targets.Machine{Arch: arch, Driver: "545.23.08"}, targets.Settings{}) {
		if !j.Outcome.Fails() && j.Outcome != targets.FitsPartly || j.Weight == targets.Harmless {
			continue
		}
		one := Finding{Rule: "needs-newer-driver", Severity: "error", Message: targets.ShortName(j.Path) + ": " + string(j.Outcome)}
		if j.Weight == targets.Some || j.Outcome == targets.FitsPartly {
			one.Severity = "warning"
		}
		for _, e := range j.Effects {
			one.Effects = append(one.Effects, Effect{e.Effect, e.Error})
		}
		said.Findings = append(said.Findings, one)
	}
	return said
}

// retarget changes the GPU code of files in the text, as RetargetFile does in files.
func (f *Fault) retarget(t *testing.T, m *imagetest.Image) {
	t.Helper()
	for _, r := range f.Retarget {
		changed := 0
		for i := range m.Layers[0].Files {
			file := &m.Layers[0].Files[i]
			if file.ELF == nil || !matchesAny(r.Files, "/"+file.Name) {
				continue
			}
			for k := range file.ELF.GPU {
				for n := range file.ELF.GPU[k].Entries {
					if e := &file.ELF.GPU[k].Entries[n]; e.Arch == r.From {
						e.Arch = r.To
						changed++
					}
				}
			}
		}
		if changed == 0 {
			t.Fatalf("%q have no code for %d", r.Files, r.From)
		}
	}
}

// raise changes the version of the PTX of files in the text, as RaisePTX does in files.
func (f *Fault) raise(t *testing.T, m *imagetest.Image) {
	t.Helper()
	for _, r := range f.PTX {
		var major, minor uint16
		if n, err := fmt.Sscanf(r.Version, "%d.%d", &major, &minor); n != 2 {
			t.Fatal(r.Version, err)
		}
		for i := range m.Layers[0].Files {
			file := &m.Layers[0].Files[i]
			if file.ELF == nil || !matchesAny(r.Files, "/"+file.Name) {
				continue
			}
			for k := range file.ELF.GPU {
				for n := range file.ELF.GPU[k].Entries {
					if e := &file.ELF.GPU[k].Entries[n]; e.Kind == uint16(gpucode.PTX) {
						e.Major, e.Minor = major, minor
					}
				}
			}
		}
	}
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// addGPUCode gives the files of the text the GPU code of gpucode.txt. Of thousands of containers
// in a file a twentieth stands for all.
func addGPUCode(t *testing.T, m *imagetest.Image) {
	t.Helper()
	b, err := os.ReadFile("testdata/gpucode.txt")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string][]imagetest.Fatbin{}
	for line := range strings.Lines(string(b)) {
		if line[0] == '#' {
			continue
		}
		file, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		f, err := imagetest.ParseFatbin(text)
		if err != nil {
			t.Fatal(file, err)
		}
		code[file] = append(code[file], f)
	}
	for i := range m.Layers[0].Files {
		file := &m.Layers[0].Files[i]
		list := code["/"+file.Name]
		if file.ELF == nil || list == nil {
			continue
		}
		delete(code, "/"+file.Name)
		all := 0
		for _, f := range list {
			all += f.Count
		}
		for i := range list {
			if all > 5000 {
				list[i].Count = (list[i].Count + 19) / 20
			}
		}
		file.ELF.GPU = list
		file.Size = max(file.Size, file.ELF.Size())
	}
	for file := range code {
		t.Errorf("the machine's text has no %s", file)
	}
}
