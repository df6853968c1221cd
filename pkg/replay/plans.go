package replay

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// plans runs the processes of the evidence, and opens the libraries that the packs say
// they open by name.
type plans struct {
	re      *replayer
	openers map[[2]string][]*packs.Dlopens // by SONAME and file name
	asked   int                            // number of questions to lacks
}

// follow runs the processes of the frameworks and programs. The process of a framework
// that cannot be imported ends with its steps; a program that does not start has no
// process.
func (pl *plans) follow() {
	if pl.re.loaders.Primary == nil {
		return
	}
	files := map[mappedAs]*elfdeps.Module{}
	for _, in := range pl.re.ev.Installs {
		if len(in.Steps) == 0 {
			continue
		}
		if r := pl.runInstall(in); r != nil {
			r.end(files)
			pl.re.ev.Processes = append(pl.re.ev.Processes, r)
		}
	}
	for _, p := range pl.re.programs() {
		if r := pl.runProgram(p); r != nil {
			r.end(files)
			pl.re.ev.Processes = append(pl.re.ev.Processes, r)
		}
	}
}

// runInstall returns the process of a framework, or nil if the image has no loader. If
// all steps succeeded before, symbols are not bound in it: that takes most of the time,
// and binder does it.
func (pl *plans) runInstall(in *Install) *Process {
	host := pl.re.hosts.primary()
	if host == nil {
		return nil
	}
	program := pl.re.hosts.programOf(in, host)
	r := &Process{Title: in.Title + " at " + in.Home, In: in, Program: program, proc: pl.re.hosts.trace(host, program), done: map[openKey]bool{}}
	if len(in.Failures) > 0 && in.goesOn() {
		r.proc.Settle() // so that a file that fails is unloaded
	}
	pl.re.runSteps(r.proc, in)
	if !in.goesOn() {
		return r
	}
	r.proc.Settle()
	pl.openAll(r)
	pl.helpRun(r, host)
	pl.withoutGPU(r)
	return r
}

// runProgram returns the process of a program, or nil if it does not start. The symbols
// needed at the start are not bound; binder binds them once for each library.
func (pl *plans) runProgram(o *Object) *Process {
	host := pl.re.hosts.loader(o.Loader)
	if host == nil {
		return nil
	}
	p, err := host.Trace(o.Path)
	if err != nil {
		return nil
	}
	p.Settle()
	r := &Process{Title: o.Path, Program: o.Path, proc: p, done: map[openKey]bool{}}
	pl.openAll(r)
	return r
}

// programs returns the programs that load GPU libraries, when they start or by a crate that
// they have compiled in, and miss no library.
func (re *replayer) programs() []*Object {
	var list []*Object
	for _, o := range re.files.Objects {
		if _, ok := re.loadsGPU.Load(o.Path); (ok || opensByCrate(re.packs, o)) && len(re.files.Real(o.Misses)) == 0 {
			list = append(list, o)
		}
	}
	return list
}

// opensByCrate reports whether a program has a crate compiled in that opens libraries.
func opensByCrate(set *packs.Packs, o *Object) bool {
	return IsProgram(o.ELF) && slices.ContainsFunc(set.Dlopens, func(d *packs.Dlopens) bool { _, is := d.CrateIn(o.ELF); return is })
}

// helpRun lowers the verdicts on opens that succeed with a help of the packs.
func (pl *plans) helpRun(r *Process, host *elfdeps.Loader) {
	if len(r.Missed) == 0 {
		return
	}
	for i := range r.In.Helped {
		h := &r.In.Helped[i]
		again := &Process{Title: r.Title, In: r.In, Program: r.Program, proc: pl.re.hosts.trace(host, r.Program), done: map[openKey]bool{}}
		begun := pl.re.begins(r.In, h) || pl.loadsBoth(r.In, h)
		if len(r.In.Failures) > 0 && r.In.Help != h && !begun || !pl.re.helpIn(again.proc, r.In, h) {
			continue
		}
		pl.re.runSteps(again.proc, r.In)
		again.proc.Settle()
		pl.openAll(again)
		for i := range r.Missed {
			m := &r.Missed[i]
			still := slices.ContainsFunc(again.Missed, func(o MissedOpen) bool { return o.part == m.part && o.Name == m.Name })
			if !still && (begun || m.Verdict.Severity == packs.Error) {
				m.Verdict = pl.re.packs.Helped(h, begun)
			}
		}
	}
}

// loadsBoth reports whether the image's programs have loaded the framework that gives a help when
// one of them uses the other: each that loads the other has, or there is one program, and it has.
// The order does not matter to what a framework opens when it is used.
func (pl *plans) loadsBoth(in *Install, h *packs.Help) bool {
	programs, helped, both := 0, 0, 0
	for _, s := range pl.re.ev.Starts {
		if s.Package != "" || s.Node || s.Folder != nil {
			continue
		}
		programs++
		uses := pl.loadsOf(s, in)
		if slices.ContainsFunc(pl.re.ev.Installs, func(o *Install) bool { return o.ID == h.Framework && pl.loadsOf(s, o) }) {
			helped++
			if uses {
				both++
			}
		} else if uses {
			return false
		}
	}
	return both > 0 || helped > 0 && helped == programs
}

// loadsOf reports whether a program has mapped a file of a framework.
func (pl *plans) loadsOf(s *Start, in *Install) bool {
	home := RealPath(pl.re.img.FS, in.Home)
	return slices.ContainsFunc(s.Mapped, func(file string) bool { return IsIn(file, home) })
}

// withoutGPU lowers the verdicts on the misses of a framework that is often used without a GPU
// and has opened none of its GPU libraries. They keep their severity if the image is certain to
// want it on the GPU: somebody asked for the library itself, which serves no other framework,
// or the image is for a GPU and its program imports the framework.
func (pl *plans) withoutGPU(r *Process) {
	if !r.In.CPUToo || r.opened > 0 {
		return
	}
	for i := range r.Missed {
		m := &r.Missed[i]
		brought, meant := pl.broughtFor(r.In, m.Err.Name)
		switch wants := pl.re.config.wantsGPU(); {
		case meant, wants && pl.re.ev.Unseen.wanted.imports(r.In):
		case wants, brought:
			m.Verdict = m.Verdict.AtMost(pl.re.packs.Verdict("without-gpu", nil))
		default:
			m.Verdict = pl.re.packs.Verdict("meant-without-gpu", nil)
		}
	}
}

// broughtFor reports whether a library was installed for a framework: as a wheel in its
// site-packages directory, without another framework there that could use it. asked reports
// whether somebody asked for that wheel.
func (pl *plans) broughtFor(in *Install, name string) (brought, asked bool) {
	if slices.ContainsFunc(pl.re.ev.Installs, func(o *Install) bool { return o.Site == in.Site && !o.CPUToo && len(o.Preload)+len(o.Later) > 0 }) {
		return false, false
	}
	for _, p := range pl.re.files.Present(name) {
		if pl.re.files.InWheelDir(strings.TrimPrefix(p, in.Site+"/")) {
			brought = true
			asked = asked || pl.re.ev.Unseen.wanted.Asked(p, "") == inventory.Yes
		}
	}
	return brought, asked
}
