package replay

import (
	"cmp"
	"context"
	"debug/elf"
	"iter"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"golang.org/x/sync/errgroup"
)

// Object is one ELF file and what its replay came to.
type Object struct {
	Path   string
	ELF    *elfdeps.Object
	Loader *elfdeps.Loader // nil: no loader of the image would take it
	Misses []*elfdeps.Error
}

// Install is a framework that the image has.
type Install struct {
	*packs.Framework
	Home      string // its directory, absolute
	Site      string // the directory that holds it
	Installed Dist
	release   packs.ReleaseNumbers // nil: not known
	preloads  map[string]*preload  // by Preload.When
	opens     []string             // the files that its preloads and its steps open by full path
	rescued   []*elfdeps.Error     // what its steps miss without the preload after a miss, where that comes; nil: it does not
	Failures  []Failure
	Help      *packs.Help // what makes it work that fails by itself; nil: nothing does
	Begun     bool        // and the image's program does that first
	// importers are the packages beside it whose __init__.py imports it.
	importers map[string]bool
}

// Failure is a step that failed.
type Failure struct {
	Step   packs.Step
	Path   string
	Misses []*elfdeps.Error
	Killed bool // the step's effect says that the process is killed
}

// Machines are the architectures of image configs (GOARCH) as ELF has them.
var Machines = map[string]struct {
	M elf.Machine
	c elf.Class
}{
	"amd64": {elf.EM_X86_64, elf.ELFCLASS64}, "arm64": {elf.EM_AARCH64, elf.ELFCLASS64}, "386": {elf.EM_386, elf.ELFCLASS32},
	"arm": {elf.EM_ARM, elf.ELFCLASS32}, "ppc64le": {elf.EM_PPC64, elf.ELFCLASS64}, "s390x": {elf.EM_S390, elf.ELFCLASS64},
	"riscv64": {elf.EM_RISCV, elf.ELFCLASS64},
}

// architecture is the config's, else that of most of the image's ELF files.
func (fi *Files) architecture() (elf.Machine, elf.Class) {
	if c := fi.img.Config; c != nil {
		if a, ok := Machines[c.Architecture]; ok {
			return a.M, a.c
		}
	}
	type arch struct {
		m elf.Machine
		c elf.Class
	}
	count := map[arch]int{}
	best := arch{elf.EM_X86_64, elf.ELFCLASS64}
	for e := range fi.img.FS.All() {
		if e.Object == nil {
			continue
		}
		a := arch{e.Object.Machine, e.Object.Class()}
		count[a]++
		if count[a] > count[best] || count[a] == count[best] && a.m < best.m {
			best = a
		}
	}
	return best.m, best.c
}

// findPrimary is the loader of the image's programs: the entrypoint's, else the
// first that is there.
func (lo *Loaders) findPrimary() *elfdeps.Loader {
	if e := lo.config.Entry(); e.exe != nil && e.exe.Object != nil && e.exe.Object.Interp != "" {
		if l := lo.Loader(e.exe.Object.Interp); l != nil {
			return l
		}
	}
	for _, interp := range elfdeps.Interpreters(lo.files.Machine, lo.files.Class) {
		if l := lo.Loader(interp); l != nil {
			return l
		}
	}
	return nil
}

// Loader opens an interpreter once; nil when it cannot be.
func (lo *Loaders) Loader(interp string) *elfdeps.Loader {
	if l, ok := lo.All[interp]; ok {
		return l
	}
	l, err := elfdeps.NewLoader(lo.img.FS, interp, lo.config.Env())
	if err != nil {
		l = nil
	}
	lo.All[interp] = l
	return l
}

// loaderOf is the loader in whose process an object is loaded: a program's own,
// musl's for what needs musl's libc, else the image's.
func (lo *Loaders) loaderOf(o *elfdeps.Object) *elfdeps.Loader {
	if o.Interp != "" {
		return lo.Loader(o.Interp)
	}
	interps := elfdeps.Interpreters(lo.files.Machine, lo.files.Class)
	for _, n := range o.Needed {
		if strings.HasPrefix(n, "libc.musl-") && len(interps) > 1 {
			if l := lo.Loader(interps[1]); l != nil {
				return l
			}
		}
	}
	return lo.Primary
}

