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

// gpuCode returns a finding for each machine of the image, and each reason for which it cannot
// use the GPU code of files that processes load.
func gpuCode(pass *Pass) []Finding {
	g := newGPUJudge(pass)
	if len(pass.Image.Machines) == 0 {
		return append(g.soldGPUs(), g.claims()...)
	}
	var list []Finding
	for _, m := range g.byDriver() {
		list = append(list, g.runtimes(m)...)
	}
	for _, m := range g.alike() {
		list = append(list, g.onMachines(m)...)
	}
	return list
}

// byDriver returns the machines of the image, those with one driver together.
func (g *gpuJudge) byDriver() []machines {
	return together(g.pass.Image.Machines, func(m targets.Machine) string { return m.Driver })
}

// together returns machines in their order, those with one key together.
func together(all []targets.Machine, key func(targets.Machine) string) []machines {
	var list []machines
	at := map[string]int{}
	for _, m := range all {
		k := key(m)
		i, ok := at[k]
		if !ok {
			i, list = len(list), append(list, nil)
			at[k] = i
		}
		list[i] = append(list[i], m)
	}
	return list
}

// machines are machines that use the code of the image alike: they have one driver.
type machines []targets.Machine

// alike returns the machines of the image, those together that use its code alike.
func (g *gpuJudge) alike() []machines {
	return together(g.pass.Image.Machines, func(m targets.Machine) string {
		key := fmt.Sprint(m.Driver, m.Arch == 0)
		for _, j := range g.tables.Judge(g.pass.Image.FS, g.processes, m, g.settings) {
			key += fmt.Sprintf("\n%s %v %s %d", j.Path, j.Outcome, j.Reason, j.Lack)
		}
		for _, f := range slices.Concat(g.notLoaded(machines{m}), g.compilers(machines{m})) {
			key += "\n" + f.Rule + " " + strings.Join(f.Affected, " ")
		}
		return key
	})
}

// gpuJudge judges the files with GPU code of one image.
type gpuJudge struct {
	pass      *Pass
	tables    *targets.Tables
	processes []targets.Process
	settings  targets.Settings
	// certain has the files that processes load: true if such a process is certain to run.
	certain map[string]bool
	files   []string // of the image that have GPU code or, by their names, kernels of TensorRT's builder
}

func newGPUJudge(pass *Pass) *gpuJudge {
	g := &gpuJudge{pass: pass, tables: targets.Known(), processes: gpuProcesses(pass), settings: gpuSettings(pass), certain: map[string]bool{}}
	for _, p := range g.processes {
		for _, file := range p.Files {
			g.certain[file] = g.certain[file] || !p.Perhaps
		}
	}
	for e := range pass.Image.FS.All() {
		if e.Type == layers.Regular && (e.GPU() != nil || gpucode.Resource(path.Base(e.Path)) != "") {
			g.files = append(g.files, "/"+e.Path)
		}
	}
	return g
}

// fitOf are the files whose code has one outcome on a machine.
type fitOf struct {
	outcome targets.Outcome
	rule    string
	clause  string
	files   []*targets.Judged
}

// onMachines returns the findings about machines.
func (g *gpuJudge) onMachines(m machines) []Finding {
	judged := g.tables.Judge(g.pass.Image.FS, g.processes, m[0], g.settings)
	// Files that have their code for their own sake come before libraries that they use.
	slices.SortStableFunc(judged, func(a, b *targets.Judged) int {
		return cmp.Compare(g.rank(a), g.rank(b))
	})
	groups := []*fitOf{
		{outcome: targets.NoCode, rule: "no-gpu-code", clause: "none"},
		{outcome: targets.JITOff, rule: "ptx-jit", clause: "disabled"},
		{outcome: targets.PTXTooNew, rule: "needs-newer-driver", clause: "ptx"},
		{outcome: targets.NoZstd, rule: "needs-newer-driver", clause: "zstd"},
		{outcome: byForce, rule: "ptx-jit", clause: "forced"},
		{outcome: "partly " + targets.NoCode, rule: "no-gpu-code", clause: "partly"},
		{outcome: "partly " + targets.JITOff, rule: "ptx-jit", clause: "disabled"},
		{outcome: "partly " + targets.PTXTooNew, rule: "needs-newer-driver", clause: "ptx-partly"},
		{outcome: "partly " + targets.NoZstd, rule: "needs-newer-driver", clause: "zstd-partly"},
		{outcome: targets.Unsure, rule: "no-gpu-code", clause: "unsure"},
		{outcome: notRead, rule: "no-gpu-code", clause: "unread"},
		{outcome: linked, rule: "no-gpu-code", clause: "linked"},
	}
	for _, j := range judged {
		outcome := g.outcomeOf(m, j)
		if (outcome == targets.PTXTooNew || outcome == targets.NoZstd) && !g.starts(m, j.Path) {
			continue // no process gets as far as that
		}
		for _, of := range groups {
			if of.outcome == outcome {
				of.files = append(of.files, j)
			}
		}
	}
	var list []Finding
	for _, of := range groups {
		if len(of.files) > 0 {
			list = append(list, g.finding(m, of))
		}
	}
	list = append(list, g.notLoaded(m)...)
	return append(list, g.compilers(m)...)
}

