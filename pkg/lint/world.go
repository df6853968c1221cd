package lint

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"iter"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// world is an image while it is judged: what is in it, and what each of its ELF
// files meets when it is loaded.
type world struct {
	img   *Image
	packs *Packs

	machine elf.Machine
	class   elf.Class
	loaders map[string]*elfdeps.Loader // by path of the interpreter
	work    elfdeps.Work               // of all their processes
	primary *elfdeps.Loader            // of the image's programs; nil when there is none

	objects    []*object           // ELF files of the image's machine, by path
	byPath     map[string]*object  // by real path
	named      map[string][]string // file name → paths that have it
	sonames    map[string][]string // SONAME → paths of files with another name
	bySoname   map[string][]*object
	elf, files int
	static     int // of elf

	installs []*install
	served   sync.Map // servedKey → true

	inv      *inventory.Inventory // set by takeStock
	loadsGPU sync.Map             // path of a program that loads a GPU library when it starts → true

	runs  []*run
	hosts map[*elfdeps.Loader]*elfdeps.Loader // with the driver beside the image
	dists map[string][]dist                   // by directory

	asked   int                      // by lacks
	openers map[[2]string][]*Dlopens // by SONAME and file name

	globs sync.Map // pattern → what fits it, see glob

	driverFirst   sync.Once // driverComesFirst
	driverIsFirst bool

	changedFiles map[string]bool // wheels' files of another size than their RECORD says; nil: not looked
	chosen       []chosen        // what choose has found; nil before

	saying sync.Mutex // of said
	said   error      // the first clause or value that the packs or the code lack
}

// object is one ELF file and what its replay came to.
type object struct {
	path   string
	elf    *elfdeps.Object
	loader *elfdeps.Loader // nil: no loader of the image would take it
	misses []*elfdeps.Error
}

// install is a framework that the image has.
type install struct {
	*Framework
	home     string // its directory, absolute
	site     string // the directory that holds it
	dist     dist
	release  release             // nil: not known
	preloads map[string]*preload // by Preload.When
	opens    []string            // the files that its preloads and its steps open by full path
	rescued  []*elfdeps.Error    // what its steps miss without the preload after a miss, where that comes; nil: it does not
	failures []failure
	help     *Help // what makes it work that fails by itself; nil: nothing does
	begun    bool  // and the image's program does that first
	// importers are the packages beside it whose __init__.py imports it.
	importers map[string]bool
}

// failure is a step that failed.
type failure struct {
	step   Step
	path   string
	misses []*elfdeps.Error
	killed bool // the step's effect says that the process is killed
}

func newWorld(img *Image, packs *Packs) *world {
	w := &world{
		img: img, packs: packs, loaders: map[string]*elfdeps.Loader{}, byPath: map[string]*object{}, named: map[string][]string{}, sonames: map[string][]string{},
		bySoname: map[string][]*object{},
		hosts:    map[*elfdeps.Loader]*elfdeps.Loader{}, dists: map[string][]dist{},
		openers: map[[2]string][]*Dlopens{},
	}
	w.machine, w.class = w.architecture()
	for e := range img.FS.All() {
		w.files++
		if e.Type == layers.Symlink {
			w.named[path.Base(e.Path)] = append(w.named[path.Base(e.Path)], "/"+e.Path)
		}
		if e.Object == nil {
			continue
		}
		abs := "/" + e.Path
		w.elf++
		if o := e.Object; o.Fault == "" && len(o.Unread) == 0 && (!o.Dynamic || isStatic(o)) {
			w.static++
		}
		if e.Object.Machine != w.machine || e.Object.Class() != w.class {
			continue
		}
		w.named[path.Base(abs)] = append(w.named[path.Base(abs)], abs)
		if s := e.Object.Soname; s != "" && s != path.Base(abs) {
			w.sonames[s] = append(w.sonames[s], abs)
		}
		if e.Object.Dynamic && !isStatic(e.Object) {
			o := &object{path: abs, elf: e.Object}
			w.objects = append(w.objects, o)
			w.byPath[abs] = o
			w.bySoname[e.Object.Soname] = append(w.bySoname[e.Object.Soname], o)
		}
	}
	w.primary = w.findPrimary()
	for _, o := range w.objects {
		o.loader = w.loaderOf(o.elf)
	}
	w.installs = w.findInstalls()
	return w
}