// replay loads every object, on every processor. What misses something by
// itself and relies on a framework is loaded after it.
func (re *replayer) replay(ctx context.Context) error {
	for _, in := range re.ev.Installs {
		re.load(in)
	}
	for _, in := range re.ev.Installs {
		re.help(in)
		for i := range in.Failures {
			in.Failures[i].Misses = kept(in.Failures[i].Misses)
		}
	}
	err := re.each(ctx, func(o *Object) {
		if o.Loader == nil {
			return
		}
		misses := re.alone(o)
		if len(misses) > 0 && !IsProgram(o.ELF) {
			if host := re.hostOf(o); host != nil {
				misses = re.after(o, host)
			}
		}
		o.Misses = kept(misses)
	})
	if err == nil {
		re.plans.follow()
	}
	return err
}

// kept are errors without the processes that they are from: there is one for each
// file, and each may hold all files.
func kept(list []*elfdeps.Error) []*elfdeps.Error {
	var kept []*elfdeps.Error
	for _, e := range list {
		kept = append(kept, e.Alone())
	}
	return kept
}

// each calls f for every object, in no order.
func (re *replayer) each(ctx context.Context, f func(*Object)) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for n := range workers {
		g.Go(func() error {
			for i := n; i < len(re.files.Objects); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				f(re.files.Objects[i])
			}
			return nil
		})
	}
	return g.Wait()
}

// alone loads an object by itself: a program starts, a library is opened by a
// program that brings nothing but, for Python's, the interpreter.
func (re *replayer) alone(o *Object) []*elfdeps.Error {
	if !IsProgram(o.ELF) {
		return re.open(re.loaders.ProgramFor(o.Path, o.Loader), o)
	}
	// What the start misses is in the process; its error says the same again.
	p, _ := o.Loader.Trace(o.Path)
	if p.Program() == nil {
		return nil
	}
	re.remember(p, o)
	return re.files.MissesOf(p, p.Program())
}

// open opens an object in a process and tells what of its own was missed.
func (re *replayer) open(p *elfdeps.Process, o *Object) []*elfdeps.Error {
	had := len(p.Misses)
	m, err := p.Dlopen(nil, o.Path)
	re.remember(p, o)
	if err != nil && m == nil {
		return p.Misses[had:]
	}
	return re.files.MissesOf(p, m)
}

// after loads an object in a process that has loaded its host.
func (re *replayer) after(o *Object, host *Install) []*elfdeps.Error {
	p := re.loaders.ProgramFor(host.Home, o.Loader)
	re.runSteps(p, host)
	return re.open(p, o)
}

// MissesOf are the misses of a module and of all that it needs: libraries, and
// versions of libraries that are there.
func (fi *Files) MissesOf(p *elfdeps.Process, root *elfdeps.Module) []*elfdeps.Error {
	all := slices.Concat(p.Misses, VersionsOf(p), fi.cutOf(p.Objects, 0))
	if len(all) == 0 {
		return nil
	}
	seen := map[*elfdeps.Module]bool{root: true}
	queue := []*elfdeps.Module{root}
	for i := 0; i < len(queue); i++ {
		for _, d := range queue[i].Deps {
			if d != nil && !seen[d] {
				seen[d] = true
				queue = append(queue, d)
			}
		}
	}
	var list []*elfdeps.Error
	for _, e := range all {
		if seen[e.By] {
			list = append(list, e)
		}
	}
	return list
}

// VersionsOf are the versions that a process misses, less those of libraries that
// it has not found or could not use: the real loader has ended before.
func VersionsOf(p *elfdeps.Process) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(p.Versions), func(v *elfdeps.Error) bool {
		return v.Kind == elfdeps.InnerError && slices.ContainsFunc(p.Misses, func(e *elfdeps.Error) bool { return e.Name == v.Name })
	})
}

// cutOf returns the errors of the modules, from a number on, whose files end before
// their segments do. The loader maps them and writes to what is not there: the process
// ends with SIGBUS while it loads them, or when it gets there.
func (fi *Files) cutOf(modules []*elfdeps.Module, from int) []*elfdeps.Error {
	var list []*elfdeps.Error
	for _, m := range modules[min(from, len(modules)):] {
		if !m.Truncated() {
			continue
		}
		by := m
		for _, other := range modules {
			if slices.Contains(other.Deps, m) {
				by = other
				break
			}
		}
		list = append(list, &elfdeps.Error{
			Kind: elfdeps.CutError, Name: path.Base(m.Path), Subject: m.Real(), By: by,
			Message: fi.packs.Phrase("file-ends", packs.Values{"size": strconv.FormatInt(m.File.Size, 10), "least": strconv.FormatInt(m.Object.LoadEnd, 10)}),
		})
	}
	return list
}

