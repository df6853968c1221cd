package elfdeps

import (
	"debug/elf"
	"iter"
	"slices"
	"strings"
	"syscall"
)

// Module is one object of a process (glibc's struct link_map).
type Module struct {
	// Path is the name that the loader composed for it, never cleaned (l_name);
	// empty for the program.
	Path string
	// Names are the texts by which it was requested, in order.
	Names  []string
	Object *Object
	File   *File
	Main   bool // the program
	// By requested it first; nil for the program and for objects that the program
	// opened.
	By *Module
	// How names the rule that found it: "RPATH of X", "LD_LIBRARY_PATH", …
	How string
	// Origin replaces $ORIGIN in its paths; empty where it is not known.
	Origin string
	// Deps are the objects that its DT_NEEDED led to, in order; nil for a miss.
	Deps []*Module

	loader   *Module // the object whose request loaded it (l_loader); its search path counts for this one's requests
	above    *Module // the nearest of loader, loader's loader, … that hasPaths
	top      *Module // the last of them, see root
	index    int     // in load order
	isLoader bool
	short    string // musl: the name by which a search found it
	mapped   bool   // its DT_NEEDED were requested

	rpath, runpath *[]string // directories, split and expanded on first use
	searched       bool      // is in the list of what the program or an opened object needs
	unchecked      bool      // its versions have not been checked
	opened         bool      // by dlopen, with all that it needs
	prog           string    // the program's name as it was called
	byHand         bool      // the program, mapped by a loader that was called by hand
	isaDone        bool      // its ISA level has been checked
	link           linkage
	syms           *Symbols // of its object, see symbols
}

// Truncated reports whether the file ends before the last page that a loader reads or writes
// while it loads the object. No loader notices; the process dies by SIGBUS when it touches
// such a page. The rest of the page in which the file ends reads as zeros (mmap(2)).
func (m *Module) Truncated() bool { return m.endsBefore(0) }

// Short reports whether the file ends before the last page that its segments map, be it that
// the loader touches such a page or only a use of the object does.
func (m *Module) Short() bool { return m.endsBefore(m.Object.LazyTail) }

// endsBefore reports whether the file ends before the last page that the loader touches, or
// before one that lies up to tail bytes behind it.
func (m *Module) endsBefore(tail int64) bool {
	if m.File == nil {
		return false
	}
	page := pageSize(m.Object.Machine)
	return m.Object.LoadEnd-m.Object.LazyTail+tail > (m.File.Size+page-1)/page*page
}

// pageSize returns the size in bytes of the largest pages that Linux maps files by on a
// machine: 64 KiB on arm64 (CONFIG_ARM64_64K_PAGES) and ppc64le, 4 KiB on x86.
func pageSize(m elf.Machine) int64 {
	switch m {
	case elf.EM_AARCH64, elf.EM_PPC64:
		return 64 << 10
	}
	return 4 << 10
}

func (m *Module) String() string {
	if m.Path != "" {
		return m.Path
	}
	if m.prog != "" {
		return m.prog
	}
	if m.File != nil {
		return m.File.Path
	}
	return "the program"
}

// Real returns the real path of the file, or "" for a program without one.
func (m *Module) Real() string {
	if m.File == nil {
		return ""
	}
	return m.File.Path
}