// machines are the architectures of image configs (GOARCH) as ELF has them.
var machines = map[string]struct {
	m elf.Machine
	c elf.Class
}{
	"amd64": {elf.EM_X86_64, elf.ELFCLASS64}, "arm64": {elf.EM_AARCH64, elf.ELFCLASS64}, "386": {elf.EM_386, elf.ELFCLASS32},
	"arm": {elf.EM_ARM, elf.ELFCLASS32}, "ppc64le": {elf.EM_PPC64, elf.ELFCLASS64}, "s390x": {elf.EM_S390, elf.ELFCLASS64},
	"riscv64": {elf.EM_RISCV, elf.ELFCLASS64},
}

// architecture is the config's, else that of most of the image's ELF files.
func (w *world) architecture() (elf.Machine, elf.Class) {
	if c := w.img.Config; c != nil {
		if a, ok := machines[c.Architecture]; ok {
			return a.m, a.c
		}
	}
	type arch struct {
		m elf.Machine
		c elf.Class
	}
	count := map[arch]int{}
	best := arch{elf.EM_X86_64, elf.ELFCLASS64}
	for e := range w.img.FS.All() {
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
func (w *world) findPrimary() *elfdeps.Loader {
	if e := w.entry(); e.exe != nil && e.exe.Object != nil && e.exe.Object.Interp != "" {
		if l := w.loader(e.exe.Object.Interp); l != nil {
			return l
		}
	}
	for _, interp := range elfdeps.Interpreters(w.machine, w.class) {
		if l := w.loader(interp); l != nil {
			return l
		}
	}
	return nil
}

// loader opens an interpreter once; nil when it cannot be.
func (w *world) loader(interp string) *elfdeps.Loader {
	if l, ok := w.loaders[interp]; ok {
		return l
	}
	l, err := elfdeps.NewLoader(w.img.FS, interp, w.env())
	if err != nil {
		l = nil
	}
	w.loaders[interp] = l
	return l
}

// loaderOf is the loader in whose process an object is loaded: a program's own,
// musl's for what needs musl's libc, else the image's.
func (w *world) loaderOf(o *elfdeps.Object) *elfdeps.Loader {
	if o.Interp != "" {
		return w.loader(o.Interp)
	}
	interps := elfdeps.Interpreters(w.machine, w.class)
	for _, n := range o.Needed {
		if strings.HasPrefix(n, "libc.musl-") && len(interps) > 1 {
			if l := w.loader(interps[1]); l != nil {
				return l
			}
		}
	}
	return w.primary
}

// replay loads every object, on every processor. What misses something by
// itself and relies on a framework is loaded after it.
func (w *world) replay(ctx context.Context) error {
	for _, in := range w.installs {
		w.load(in)
	}
	for _, in := range w.installs {
		w.help(in)
		for i := range in.failures {
			in.failures[i].misses = kept(in.failures[i].misses)
		}
	}
	err := w.each(ctx, func(o *object) {
		if o.loader == nil {
			return
		}
		misses := w.alone(o)
		if len(misses) > 0 && !isProgram(o.elf) {
			if host := w.hostOf(o); host != nil {
				misses = w.after(o, host)
			}
		}
		o.misses = kept(misses)
	})
	if err == nil {
		w.follow()
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
func (w *world) each(ctx context.Context, f func(*object)) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for n := range workers {
		g.Go(func() error {
			for i := n; i < len(w.objects); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				f(w.objects[i])
			}
			return nil
		})
	}
	return g.Wait()
}

// alone loads an object by itself: a program starts, a library is opened by a
// program that brings nothing but, for Python's, the interpreter.
func (w *world) alone(o *object) []*elfdeps.Error {
	if !isProgram(o.elf) {
		return w.open(w.programFor(o.path, o.loader), o)
	}
	// What the start misses is in the process; its error says the same again.
	p, _ := o.loader.Trace(o.path)
	if p.Program() == nil {
		return nil
	}
	w.remember(p, o)
	return w.missesOf(p, p.Program())
}

// open opens an object in a process and tells what of its own was missed.
func (w *world) open(p *elfdeps.Process, o *object) []*elfdeps.Error {
	had := len(p.Misses)
	m, err := p.Dlopen(nil, o.path)
	w.remember(p, o)
	if err != nil && m == nil {
		return p.Misses[had:]
	}
	return w.missesOf(p, m)
}

// after loads an object in a process that has loaded its host.
func (w *world) after(o *object, host *install) []*elfdeps.Error {
	p := w.programFor(host.home, o.loader)
	w.runSteps(p, host)
	return w.open(p, o)
}

// missesOf are the misses of a module and of all that it needs: libraries, and
// versions of libraries that are there.
func (w *world) missesOf(p *elfdeps.Process, root *elfdeps.Module) []*elfdeps.Error {
	all := slices.Concat(p.Misses, versionsOf(p), w.cutOf(p.Objects, 0))
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

// versionsOf are the versions that a process misses, less those of libraries that
// it has not found or could not use: the real loader has ended before.
func versionsOf(p *elfdeps.Process) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(p.Versions), func(v *elfdeps.Error) bool {
		return v.Kind == elfdeps.InnerError && slices.ContainsFunc(p.Misses, func(e *elfdeps.Error) bool { return e.Name == v.Name })
	})
}

// cutOf returns the errors of the modules, from a number on, whose files end before
// their segments do. The loader maps them and writes to what is not there: the process
// ends with SIGBUS while it loads them, or when it gets there.
func (w *world) cutOf(modules []*elfdeps.Module, from int) []*elfdeps.Error {
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
			Message: w.phrase("file-ends", values{"size": strconv.FormatInt(m.File.Size, 10), "least": strconv.FormatInt(m.Object.LoadEnd, 10)}),
		})
	}
	return list
}