// remember notes which GPU libraries were found for whom in a process other
// than its own: a library that is only ever loaded by others is judged there.
func (re *replayer) remember(p *elfdeps.Process, root *Object) {
	program := IsProgram(root.ELF)
	for _, m := range p.Objects {
		real := m.Real()
		if program && re.packs.Family(real) != nil {
			re.loadsGPU.Store(root.Path, true)
		}
		if real == root.Path {
			continue
		}
		for i, d := range m.Deps {
			if d != nil && re.packs.Family(m.Object.Needed[i]) != nil {
				re.ev.served.Store(servedKey{real, m.Object.Needed[i]}, true)
			}
		}
	}
}

// servedKey is a file and a name that it asks for.
type servedKey struct{ path, name string }

// ProgramFor is a process in which what lies at a path would be loaded: a
// Python extension's is its interpreter, whose RPATH serves the whole process
// (conda's python has one); any other's is a program that brings nothing.
func (lo *Loaders) ProgramFor(p string, l *elfdeps.Loader) *elfdeps.Process {
	for _, python := range lo.Pythons(p) {
		e, _, ok := lo.img.FS.Lookup(python)
		if !ok || e.Object == nil || e.Object.Interp != l.Path {
			continue
		}
		proc, err := l.Trace(python)
		if err == nil {
			return proc
		}
	}
	return l.Bare()
}

// Pythons are the interpreters that may load what lies at a path: those of the
// prefix whose lib/pythonX.Y it is in, or of the conda prefix.
func (lo *Loaders) Pythons(p string) []string {
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		name := path.Base(dir)
		if strings.HasPrefix(name, "python3") && path.Base(path.Dir(dir)) == "lib" {
			prefix := path.Dir(path.Dir(dir))
			list := []string{prefix + "/bin/" + name, prefix + "/bin/python3", prefix + "/bin/python"}
			if prefix == "/usr/local" { // Debian's pip installs there for /usr's python
				list = append(list, "/usr/bin/"+name, "/usr/bin/python3")
			}
			return list
		}
		if _, _, ok := lo.img.FS.Lookup(dir + "/conda-meta"); ok {
			return []string{dir + "/bin/python3", dir + "/bin/python"}
		}
	}
	return nil
}

// StartsPython reports whether the image has the interpreter that loads what lies at
// a path: what such a process misses, no other will bring.
func (lo *Loaders) StartsPython(p string) bool {
	return slices.ContainsFunc(lo.Pythons(p), func(python string) bool {
		e, _, ok := lo.img.FS.Lookup(python)
		return ok && e.Object != nil && e.Object.Machine == lo.files.Machine
	})
}

// IsProgram tells a program from a library: it names its interpreter, and is
// not a library that can also be run (libc.so.6).
func IsProgram(o *elfdeps.Object) bool {
	return o.Type == elf.ET_EXEC || o.Interp != "" && (o.PIE() || o.Soname == "")
}

// isStatic tells a static program that has a dynamic section only to relocate
// itself (static-pie): the kernel starts it without a loader.
func isStatic(o *elfdeps.Object) bool { return o.Interp == "" && (o.PIE() || o.Type == elf.ET_EXEC) }

// findInstalls looks for the packs' frameworks.
func (re *replayer) findInstalls() []*Install {
	type sought struct{ pattern, begins string }
	var seek []sought
	for _, f := range re.packs.Frameworks {
		seek = append(seek, sought{path.Join("**", f.Package, f.Marker), literal(path.Base(f.Marker))})
	}
	found := make([][]string, len(seek)) // paths of markers; the image is gone through once
	for e := range re.img.FS.All() {
		if e.IsDir() {
			continue
		}
		base := path.Base(e.Path)
		for i, s := range seek {
			if strings.HasPrefix(base, s.begins) && strings.Contains(e.Path, re.packs.Frameworks[i].Package) && packs.Match(s.pattern, e.Path) {
				found[i] = append(found[i], e.Path)
			}
		}
	}
	var list []*Install
	for i, f := range re.packs.Frameworks {
		homes := map[string]bool{}
		for _, marker := range found[i] {
			home := "/" + homeOf(marker, f)
			if !homes[home] {
				homes[home] = true
				if f.Without != "" && len(re.files.Glob(home, f.Without)) > 0 {
					continue
				}
				in := &Install{Framework: f, Home: home, Site: path.Dir(home)}
				in.Installed = re.packages.distAround(home, f.Dist)
				in.release = packs.ParseRelease(in.Installed.Version)
				if f.OnlyDist && in.Installed.Name == "" {
					continue
				}
				in.importers = re.packages.importersOf(in)
				list = append(list, in)
			}
		}
	}
	return list
}

