package lint

import (
	"cmp"
	"debug/elf"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// cause is one thing that is wrong and all who meet it: a library that is
// nowhere to be found, a file that cannot be used.
type cause struct {
	id       string // of findings of the cause
	packs    *Packs
	first    *elfdeps.Error // of the needer that comes first
	by       string         // that needer
	verdict  verdict        // the gravest
	needers  map[string]bool
	affected map[string]bool
	effects  []Effect
	starts   bool   // the image's program does not start
	preload  string // what is preloaded and misses it
	loading  bool   // a file cannot be loaded for it, rather than opens it by name
	part     bool   // it belongs to a library that is there and opens it by name
	front    string // path of that library
	cuda     string // major version of CUDA of a process that misses it, or empty
}

// causes are the causes of misses, by what is wrong.
type causes struct {
	packs *Packs
	all   map[string]*cause
}

// causes groups the misses of all replays.
func (w *world) causes() []Finding {
	by := &causes{w.packs, map[string]*cause{}}
	w.objectMisses(by)
	w.stepMisses(by)
	w.preloadMisses(by)
	w.openMisses(by)
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(by.all)) {
		list = append(list, w.finding(by.all[key]))
	}
	return append(list, w.noneServes()...)
}

// objectMisses adds what each file misses when it is loaded by itself, or after the
// framework that it relies on.
func (w *world) objectMisses(by *causes) {
	entry := w.entry()
	for _, o := range w.objects {
		for _, e := range w.real(o.misses) {
			c := by.of(e)
			c.loading = true
			v := w.judge(o, e)
			if o.path == entry.path {
				c.starts = true
				c.effect(w.effects(startClause(e), values{"program": entry.name, "error": e.Error()})...)
				v = w.judgeStart(v, e)
			} else if f := w.pythonsOf(o); f != "" {
				c.effect(w.effects("python-does-not-start", values{"framework": f, "error": e.Error()})...)
				v = grave
			}
			c.meet(e, o.path, v)
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
	case isVersion(e):
		return "start-version"
	}
	return "start-file"
}

// judgeStart returns the verdict on what the image's program misses when it starts; v is
// that on the miss of any program.
func (w *world) judgeStart(v verdict, e *elfdeps.Error) verdict {
	switch {
	case !e.Musl && (isVersion(e) || e.Kind == elfdeps.CutError):
		return grave
	case v.severity == Note:
		return w.unproved("start-misses")
	}
	return v
}

// stepMisses adds what fails in the steps of frameworks.
func (w *world) stepMisses(by *causes) {
	for _, in := range w.installs {
		for _, f := range in.failures {
			file := realPath(w.img.FS, f.path)
			for _, e := range f.misses {
				c := by.of(e)
				c.loading = true
				if x := exception(w.packs.AnyOf, file); x != nil && w.anyServes(x, file) {
					c.meet(e, file, w.excepted(x))
					continue
				}
				c.meet(e, file, w.judgeStep(in, e))
				c.cuda = cmp.Or(c.cuda, in.dist.cuda())
				c.effect(w.stepEffect(f, e))
			}
		}
	}
}

// judgeStep returns the verdict on a miss of a framework's step.
func (w *world) judgeStep(in *install, e *elfdeps.Error) verdict {
	switch {
	case in.help != nil:
		return w.helped(in.help, in.begun)
	case isVersion(e), isStack(e):
		return grave
	case e.Unknown:
		return w.unproved("step-unexamined")
	case w.packs.family(e.Name) != nil:
		return grave
	case in.Aside:
		return w.unproved("step-aside")
	case !w.startsPython(in.home):
		return w.unproved("step-without-python")
	}
	return grave
}

// stepEffect returns the effect of a step that fails.
func (w *world) stepEffect(f failure, e *elfdeps.Error) Effect {
	text := f.step.Effect
	if e.Kind == elfdeps.CutError && !f.killed && !f.step.imports() {
		text = w.phrase("killed", values{"effect": text})
	}
	return Effect{Text: text, Error: w.reads(f.step.Error, e, "{stem}", stem(e.Name))}
}

// preloadMisses adds what the libraries miss that are preloaded into every program.
func (w *world) preloadMisses(by *causes) {
	start := w.preloading()
	if start == nil {
		return
	}
	own := w.missesOf(start, start.Program())
	for _, e := range w.real(slices.Concat(start.Misses, versionsOf(start))) {
		if e.By == nil || slices.Contains(own, e) {
			continue
		}
		c := by.of(e)
		c.meet(e, e.By.Real(), grave)
		c.preload = e.By.Real()
		c.effect(w.effects("preload-breaks", values{"by": w.preloadedBy(start, e.By), "file": e.By.Real(), "program": start.Program().Real(), "error": e.Error()})...)
	}
}

// openMisses adds what fails to open by its name: by a plan, or by a file's own note.
func (w *world) openMisses(by *causes) {
	for _, r := range w.runs {
		for i := range r.missed {
			if m := &r.missed[i]; m.err.Kind != elfdeps.SymbolError {
				w.meetOpen(by.of(m.err), m)
			}
		}
	}
	for _, m := range w.dlopenNotes() {
		w.meetOpen(by.of(m.err), &m)
	}
}

// noneServes are the findings about files of which any one would do, and none can
// be loaded for what the system lacks.
func (w *world) noneServes() []Finding {
	type group struct {
		of  *Exception
		dir string
	}
	all := map[group][]*object{}
	for _, o := range w.objects {
		if x := exception(w.packs.AnyOf, o.path); x != nil && x.Effect != "" {
			g := group{x, path.Dir(o.path)}
			all[g] = append(all[g], o)
		}
	}
	var list []Finding
	for g, objects := range all {
		missing := map[string]bool{}
		var affected []string
		for _, o := range objects {
			misses := w.real(o.misses)
			lacks := len(misses) > 0 && !slices.ContainsFunc(misses, func(e *elfdeps.Error) bool { return !e.Missing() || e.Unknown || w.packs.family(e.Name) != nil })
			if !lacks {
				missing = nil
				break
			}
			missing[misses[0].Name] = true
			affected = append(affected, o.path)
		}
		if missing == nil {
			continue
		}
		slices.Sort(affected)
		f := w.say("unresolved-library", "none-serves", values{
			"files": path.Base(g.of.Match), "dir": g.dir, "libraries": strings.Join(slices.Sorted(maps.Keys(missing)), ", "),
		})
		f.Affected, f.NeededBy = affected, w.filesOf(affected)
		f.Effects = []Effect{{Text: g.of.Effect, Error: g.of.Error}}
		f.advise(row(g.of.Fix, nil))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return list
}

// pythonsOf names the first framework whose interpreter a program is; empty when it
// is none's.
func (w *world) pythonsOf(o *object) string {
	if !isProgram(o.elf) {
		return ""
	}
	for _, in := range w.installs {
		for _, python := range w.pythons(in.home) {
			if e, _, ok := w.img.FS.Lookup(python); ok {
				if "/"+e.Path == o.path {
					return in.Title
				}
				break // the others are not looked at
			}
		}
	}
	return ""
}

// meetOpen adds what failed to open by name.
func (w *world) meetOpen(c *cause, m *missedOpen) {
	by := m.by
	if m.err.By != nil && m.err.By.Real() != "" && m.err.Name != m.name {
		by = m.err.By.Real()
	}
	c.meet(m.err, m.by, m.verdict)
	delete(c.needers, m.by)
	c.needers[by] = true
	c.effect(m.effect)
	c.effect(m.also...)
	c.cuda, c.front = cmp.Or(c.cuda, m.cuda), cmp.Or(c.front, m.by)
	c.part = c.part || m.front != "" && w.packs.family(m.front) == w.packs.family(m.err.Name)
}

// of returns the cause of a miss: the name for what is missing, the file for
// what cannot be used.
func (by *causes) of(e *elfdeps.Error) *cause {
	key := "missing " + e.Name
	switch {
	case isVersion(e):
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

// isVersion reports whether a library is there and lacks a version.
func isVersion(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.VersionError || e.Kind == elfdeps.InnerError
}

// notOpened reports whether a loader says that it cannot open a library of the name. musl
// has no other words for a file that it cannot use.
func notOpened(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.FileError && (e.Musl || e.Message == "cannot open shared object file")
}

// meet adds a file that meets the cause, the one that asks, and the verdict on it. The
// cause keeps the error of the gravest; of these, the newest version's, or the first
// needer's.
func (c *cause) meet(e *elfdeps.Error, affected string, v verdict) {
	c.affected[affected] = true
	by := affected
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by != e.Subject { // a file that is cut off asks for nothing
		c.needers[by] = true
	}
	graver := c.first == nil || v.severity != c.verdict.severity && v.severity.AtLeast(c.verdict.severity)
	as := c.first != nil && v.severity == c.verdict.severity
	if graver || as && isVersion(e) && c.packs.newer(e.Name, c.first.Name) || as && by < c.by && e.Name == c.first.Name {
		c.first, c.by = e, by
	}
	if graver || v.over(c.verdict) {
		c.verdict = v
	}
}

// effect adds effects that are not there yet.
func (c *cause) effect(list ...Effect) {
	for _, e := range list {
		if e.Text != "" && !slices.Contains(c.effects, e) {
			c.effects = append(c.effects, e)
		}
	}
}

// judge returns the verdict on a miss of an object that is loaded as it is.
func (w *world) judge(o *object, e *elfdeps.Error) verdict {
	switch {
	case isVersion(e):
		return w.judgeVersion(o, e)
	case isStack(e):
		return w.judgeStack(o)
	case w.packs.family(e.Name) == nil, !w.isRoot(o):
		return w.unproved("others-may-load")
	case e.Unknown:
		return w.verdict("library-unexamined", nil)
	}
	return w.judgeRoot(o, e)
}

// judgeRoot returns the verdict on a GPU library that a root misses.
func (w *world) judgeRoot(o *object, e *elfdeps.Error) verdict {
	by := o.path
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if _, served := w.served.Load(servedKey{o.path, e.Name}); by == o.path && served {
		return w.verdict("served", nil)
	}
	if w.packs.family(o.path) != nil && len(w.present(e.Name))+len(w.otherwise(e.Name)) > 0 {
		return w.verdict("part-of-libraries", nil)
	}
	for _, p := range []string{o.path, by} {
		if x := exception(w.packs.Optional, p); x != nil {
			return w.excepted(x)
		}
	}
	if why, known := w.notChosen(o.path); known && why != "" {
		return w.verdict("excepted", values{"why": why})
	} else if x := exception(w.packs.AnyOf, o.path); !known && x != nil && w.anyServes(x, o.path) {
		return w.excepted(x)
	}
	if in := w.installOf(o.path); in != nil && in.help != nil {
		return w.helped(in.help, in.begun)
	}
	return grave
}

// installOf is the framework that a path is a file of, nil when there is none.
func (w *world) installOf(p string) *install {
	for _, in := range w.installs {
		if strings.HasPrefix(p, in.home+"/") {
			return in
		}
	}
	return nil
}

// judgeVersion returns the verdict on a version that an object misses: it is sure to
// fail for what is sure to be loaded.
func (w *world) judgeVersion(o *object, e *elfdeps.Error) verdict {
	if !w.isRoot(o) || w.packs.family(o.path) != nil || e.By == nil || e.By.Real() != o.path {
		return w.unproved("not-root")
	}
	if x := w.leftOut(o.path); x != nil {
		return w.excepted(x)
	}
	return grave
}

// leftOut returns the exception by which a file may fail to load: it is optional, or one
// of several of which one serves. It is nil for the others.
func (w *world) leftOut(file string) *Exception {
	return cmp.Or(exception(w.packs.Optional, file), exception(w.packs.AnyOf, file))
}

// isRoot reports whether an object is one that we expect to be loaded: it asks
// for a GPU library itself. Frameworks and the entrypoint are judged beside.
func (w *world) isRoot(o *object) bool {
	return slices.ContainsFunc(o.elf.Needed, func(n string) bool { return w.packs.family(n) != nil })
}

// anyServes reports whether one of the files that an any-of pattern names beside a
// file, or the file itself, finds all its GPU libraries.
func (w *world) anyServes(x *Exception, file string) bool {
	return slices.ContainsFunc(w.objects, func(other *object) bool {
		return x.beside(other.path) == x.beside(file) && match(x.Match, other.path) && !slices.ContainsFunc(w.real(other.misses), func(e *elfdeps.Error) bool { return w.packs.family(e.Name) != nil })
	})
}

// beside is the directory in which a file lies with those that serve as well.
func (x *Exception) beside(file string) string {
	dir := path.Dir(file)
	if within := "/" + x.Within + "/"; x.Within != "" {
		if i := strings.LastIndex(dir+"/", within); i >= 0 {
			return dir[:i+len(within)-1]
		}
	}
	return dir
}

// present are the files of the image that bear a name, where the loader did not
// come; links that lead nowhere do not count.
func (w *world) present(name string) []string { return w.usable(w.named[path.Base(name)]) }

// otherwise are the files that are the library under another file name: by
// their SONAME, or as libx.so.8 for who asks for libx.so.
func (w *world) otherwise(name string) []string {
	base := path.Base(name)
	list := slices.Clone(w.sonames[base])
	if strings.HasSuffix(base, ".so") {
		for other, paths := range w.named {
			if strings.HasPrefix(other, base+".") {
				list = append(list, paths...)
			}
		}
	}
	return w.usable(list)
}

// usable leaves those of paths that lead to an ELF file of the image's machine,
// sorted.
func (w *world) usable(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		if e, _, ok := w.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == w.machine && !isStub("/"+e.Path) {
			seen[p] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func realPath(f *layers.FS, p string) string {
	if e, _, ok := f.Lookup(p); ok {
		return "/" + e.Path
	}
	return p
}

// finding returns the finding of a cause.
func (w *world) finding(c *cause) Finding {
	e := c.first
	if isVersion(e) {
		return w.versionFinding(c)
	}
	fam, linked, present := w.packs.family(e.Name), true, w.present(e.Name)
	if len(present) == 0 {
		linked, present = false, w.otherwise(e.Name)
	}
	rule := w.ruleOf(c, fam, linked, present)
	f := w.findingOf(c, rule)
	f.Library, f.Searched, f.Later = e.Name, searched(e.Steps), !c.loading
	if fam != nil {
		f.Family = fam.ID
	}
	if e.Missing() {
		f.Removed = w.removed(e.Name)
		if fam != nil && len(present) == 0 {
			f.Others = w.others(e.Name)
		}
		// glibc says of a file for another machine that it is not there.
		if fam == nil || rule != "unusable-library" {
			for _, p := range present {
				f.Present = append(f.Present, w.file(p))
			}
		}
	}
	if rule == "executable-stack" {
		f.Subject = w.stackLibrary(e)
		f.advise(w.advice("clear-stack", values{"library": f.Subject})...)
		return f
	}
	if c.preload != "" {
		f.advise(w.advice("preload-out", values{"file": c.preload})...)
	}
	f.advise(w.fixes(&f, fam, c)...)
	if fam != nil && w.onJetson() {
		f.Advice = nil
		w.lower(&f, "jetson", nil)
	}
	return f
}

// ruleOf returns the rule of a cause that is not about versions. present are files of the
// image that are the library; linked is whether they have the name that is asked for.
func (w *world) ruleOf(c *cause, fam *Family, linked bool, present []string) string {
	e := c.first
	switch {
	case e.Unknown:
		return "not-examined"
	case isStack(e):
		return "executable-stack"
	case c.starts && fam == nil && e.Missing():
		return "broken-entrypoint"
	case c.starts && fam == nil:
		return "unusable-library"
	case fam == nil:
		return "unresolved-library"
	case !e.Missing() || path.IsAbs(e.Name) && w.isFile(e.Name):
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
func (w *world) findingOf(c *cause, rule string) Finding {
	e := c.first
	f := w.say(rule, "loader-says", values{"error": e.Error()})
	f.Kind, f.Cause, f.Effects = Unusable, c.id, c.effects
	switch {
	case isVersion(e):
		f.Kind = Version
	case notOpened(e):
		f.Kind, f.Cause = Missing, "missing "+e.Name
	case e.Unknown:
		f.Kind = Unexamined
	}
	if !e.Musl && path.IsAbs(e.Subject) { // musl's words name no file
		f.Subject = e.Subject
	}
	f.Affected = slices.Sorted(maps.Keys(c.affected))
	for _, p := range slices.Sorted(maps.Keys(c.needers)) {
		f.NeededBy = append(f.NeededBy, w.file(p))
	}
	w.lowerTo(&f, c.verdict)
	return f
}

// others are the files that are a library in another major version.
func (w *world) others(name string) []File {
	base, _, ok := strings.Cut(path.Base(name), ".so.")
	if !ok || strings.Contains(base, "builtins") {
		return nil
	}
	seen := map[string]bool{}
	for _, o := range w.objects {
		if s, _, ok := strings.Cut(o.elf.Soname, ".so."); ok && s == base && o.elf.Soname != name && !isStub(o.path) {
			seen[o.path] = true
		}
	}
	var list []File
	for _, p := range slices.Sorted(maps.Keys(seen)) {
		list = append(list, w.file(p))
	}
	return list
}

// onJetson reports whether an image is for JetPack 4, whose container runtime
// mounts CUDA itself over empty files
// (https://github.com/dusty-nv/jetson-inference/issues/1733).
func (w *world) onJetson() bool {
	if w.machine != elf.EM_AARCH64 {
		return false
	}
	e, _, ok := w.img.FS.Lookup("/usr/lib/aarch64-linux-gnu/tegra")
	return ok && e.IsDir()
}

// versionFinding returns the finding of a library that is too old for those who ask.
func (w *world) versionFinding(c *cause) Finding {
	e := c.first
	if e.Kind == elfdeps.InnerError {
		f := w.findingOf(c, "stale-version-table")
		f.Library = e.Name
		f.advise(w.advice("restore-needed", values{"library": e.Name})...)
		return f
	}
	rule, newer := "version-not-found", w.newerCopies(e.Subject, e.Name)
	if len(newer) > 0 {
		rule = "older-copy-first"
	}
	f := w.findingOf(c, rule)
	f.Library, f.Version = path.Base(e.Subject), e.Name
	if found, _, ok := w.img.FS.Lookup(e.Subject); ok {
		f.Present = []File{w.file("/" + found.Path)}
	}
	if len(newer) > 0 {
		f.BoundTo, f.Present = &f.Present[0], newer
		f.advise(w.olderCopyFix(f.BoundTo.Path, newer[0].Path)...)
		return f
	}
	if v := w.packs.versionFix(e.Name); v != nil {
		f.advise(row(v.Fix, values{"version": e.Name, "number": w.packs.symbolVersion(e.Name).Number, "library": f.Library}))
	}
	return f
}

// removed are the files of a name that a layer has deleted.
func (w *world) removed(name string) []Removed {
	var list []Removed
	for _, p := range w.img.FS.RemovedPaths() {
		if path.Base(p) != path.Base(name) && !strings.HasPrefix(path.Base(p), path.Base(name)+".") {
			continue
		}
		r, _ := w.img.FS.Removed(p)
		list = append(list, Removed{File{"/" + p, w.layerRef(r.Had)}, w.layerRef(r.By)})
	}
	return list
}

// fixes returns the fixes of a cause, the nearest first: those of what the image shows,
// then those of the packs for the library.
func (w *world) fixes(f *Finding, fam *Family, c *cause) []Advice {
	e := c.first
	cuda, asks := w.wantedCUDA(f, c.cuda), "" // a file that is cut off asks for nothing
	if len(f.NeededBy) > 0 {
		asks = f.NeededBy[0].Path
	}
	if e.Unknown {
		return nil
	}
	list, enough := w.nearFixes(f, c, asks)
	if enough {
		return list
	}
	if len(f.Others) > 0 {
		list = append(list, w.otherMajorFix(f, fam, asks)...)
	}
	if fam != nil && f.Rule != "unusable-library" || fam == nil && e.Missing() {
		list = append(list, w.packs.libraryAdvice(f.Library, cuda)...)
	}
	return list
}

// nearFixes returns the fixes that the image shows, and whether they are enough.
func (w *world) nearFixes(f *Finding, c *cause, asks string) (list []Advice, enough bool) {
	e := c.first
	named := len(f.Present) > 0 && len(w.present(e.Name)) > 0
	switch {
	case w.otherMachine(f.Library) != "":
		return w.advice("other-machine", values{"machine": w.otherMachine(f.Library), "image": nameOf(w.machine)}), false
	case f.Rule == "unusable-library":
		return w.wholeFix(cmp.Or(e.Subject, e.Name)), false
	case f.Rule == "missing-link", f.Rule == "broken-entrypoint" && len(f.Present) > 0 && !named:
		return w.linkFix(f), true // no directory has a file of that name
	case f.Rule == "broken-entrypoint" && named, f.Rule == "unresolved-library" && c.verdict.severity != Note && named:
		return w.searchFixes(f, asks), true
	case f.Rule == "library-not-on-path":
		list = w.searchFixes(f, asks)
		if in := w.installOf(asks); in != nil && len(in.Helped) > 0 {
			list = append(list, w.advice("load-first", nil)...)
		}
		return list, true
	case c.part && len(f.Removed) == 0:
		return w.partFix(f.Library, c.front)
	case len(f.Removed) > 0 && f.Removed[0].By != nil:
		r := f.Removed[0]
		return w.advice("keep-file", values{"file": r.Path, "layer": strconv.Itoa(r.By.Index)}), false
	}
	return w.danglingFixes(e.Name), false
}

// searchFixes returns the fixes that have the loader search the directory of a library that
// is present.
func (w *world) searchFixes(f *Finding, asks string) []Advice {
	dir := path.Dir(f.Present[0].Path)
	return append(w.ldconfigFix(dir), w.advice("search-path", values{"search-path": w.pathWith(asks, dir)})...)
}

// partFix returns the fixes that add a part to a library that is present at front, and
// whether they are enough.
func (w *world) partFix(library, front string) (list []Advice, enough bool) {
	v := values{"library": library, "dir": path.Dir(front), "file": path.Base(front)}
	if r := w.releaseOf(front); r != nil {
		v["release"] = r.String()
		list = w.advice("add-part-of-release", v)
	} else {
		list = w.advice("add-part", v)
	}
	d := w.distOf(front)
	if d.name == "" || !strings.Contains(front, "-packages/") {
		return list, false
	}
	return append(list, w.advice("or-reinstall", values{"package": strings.ReplaceAll(d.name, "_", "-"), "version": d.version})...), true
}

// otherMajorFix returns the fix of a library that the image has in another major version.
func (w *world) otherMajorFix(f *Finding, fam *Family, asks string) []Advice {
	other := f.Others[0].Path
	v := values{"soname": w.byPath[other].elf.Soname, "dir": path.Dir(other), "library": f.Library}
	if by := w.packs.family(asks); by != nil && by != fam {
		v["by"] = by.Title
		return w.advice("other-major-of-family", v)
	}
	return w.advice("other-major", v)
}

// ldconfigFix returns the fix for a directory that ld.so.conf names and that the cache
// does not have.
func (w *world) ldconfigFix(dir string) []Advice {
	for d, by := range w.searchDirs() {
		if strings.HasPrefix(by, "/") && realPath(w.img.FS, d) == dir {
			return w.advice("ldconfig", values{"conf": by, "dir": d})
		}
	}
	return nil
}

// wholeFix returns the fix of a file that cannot be used. What stands for a library in a
// few bytes is a text.
func (w *world) wholeFix(file string) []Advice {
	if e, _, ok := w.img.FS.Lookup(file); ok && e.Object == nil && e.Size > 8 && e.Size < 512 {
		return w.advice("replace-text", values{"file": file, "size": strconv.FormatInt(e.Size, 10)})
	}
	return w.advice("replace-file", values{"file": file})
}

// maxDangling bounds the links that lead nowhere in the fixes of a finding.
const maxDangling = 3

// danglingFixes returns the fixes of links of a library's name that lead nowhere: where
// they point is what was left behind.
func (w *world) danglingFixes(name string) []Advice {
	var list []Advice
	for _, p := range slices.Sorted(slices.Values(w.named[path.Base(name)])) {
		if e, _, ok := w.img.FS.Lstat(p); ok && e.Type == layers.Symlink {
			if _, _, leads := w.img.FS.Lookup(p); !leads {
				list = append(list, w.advice("bring-target", values{"file": e.Link, "link": p})...)
			}
		}
	}
	return list[:min(len(list), maxDangling)]
}

// linkFix returns the fix that makes the link that is missing, in a directory where it
// will be found: the library's own if the loader searched it, else LD_LIBRARY_PATH must
// lead there as well.
func (w *world) linkFix(f *Finding) []Advice {
	for _, p := range f.Present {
		dir := path.Dir(p.Path)
		for _, s := range f.Searched {
			if slices.ContainsFunc(s.Places, func(place Place) bool { return realPath(w.img.FS, place.Dir) == dir }) {
				return w.advice("link", values{"file": path.Base(p.Path), "link": dir + "/" + f.Library})
			}
		}
	}
	p := f.Present[0].Path
	return w.advice("link-and-path", values{
		"file": path.Base(p), "link": path.Dir(p) + "/" + f.Library, "search-path": w.pathWith("", path.Dir(p)),
	})
}

// pathWith is LD_LIBRARY_PATH with the directories of all that a file asks for
// and does not reach, behind what it holds already.
func (w *world) pathWith(needer, dir string) string {
	var dirs []string
	for _, v := range w.env().Vars {
		if old, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok && old != "" {
			dirs = strings.Split(old, ":")
		}
	}
	add := func(d string) {
		if !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	if o := w.byPath[needer]; o != nil {
		for _, e := range w.real(o.misses) {
			if paths := w.present(e.Name); e.Missing() && w.packs.family(e.Name) != nil && len(paths) > 0 {
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
func (w *world) unexamined() []Finding {
	paths := map[unread][]string{}
	add := func(u unread, p string) { paths[u] = append(paths[u], p) }
	for _, s := range w.img.FS.Skipped {
		add(unread{"whole", "", s.Why}, "/"+strings.TrimPrefix(s.Path, "/"))
	}
	for e := range w.img.FS.All() {
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
	for _, u := range w.inv.Unread {
		add(unread{"whole", "", u.Why}, u.Path)
	}
	for _, l := range w.loaders {
		if l == nil {
			continue
		}
		for _, d := range l.Doubts {
			add(unread{"whole", "", d}, l.Path)
		}
	}
	if w.primary == nil {
		for _, o := range w.objects {
			if o.loader == nil && !isProgram(o.elf) {
				add(unread{clause: "no-loader"}, o.path)
			}
		}
	}
	var list []Finding
	for u, affected := range paths {
		f := w.say("not-examined", u.clause, values{"part": u.part, "why": u.why})
		f.Affected = slices.Compact(slices.Sorted(slices.Values(affected)))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), slices.Compare(a.Affected, b.Affected))
	})
	return list
}
