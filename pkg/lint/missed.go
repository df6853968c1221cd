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

// missed returns a finding for each cause of the misses of all replays.
func missed(pass *Pass) []Finding {
	by := &causes{pass.Packs, map[string]*cause{}}
	objectMisses(pass, by)
	stepMisses(pass, by)
	preloadMisses(pass, by)
	openMisses(pass, by)
	groups := noneServe(pass)
	startMisses(pass, by, groups)
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(by.all)) {
		f := finding(pass, by.all[key])
		adviseRequired(pass, &f)
		list = append(list, f)
	}
	return append(list, noneServeFindings(pass, groups)...)
}

// objectMisses adds the misses of each file that is loaded by itself, or after the
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
				v = judgeStart(pass, e)
			} else if reached := reachedBy(pass, o, e); reached != nil {
				v = meetReached(pass, c, reached, e, v)
			} else if f := pythonsOf(pass, o); f != "" {
				c.effect(pass.Packs.Effects("python-does-not-start", packs.Values{"framework": f, "error": e.Error()})...)
				v = packs.Grave
			}
			c.effect(calledEffects(pass, o, e, v.Clause)...)
			c.meet(e, o.Path, v)
			if pkg, _, ok := pass.Evidence.Unseen.Fails(o, e); ok {
				c.effect(pass.Packs.Effects("package-cannot-load", packs.Values{"package": pkg, "file": path.Base(o.Path), "error": e.Error()})...)
			}
		}
	}
}

// reachedBy returns the start of a program by the image's scripts that misses the same as e
// and is the gravest, or nil.
func reachedBy(pass *Pass, o *replay.Object, e *elfdeps.Error) *replay.Reached {
	var found *replay.Reached
	for i := range pass.Evidence.Reached {
		r := &pass.Evidence.Reached[i]
		misses := func(m *elfdeps.Error) bool { return m.Error() == e.Error() }
		if r.Object == o && slices.ContainsFunc(r.Misses, misses) && (found == nil || !found.Verdict.Severity.AtLeast(r.Verdict.Severity)) {
			found = r
		}
	}
	return found
}

// meetReached adds to a cause that it stops a program of the image's scripts, and returns the
// verdict: that of the start, or the one on the program by itself if that is graver.
func meetReached(pass *Pass, c *cause, r *replay.Reached, e *elfdeps.Error, alone packs.Verdict) packs.Verdict {
	v := r.Verdict
	if e.Unknown {
		v = v.AtMost(judgeStart(pass, e))
	} else if alone.Severity != v.Severity && alone.Severity.AtLeast(v.Severity) {
		return alone
	}
	if v.Severity == packs.Error {
		c.starts = true
		var steps []string
		for _, l := range r.Chain {
			steps = append(steps, l.String())
		}
		for _, x := range pass.Packs.Effects(startClause(e), packs.Values{"program": r.Args[0], "error": e.Error()}) {
			x.Text = pass.Packs.Phrase("by-way-of", packs.Values{"effect": x.Text, "chain": strings.Join(steps, " → ")})
			c.effect(x)
		}
	}
	return v
}

// startClause returns the clause with the text of an error of the image's program. Errors of
// musl, assertions of glibc's loader and signals are whole lines. Before the others glibc
// prints the program's name.
func startClause(e *elfdeps.Error) string {
	switch {
	case e.Musl, e.Kind == elfdeps.InnerError, e.Kind == elfdeps.CutError:
		return "start-line"
	case replay.IsVersion(e):
		return "start-version"
	}
	return "start-file"
}

// stepMisses adds the misses of frameworks' steps.
func stepMisses(pass *Pass, by *causes) {
	for _, in := range pass.Evidence.Installs {
		for _, f := range in.Failures {
			file := replay.RealPath(pass.Image.FS, f.Path)
			for _, e := range f.Misses {
				c := by.of(e)
				c.loading = true
				if x := pass.Packs.AnyOf.For(file); x != nil && anyServes(pass, x, file) {
					c.meet(e, file, pass.Packs.Excepted(x))
					continue
				}
				if f.Caught != "" {
					c.meet(e, file, pass.Packs.Verdict("start-catches", packs.Values{"caught": f.Caught}))
				} else {
					c.meet(e, file, judgeStep(pass, in, e))
				}
				c.cuda = cmp.Or(c.cuda, in.Installed.Cuda())
				c.effect(stepEffect(pass, f, e))
			}
		}
	}
}

// stepEffect returns the effect of a failed step.
func stepEffect(pass *Pass, f replay.Failure, e *elfdeps.Error) packs.Effect {
	text := f.Step.Effect
	if e.Kind == elfdeps.CutError && !f.Killed && !f.Step.Import {
		text = pass.Packs.Phrase("killed", packs.Values{"effect": text})
	}
	return packs.Effect{Text: text, Error: pass.Packs.Reads(f.Step.Error, e, "{stem}", packs.Stem(e.Name))}
}