// literal is what a pattern begins with, up to its first special character: most of
// an image's 150,000 paths are told by it without a match.
func literal(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		return pattern[:i]
	}
	return pattern
}

// homeOf is the framework's directory: the path less as many elements as the
// marker has.
func homeOf(p string, f *packs.Framework) string {
	for range strings.Count(f.Marker, "/") + 1 {
		p = path.Dir(p)
	}
	return p
}

// Glob are the paths below dir that fit a pattern, sorted. `..` at its beginning
// leads up. The list is shared: it is not to be changed.
func (fi *Files) Glob(dir, pattern string) []string {
	full := path.Join(dir, pattern)
	if known, ok := fi.globs.Load(full); ok {
		return known.([]string)
	}
	list := fi.globOf(full)
	fi.globs.Store(full, list)
	return list
}

func (fi *Files) globOf(full string) []string {
	if e, _, ok := fi.img.FS.Lookup(full); ok && !e.IsDir() {
		return []string{full}
	} else if literal(full) == full {
		return nil
	}
	var list []string
	for _, one := range alternatives(full) {
		below, rest := doublestar.SplitPattern(one)
		// Links are followed up to the first special character: /usr/local/cuda is one.
		real := strings.TrimPrefix(RealPath(fi.img.FS, below), "/")
		for rel := range fi.fitting(real, rest) {
			list = append(list, path.Join(below, rel))
		}
	}
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

// fitting yields what below a real directory fits a pattern and is no directory
// itself, from there on. Of a tree only those directories are entered that a segment
// of the pattern fits; where segments do not tell (`**`, braces), all.
func (fi *Files) fitting(real, pattern string) iter.Seq[string] {
	segment, rest, deeper := strings.Cut(pattern, "/")
	return func(yield func(string) bool) {
		if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, `{\`) || !doublestar.ValidatePattern(segment) {
			for e := range fi.img.FS.Below(real) {
				if rel := strings.TrimPrefix(strings.TrimPrefix(e.Path, real), "/"); !e.IsDir() && packs.Match(pattern, rel) && !yield(rel) {
					return
				}
			}
			return
		}
		entries := fi.img.FS.In(real)
		if literal(segment) == segment {
			entries = func(yield func(*layers.Entry, int) bool) {
				if e, layer, ok := fi.img.FS.Lstat("/" + path.Join(real, segment)); ok {
					yield(e, layer)
				}
			}
		}
		for e := range entries {
			name := path.Base(e.Path)
			switch {
			case e.IsDir() != deeper || !packs.Match(segment, name):
			case !deeper:
				if !yield(name) {
					return
				}
			default:
				for rel := range fi.fitting(e.Path, rest) {
					if !yield(name + "/" + rel) {
						return
					}
				}
			}
		}
	}
}

// alternatives are the patterns that a pattern with braces stands for: they begin
// with more than it does, so that less has to be looked through.
func alternatives(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	if open < 0 || strings.ContainsAny(pattern, `\[`) || strings.Count(pattern, "{") > 4 {
		return []string{pattern}
	}
	var list []string
	from, depth := open+1, 0
	for i := open; i == open || i < len(pattern) && depth > 0; i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		if pattern[i] == ',' && depth == 1 || depth == 0 {
			list = append(list, pattern[from:i])
			from = i + 1
		}
	}
	if depth != 0 {
		return []string{pattern}
	}
	var all []string
	for _, a := range list {
		all = append(all, alternatives(pattern[:open]+a+pattern[from:])...)
	}
	return all
}

// help looks for what makes a framework work that fails by itself: another that
// the program imports first, or what it opens by a call.
func (re *replayer) help(in *Install) {
	if len(in.Failures) == 0 {
		return
	}
	for i := range in.Helped {
		p := re.loaders.ProgramFor(in.Home, re.loaders.Primary)
		if re.helpIn(p, in, &in.Helped[i]) && len(re.runSteps(p, in)) == 0 {
			in.Help = &in.Helped[i]
			in.Begun = re.begins(in, in.Help)
			return
		}
	}
}

// begins reports whether the image's program does first what helps a framework.
func (re *replayer) begins(in *Install, h *packs.Help) bool {
	for _, other := range re.packs.Frameworks {
		if other.ID == h.Framework && other.Package != "" {
			return re.packages.importsFirst(other.Package, in.Package, in.Site)
		}
	}
	return false
}

// helpIn does in a process what a help says, and reports whether the image has it.
func (re *replayer) helpIn(p *elfdeps.Process, in *Install, h *packs.Help) bool {
	if fits, _ := in.release.Within(h.Versions); !fits {
		return false
	}
	if h.Framework == "" {
		helper := re.findPreload(in, packs.Preload{Files: h.Files})
		re.openPreload(p, helper)
		return len(helper.paths()) > 0
	}
	for _, other := range re.ev.Installs {
		if other.ID == h.Framework && other.Site == in.Site && len(other.Failures) == 0 {
			re.runSteps(p, other)
			return true
		}
	}
	return false
}

// OpenPath opens a file as a program does that goes on when it cannot: nothing
// stays of it then. It tells the misses.
func (lo *Loaders) OpenPath(p *elfdeps.Process, file string) []*elfdeps.Error {
	misses, _ := lo.openPathBound(p, file, elfdeps.Now)
	return misses
}

// openPathBound is openPath with dlopen's flags; the error is that of a process that
// binds symbols.
func (lo *Loaders) openPathBound(p *elfdeps.Process, file string, flags elfdeps.Flags) ([]*elfdeps.Error, error) {
	undo, had, loaded := p.Mark(), len(p.Misses), len(p.Objects)
	_, err := p.DlopenFlags(nil, file, flags)
	misses := append(lo.files.Real(p.Misses[had:]), lo.files.cutOf(p.Objects, loaded)...)
	p.Misses = p.Misses[:had]
	if len(misses) > 0 {
		undo()
	}
	return misses, err
}

// runSteps opens what the framework opens, its preloads when they come, and tells
// which steps fail.
func (re *replayer) runSteps(p *elfdeps.Process, in *Install) []Failure {
	return re.runStepsTelling(p, in, nil)
}

// runStepsTelling is runSteps, and calls told, where it is not nil, with the errors of
// a process that binds symbols.
func (re *replayer) runStepsTelling(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) []Failure {
	if in.rescued != nil {
		if f := re.rescue(p, in, told); f != nil {
			re.openSteps(p, in, nil)
			return []Failure{*f}
		}
	}
	return re.openSteps(p, in, told)
}

// openSteps opens the files of the steps, and the preloads before and after the first.
func (re *replayer) openSteps(p *elfdeps.Process, in *Install, told func(s packs.Step, file string, err error)) []Failure {
	var failures []Failure
	// What is cut off among the preloads kills the process before the framework comes
	// to what it is for: its last step.
	early := re.openPreload(p, in.preloads["first"])
	last := "" // the file that it opens last
	steps := in.steps()
	for i, s := range steps {
		if i == 1 && in.rescued == nil && len(failures) == 0 {
			early = append(early, re.openEager(p, in.preloads["after-first-step"])...)
		}
		if failed := re.preloadStep(p, in, s, told); failed != nil {
			failures = append(failures, *failed)
			continue
		}
		for _, file := range re.files.Glob(in.Home, s.Open) {
			if !re.loadable(in, file) {
				continue
			}
			last = file
			had, checked, loaded := len(p.Misses), len(VersionsOf(p)), len(p.Objects)
			_, err := p.DlopenFlags(nil, file, packs.FlagsOf(s.Flags))
			if told != nil {
				told(s, file, err)
			}
			versions, ends := VersionsOf(p), re.files.cutOf(p.Objects, loaded)
			if misses := re.files.Real(slices.Concat(p.Misses[had:], versions[min(checked, len(versions)):], ends)); len(misses) > 0 {
				failures = append(failures, Failure{Step: s, Path: file, Misses: misses})
			}
		}
	}
	if len(early) > 0 && len(steps) > 0 {
		s := steps[len(steps)-1]
		if !s.Imports() {
			s.Effect = re.packs.Phrase("killed-by-preload", packs.Values{"framework": in.Title})
		}
		failures = append(failures, Failure{Step: s, Path: cmp.Or(last, early[0].Subject), Misses: early, Killed: true})
	}
	return failures
}

// preloadStep opens what a step opens by full path before its own files, and tells
// the first that cannot be: the step ends there.
func (re *replayer) preloadStep(p *elfdeps.Process, in *Install, s packs.Step, told func(s packs.Step, file string, err error)) *Failure {
	for i, pattern := range slices.Concat(s.Optional, s.Preload) {
		for _, file := range re.files.Glob(in.Site, pattern) {
			misses, err := re.loaders.openPathBound(p, file, packs.FlagsOf(s.PreloadFlags))
			if i < len(s.Optional) { // what is cut off ends the process all the same
				misses = slices.DeleteFunc(misses, func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
			}
			if len(misses) == 0 && told != nil && i >= len(s.Optional) && symbolError(err) != nil {
				s.Error = cmp.Or(strings.ReplaceAll(s.Unusable, "{path}", file), s.Error)
				told(s, file, err)
				return &Failure{Step: s, Path: file}
			}
			if len(misses) == 0 {
				continue
			}
			if e := misses[0]; e.Kind != elfdeps.CutError && (e.Subject == file || e.Name == file) {
				s.Error = strings.ReplaceAll(s.Unusable, "{path}", file)
			}
			return &Failure{Step: s, Path: file, Misses: misses}
		}
	}
	return nil
}

// steps are the framework's steps in its version. Where that is not known, the
// first of those that open the same counts.
func (in *Install) steps() []packs.Step {
	var list []packs.Step
	for _, s := range in.Steps {
		fits, known := in.release.Within(s.Versions)
		if fits || !known && !slices.ContainsFunc(list, func(o packs.Step) bool { return o.Open == s.Open }) {
			list = append(list, s)
		}
	}
	return list
}

// loadable reports whether a file is one that a framework's process would open: not
// an optional one, and not one that is for another machine by its name. One that is
// for another machine all the same is opened, in a directory of packages: elsewhere
// an application may carry its libraries for every platform, and choose.
func (re *replayer) loadable(in *Install, file string) bool {
	e, _, ok := re.img.FS.Lookup(file)
	if !ok || packs.ExceptionFor(re.packs.Optional, file) != nil {
		return false
	}
	tag := platformTag.FindStringSubmatch(path.Base(file))
	return e.Object == nil || e.Object.Machine == re.files.Machine || in.Package != "" && (tag == nil || tag[1] == platformTags[re.files.Machine])
}

// platformTag is the machine in the name of an extension module.
var platformTag = regexp.MustCompile(`-(\w+)-linux-(?:gnu|musl)\.so$`)

// platformTags are the machines as they are in such names.
var platformTags = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// Real leaves out what is no miss on a machine with a GPU: the driver's
// libraries.
func (fi *Files) Real(misses []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(misses), func(e *elfdeps.Error) bool {
		return e.Missing() && fi.packs.FromDriver(e.Name)
	})
}

// hostOf is the framework that an object relies on: it needs one of its
// libraries, or is in a package that imports it first. Of several, the one in
// the same directory of packages counts.
func (re *replayer) hostOf(o *Object) *Install {
	var host *Install
	for _, in := range re.ev.Installs {
		served := slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return packs.MatchAny(in.Serves, n) })
		if !served && !in.follows(o.Path) && !in.importers[in.packageOf(o.Path)] && !strings.HasPrefix(o.Path, in.Home+"/") {
			continue
		}
		if host == nil || strings.HasPrefix(o.Path, in.Site+"/") && !strings.HasPrefix(o.Path, host.Site+"/") {
			host = in
		}
	}
	return host
}

// follows reports whether a path is in a package that imports the framework
// before it loads its own libraries.
func (in *Install) follows(p string) bool {
	pkg := in.packageOf(p)
	return pkg != "" && packs.MatchAny(in.Followers, pkg)
}

// packageOf is the package beside the framework that a path is in, or the module that
// it is; empty for a path elsewhere.
func (in *Install) packageOf(p string) string {
	rest, ok := strings.CutPrefix(p, in.Site+"/")
	if !ok {
		return ""
	}
	pkg, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(pkg, ".libs")
}

func DescribeLibc(c elfdeps.Libc) string {
	kind := "glibc"
	if c.Musl {
		kind = "musl"
	}
	if c.Release == "" {
		return " (" + kind + ")"
	}
	return " (" + kind + " " + c.Release + ")"
}
