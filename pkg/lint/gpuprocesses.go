package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// gpuProcesses returns the processes of the evidence that load files with GPU code: the
// frameworks and programs, then the Python programs that were followed.
func gpuProcesses(pass *Pass) []targets.Process {
	var list []targets.Process
	add := func(p targets.Process, files []string) {
		for _, f := range files {
			if e, _, ok := pass.Image.FS.Lookup(f); ok && e.GPU() != nil {
				p.Files = append(p.Files, f)
			}
		}
		if len(p.Files) > 0 {
			list = append(list, p)
		}
	}
	started := startedPrograms(pass)
	for _, r := range pass.Evidence.Processes {
		p := targets.Process{Title: r.Title, CUDA: pass.Files.ProcessCUDA(r), Perhaps: r.In == nil && !slices.Contains(started, r.Program)}
		if r.In != nil {
			p.Title, p.Framework = r.In.Title, r.In.ID
		}
		var files []string
		for _, m := range r.Loaded {
			files = append(files, m.Real())
		}
		add(p, files)
	}
	for _, program := range started {
		if !slices.ContainsFunc(pass.Evidence.Processes, func(r *replay.Process) bool { return r.Program == program && r.In == nil }) {
			add(targets.Process{Title: program}, mappedBy(pass, program))
		}
	}
	for _, s := range pass.Evidence.Starts {
		if s.Folder != nil {
			continue // its process is that of the program
		}
		certain := s.Package == "" && s.Certain || s.Asked == inventory.Yes
		add(targets.Process{Title: strings.Join(s.Chain, " → "), Framework: frameworkIn(pass, s.Mapped), Perhaps: !certain}, s.Mapped)
	}
	return list
}

// startedPrograms returns the real paths of the ELF programs that the image's start runs.
func startedPrograms(pass *Pass) []string {
	var list []string
	if e, _, ok := pass.Image.FS.Lookup(pass.Config.Entry().Path); ok {
		list = append(list, "/"+e.Path)
	}
	for _, r := range pass.Evidence.Reached {
		list = append(list, r.Object.Path)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// mappedBy returns the files that a program maps when it starts, itself first.
func mappedBy(pass *Pass, program string) []string {
	list := []string{program}
	o := pass.Files.ByPath[program]
	if o == nil || o.Loader == nil { // a static program
		return list
	}
	p, _ := o.Loader.Trace(program) // what it misses is for other rules
	for _, m := range p.Objects {
		if real := m.Real(); real != program {
			list = append(list, real)
		}
	}
	return list
}

// frameworkIn returns the ID of the first framework, in the order of the packs, of which one of
// the files is, or "".
func frameworkIn(pass *Pass, files []string) string {
	for _, in := range pass.Evidence.Installs {
		for _, f := range files {
			if replay.IsIn(f, in.Home) {
				return in.ID
			}
		}
	}
	return ""
}

// gpuSettings returns the variables of the image that decide how the driver uses GPU code.
func gpuSettings(pass *Pass) targets.Settings {
	is := func(name string) bool {
		value, _ := pass.Config.Getenv(name)
		return value == "1"
	}
	return targets.Settings{ForceJIT: is("CUDA_FORCE_PTX_JIT"), DisableJIT: is("CUDA_DISABLE_PTX_JIT")}
}

// GPURows returns the verdicts on the image for every known GPU, in the order of their
// architectures, or nil if the image has no GPU code.
func GPURows(ev *replay.Evidence, img *replay.Image, set *packs.Packs) []*targets.Row {
	pass := newPass(img, set, ev)
	return targets.Known().Rows(img.FS, gpuProcesses(pass), gpuSettings(pass))
}