// reads returns a framework's text with an error in it. A file that is cut off kills the
// process, so that only the shell reports it.
func (w *world) reads(text string, e *elfdeps.Error, values ...string) string {
	if e.Kind == elfdeps.CutError {
		return w.phrase("bus-error", nil)
	}
	return expand(text, append(values, "{error}", e.Error())...)
}

// imports reports whether a step's effect is that an import fails, which says enough of a
// file that kills the process, too.
func (s *Step) imports() bool { return strings.HasPrefix(s.Effect, "`import ") }

// remember notes which GPU libraries were found for whom in a process other
// than its own: a library that is only ever loaded by others is judged there.
func (w *world) remember(p *elfdeps.Process, root *object) {
	program := isProgram(root.elf)
	for _, m := range p.Objects {
		real := m.Real()
		if program && w.packs.family(real) != nil {
			w.loadsGPU.Store(root.path, true)
		}
		if real == root.path {
			continue
		}
		for i, d := range m.Deps {
			if d != nil && w.packs.family(m.Object.Needed[i]) != nil {
				w.served.Store(servedKey{real, m.Object.Needed[i]}, true)
			}
		}
	}
}

// servedKey is a file and a name that it asks for.
type servedKey struct{ path, name string }

// programFor is a process in which what lies at a path would be loaded: a
// Python extension's is its interpreter, whose RPATH serves the whole process
// (conda's python has one); any other's is a program that brings nothing.
func (w *world) programFor(p string, l *elfdeps.Loader) *elfdeps.Process {
	for _, python := range w.pythons(p) {
		e, _, ok := w.img.FS.Lookup(python)
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

// pythons are the interpreters that may load what lies at a path: those of the
// prefix whose lib/pythonX.Y it is in, or of the conda prefix.
func (w *world) pythons(p string) []string {
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
		if _, _, ok := w.img.FS.Lookup(dir + "/conda-meta"); ok {
			return []string{dir + "/bin/python3", dir + "/bin/python"}
		}
	}
	return nil
}

// startsPython reports whether the image has the interpreter that loads what lies at
// a path: what such a process misses, no other will bring.
func (w *world) startsPython(p string) bool {
	return slices.ContainsFunc(w.pythons(p), func(python string) bool {
		e, _, ok := w.img.FS.Lookup(python)
		return ok && e.Object != nil && e.Object.Machine == w.machine
	})
}

// isProgram tells a program from a library: it names its interpreter, and is
// not a library that can also be run (libc.so.6).
func isProgram(o *elfdeps.Object) bool {
	return o.Type == elf.ET_EXEC || o.Interp != "" && (o.PIE() || o.Soname == "")
}

// isStatic tells a static program that has a dynamic section only to relocate
// itself (static-pie): the kernel starts it without a loader.
func isStatic(o *elfdeps.Object) bool { return o.Interp == "" && (o.PIE() || o.Type == elf.ET_EXEC) }

// findInstalls looks for the packs' frameworks.
func (w *world) findInstalls() []*install {
	type sought struct{ pattern, begins string }
	var seek []sought
	for _, f := range w.packs.Frameworks {
		seek = append(seek, sought{path.Join("**", f.Package, f.Marker), literal(path.Base(f.Marker))})
	}
	found := make([][]string, len(seek)) // paths of markers; the image is gone through once
	for e := range w.img.FS.All() {
		if e.IsDir() {
			continue
		}
		base := path.Base(e.Path)
		for i, s := range seek {
			if strings.HasPrefix(base, s.begins) && strings.Contains(e.Path, w.packs.Frameworks[i].Package) && match(s.pattern, e.Path) {
				found[i] = append(found[i], e.Path)
			}
		}
	}
	var list []*install
	for i, f := range w.packs.Frameworks {
		homes := map[string]bool{}
		for _, marker := range found[i] {
			home := "/" + homeOf(marker, f)
			if !homes[home] {
				homes[home] = true
				if f.Without != "" && len(w.glob(home, f.Without)) > 0 {
					continue
				}
				in := &install{Framework: f, home: home, site: path.Dir(home)}
				in.dist = w.distAround(home, f.Dist)
				in.release = parseRelease(in.dist.version)
				if f.OnlyDist && in.dist.name == "" {
					continue
				}
				in.importers = w.importersOf(in)
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
func homeOf(p string, f *Framework) string {
	for range strings.Count(f.Marker, "/") + 1 {
		p = path.Dir(p)
	}
	return p
}

// glob are the paths below dir that fit a pattern, sorted. `..` at its beginning
// leads up. The list is shared: it is not to be changed.
func (w *world) glob(dir, pattern string) []string {
	full := path.Join(dir, pattern)
	if known, ok := w.globs.Load(full); ok {
		return known.([]string)
	}
	list := w.globOf(full)
	w.globs.Store(full, list)
	return list
}

func (w *world) globOf(full string) []string {
	if e, _, ok := w.img.FS.Lookup(full); ok && !e.IsDir() {
		return []string{full}
	} else if literal(full) == full {
		return nil
	}
	var list []string
	for _, one := range alternatives(full) {
		below, rest := doublestar.SplitPattern(one)
		// Links are followed up to the first special character: /usr/local/cuda is one.
		real := strings.TrimPrefix(realPath(w.img.FS, below), "/")
		for rel := range w.fitting(real, rest) {
			list = append(list, path.Join(below, rel))
		}
	}
	slices.Sort(list)
	return slices.Clip(slices.Compact(list))
}

// fitting yields what below a real directory fits a pattern and is no directory
// itself, from there on. Of a tree only those directories are entered that a segment
// of the pattern fits; where segments do not tell (`**`, braces), all.
func (w *world) fitting(real, pattern string) iter.Seq[string] {
	segment, rest, deeper := strings.Cut(pattern, "/")
	return func(yield func(string) bool) {
		if strings.Contains(pattern, "**") || strings.ContainsAny(pattern, `{\`) || !doublestar.ValidatePattern(segment) {
			for e := range w.img.FS.Below(real) {
				if rel := strings.TrimPrefix(strings.TrimPrefix(e.Path, real), "/"); !e.IsDir() && match(pattern, rel) && !yield(rel) {
					return
				}
			}
			return
		}
		entries := w.img.FS.In(real)
		if literal(segment) == segment {
			entries = func(yield func(*layers.Entry, int) bool) {
				if e, layer, ok := w.img.FS.Lstat("/" + path.Join(real, segment)); ok {
					yield(e, layer)
				}
			}
		}
		for e := range entries {
			name := path.Base(e.Path)
			switch {
			case e.IsDir() != deeper || !match(segment, name):
			case !deeper:
				if !yield(name) {
					return
				}
			default:
				for rel := range w.fitting(e.Path, rest) {
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
func (w *world) help(in *install) {
	if len(in.failures) == 0 {
		return
	}
	for i := range in.Helped {
		p := w.programFor(in.home, w.primary)
		if w.helpIn(p, in, &in.Helped[i]) && len(w.runSteps(p, in)) == 0 {
			in.help = &in.Helped[i]
			in.begun = w.begins(in, in.help)
			return
		}
	}
}

// begins reports whether the image's program does first what helps a framework.
func (w *world) begins(in *install, h *Help) bool {
	for _, other := range w.packs.Frameworks {
		if other.ID == h.Framework && other.Package != "" {
			return w.importsFirst(other.Package, in.Package, in.site)
		}
	}
	return false
}

// helpIn does in a process what a help says, and reports whether the image has it.
func (w *world) helpIn(p *elfdeps.Process, in *install, h *Help) bool {
	if fits, _ := in.release.Within(h.Versions); !fits {
		return false
	}
	if h.Framework == "" {
		helper := w.findPreload(in, Preload{Files: h.Files})
		w.openPreload(p, helper)
		return len(helper.paths()) > 0
	}
	for _, other := range w.installs {
		if other.ID == h.Framework && other.site == in.site && len(other.failures) == 0 {
			w.runSteps(p, other)
			return true
		}
	}
	return false
}

// openPath opens a file as a program does that goes on when it cannot: nothing
// stays of it then. It tells the misses.
func (w *world) openPath(p *elfdeps.Process, file string) []*elfdeps.Error {
	misses, _ := w.openPathBound(p, file, elfdeps.Now)
	return misses
}

// openPathBound is openPath with dlopen's flags; the error is that of a process that
// binds symbols.
func (w *world) openPathBound(p *elfdeps.Process, file string, flags elfdeps.Flags) ([]*elfdeps.Error, error) {
	undo, had, loaded := p.Mark(), len(p.Misses), len(p.Objects)
	_, err := p.DlopenFlags(nil, file, flags)
	misses := append(w.real(p.Misses[had:]), w.cutOf(p.Objects, loaded)...)
	p.Misses = p.Misses[:had]
	if len(misses) > 0 {
		undo()
	}
	return misses, err
}

// runSteps opens what the framework opens, its preloads when they come, and tells
// which steps fail.
func (w *world) runSteps(p *elfdeps.Process, in *install) []failure {
	return w.runStepsTelling(p, in, nil)
}

// runStepsTelling is runSteps, and calls told, where it is not nil, with the errors of
// a process that binds symbols.
func (w *world) runStepsTelling(p *elfdeps.Process, in *install, told func(s Step, file string, err error)) []failure {
	if in.rescued != nil {
		if f := w.rescue(p, in, told); f != nil {
			w.openSteps(p, in, nil)
			return []failure{*f}
		}
	}
	return w.openSteps(p, in, told)
}

// openSteps opens the files of the steps, and the preloads before and after the first.
func (w *world) openSteps(p *elfdeps.Process, in *install, told func(s Step, file string, err error)) []failure {
	var failures []failure
	// What is cut off among the preloads kills the process before the framework comes
	// to what it is for: its last step.
	early := w.openPreload(p, in.preloads["first"])
	last := "" // the file that it opens last
	steps := in.steps()
	for i, s := range steps {
		if i == 1 && in.rescued == nil && len(failures) == 0 {
			early = append(early, w.openEager(p, in.preloads["after-first-step"])...)
		}
		if failed := w.preloadStep(p, in, s, told); failed != nil {
			failures = append(failures, *failed)
			continue
		}
		for _, file := range w.glob(in.home, s.Open) {
			if !w.loadable(in, file) {
				continue
			}
			last = file
			had, checked, loaded := len(p.Misses), len(versionsOf(p)), len(p.Objects)
			_, err := p.DlopenFlags(nil, file, flagsOf(s.Flags))
			if told != nil {
				told(s, file, err)
			}
			versions, ends := versionsOf(p), w.cutOf(p.Objects, loaded)
			if misses := w.real(slices.Concat(p.Misses[had:], versions[min(checked, len(versions)):], ends)); len(misses) > 0 {
				failures = append(failures, failure{step: s, path: file, misses: misses})
			}
		}
	}
	if len(early) > 0 && len(steps) > 0 {
		s := steps[len(steps)-1]
		if !s.imports() {
			s.Effect = w.phrase("killed-by-preload", values{"framework": in.Title})
		}
		failures = append(failures, failure{step: s, path: cmp.Or(last, early[0].Subject), misses: early, killed: true})
	}
	return failures
}

// preloadStep opens what a step opens by full path before its own files, and tells
// the first that cannot be: the step ends there.
func (w *world) preloadStep(p *elfdeps.Process, in *install, s Step, told func(s Step, file string, err error)) *failure {
	for i, pattern := range slices.Concat(s.Optional, s.Preload) {
		for _, file := range w.glob(in.site, pattern) {
			misses, err := w.openPathBound(p, file, flagsOf(s.PreloadFlags))
			if i < len(s.Optional) { // what is cut off ends the process all the same
				misses = slices.DeleteFunc(misses, func(e *elfdeps.Error) bool { return e.Kind != elfdeps.CutError })
			}
			if len(misses) == 0 && told != nil && i >= len(s.Optional) && symbolError(err) != nil {
				s.Error = cmp.Or(strings.ReplaceAll(s.Unusable, "{path}", file), s.Error)
				told(s, file, err)
				return &failure{step: s, path: file}
			}
			if len(misses) == 0 {
				continue
			}
			if e := misses[0]; e.Kind != elfdeps.CutError && (e.Subject == file || e.Name == file) {
				s.Error = strings.ReplaceAll(s.Unusable, "{path}", file)
			}
			return &failure{step: s, path: file, misses: misses}
		}
	}
	return nil
}

// steps are the framework's steps in its version. Where that is not known, the
// first of those that open the same counts.
func (in *install) steps() []Step {
	var list []Step
	for _, s := range in.Steps {
		fits, known := in.release.Within(s.Versions)
		if fits || !known && !slices.ContainsFunc(list, func(o Step) bool { return o.Open == s.Open }) {
			list = append(list, s)
		}
	}
	return list
}

// loadable reports whether a file is one that a framework's process would open: not
// an optional one, and not one that is for another machine by its name. One that is
// for another machine all the same is opened, in a directory of packages: elsewhere
// an application may carry its libraries for every platform, and choose.
func (w *world) loadable(in *install, file string) bool {
	e, _, ok := w.img.FS.Lookup(file)
	if !ok || exception(w.packs.Optional, file) != nil {
		return false
	}
	tag := platformTag.FindStringSubmatch(path.Base(file))
	return e.Object == nil || e.Object.Machine == w.machine || in.Package != "" && (tag == nil || tag[1] == platformTags[w.machine])
}

// platformTag is the machine in the name of an extension module.
var platformTag = regexp.MustCompile(`-(\w+)-linux-(?:gnu|musl)\.so$`)

// platformTags are the machines as they are in such names.
var platformTags = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// real leaves out what is no miss on a machine with a GPU: the driver's
// libraries.
func (w *world) real(misses []*elfdeps.Error) []*elfdeps.Error {
	return slices.DeleteFunc(slices.Clone(misses), func(e *elfdeps.Error) bool {
		return e.Missing() && w.packs.fromDriver(e.Name)
	})
}

// hostOf is the framework that an object relies on: it needs one of its
// libraries, or is in a package that imports it first. Of several, the one in
// the same directory of packages counts.
func (w *world) hostOf(o *object) *install {
	var host *install
	for _, in := range w.installs {
		served := slices.ContainsFunc(o.elf.Needed, func(n string) bool { return matchAny(in.Serves, n) })
		if !served && !in.follows(o.path) && !in.importers[in.packageOf(o.path)] && !strings.HasPrefix(o.path, in.home+"/") {
			continue
		}
		if host == nil || strings.HasPrefix(o.path, in.site+"/") && !strings.HasPrefix(o.path, host.site+"/") {
			host = in
		}
	}
	return host
}

// follows reports whether a path is in a package that imports the framework
// before it loads its own libraries.
func (in *install) follows(p string) bool {
	pkg := in.packageOf(p)
	return pkg != "" && matchAny(in.Followers, pkg)
}

// packageOf is the package beside the framework that a path is in, or the module that
// it is; empty for a path elsewhere.
func (in *install) packageOf(p string) string {
	rest, ok := strings.CutPrefix(p, in.site+"/")
	if !ok {
		return ""
	}
	pkg, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(pkg, ".libs")
}

// stats say what was looked at.
func (w *world) stats() Stats {
	s := Stats{Files: w.files, ELF: w.elf, Static: w.static, Packages: len(w.inv.Packages)}
	for _, in := range w.installs {
		s.Frameworks = append(s.Frameworks, fmt.Sprintf("%s at %s", in.Title, in.home))
	}
	for interp, l := range w.loaders {
		if l != nil {
			s.Loaders = append(s.Loaders, interp+describeLibc(l.Libc))
		}
	}
	slices.Sort(s.Loaders)
	slices.Sort(s.Frameworks)
	return s
}

func describeLibc(c elfdeps.Libc) string {
	kind := "glibc"
	if c.Musl {
		kind = "musl"
	}
	if c.Release == "" {
		return " (" + kind + ")"
	}
	return " (" + kind + " " + c.Release + ")"
}
