package lint

import (
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// cause is one thing that is wrong and all who meet it: a library that is
// nowhere to be found, a file that cannot be used.
type cause struct {
	packs    *Packs
	first    *elfdeps.Error // of the needer that comes first
	by       string         // that needer
	grave    Severity       // of it
	severity Severity
	because  string
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

// causes groups the misses of all replays.
func (w *world) causes() []Finding {
	all := map[string]*cause{}
	entry := w.entry()
	for _, o := range w.objects {
		for _, e := range w.real(o.misses) {
			c := w.causeOf(all, e)
			c.loading = true
			severity, because := w.judge(o, e)
			if o.path == entry.path {
				c.starts = true
				text := entry.name + ": error while loading shared libraries: "
				switch {
				case e.Musl: // the whole line
					text = ""
				case e.Kind == elfdeps.InnerError || e.Kind == elfdeps.CutError: // an assertion of the loader's, or a signal
					text, severity, because = "", Error, ""
				case isVersion(e):
					text, severity, because = entry.name+": ", Error, ""
				}
				c.effect(Effect{"the container does not start", text + e.Error()})
				if severity == Note {
					severity, because = Warning, ""
				}
			}
			if f := w.pythonsOf(o); f != "" && o.path != entry.path {
				severity, because = Error, ""
				// The loader says the name by which it was called, python3 as a rule.
				c.effect(Effect{"Python does not start: " + f + " cannot be imported", "python3: error while loading shared libraries: " + e.Error()})
			}
			c.meet(e, o.path, severity)
			c.raise(severity, because)
		}
	}
	for _, in := range w.installs {
		for _, f := range in.failures {
			for _, e := range f.misses {
				c := w.causeOf(all, e)
				c.loading = true
				severity := in.helpSeverity()
				because := in.helped
				if because == "" && (isVersion(e) || isStack(e) || !e.Unknown && (w.packs.family(e.Name) != nil || !in.Aside && w.startsPython(in.home))) {
					severity = Error
				}
				file := realPath(w.img.FS, f.path)
				if x := exception(w.packs.AnyOf, file); x != nil && w.anyServes(x, file) {
					c.meet(e, file, Note)
					c.raise(Note, x.Why)
					continue
				}
				c.meet(e, file, severity)
				c.raise(severity, because)
				c.cuda = cmp.Or(c.cuda, in.dist.cuda())
				c.effect(Effect{killed(f.step.Effect, e), reads(f.step.Error, e, "{stem}", stem(e.Name))})
			}
		}
	}
	if start := w.preloading(); start != nil {
		own := missesOf(start, start.Program())
		for _, e := range w.real(slices.Concat(start.Misses, versionsOf(start))) {
			if e.By == nil || slices.Contains(own, e) {
				continue
			}
			c := w.causeOf(all, e)
			c.meet(e, e.By.Real(), Error)
			c.raise(Error, "")
			c.preload = e.By.Real()
			c.effect(Effect{fmt.Sprintf("no program of the image starts: %s names %s", preloadedBy(start, e.By), e.By.Real()), start.Program().Real() + ": error while loading shared libraries: " + e.Error()})
		}
	}
	for _, r := range w.runs {
		for i := range r.missed {
			if m := &r.missed[i]; m.err.Kind != elfdeps.SymbolError {
				w.meetOpen(w.causeOf(all, m.err), m)
			}
		}
	}
	for _, m := range w.dlopenNotes() {
		w.meetOpen(w.causeOf(all, m.err), &m)
	}
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, w.finding(all[key]))
	}
	return append(list, w.noneServes()...)
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
		f := Finding{Rule: "unresolved-library", Severity: Warning, Effects: []Effect{{g.of.Effect, g.of.Error}}, Fixes: []string{g.of.Fix}}
		for _, o := range objects {
			misses := w.real(o.misses)
			lacks := len(misses) > 0 && !slices.ContainsFunc(misses, func(e *elfdeps.Error) bool { return !e.Missing() || e.Unknown || w.packs.family(e.Name) != nil })
			if !lacks {
				missing = nil
				break
			}
			missing[misses[0].Name] = true
			f.Affected = append(f.Affected, o.path)
		}
		if missing == nil {
			continue
		}
		slices.Sort(f.Affected)
		f.NeededBy = w.filesOf(f.Affected)
		f.Message = fmt.Sprintf("none of the files %s in %s can be loaded: they miss %s", path.Base(g.of.Match), g.dir, strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
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
	c.meet(m.err, m.by, m.severity)
	delete(c.needers, m.by)
	c.needers[by] = true
	c.raise(m.severity, m.because)
	c.effect(m.effect)
	for _, e := range m.also {
		c.effect(e)
	}
	c.cuda, c.front = cmp.Or(c.cuda, m.cuda), cmp.Or(c.front, m.by)
	c.part = c.part || m.front != "" && w.packs.family(m.front) == w.packs.family(m.err.Name)
}

// causeOf is the cause of a miss: the name for what is missing, the file for
// what cannot be used.
func (w *world) causeOf(all map[string]*cause, e *elfdeps.Error) *cause {
	key := "missing " + e.Name
	switch {
	case isVersion(e):
		// One library that is too old is one cause, whatever is asked of it.
		series, _, _ := strings.Cut(e.Name, "_")
		key = "version " + e.Subject + " " + series
	case !e.Missing():
		key = "unusable " + e.Subject + " " + e.Message
	}
	c := all[key]
	if c == nil {
		c = &cause{packs: w.packs, severity: Note, needers: map[string]bool{}, affected: map[string]bool{}}
		all[key] = c
	}
	return c
}

// isVersion reports whether a library is there and lacks a version.
func isVersion(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.VersionError || e.Kind == elfdeps.InnerError
}

// meet adds a file that meets the cause, and the one that asks. The error that is
// told is that of the gravest; of these, the newest version's, or the first
// needer's.
func (c *cause) meet(e *elfdeps.Error, affected string, severity Severity) {
	c.affected[affected] = true
	by := affected
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	if by != e.Subject { // a file that is cut off asks for nothing
		c.needers[by] = true
	}
	graver := c.first == nil || severity != c.grave && severity.AtLeast(c.grave)
	as := c.first != nil && severity == c.grave
	if graver || as && isVersion(e) && c.packs.newer(e.Name, c.first.Name) || as && by < c.by && e.Name == c.first.Name {
		c.first, c.by, c.grave = e, by, severity
	}
}

func (c *cause) raise(s Severity, because string) {
	if !s.AtLeast(c.severity) {
		return
	}
	if s != c.severity || c.because == "" {
		c.because = because
	}
	c.severity = s
}

func (c *cause) effect(e Effect) {
	if e.Text != "" && !slices.Contains(c.effects, e) {
		c.effects = append(c.effects, e)
	}
}

// judge says how bad it is that an object, loaded as it is, meets a miss, and
// why it is no worse.
func (w *world) judge(o *object, e *elfdeps.Error) (Severity, string) {
	if isVersion(e) {
		return w.judgeVersion(o, e)
	}
	if isStack(e) {
		return w.judgeStack(o)
	}
	if w.packs.family(e.Name) == nil || !w.isRoot(o) {
		return Note, ""
	}
	by := o.path
	if e.By != nil && e.By.Real() != "" {
		by = e.By.Real()
	}
	_, served := w.served.Load(servedKey{o.path, e.Name})
	switch {
	case e.Unknown:
		return Warning, "the file is there and could not be examined"
	case by == o.path && served:
		return Note, "those who load it find the library"
	case w.packs.family(o.path) != nil && len(w.present(e.Name))+len(w.otherwise(e.Name)) > 0:
		return Note, "it is a part of the GPU libraries themselves, which others load first"
	}
	for _, p := range []string{o.path, by} {
		if x := exception(w.packs.Optional, p); x != nil {
			return Note, x.Why
		}
	}
	if why, known := w.notChosen(o.path); known && why != "" {
		return Note, why
	} else if x := exception(w.packs.AnyOf, o.path); !known && x != nil && w.anyServes(x, o.path) {
		return Note, x.Why
	}
	if in := w.installOf(o.path); in != nil && in.helped != "" {
		return in.helpSeverity(), in.helped
	}
	return Error, ""
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

// judgeVersion is for a version that is missing: sure to fail for what is sure to
// be loaded, and a note for the rest.
func (w *world) judgeVersion(o *object, e *elfdeps.Error) (Severity, string) {
	if !w.isRoot(o) || w.packs.family(o.path) != nil || e.By == nil || e.By.Real() != o.path {
		return Note, ""
	}
	for _, list := range [][]*Exception{w.packs.Optional, w.packs.AnyOf} {
		if x := exception(list, o.path); x != nil {
			return Note, x.Why
		}
	}
	return Error, ""
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

// finding writes a cause up.
func (w *world) finding(c *cause) Finding {
	e := c.first
	if isVersion(e) {
		return w.versionFinding(c)
	}
	f := Finding{
		Severity: c.severity, Message: e.Error(), Library: e.Name, Effects: c.effects,
		Affected: slices.Sorted(maps.Keys(c.affected)), Because: c.because, Searched: searched(e.Steps),
		Later: !c.loading,
	}
	for _, p := range slices.Sorted(maps.Keys(c.needers)) {
		f.NeededBy = append(f.NeededBy, w.file(p))
	}
	fam := w.packs.family(e.Name)
	if fam != nil {
		f.Family = fam.ID
	}
	present := w.present(e.Name)
	linked := len(present) > 0
	if !linked {
		present = w.otherwise(e.Name)
	}
	if e.Missing() {
		for _, p := range present {
			f.Present = append(f.Present, w.file(p))
		}
		f.Removed = w.removed(e.Name)
	}
	if fam != nil && e.Missing() && len(present) == 0 {
		f.Others = w.others(e.Name)
	}
	switch {
	case e.Unknown:
		f.Rule = "not-examined"
	case isStack(e):
		f.Rule = "executable-stack"
		f.Fixes = stackFixes(w.stackLibrary(e))
		return f
	case c.starts && fam == nil && e.Missing():
		f.Rule = "broken-entrypoint"
	case c.starts && fam == nil:
		f.Rule = "unusable-library"
	case fam == nil:
		f.Rule = "unresolved-library"
	case !e.Missing() || path.IsAbs(e.Name) && w.isFile(e.Name):
		// glibc says of a file for another machine that it is not there.
		f.Rule, f.Present = "unusable-library", nil
	case linked:
		f.Rule = "library-not-on-path"
	case len(f.Present) > 0:
		f.Rule = "missing-link"
	case c.part:
		f.Rule = "missing-sublibrary"
	default:
		f.Rule = "missing-library"
	}
	f.Fixes = w.fixes(&f, fam, e, c)
	if c.preload != "" {
		f.Fixes = append([]string{fmt.Sprintf("take %s out of what is preloaded, or build it for the libraries that the image has", c.preload)}, f.Fixes...)
	}
	if fam != nil && w.onJetson() {
		f.Severity, f.Because, f.Fixes = Note, "on a Jetson the container runtime mounts the GPU's libraries from the device", nil
	}
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

// versionFinding writes a library up that is too old for those who ask.
func (w *world) versionFinding(c *cause) Finding {
	f := Finding{
		Rule: "version-not-found", Severity: c.severity, Message: c.first.Error(), Library: path.Base(c.first.Subject), Effects: c.effects,
		Affected: slices.Sorted(maps.Keys(c.affected)), Because: c.because,
	}
	for _, p := range slices.Sorted(maps.Keys(c.needers)) {
		f.NeededBy = append(f.NeededBy, w.file(p))
	}
	if c.first.Kind == elfdeps.InnerError {
		return w.staleVersions(f, c.first)
	}
	if e, _, ok := w.img.FS.Lookup(c.first.Subject); ok {
		f.Present = []File{w.file("/" + e.Path)}
	}
	if newer := w.newerCopies(c.first.Subject, c.first.Name); len(newer) > 0 {
		f.Rule, f.BoundTo, f.Present = "older-copy-first", &f.Present[0], newer
		f.Fixes = []string{w.olderCopyFix(f.BoundTo.Path, newer[0].Path)}
		return f
	}
	if v := w.packs.versionFix(c.first.Name); v != nil {
		f.Fixes = append(f.Fixes, expand(v.Fix, "{version}", c.first.Name, "{number}", w.packs.symbolVersion(c.first.Name).Number, "{library}", f.Library))
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

// fixes are the remedies, the one that is nearest first.
func (w *world) fixes(f *Finding, fam *Family, e *elfdeps.Error, c *cause) []string {
	var list []string
	cuda, asks := w.wantedCUDA(f, c.cuda), "" // a file that is cut off asks for nothing
	if len(f.NeededBy) > 0 {
		asks = f.NeededBy[0].Path
	}
	switch {
	case e.Unknown:
		return nil
	case w.otherMachine(f.Library) != "":
		list = append(list, fmt.Sprintf("it is for %s, and the image for %s: install the packages in an image of the same platform, not by copying them from another one", w.otherMachine(f.Library), nameOf(w.machine)))
	case f.Rule == "unusable-library":
		list = append(list, w.wholeFix(cmp.Or(e.Subject, e.Name)))
	case f.Rule == "missing-link", f.Rule == "broken-entrypoint" && len(f.Present) > 0 && len(w.present(e.Name)) == 0:
		return append(list, w.linkFix(f)) // no directory has a file of that name
	case f.Rule == "broken-entrypoint" && len(f.Present) > 0, f.Rule == "unresolved-library" && f.Severity != Note && len(f.Present) > 0 && len(w.present(e.Name)) > 0:
		dir := path.Dir(f.Present[0].Path)
		return append(w.ldconfigFix(dir), w.pathFix(w.pathWith(asks, dir)))
	case f.Rule == "library-not-on-path":
		list = append(list, w.ldconfigFix(path.Dir(f.Present[0].Path))...)
		list = append(list, w.pathFix(w.pathWith(asks, path.Dir(f.Present[0].Path))))
		if in := w.installOf(asks); in != nil && len(in.Helped) > 0 {
			list = append(list, "or load it in the program first: `import torch` before the others, onnxruntime.preload_dlls() from onnxruntime 1.21 on")
		}
		return list
	case c.part && len(f.Removed) == 0:
		what := "its release"
		if r := w.releaseOf(c.front); r != nil {
			what = "release " + r.String()
		}
		list = append(list, fmt.Sprintf("add %s of %s to %s, beside %s", f.Library, what, path.Dir(c.front), path.Base(c.front)))
		if d := w.distOf(c.front); d.name != "" && strings.Contains(c.front, "-packages/") {
			return append(list, fmt.Sprintf("or `pip install --force-reinstall --no-deps %s==%s`", strings.ReplaceAll(d.name, "_", "-"), d.version))
		}
	case len(f.Removed) > 0 && f.Removed[0].By != nil:
		r := f.Removed[0]
		list = append(list, fmt.Sprintf("keep %s: layer %d deletes it", r.Path, r.By.Index))
	default:
		list = append(list, w.danglingFixes(e.Name)...)
	}
	if len(f.Others) > 0 {
		o, build := f.Others[0].Path, "the build"
		if by := w.packs.family(asks); by != nil && by != fam {
			build += " of " + by.Title
		}
		list = append(list, fmt.Sprintf("install %s that is made for %s, which the image has at %s; or bring %s", build, w.byPath[o].elf.Soname, path.Dir(o), f.Library))
	}
	if fam != nil && f.Rule != "unusable-library" {
		list = append(list, fam.fixes(f.Library, cuda)...)
	}
	if fam == nil && e.Missing() {
		list = append(list, w.packs.LibraryFixes(f.Library)...)
	}
	return list
}

// ldconfigFix is for a directory that ld.so.conf names, and of which the cache does
// not know.
func (w *world) ldconfigFix(dir string) []string {
	for d, by := range w.searchDirs() {
		if strings.HasPrefix(by, "/") && realPath(w.img.FS, d) == dir {
			return []string{fmt.Sprintf("RUN ldconfig, after the files have come: %s names %s, and /etc/ld.so.cache does not have them", by, d)}
		}
	}
	return nil
}

// wholeFix says how a file that cannot be used is mended. What stands for a library
// in a few bytes is a text.
func (w *world) wholeFix(file string) string {
	if e, _, ok := w.img.FS.Lookup(file); ok && e.Object == nil && e.Size > 8 && e.Size < 512 {
		return fmt.Sprintf("put the library itself in the place of %s, which has %d bytes: it may be a Git LFS pointer (`git lfs pull` before the build), or a link that was unpacked as a text", file, e.Size)
	}
	return fmt.Sprintf("replace %s with a whole copy: rebuild the layer that brought it", file)
}

// danglingFixes are for links of a library's name that lead nowhere: where they
// point is what was left behind.
func (w *world) danglingFixes(name string) []string {
	var list []string
	for _, p := range slices.Sorted(slices.Values(w.named[path.Base(name)])) {
		if e, _, ok := w.img.FS.Lstat(p); ok && e.Type == layers.Symlink {
			if _, _, leads := w.img.FS.Lookup(p); !leads {
				list = append(list, fmt.Sprintf("bring %s: %s is a link to it, and it is not there", e.Link, p))
			}
		}
	}
	return list[:min(len(list), 3)]
}

// linkFix is the link that is missing, in a directory where it will be found: the
// library's own when the loader came by, else the asking file's RUNPATH or
// LD_LIBRARY_PATH must lead there as well.
func (w *world) linkFix(f *Finding) string {
	for _, p := range f.Present {
		dir := path.Dir(p.Path)
		for _, s := range f.Searched {
			if slices.ContainsFunc(s.Places, func(place Place) bool { return realPath(w.img.FS, place.Dir) == dir }) {
				return fmt.Sprintf("RUN ln -s %s %s/%s", path.Base(p.Path), dir, f.Library)
			}
		}
	}
	p := f.Present[0].Path
	return fmt.Sprintf("RUN ln -s %s %s/%s, and %s", path.Base(p), path.Dir(p), f.Library, w.pathFix(w.pathWith("", path.Dir(p))))
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

// unexamined are the findings about what could not be looked at.
func (w *world) unexamined() []Finding {
	why := map[string][]string{}
	for _, s := range w.img.FS.Skipped {
		why[s.Why] = append(why[s.Why], "/"+strings.TrimPrefix(s.Path, "/"))
	}
	for e := range w.img.FS.All() {
		if e.Fault != "" {
			why[e.Fault] = append(why[e.Fault], "/"+e.Path)
		}
		if e.Object == nil {
			continue
		}
		for _, u := range e.Object.Unread {
			text := "the " + u.What + " " + u.Why
			why[text] = append(why[text], "/"+e.Path)
		}
	}
	for _, u := range w.inv.Unread {
		why[u.Why] = append(why[u.Why], u.Path)
	}
	for _, l := range w.loaders {
		if l == nil {
			continue
		}
		for _, d := range l.Doubts {
			why[d] = append(why[d], l.Path)
		}
	}
	if w.primary == nil && len(w.objects) > 0 {
		text := "the image has no dynamic loader: what its libraries would find was not looked at"
		for _, o := range w.objects {
			if o.loader == nil && !isProgram(o.elf) {
				why[text] = append(why[text], o.path)
			}
		}
	}
	var list []Finding
	for _, text := range slices.Sorted(maps.Keys(why)) {
		paths := slices.Compact(slices.Sorted(slices.Values(why[text])))
		list = append(list, Finding{Rule: "not-examined", Severity: Note, Message: text, Affected: paths})
	}
	return list
}