// Process is a program's process as its loader sees it: the loaded objects, in
// order. They stay and answer later requests.
type Process struct {
	Loader *Loader
	model  model
	binder binder
	// Objects are in the order of the loader's own list, the program first. The
	// loader itself comes second at first; once the needs of the program are
	// loaded it moves to its breadth-first place among them (dl_main, elf/rtld.c).
	Objects []*Module
	// Misses are the failed requests, in order, one for each requester and name.
	// Only a tracing process goes on after one.
	Misses []*Error
	// Warnings are messages that do not end the process: unusable preloads,
	// missing version information.
	Warnings []string
	// Ignored are the preloads that cannot be used, in order.
	Ignored []IgnoredPreload
	// Versions are the required symbol versions that are missing, in order. Only a
	// tracing process goes on after one.
	Versions []*Error
	// Unbound are the undefined references of all objects, which musl reports
	// together when a program starts. glibc ends with the first, as an error.
	Unbound []*Error
	// Cut is the first object whose file ends before a name that it needs, once the process
	// has reached that name: it dies there by SIGBUS, whatever failed afterwards. A failed
	// dlopen leaves it.
	Cut *Module

	log *transcript // of the searches; nil unless StartLogged started the process
	// cacheTried is set once ld.so.cache was looked for and was missing.
	cacheTried bool
	trace      bool   // goes on after misses, as LD_TRACE_LOADED_OBJECTS does
	listing    bool   // the loader was called with --list
	secure     bool   // AT_SECURE
	argv0      string // of the program, for messages
	fatal      *Error // that ended the start
	loader     *Module
	listed     []Listed
	// preloading, dlopening and openExec say what a request is for: some checks of
	// a file depend on it. openExec is set for the program of a loader that was
	// called by hand.
	preloading, dlopening, openExec bool
	// noLoading is set during RTLD_NOLOAD; notLoaded is set when that finds a file that
	// is not loaded.
	noLoading, notLoaded bool
	gone                 map[string]bool // directories that are known not to exist
	errno                syscall.Errno   // musl: of the last open that failed
	stack                bool            // the program or a library made the stack executable
	names                map[string]*Module
	env                  *[]string // directories of LD_LIBRARY_PATH, expanded on first use
	ids                  map[uint64]*Module

	unique     map[string]*definition // of the STB_GNU_UNIQUE symbols that were used
	tlsUsed    uint64                 // bytes of the static TLS block given to opened objects
	muslGlobal []*Module              // musl's list while objects are relocated
}

// Listed is one line of ldd's list (LD_TRACE_LOADED_OBJECTS, musl's --list).
type Listed struct {
	// Name is the requested name.
	Name string
	// Module is the object that it led to, nil for a miss.
	Module *Module
}

// Program returns the module of the program: the first object, unless the program
// has filtees.
func (p *Process) Program() *Module {
	for _, m := range p.Objects {
		if m.Main {
			return m
		}
	}
	return nil
}

// List returns ldd's list: the loaded and the missed objects, in order.
func (p *Process) List() []Listed { return p.model.list() }

// list leaves out the program's filtees, which stand before the program: the list of
// dl_main (elf/rtld.c) begins behind it.
func (p glibc) list() []Listed {
	from := slices.IndexFunc(p.listed, func(e Listed) bool { return e.Module != nil && e.Module.Main }) + 1
	var list []Listed
	for _, e := range p.listed[from:] {
		switch {
		case e.Module == nil:
			list = append(list, e)
		case !e.Module.Main && (!e.Module.isLoader || e.Module.searched):
			list = append(list, Listed{e.Module.Names[0], e.Module})
		}
	}
	return list
}

// Loaded returns the object that answers to name, as dlopen with RTLD_NOLOAD does,
// or nil.
func (p *Process) Loaded(name string) *Module {
	if p.Loader.Libc.Musl && (isMuslOwn(name) || name == p.loader.Path) {
		return p.loader
	}
	if m := p.names[name]; m != nil {
		return m
	}
	if strings.Contains(name, "/") {
		if f, err := p.Loader.find(name); err == nil {
			return p.ids[f.ID]
		}
	}
	return nil
}

// Stderr returns the lines that the loader prints while the program starts. The last
// says why a program does not start; musl gives every reason.
func (p *Process) Stderr() []string { return p.model.stderr() }

func (p glibc) stderr() []string {
	lines := slices.Clone(p.Warnings)
	if p.fatal != nil && p.fatal.Kind != VersionError { // a missing version is among the warnings
		lines = append(lines, p.fatal.startText(p.argv0))
	}
	return lines
}

// Status returns the exit status that the loader ends the program with, 0 when it
// starts the program.
func (p *Process) Status() int { return p.model.status() }

func (p glibc) status() int {
	switch {
	case p.fatal == nil:
		return 0
	case p.fatal.Kind == VersionError:
		return 1
	}
	return 127
}