// Outcomes that only findings tell apart.
const (
	byForce targets.Outcome = "forced" // no code, because of CUDA_FORCE_PTX_JIT
	notRead targets.Outcome = "unread" // unsure, because the file was not read whole
	linked  targets.Outcome = "linked" // unsure, because the driver perhaps links the file's code
)

// outcomeOf returns the outcome by which a file belongs to a finding.
func (g *gpuJudge) outcomeOf(m machines, j *targets.Judged) targets.Outcome {
	switch {
	case j.Outcome == targets.FitsPartly:
		return "partly " + j.Reason
	case j.Outcome == targets.NoCode && g.hasMachineCode(m[0], j):
		return byForce
	case j.Outcome == targets.Unsure && g.codeOf(j.Path).Partial != "":
		return notRead
	case j.Linked:
		return linked
	}
	return j.Outcome
}

// rank returns the place of a file among those of a finding, from 0.
func (g *gpuJudge) rank(j *targets.Judged) int {
	switch {
	case j.Weight != targets.Certain:
		return 1 + int(j.Weight)
	case g.tables.Chooses(path.Base(j.Path)):
		return 1
	}
	return 0
}

// starts reports whether a process that loads a file has a CUDA runtime that the driver serves.
func (g *gpuJudge) starts(m machines, file string) bool {
	return slices.ContainsFunc(g.processes, func(p targets.Process) bool {
		needs := g.tables.RuntimeDriver(p.CUDA)
		return slices.Contains(p.Files, file) && (needs == "" || !m[0].Before(needs))
	})
}

// hasMachineCode reports whether a file without code would have it if the driver were not
// forced to compile.
func (g *gpuJudge) hasMachineCode(m targets.Machine, j *targets.Judged) bool {
	if !g.settings.ForceJIT {
		return false
	}
	fit, ok := g.tables.Fit(path.Base(j.Path), g.codeOf(j.Path), m, targets.Settings{})
	return ok && !fit.Outcome.Fails()
}

func (g *gpuJudge) codeOf(file string) *gpucode.Code {
	return targets.CodeOf(g.pass.Image.FS, file)
}

// finding returns the finding about files with one outcome.
func (g *gpuJudge) finding(m machines, of *fitOf) Finding {
	v := g.values(m, of.files)
	f := g.about(of.rule, of.clause, m, of.files, v)
	all := func(is func(j *targets.Judged) bool) bool {
		return !slices.ContainsFunc(of.files, func(j *targets.Judged) bool { return !is(j) })
	}
	switch {
	case of.outcome == "partly "+targets.JITOff:
		g.pass.lower(&f, "partly", v)
	case of.outcome.Fails() && all(func(j *targets.Judged) bool { return j.Weight == targets.Harmless }):
		g.pass.lower(&f, "gpu-harmless", v)
	case of.outcome.Fails() && all(func(j *targets.Judged) bool { return j.Weight != targets.Certain }):
		g.pass.lower(&f, "gpu-some-programs", v)
	case f.Severity == packs.Error && all(func(j *targets.Judged) bool { return j.Weight != targets.Certain || !g.certain[j.Path] }):
		g.pass.lower(&f, "gpu-perhaps-loaded", v)
	}
	for _, j := range of.files {
		for _, e := range j.Effects {
			g.pass.also(&f, "gpu-effect", packs.Values{"effect": e.Effect, "error": e.Error})
		}
	}
	switch of.clause {
	case "none", "partly", "unsure":
		g.adviseBuild(&f, m, v)
	case "forced":
		f.Subject, f.Values = "CUDA_FORCE_PTX_JIT", packs.Values{"forced": "1"}
	case "disabled":
		f.Subject, f.Values = "CUDA_DISABLE_PTX_JIT", packs.Values{"disabled": "1"}
	}
	return f
}

// about returns a finding about files and machines.
func (g *gpuJudge) about(rule, clause string, m machines, files []*targets.Judged, v packs.Values) Finding {
	f := g.pass.say(rule, clause, v)
	f.Cause += " " + files[0].Path
	f.Subject, f.Library = files[0].Path, path.Base(files[0].Path)
	f.Machines = m
	for _, j := range files {
		f.Affected = append(f.Affected, j.Path)
	}
	f.Present = g.pass.Image.FilesOf(f.Affected[:1])
	return f
}

