package lint

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// notLoaded returns the finding about files without code for a machine that no process was
// seen to load. Libraries that choose their kernels are left out: an image has second copies.
func (g *gpuJudge) notLoaded(m machines) []Finding {
	var rest targets.Process
	for _, file := range g.files {
		if _, loaded := g.certain[file]; !loaded && !g.tables.Chooses(path.Base(file)) {
			rest.Files = append(rest.Files, file)
		}
	}
	var files []*targets.Judged
	for _, j := range g.tables.Judge(g.pass.Image.FS, []targets.Process{rest}, m[0], g.settings) {
		if j.Outcome == targets.NoCode {
			files = append(files, j)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return []Finding{g.about("no-gpu-code", "not-loaded", m, files, g.values(m, files))}
}

// soldGPUs returns the findings of an image whose machines are not known: files that run on no
// GPU that is sold, and a variable that leaves them without code for each.
func (g *gpuJudge) soldGPUs() []Finding {
	failing := map[string]int{}
	var last []*targets.Judged
	var any targets.Machine
	sold := 0
	for _, a := range g.tables.Architectures {
		if !a.Sold {
			continue
		}
		sold++
		any.Arch = a.Arch
		last = g.tables.Judge(g.pass.Image.FS, g.processes, any, g.settings)
		for _, j := range last {
			if j.Outcome == targets.NoCode && j.Weight == targets.Certain {
				failing[j.Path]++
			}
		}
	}
	var none, noPTX []*targets.Judged
	for _, j := range last {
		switch {
		case failing[j.Path] < sold:
		case g.settings.ForceJIT:
			noPTX = append(noPTX, j)
		case !g.tables.Chooses(path.Base(j.Path)):
			none = append(none, j)
		}
	}
	var list []Finding
	if len(none) > 0 {
		list = append(list, g.about("no-gpu-code", "none-sold", nil, none, g.values(nil, none)))
	}
	if len(noPTX) > 0 {
		list = append(list, g.finding(machines{{}}, &fitOf{outcome: targets.NoCode, rule: "ptx-jit", clause: "forced", files: noPTX}))
	}
	return list
}

// runtimes returns a finding for each major release of CUDA's runtime that processes load and
// that needs a newer driver than the machine's.
func (g *gpuJudge) runtimes(m machines) []Finding {
	users := map[string][]targets.Process{}
	var majors []string
	for _, p := range g.processes {
		if needs := g.tables.RuntimeDriver(p.CUDA); needs != "" && m[0].Before(needs) {
			if users[p.CUDA] == nil {
				majors = append(majors, p.CUDA)
			}
			users[p.CUDA] = append(users[p.CUDA], p)
		}
	}
	var list []Finding
	for _, major := range majors {
		list = append(list, g.tooOld(m, major, users[major]))
	}
	return list
}

// tooOld returns the finding about processes whose CUDA runtime needs a newer driver.
func (g *gpuJudge) tooOld(m machines, major string, users []targets.Process) Finding {
	var titles []string
	for _, p := range users {
		if !slices.Contains(titles, p.Title) {
			titles = append(titles, p.Title)
		}
	}
	processes := titles[0]
	if n := len(titles) - 1; n > 0 {
		processes = fmt.Sprintf("%s (and %d more)", processes, n)
	}
	serves, _, _ := strings.Cut(g.tables.CUDA(m[0]), ".")
	f := g.pass.say("needs-newer-driver", "runtime", packs.Values{"driver": m.driver(), "cuda": major, "processes": processes, "needs": g.tables.RuntimeDriver(major), "major": serves})
	f.Machines = m
	for _, p := range users {
		said := g.tables.TooOldFor(p.Framework, m[0])
		g.pass.also(&f, "gpu-effect", packs.Values{"effect": said.Effect, "error": said.Error})
		f.Affected = append(f.Affected, p.Files...)
	}
	slices.Sort(f.Affected)
	f.Affected = slices.Compact(f.Affected)
	if compat := CompatDriver(g.pass.Image.FS); compat != "" {
		g.pass.lower(&f, "compat", packs.Values{"file": compat})
	}
	return f
}

// CompatDriver returns the path of the first driver library for forward compatibility, of
// cuda-compat, or "".
func CompatDriver(fsys *layers.FS) string {
	for e := range fsys.All() {
		dir := path.Dir("/" + e.Path)
		if e.Type == layers.Regular && path.Base(dir) == "compat" && strings.Contains(dir, "cuda") && strings.HasPrefix(path.Base(e.Path), "libcuda.so.") {
			return "/" + e.Path
		}
	}
	return ""
}

// compilers returns the findings about compilers of the image that do not know a machine's
// GPU: Triton's ptxas, and the NVRTC that processes load.
func (g *gpuJudge) compilers(m machines) []Finding {
	if m[0].Arch == 0 {
		return nil
	}
	var list []Finding
	if f, ok := g.triton(m); ok {
		list = append(list, f)
	}
	if f, ok := g.builder(m); ok {
		list = append(list, f)
	}
	seen := map[string]bool{}
	for _, p := range g.processes {
		for _, file := range p.Files {
			if c := g.codeOf(file); c != nil && !seen[file] && len(c.Compiles) > 0 && !knows(c.Compiles, m[0].Arch) {
				f := g.compiler("nvrtc", file, m)
				list = append(list, f)
			}
			seen[file] = true
		}
	}
	return list
}

// compiler returns the finding about a compiler.
func (g *gpuJudge) compiler(clause, file string, m machines) Finding {
	f := g.pass.say("compiler-lacks-gpu", clause, packs.Values{"gpu": m.names(), "file": path.Base(file), "has": compilesFor(g.codeOf(file).Compiles), "target": tritonTarget(m[0].Arch)})
	f.Cause += " " + file
	f.Subject, f.Machines = file, m
	f.Present = g.pass.Image.FilesOf([]string{file})
	return f
}

// triton returns the finding about the ptxas in Triton's wheel. Newer releases have a second
// one for newer GPUs beside it; the variable TRITON_PTXAS_PATH replaces it
// (triton/knobs.py, third_party/nvidia/backend/compiler.py).
func (g *gpuJudge) triton(m machines) (Finding, bool) {
	if value, _ := g.pass.Config.Getenv("TRITON_PTXAS_PATH"); value != "" {
		return Finding{}, false
	}
	var own, newer string
	for _, name := range g.files {
		c := g.codeOf(name)
		if c == nil || !strings.HasPrefix(path.Base(name), "ptxas") || len(c.Compiles) == 0 {
			continue
		}
		switch known := knows(c.Compiles, m[0].Arch); {
		case strings.HasSuffix(path.Dir(name), "triton/backends/nvidia/bin") && known:
			return Finding{}, false
		case strings.HasSuffix(path.Dir(name), "triton/backends/nvidia/bin"):
			own = name
		case known:
			newer = name
		}
	}
	if own == "" {
		return Finding{}, false
	}
	f := g.compiler("triton", own, m)
	clause, v := "no-newer", packs.Values{}
	if newer != "" {
		clause, v = "newer", packs.Values{"ptxas": newer}
		f.Values = v
	}
	g.pass.also(&f, clause, v)
	return f, true
}

// tritonTarget returns the architecture for which Triton assembles: from 90 on with all
// features of the GPU (sm_arch_from_capability).
func tritonTarget(arch uint32) string {
	if arch >= 90 {
		return fmt.Sprintf("sm_%da", arch)
	}
	return fmt.Sprintf("sm_%d", arch)
}

// knows reports whether a compiler has an architecture among its targets.
func knows(compiles []string, arch uint32) bool { return slices.Contains(compiles, fmt.Sprint(arch)) }

func compilesFor(list []string) string {
	if len(list) > maxShown {
		list = list[len(list)-maxShown:]
	}
	return "sm_" + strings.Join(list, " sm_")
}

// builder returns the finding that TensorRT's builder lacks the kernels for a machine's GPU. The
// builder has a file of kernels for each GPU, and takes that of an older GPU of the generation as
// well.
func (g *gpuJudge) builder(m machines) (Finding, bool) {
	var first string
	var list []string
	for _, file := range g.files {
		resource := gpucode.Resource(path.Base(file))
		if resource == "" {
			continue
		}
		if targets.ServesBuilder(resource, m[0].Arch) {
			return Finding{}, false
		}
		first = cmp.Or(first, file)
		list = append(list, resource)
	}
	if first == "" {
		return Finding{}, false
	}
	slices.SortFunc(list, gpucode.CompareNames)
	base := path.Base(first)
	lacks := strings.Replace(base, "sm"+gpucode.Resource(base), fmt.Sprintf("sm%d", m[0].Arch), 1)
	f := g.pass.say("compiler-lacks-gpu", "tensorrt", packs.Values{"gpu": m.names(), "has": compilesFor(slices.Compact(list)), "lacks": lacks})
	f.Subject, f.Machines = first, m
	f.Present = g.pass.Image.FilesOf([]string{first})
	return f, true
}