// add puts m at the end of the load order.
func (p *Process) add(m *Module) {
	p.work().spend(added)
	m.index = len(p.Objects)
	m.unchecked = true
	p.Objects = append(p.Objects, m)
	if !p.Loader.Libc.Musl { // musl.mapFile lists its own
		p.listed = append(p.listed, Listed{Module: m})
	}
	p.register(m)
	if !m.isLoader {
		p.stack = p.stack || p.Loader.wantsStack(m.Object)
	}
}

// register makes m answer to its file and its own names. The program's own file
// is never matched, unless the loader was called by hand.
func (p *Process) register(m *Module) {
	if m.File != nil && (!m.Main || m.byHand) {
		if _, ok := p.ids[m.File.ID]; !ok {
			p.ids[m.File.ID] = m
		}
	}
	p.model.registerNames(m)
}

// registerNames makes m answer to the names that _dl_map_object compares. The DT_SONAME
// is one of them, even if no request named it.
func (p glibc) registerNames(m *Module) {
	for _, n := range append([]string{m.Path, m.Object.Soname}, m.Names...) {
		if n != "" {
			p.answer(m, n)
		}
	}
}

// reindex renews names, ids and indexes after the order of Objects changed.
func (p *Process) reindex() {
	clear(p.names)
	clear(p.ids)
	for i, m := range p.Objects {
		m.index = i
	}
	for _, m := range p.Objects {
		p.register(m)
	}
}

// move puts m right before mark in the loader's list (after 0) or right behind it
// (after 1).
func (p *Process) move(m, mark *Module, after int) {
	if m == mark {
		return
	}
	p.work().spend(8 * len(p.Objects)) // reindex
	p.Objects = slices.DeleteFunc(p.Objects, func(o *Module) bool { return o == m })
	p.Objects = slices.Insert(p.Objects, slices.Index(p.Objects, mark)+after, m)
	p.listed = slices.DeleteFunc(p.listed, func(e Listed) bool { return e.Module == m })
	at := slices.IndexFunc(p.listed, func(e Listed) bool { return e.Module == mark })
	p.listed = slices.Insert(p.listed, at+after, Listed{Module: m})
	p.reindex()
}

// name records that m was requested by text.
func (p *Process) name(m *Module, text string) {
	p.work().spend(cells(len(m.Names)))
	if slices.Contains(m.Names, text) {
		return
	}
	m.Names = append(m.Names, text)
	p.answer(m, text)
}

// answer makes m answer to text, unless an object loaded earlier does.
func (p *Process) answer(m *Module, text string) {
	if first, ok := p.names[text]; !ok || m.index < first.index {
		p.names[text] = m
	}
}

// loadedBy records that by's request loaded m.
func (p *Process) loadedBy(m, by *Module) {
	m.loader = by
	if by == nil {
		return
	}
	m.above, m.top = by.above, by.root()
	if p.model.hasPaths(by.Object) {
		m.above = by
	}
}

// hasPaths ignores a DT_RPATH beside a DT_RUNPATH (elf_get_dynamic_info,
// elf/get-dynamic-info.h).
func (glibc) hasPaths(o *Object) bool { return o.Rpath != nil && o.Runpath == nil }

// withPaths yields m, its loader, the loader's loader and so on, as far as they
// have paths. It follows Module.above, so that a request does not walk a chain of
// thousands without paths.
func (p *Process) withPaths(m *Module) iter.Seq[*Module] {
	return func(yield func(*Module) bool) {
		for ; m != nil; m = m.above {
			if p.model.hasPaths(m.Object) && (!p.work().spend(1) || !yield(m)) {
				return
			}
		}
	}
}

func (p *Process) work() *Work { return p.Loader.env.Work }

// request returns the object that by gets for name.
func (p *Process) request(name string, by *Module, dlopen bool) (*Module, *Error) {
	if !p.work().spend(1) {
		return nil, p.Loader.spent(name, by)
	}
	return p.model.serve(name, by, dlopen)
}
