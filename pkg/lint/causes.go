package lint

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// cause is one thing that is wrong and all who meet it: a library that is
// nowhere to be found, a file that cannot be used.
type cause struct {
	id       string // of findings of the cause
	packs    *packs.Packs
	first    *elfdeps.Error // of the needer that comes first
	by       string         // that needer
	verdict  packs.Verdict  // the gravest
	needers  map[string]bool
	affected map[string]bool
	effects  []packs.Effect
	starts   bool   // the image's program does not start
	preload  string // what is preloaded and misses it
	loading  bool   // a file cannot be loaded for it, rather than opens it by name
	part     bool   // it belongs to a library that is there and opens it by name
	front    string // path of that library
	cuda     string // major version of CUDA of a process that misses it, or empty
}

// causes are the causes of misses, by what is wrong.
type causes struct {
	packs *packs.Packs
	all   map[string]*cause
}

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

// judgeStart returns the verdict on what the image's program misses when it starts; v is
// that on the miss of any program.
func judgeStart(pass *Pass, v packs.Verdict, e *elfdeps.Error) packs.Verdict {
	switch {
	case !e.Musl && (replay.IsVersion(e) || e.Kind == elfdeps.CutError):
		return packs.Grave
	case v.Severity == packs.Note:
		return pass.Packs.Unproved("start-misses")
	}
	return v
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

// judgeStep returns the verdict on a miss of a framework's step.
func judgeStep(pass *Pass, in *replay.Install, e *elfdeps.Error) packs.Verdict {
	switch {
	case in.Help != nil:
		return pass.Packs.Helped(in.Help, in.Begun)
	case replay.IsVersion(e), replay.IsStack(e):
		return packs.Grave
	case e.Unknown:
		return pass.Packs.Unproved("step-unexamined")
	case pass.Packs.Family(e.Name) != nil:
		return packs.Grave
	case in.Aside:
		return pass.Packs.Unproved("step-aside")
	case !pass.Loaders.StartsPython(in.Home):
		return pass.Packs.Unproved("step-without-python")
	}
	return packs.Grave
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

// of returns the cause of a miss: the name for what is missing, the file for
// what cannot be used.
func (by *causes) of(e *elfdeps.Error) *cause {
	key := "missing " + e.Name
	switch {
	case replay.IsVersion(e):
		// One library that is too old is one cause, whatever is asked of it.
		series, _, _ := strings.Cut(e.Name, "_")
		key = "version " + e.Subject + " " + series
	case !e.Missing():
		key = "unusable " + e.Subject + " " + e.Message
	}
	c := by.all[key]
	if c == nil {
		c = &cause{id: key, packs: by.packs, needers: map[string]bool{}, affected: map[string]bool{}}
		by.all[key] = c
	}
	return c
}

// notOpened reports whether a loader says that it cannot open a library of the name. musl
// has no other words for a file that it cannot use.
func notOpened(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.FileError && (e.Musl || e.Message == "cannot open shared object file")
}

// meet adds a file that meets the cause, the one that asks, and the verdict on it. The
// cause keeps the error of the gravest; of these, the newest version's, or the first
// needer's.
func (c *cause) meet(e *elfdeps.Error, affected string, v packs.Verdict) {
	c.affected[affected] = true
	by := affected
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by != e.Subject { // a file that is cut off asks for nothing
		c.needers[by] = true
	}
	graver := c.first == nil || v.Severity != c.verdict.Severity && v.Severity.AtLeast(c.verdict.Severity)
	as := c.first != nil && v.Severity == c.verdict.Severity
	if graver || as && replay.IsVersion(e) && c.packs.NewerSymbolVersion(e.Name, c.first.Name) || as && by < c.by && e.Name == c.first.Name {
		c.first, c.by = e, by
	}
	if graver || v.Over(c.verdict) {
		c.verdict = v
	}
}

// effect adds effects that are not there yet.
func (c *cause) effect(list ...packs.Effect) {
	for _, e := range list {
		if e.Text != "" && !slices.Contains(c.effects, e) {
			c.effects = append(c.effects, e)
		}
	}
}

// judge returns the verdict on a miss of an object that is loaded as it is.
func judge(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	switch {
	case replay.IsVersion(e):
		return judgeVersion(pass, o, e)
	case replay.IsStack(e):
		return judgeStack(pass, o)
	case pass.Packs.Family(e.Name) == nil, !pass.Files.IsRoot(o):
		return pass.Packs.Unproved("others-may-load")
	case e.Unknown:
		return pass.Packs.Verdict("library-unexamined", nil)
	}
	return judgeRoot(pass, o, e)
}

// judgeRoot returns the verdict on a GPU library that a root misses.
func judgeRoot(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	by := o.Path
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by == o.Path && pass.Evidence.Served(o.Path, e.Name) {
		return pass.Packs.Verdict("served", nil)
	}
	if pass.Packs.Family(o.Path) != nil && len(pass.Files.Present(e.Name))+len(pass.Files.Otherwise(e.Name)) > 0 {
		return pass.Packs.Verdict("part-of-libraries", nil)
	}
	for _, p := range []string{o.Path, by} {
		if x := packs.ExceptionFor(pass.Packs.Optional, p); x != nil {
			return pass.Packs.Excepted(x)
		}
	}
	if why, known := pass.Packages.NotChosen(o.Path); known && why != "" {
		return pass.Packs.Verdict("excepted", packs.Values{"why": why})
	} else if x := packs.ExceptionFor(pass.Packs.AnyOf, o.Path); !known && x != nil && anyServes(pass, x, o.Path) {
		return pass.Packs.Excepted(x)
	}
	if in := pass.Evidence.InstallOf(o.Path); in != nil && in.Help != nil {
		return pass.Packs.Helped(in.Help, in.Begun)
	}
	return packs.Grave
}

// judgeVersion returns the verdict on a version that an object misses: it is sure to
// fail for what is sure to be loaded.
func judgeVersion(pass *Pass, o *replay.Object, e *elfdeps.Error) packs.Verdict {
	if !pass.Files.IsRoot(o) || pass.Packs.Family(o.Path) != nil || e.By == nil || e.By.Real() != o.Path {
		return pass.Packs.Unproved("not-root")
	}
	if x := leftOut(pass, o.Path); x != nil {
		return pass.Packs.Excepted(x)
	}
	return packs.Grave
}

// leftOut returns the exception by which a file may fail to load: it is optional, or one
// of several of which one serves. It is nil for the others.
func leftOut(pass *Pass, file string) *packs.Exception {
	return cmp.Or(packs.ExceptionFor(pass.Packs.Optional, file), packs.ExceptionFor(pass.Packs.AnyOf, file))
}

// anyServes reports whether one of the files that an any-of pattern names beside a
// file, or the file itself, finds all its GPU libraries.
func anyServes(pass *Pass, x *packs.Exception, file string) bool {
	return slices.ContainsFunc(pass.Files.Objects, func(other *replay.Object) bool {
		return x.Beside(other.Path) == x.Beside(file) && packs.Match(x.Match, other.Path) && !slices.ContainsFunc(pass.Files.Real(other.Misses), func(e *elfdeps.Error) bool { return pass.Packs.Family(e.Name) != nil })
	})
}

// finding returns the finding of a cause.
func finding(pass *Pass, c *cause) Finding {
	e := c.first
	if replay.IsVersion(e) {
		return versionFinding(pass, c)
	}
	fam, linked, present := pass.Packs.Family(e.Name), true, pass.Files.Present(e.Name)
	if len(present) == 0 {
		linked, present = false, pass.Files.Otherwise(e.Name)
	}
	rule := ruleOf(pass, c, fam, linked, present)
	f := findingOf(pass, c, rule)
	f.Library, f.Searched, f.Later = e.Name, searched(e.Steps), !c.loading
	if fam != nil {
		f.Family = fam.ID
	}
	if e.Missing() {
		f.Removed = pass.Image.Removed(e.Name)
		if fam != nil && len(present) == 0 {
			f.Others = pass.Files.Others(e.Name)
		}
		// glibc says of a file for another machine that it is not there.
		if fam == nil || rule != "unusable-library" {
			for _, p := range present {
				f.Present = append(f.Present, pass.Image.File(p))
			}
		}
	}
	if rule == "executable-stack" {
		f.Subject = pass.Files.StackLibrary(e)
		f.advise(pass.advice("clear-stack", packs.Values{"library": f.Subject})...)
		return f
	}
	if c.preload != "" {
		f.advise(pass.advice("preload-out", packs.Values{"file": c.preload})...)
	}
	f.advise(fixes(pass, &f, fam, c)...)
	if fam != nil && pass.Files.OnJetson() {
		f.Advice = nil
		pass.lower(&f, "jetson", nil)
	}
	return f
}

// ruleOf returns the rule of a cause that is not about versions. present are files of the
// image that are the library; linked is whether they have the name that is asked for.
func ruleOf(pass *Pass, c *cause, fam *packs.Family, linked bool, present []string) string {
	e := c.first
	switch {
	case e.Unknown:
		return "not-examined"
	case replay.IsStack(e):
		return "executable-stack"
	case c.starts && fam == nil && e.Missing():
		return "broken-entrypoint"
	case c.starts && fam == nil:
		return "unusable-library"
	case fam == nil:
		return "unresolved-library"
	case !e.Missing() || path.IsAbs(e.Name) && pass.Image.IsFile(e.Name):
		return "unusable-library"
	case linked:
		return "library-not-on-path"
	case len(present) > 0:
		return "missing-link"
	case c.part:
		return "missing-sublibrary"
	}
	return "missing-library"
}

// findingOf returns the finding of a cause with what all rules have: the loader's words,
// who asks and who is affected.
func findingOf(pass *Pass, c *cause, rule string) Finding {
	e := c.first
	f := pass.say(rule, "loader-says", packs.Values{"error": e.Error()})
	f.Kind, f.Cause, f.Effects = packs.Unusable, c.id, c.effects
	switch {
	case replay.IsVersion(e):
		f.Kind = packs.Version
	case notOpened(e):
		f.Kind, f.Cause = packs.Missing, "missing "+e.Name
	case e.Unknown:
		f.Kind = packs.Unexamined
	}
	if !e.Musl && path.IsAbs(e.Subject) { // musl's words name no file
		f.Subject = e.Subject
	}
	f.Affected = slices.Sorted(maps.Keys(c.affected))
	for _, p := range slices.Sorted(maps.Keys(c.needers)) {
		f.NeededBy = append(f.NeededBy, pass.Image.File(p))
	}
	pass.lowerTo(&f, c.verdict)
	return f
}

// versionFinding returns the finding of a library that is too old for those who ask.
func versionFinding(pass *Pass, c *cause) Finding {
	e := c.first
	if e.Kind == elfdeps.InnerError {
		f := findingOf(pass, c, "stale-version-table")
		f.Library = e.Name
		f.advise(pass.advice("restore-needed", packs.Values{"library": e.Name})...)
		return f
	}
	rule, newer := "version-not-found", pass.Files.NewerCopies(e.Subject, e.Name)
	if len(newer) > 0 {
		rule = "older-copy-first"
	}
	f := findingOf(pass, c, rule)
	f.Library, f.Version = path.Base(e.Subject), e.Name
	if found, _, ok := pass.Image.FS.Lookup(e.Subject); ok {
		f.Present = []replay.File{pass.Image.File("/" + found.Path)}
	}
	if len(newer) > 0 {
		f.BoundTo, f.Present = &f.Present[0], newer
		f.advise(olderCopyFix(pass, f.BoundTo.Path, newer[0].Path)...)
		return f
	}
	if v := pass.Packs.VersionFix(e.Name); v != nil {
		f.advise(packs.Row(v.Fix, packs.Values{"version": e.Name, "number": pass.Packs.SymbolVersion(e.Name).Number, "library": f.Library}))
	}
	return f
}

// fixes returns the fixes of a cause, the nearest first: those of what the image shows,
// then those of the packs for the library.
func fixes(pass *Pass, f *Finding, fam *packs.Family, c *cause) []packs.Advice {
	e := c.first
	cuda, asks := wantedCUDA(pass, f, c.cuda), "" // a file that is cut off asks for nothing
	if len(f.NeededBy) > 0 {
		asks = f.NeededBy[0].Path
	}
	if e.Unknown {
		return nil
	}
	list, enough := nearFixes(pass, f, c, asks)
	if enough {
		return list
	}
	if len(f.Others) > 0 {
		list = append(list, otherMajorFix(pass, f, fam, asks)...)
	}
	if fam != nil && f.Rule != "unusable-library" || fam == nil && e.Missing() {
		list = append(list, pass.Packs.LibraryAdvice(f.Library, cuda)...)
	}
	return list
}

// nearFixes returns the fixes that the image shows, and whether they are enough.
func nearFixes(pass *Pass, f *Finding, c *cause, asks string) (list []packs.Advice, enough bool) {
	e := c.first
	named := len(f.Present) > 0 && len(pass.Files.Present(e.Name)) > 0
	switch {
	case pass.Files.OtherMachine(f.Library) != "":
		return pass.advice("other-machine", packs.Values{"machine": pass.Files.OtherMachine(f.Library), "image": replay.NameOf(pass.Files.Machine)}), false
	case f.Rule == "unusable-library":
		return wholeFix(pass, cmp.Or(e.Subject, e.Name)), false
	case f.Rule == "missing-link", f.Rule == "broken-entrypoint" && len(f.Present) > 0 && !named:
		return linkFix(pass, f), true // no directory has a file of that name
	case f.Rule == "broken-entrypoint" && named, f.Rule == "unresolved-library" && c.verdict.Severity != packs.Note && named:
		return searchFixes(pass, f, asks), true
	case f.Rule == "library-not-on-path":
		list = searchFixes(pass, f, asks)
		if in := pass.Evidence.InstallOf(asks); in != nil && len(in.Helped) > 0 {
			list = append(list, pass.advice("load-first", nil)...)
		}
		return list, true
	case c.part && len(f.Removed) == 0:
		return partFix(pass, f.Library, c.front)
	case len(f.Removed) > 0 && f.Removed[0].By != nil:
		r := f.Removed[0]
		return pass.advice("keep-file", packs.Values{"file": r.Path, "layer": strconv.Itoa(r.By.Index)}), false
	}
	return danglingFixes(pass, e.Name), false
}

// searchFixes returns the fixes that have the loader search the directory of a library that
// is present.
func searchFixes(pass *Pass, f *Finding, asks string) []packs.Advice {
	dir := path.Dir(f.Present[0].Path)
	return append(ldconfigFix(pass, dir), pass.advice("search-path", packs.Values{"search-path": pathWith(pass, asks, dir)})...)
}

// partFix returns the fixes that add a part to a library that is present at front, and
// whether they are enough.
func partFix(pass *Pass, library, front string) (list []packs.Advice, enough bool) {
	v := packs.Values{"library": library, "dir": path.Dir(front), "file": path.Base(front)}
	if r := pass.Packages.ReleaseOf(front); r != nil {
		v["release"] = r.String()
		list = pass.advice("add-part-of-release", v)
	} else {
		list = pass.advice("add-part", v)
	}
	d := pass.Packages.DistOf(front)
	if d.Name == "" || !strings.Contains(front, "-packages/") {
		return list, false
	}
	return append(list, pass.advice("or-reinstall", packs.Values{"package": strings.ReplaceAll(d.Name, "_", "-"), "version": d.Version})...), true
}

// otherMajorFix returns the fix of a library that the image has in another major version.
func otherMajorFix(pass *Pass, f *Finding, fam *packs.Family, asks string) []packs.Advice {
	other := f.Others[0].Path
	v := packs.Values{"soname": pass.Files.ByPath[other].ELF.Soname, "dir": path.Dir(other), "library": f.Library}
	if by := pass.Packs.Family(asks); by != nil && by != fam {
		v["by"] = by.Title
		return pass.advice("other-major-of-family", v)
	}
	return pass.advice("other-major", v)
}

// ldconfigFix returns the fix for a directory that ld.so.conf names and that the cache
// does not have.
func ldconfigFix(pass *Pass, dir string) []packs.Advice {
	for d, by := range pass.Loaders.SearchDirs() {
		if strings.HasPrefix(by, "/") && replay.RealPath(pass.Image.FS, d) == dir {
			return pass.advice("ldconfig", packs.Values{"conf": by, "dir": d})
		}
	}
	return nil
}

// wholeFix returns the fix of a file that cannot be used. What stands for a library in a
// few bytes is a text.
func wholeFix(pass *Pass, file string) []packs.Advice {
	if e, _, ok := pass.Image.FS.Lookup(file); ok && e.Object == nil && e.Size > 8 && e.Size < 512 {
		return pass.advice("replace-text", packs.Values{"file": file, "size": strconv.FormatInt(e.Size, 10)})
	}
	return pass.advice("replace-file", packs.Values{"file": file})
}

// maxDangling bounds the links that lead nowhere in the fixes of a finding.
const maxDangling = 3

// danglingFixes returns the fixes of links of a library's name that lead nowhere: where
// they point is what was left behind.
func danglingFixes(pass *Pass, name string) []packs.Advice {
	var list []packs.Advice
	for _, p := range slices.Sorted(slices.Values(pass.Files.Named[path.Base(name)])) {
		if e, _, ok := pass.Image.FS.Lstat(p); ok && e.Type == layers.Symlink {
			if _, _, leads := pass.Image.FS.Lookup(p); !leads {
				list = append(list, pass.advice("bring-target", packs.Values{"file": e.Link, "link": p})...)
			}
		}
	}
	return list[:min(len(list), maxDangling)]
}

// linkFix returns the fix that makes the link that is missing, in a directory where it
// will be found: the library's own if the loader searched it, else LD_LIBRARY_PATH must
// lead there as well.
func linkFix(pass *Pass, f *Finding) []packs.Advice {
	for _, p := range f.Present {
		dir := path.Dir(p.Path)
		for _, s := range f.Searched {
			if slices.ContainsFunc(s.Places, func(place Place) bool { return replay.RealPath(pass.Image.FS, place.Dir) == dir }) {
				return pass.advice("link", packs.Values{"file": path.Base(p.Path), "link": dir + "/" + f.Library})
			}
		}
	}
	p := f.Present[0].Path
	return pass.advice("link-and-path", packs.Values{
		"file": path.Base(p), "link": path.Dir(p) + "/" + f.Library, "search-path": pathWith(pass, "", path.Dir(p)),
	})
}

// pathWith is LD_LIBRARY_PATH with the directories of all that a file asks for
// and does not reach, behind what it holds already.
func pathWith(pass *Pass, needer, dir string) string {
	var dirs []string
	for _, v := range pass.Config.Env().Vars {
		if old, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok && old != "" {
			dirs = strings.Split(old, ":")
		}
	}
	add := func(d string) {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	if o := pass.Files.ByPath[needer]; o != nil {
		for _, e := range pass.Files.Real(o.Misses) {
			if paths := pass.Files.Present(e.Name); e.Missing() && pass.Packs.Family(e.Name) != nil && len(paths) > 0 {
				add(path.Dir(paths[0]))
			}
		}
	}
	add(dir)
	return strings.Join(dirs, ":")
}

// searched makes a loader's steps short: directories instead of files, and what
// stood in the way. Hardware directories are left out, they come with each.
func searched(steps []elfdeps.Step) []Searched {
	var list []Searched
	for _, s := range steps {
		out := Searched{Source: s.Source}
		for _, t := range s.Tried {
			place := Place{placeOf(t.Path), t.Result}
			if isHwcap(place.Dir) {
				continue
			}
			if !slices.Contains(out.Places, place) {
				out.Places = append(out.Places, place)
			}
		}
		if len(out.Places) > 0 {
			list = append(list, out)
		}
	}
	return list
}

// placeOf is the directory of a candidate, or the cache.
func placeOf(candidate string) string {
	switch {
	case candidate == "/etc/ld.so.cache":
		return candidate
	case strings.HasSuffix(candidate, "/"):
		return strings.TrimSuffix(candidate, "/")
	case !strings.Contains(candidate, "/"):
		return "the working directory (an empty element)"
	}
	return path.Dir(candidate)
}

// isHwcap reports whether a directory is one of those that are tried in each.
func isHwcap(dir string) bool {
	if strings.HasPrefix(path.Base(dir), "x86-64-v") && path.Base(path.Dir(dir)) == "glibc-hwcaps" {
		return true
	}
	base := path.Base(dir)
	return base == "tls" || base == "x86_64" || base == "aarch64" || base == "atomics"
}

// unread is a reason for which something could not be examined: a clause of
// not-examined, and its values.
type unread struct{ clause, part, why string }

// unexamined returns the findings about what could not be examined, one for each reason.
func unexamined(pass *Pass) []Finding {
	paths := map[unread][]string{}
	add := func(u unread, p string) { paths[u] = append(paths[u], p) }
	for _, s := range pass.Image.FS.Skipped {
		add(unread{"whole", "", s.Why}, "/"+strings.TrimPrefix(s.Path, "/"))
	}
	for e := range pass.Image.FS.All() {
		if e.Fault != "" {
			add(unread{"whole", "", e.Fault}, "/"+e.Path)
		}
		if e.Object == nil {
			continue
		}
		for _, u := range e.Object.Unread {
			add(unread{"part", u.What, u.Why}, "/"+e.Path)
		}
	}
	for _, u := range pass.Inventory.Unread {
		add(unread{"whole", "", u.Why}, u.Path)
	}
	for _, l := range pass.Loaders.All {
		if l == nil {
			continue
		}
		for _, d := range l.Doubts {
			add(unread{"whole", "", d}, l.Path)
		}
	}
	if pass.Loaders.Primary == nil {
		for _, o := range pass.Files.Objects {
			if o.Loader == nil && !replay.IsProgram(o.ELF) {
				add(unread{clause: "no-loader"}, o.Path)
			}
		}
	}
	var list []Finding
	for u, affected := range paths {
		f := pass.say("not-examined", u.clause, packs.Values{"part": u.part, "why": u.why})
		f.Affected = slices.Compact(slices.Sorted(slices.Values(affected)))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), slices.Compare(a.Affected, b.Affected))
	})
	return list
}
