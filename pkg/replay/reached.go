package replay

import (
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// Reached is an ELF program that the image's start runs through scripts and starters, in
// the environment that they give it. The program that ENTRYPOINT or CMD names itself, and
// the interpreters of scripts, are not among them (see [Config.Entry]).
type Reached struct {
	*startup.Program
	Object *Object
	// Misses are the libraries that it does not find when it starts, without the driver's.
	Misses []*elfdeps.Error
	// Verdict is the severity of a failure, by the certainty that the program runs, and that
	// its end is the container's.
	Verdict packs.Verdict
}

// started returns the programs of an image's start.
func started(img *Image, set *packs.Packs) *startup.Result {
	all, err := starters()
	if err != nil {
		set.KeepErr(err)
	}
	if err != nil || img.Config == nil {
		return &startup.Result{}
	}
	return startup.Follow(img.FS, img.Config.Config, all)
}

// reach starts the ELF programs of the image's start. Their misses in their own
// environment replace those in the image's, which scripts change.
func (st *starter) reach() []Reached {
	var list []Reached
	misses := map[*Object][]*elfdeps.Error{}
	for i := range st.re.ev.Started.Programs {
		p := &st.re.ev.Started.Programs[i]
		o := st.re.files.ByPath[RealPath(st.re.img.FS, p.Path)]
		if p.Path == "" || o == nil || o.Path == st.re.config.Entry().Path || !IsProgram(o.ELF) {
			continue
		}
		proc := st.startIn(o, p)
		if proc == nil {
			continue
		}
		r := Reached{Program: p, Object: o, Verdict: st.verdict(p)}
		r.Misses = kept(st.re.files.Real(st.re.files.MissesOf(proc, proc.Program())))
		list = append(list, r)
		misses[o] = append(misses[o], r.Misses...)
	}
	for o, missed := range misses {
		o.Misses = missed
	}
	st.whicheverRuns(list)
	st.wrapped(misses)
	return list
}

// whicheverRuns makes the misses of programs grave of which a script runs one, whichever it
// is, if all of them miss the same.
func (st *starter) whicheverRuns(list []Reached) {
	var mains []*Reached
	for i := range list {
		if r := &list[i]; r.Main && !r.Caught && r.Kind != startup.KindShell {
			mains = append(mains, r)
		}
	}
	all := 0
	for _, p := range st.re.ev.Started.Programs {
		if p.Main && p.Kind != startup.KindShell {
			all++
		}
	}
	if len(mains) < 2 || len(mains) < all || len(st.re.ev.Started.Unknown) > 0 {
		return
	}
	for _, e := range mains[0].Misses {
		if e.Missing() && !slices.ContainsFunc(mains, func(r *Reached) bool { return !r.misses(e.Name) }) {
			for _, r := range mains {
				r.Verdict = packs.Grave
			}
			return
		}
	}
}

// misses reports whether a program does not find a library.
func (r *Reached) misses(library string) bool {
	return slices.ContainsFunc(r.Misses, func(e *elfdeps.Error) bool { return e.Missing() && e.Name == library })
}

// startIn traces a program in its environment. It returns nil if it cannot be traced, or if
// the environment has a value that decides what it loads and is not known.
func (st *starter) startIn(o *Object, pr *startup.Program) *elfdeps.Process {
	lo := st.re.loaders
	image := st.loaderOf(o, pr.Loader)
	if image == nil || !startup.Known(pr.Env["LD_LIBRARY_PATH"]) || !startup.Known(pr.Env["LD_PRELOAD"]) {
		return nil
	}
	l, err := elfdeps.NewLoader(lo.gpuHost(image), image.Path, st.environment(pr.Env))
	if err != nil {
		return nil
	}
	trace := l.Trace // its error repeats the misses of the process
	if pr.Loader != "" {
		trace = l.TraceFile
	}
	p, _ := trace(pr.Path)
	if p.Program() == nil {
		return nil
	}
	return p
}

// loaderOf returns the loader of a program: the one that is called by hand, unless that is "",
// else the one that it names. It returns nil if the image has none.
func (st *starter) loaderOf(o *Object, byHand string) *elfdeps.Loader {
	if byHand != "" {
		return st.re.loaders.Loader(byHand)
	}
	return o.Loader
}

// environment returns the loader's environment with the known variables of env.
func (st *starter) environment(env map[string]string) elfdeps.Env {
	e := st.re.config.Env()
	e.Vars = nil
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if startup.Known(env[name]) {
			e.Vars = append(e.Vars, name+"="+env[name])
		}
	}
	return e
}

// verdict returns the verdict on a failure of a program of the image's start.
func (st *starter) verdict(p *startup.Program) packs.Verdict {
	switch {
	case p.Maybe != "":
		return st.re.packs.Verdict("script-maybe", packs.Values{"maybe": p.Maybe})
	case p.Caught && !p.Service:
		return st.re.packs.Verdict("script-goes-on", nil)
	case p.Caught, !p.Main:
		return st.re.packs.Verdict("start-goes-on", nil)
	}
	return packs.Grave
}