// preloadMisses adds the misses of libraries that are preloaded into every program.
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

// openMisses adds failed opens by name: those of a plan, and those of a file's
// .note.dlopen.
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

// meetOpen adds a failed open by name to its cause.
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

// noneServing are the files of a directory of which a program needs any one, and of which none
// can be loaded, because each lacks a library of the system.
type noneServing struct {
	of        *packs.Exception
	dir       string
	objects   []*replay.Object
	libraries []string // the first one that each file lacks
	verdict   packs.Verdict
	effects   []packs.Effect // on programs that try the files
	last      *replay.Start  // the last of them
}

// noneServe returns the groups of such files, by the path of each file.
func noneServe(pass *Pass) map[string]*noneServing {
	type key struct {
		of  *packs.Exception
		dir string
	}
	all := map[key]*noneServing{}
	for _, o := range pass.Files.Objects {
		if x := pass.Packs.AnyOf.For(o.Path); x != nil && x.Effect != "" {
			k := key{x, path.Dir(o.Path)}
			if all[k] == nil {
				all[k] = &noneServing{of: x, dir: k.dir}
			}
			all[k].objects = append(all[k].objects, o)
		}
	}
	by := map[string]*noneServing{}
	for _, g := range all {
		if g.libraries = eachLacks(pass, g.objects); g.libraries == nil {
			continue
		}
		pkg, asked := pass.Evidence.Unseen.AskedFor(g.objects[0])
		if pkg == "" {
			pkg = path.Base(g.dir)
		}
		g.verdict = judgeUnseen(pass, pkg, asked)
		for _, o := range g.objects {
			by[o.Path] = g
		}
	}
	return by
}

// meet adds a program that tries the files, with its first failure. Its exception is that of the
// row, not the loader's error about the file that it tries first.
func (g *noneServing) meet(s *replay.Start, v packs.Verdict, effects []packs.Effect) {
	if v.Severity != g.verdict.Severity && v.Severity.AtLeast(g.verdict.Severity) {
		g.verdict = v
	}
	if g.last == s {
		return
	}
	g.last = s
	for _, e := range effects {
		if e.Error = g.of.Error; e.Text != "" && !slices.Contains(g.effects, e) {
			g.effects = append(g.effects, e)
		}
	}
}

// noneServeFindings returns the findings for groups, in the order of their messages.
func noneServeFindings(pass *Pass, groups map[string]*noneServing) []Finding {
	var list []Finding
	done := map[*noneServing]bool{}
	for _, g := range groups {
		if !done[g] {
			done[g] = true
			list = append(list, noneServesFinding(pass, g))
		}
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// eachLacks returns the names of the first library that each file lacks, sorted, or nil if
// one of the files lacks none, or anything but libraries of the system.
func eachLacks(pass *Pass, objects []*replay.Object) []string {
	isOther := func(e *elfdeps.Error) bool { return !e.Missing() || e.Unknown || pass.Packs.Family(e.Name) != nil }
	var names []string
	for _, o := range objects {
		misses := pass.Files.Real(o.Misses)
		if len(misses) == 0 || slices.ContainsFunc(misses, isOther) {
			return nil
		}
		names = append(names, misses[0].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// noneServesFinding returns the finding for a group.
func noneServesFinding(pass *Pass, g *noneServing) Finding {
	f := pass.say("unresolved-library", "none-serves", packs.Values{
		"files": path.Base(g.of.Match), "dir": g.dir, "libraries": strings.Join(g.libraries, ", "),
	})
	for _, o := range g.objects {
		f.Affected = append(f.Affected, o.Path)
	}
	slices.Sort(f.Affected)
	f.NeededBy = pass.Image.FilesOf(f.Affected)
	f.Effects = append(slices.Clip(g.effects), packs.Effect{Text: g.of.Effect, Error: g.of.Error})
	f.advise(packs.Row(g.of.Fix, nil))
	pass.lowerTo(&f, g.verdict)
	return f
}

// pythonsOf returns the title of the first framework whose interpreter is o, or "".
func pythonsOf(pass *Pass, o *replay.Object) string {
	if !replay.IsProgram(o.ELF) {
		return ""
	}
	if pass.pythons == nil {
		pass.pythons = map[string]string{}
		for _, in := range pass.Evidence.Installs {
			for _, python := range pass.Loaders.Pythons(in.Home) {
				e, _, ok := pass.Image.FS.Lookup(python)
				if !ok {
					continue
				}
				if _, other := pass.pythons["/"+e.Path]; !other {
					pass.pythons["/"+e.Path] = in.Title
				}
				break // a shell would start this one
			}
		}
	}
	return pass.pythons[o.Path]
}
