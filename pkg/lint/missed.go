package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// missed groups the misses of all replays.
func missed(pass *Pass) []Finding {
	by := &causes{pass.Packs, map[string]*cause{}}
	objectMisses(pass, by)
	stepMisses(pass, by)
	preloadMisses(pass, by)
	openMisses(pass, by)
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(by.all)) {
		f := finding(pass, by.all[key])
		adviseRequired(pass, &f)
		list = append(list, f)
	}
	return append(list, noneServes(pass)...)
}

// objectMisses adds what each file misses when it is loaded by itself, or after the
// framework that it relies on.
func objectMisses(pass *Pass, by *causes) {
	entry := pass.Config.Entry()
	for _, o := range pass.Files.Objects {
		for _, e := range pass.Files.Real(o.Misses) {
			c := by.of(e)
			c.loading = true
			v := judge(pass, o, e)
			if o.Path == entry.Path {
				c.starts = true
				c.effect(pass.Packs.Effects(startClause(e), packs.Values{"program": entry.Name, "error": e.Error()})...)
				v = judgeStart(pass, v, e)
			} else if f := pythonsOf(pass, o); f != "" {
				c.effect(pass.Packs.Effects("python-does-not-start", packs.Values{"framework": f, "error": e.Error()})...)
				v = packs.Grave
			}
			c.meet(e, o.Path, v)
		}
	}
}

// startClause returns the clause that says how an error of the image's program reads:
// musl's is the whole line, an assertion of the loader's and a signal have no program in
// front.
func startClause(e *elfdeps.Error) string {
	switch {
	case e.Musl, e.Kind == elfdeps.InnerError, e.Kind == elfdeps.CutError:
		return "start-line"
	case replay.IsVersion(e):
		return "start-version"
	}
	return "start-file"
}

// stepMisses adds what fails in the steps of frameworks.
func stepMisses(pass *Pass, by *causes) {
	for _, in := range pass.Evidence.Installs {
		for _, f := range in.Failures {
			file := replay.RealPath(pass.Image.FS, f.Path)
			for _, e := range f.Misses {
				c := by.of(e)
				c.loading = true
				if x := packs.ExceptionFor(pass.Packs.AnyOf, file); x != nil && anyServes(pass, x, file) {
					c.meet(e, file, pass.Packs.Excepted(x))
					continue
				}
				c.meet(e, file, judgeStep(pass, in, e))
				c.cuda = cmp.Or(c.cuda, in.Installed.Cuda())
				c.effect(stepEffect(pass, f, e))
			}
		}
	}
}

// stepEffect returns the effect of a step that fails.
func stepEffect(pass *Pass, f replay.Failure, e *elfdeps.Error) packs.Effect {
	text := f.Step.Effect
	if e.Kind == elfdeps.CutError && !f.Killed && !f.Step.Imports() {
		text = pass.Packs.Phrase("killed", packs.Values{"effect": text})
	}
	return packs.Effect{Text: text, Error: pass.Packs.Reads(f.Step.Error, e, "{stem}", packs.Stem(e.Name))}
}

// preloadMisses adds what the libraries miss that are preloaded into every program.
func preloadMisses(pass *Pass, by *causes) {
	start := pass.Loaders.Preloading()
	if start == nil {
		return
	}
	own := pass.Files.MissesOf(start, start.Program())
	for _, e := range pass.Files.Real(slices.Concat(start.Misses, replay.VersionsOf(start))) {
		if e.By == nil || slices.Contains(own, e) {
			continue
		}
		c := by.of(e)
		c.meet(e, e.By.Real(), packs.Grave)
		c.preload = e.By.Real()
		c.effect(pass.Packs.Effects("preload-breaks", packs.Values{"by": preloadedBy(pass, start, e.By), "file": e.By.Real(), "program": start.Program().Real(), "error": e.Error()})...)
	}
}

// openMisses adds what fails to open by its name: by a plan, or by a file's own note.
func openMisses(pass *Pass, by *causes) {
	for _, r := range pass.Evidence.Processes {
		for i := range r.Missed {
			if m := &r.Missed[i]; m.Err.Kind != elfdeps.SymbolError {
				meetOpen(pass, by.of(m.Err), m)
			}
		}
	}
	for _, m := range pass.Evidence.Noted {
		meetOpen(pass, by.of(m.Err), &m)
	}
}

// meetOpen adds what failed to open by name.
func meetOpen(pass *Pass, c *cause, m *replay.MissedOpen) {
	by := m.By
	if m.Err.By != nil && m.Err.By.Real() != "" && m.Err.Name != m.Name {
		by = m.Err.By.Real()
	}
	c.meet(m.Err, m.By, m.Verdict)
	delete(c.needers, m.By)
	c.needers[by] = true
	c.effect(m.Effect)
	c.effect(m.Also...)
	c.cuda, c.front = cmp.Or(c.cuda, m.Cuda), cmp.Or(c.front, m.By)
	c.part = c.part || m.Front != "" && pass.Packs.Family(m.Front) == pass.Packs.Family(m.Err.Name)
}

// noneServes are the findings about files of which any one would do, and none can
// be loaded for what the system lacks.
func noneServes(pass *Pass) []Finding {
	type group struct {
		of  *packs.Exception
		dir string
	}
	all := map[group][]*replay.Object{}
	for _, o := range pass.Files.Objects {
		if x := packs.ExceptionFor(pass.Packs.AnyOf, o.Path); x != nil && x.Effect != "" {
			g := group{x, path.Dir(o.Path)}
			all[g] = append(all[g], o)
		}
	}
	var list []Finding
	for g, objects := range all {
		missing := map[string]bool{}
		var affected []string
		for _, o := range objects {
			misses := pass.Files.Real(o.Misses)
			lacks := len(misses) > 0 && !slices.ContainsFunc(misses, func(e *elfdeps.Error) bool { return !e.Missing() || e.Unknown || pass.Packs.Family(e.Name) != nil })
			if !lacks {
				missing = nil
				break
			}
			missing[misses[0].Name] = true
			affected = append(affected, o.Path)
		}
		if missing == nil {
			continue
		}
		slices.Sort(affected)
		f := pass.say("unresolved-library", "none-serves", packs.Values{
			"files": path.Base(g.of.Match), "dir": g.dir, "libraries": strings.Join(slices.Sorted(maps.Keys(missing)), ", "),
		})
		f.Affected, f.NeededBy = affected, pass.Image.FilesOf(affected)
		f.Effects = []packs.Effect{{Text: g.of.Effect, Error: g.of.Error}}
		f.advise(packs.Row(g.of.Fix, nil))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// pythonsOf names the first framework whose interpreter a program is; empty when it
// is none's.
func pythonsOf(pass *Pass, o *replay.Object) string {
	if !replay.IsProgram(o.ELF) {
		return ""
	}
	for _, in := range pass.Evidence.Installs {
		for _, python := range pass.Loaders.Pythons(in.Home) {
			if e, _, ok := pass.Image.FS.Lookup(python); ok {
				if "/"+e.Path == o.Path {
					return in.Title
				}
				break // the others are not looked at
			}
		}
	}
	return ""
}