// values returns the values of the texts about files.
func (g *gpuJudge) values(m machines, files []*targets.Judged) packs.Values {
	first := files[0]
	name := targets.ShortName(first.Path)
	v := packs.Values{
		"gpu": m.names(), "sm": m.each(" and ", "sm_%d"), "gencode": m.each(" ", "-gencode arch=compute_%[1]d,code=sm_%[1]d"), "capability": m.each(";", "%[2]d.%[3]d"),
		"driver": m.driver(), "needs": needs(first), "files": name, "first": name, "it": "it", "also": "", "has": has(g.codeOf(first.Path)), "package": cmp.Or(g.packageOf(first.Path), name),
		"lack": fmt.Sprint(first.Lack), "all": fmt.Sprint(first.Containers),
	}
	switch n := len(files) - 1; n {
	case 0:
		return v
	case 1:
		other := targets.ShortName(files[1].Path)
		v["files"], v["also"] = name+" and "+other, " and in a part of "+other
	default:
		v["files"], v["also"] = fmt.Sprintf("%s and %d more files", name, n), fmt.Sprintf(" and in parts of %d more files", n)
	}
	v["it"] = name
	return v
}

// names returns the GPUs as a sentence has them: "the L4 (sm_89) and sm_90".
func (m machines) names() string {
	var list []string
	for _, one := range m {
		name := one.Name()
		if one.GPU != "" && !strings.HasPrefix(one.GPU, "sm_") {
			name = "the " + name
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if n := len(list); n > 1 {
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	}
	return strings.Join(list, "")
}

// driver returns the release of the driver, or "".
func (m machines) driver() string {
	if len(m) == 0 {
		return ""
	}
	return m[0].Driver
}

// each returns a format filled with each architecture: its number, and those of its compute
// capability.
func (m machines) each(sep, format string) string {
	var list []string
	for _, one := range m {
		if s := fmt.Sprintf(format+"%[4]s", one.Arch, one.Arch/10, one.Arch%10, ""); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return strings.Join(list, sep)
}

// needs returns the driver that a file needs. One for PTX that is newer than all known drivers
// has no number.
func needs(j *targets.Judged) string {
	if j.Driver == "" && j.PTX != 0 {
		return "one for PTX " + j.PTX.String()
	}
	return j.Driver
}

// maxShown limits the architectures of a message.
const maxShown = 10

// has returns the architectures that a file has code for: "sm_75 sm_80 and PTX for compute_90".
func has(c *gpucode.Code) string {
	var sass, ptx []string
	if c != nil {
		for _, g := range c.Groups {
			for _, e := range g.Entries {
				switch {
				case g.Section == gpucode.RelocatableSection:
				case e.Kind == gpucode.SASS:
					sass = append(sass, e.Name())
				case e.Kind == gpucode.PTX:
					ptx = append(ptx, e.Name())
				}
			}
		}
	}
	join := func(prefix string, list []string) string {
		slices.SortFunc(list, gpucode.CompareNames)
		list = slices.Compact(list)
		list = slices.DeleteFunc(list, func(name string) bool { // sm_90a says little beside sm_90
			plain := strings.TrimRight(name, "af")
			return plain != name && slices.Contains(list, plain)
		})
		more := ""
		if len(list) > maxShown {
			list, more = list[:maxShown], " …"
		}
		for i := range list {
			list[i] = prefix + list[i]
		}
		return strings.Join(list, " ") + more
	}
	parts := slices.DeleteFunc([]string{join("sm_", sass), join("compute_", ptx)}, func(s string) bool { return s == "" })
	return cmp.Or(strings.Join(parts, " and PTX for "), "no GPU")
}

// packageOf returns the name of the package that owns a file, or "".
func (g *gpuJudge) packageOf(file string) string {
	if in := g.pass.Evidence.InstallOf(file); in != nil {
		return in.Title
	}
	if _, pkg, _ := g.pass.Packages.OwnerOf(file); pkg != nil {
		return pkg.Name
	}
	return strings.ReplaceAll(g.pass.Packages.DistOf(file).Name, "_", "-")
}

// adviseBuild adds the advice to take another build.
func (g *gpuJudge) adviseBuild(f *Finding, m machines, v packs.Values) {
	a := g.tables.Architecture(m[0].Arch)
	cuda := g.cudaOf(f.Subject)
	newer := func(a, b string) bool { return packs.ParseRelease(b).Before(packs.ParseRelease(a)) }
	v["from"], v["until"] = a.From, a.Until
	if g.packageOf(f.Subject) == "" {
		g.pass.also(f, "compile-own", v)
		return
	}
	switch {
	case a.From != "" && cuda != "" && newer(a.From, cuda):
		g.pass.also(f, "needs-cuda", v)
	case a.Until != "" && cuda != "" && newer(cuda, a.Until):
		g.pass.also(f, "dropped-by-cuda", v)
	default:
		g.pass.also(f, "other-build", v)
	}
	g.pass.also(f, "compile", v)
}

// cudaOf returns the release of CUDA that the package of a file is built for, or the major
// release in the first process that loads it, or "".
func (g *gpuJudge) cudaOf(file string) string {
	if p, pkg, _ := g.pass.Packages.OwnerOf(file); pkg != nil {
		if cuda := g.pass.Packages.CudaBuild(p, pkg); cuda != "" {
			return cuda
		}
	}
	for _, p := range g.processes {
		if slices.Contains(p.Files, file) {
			return p.CUDA
		}
	}
	return ""
}
