package elfdeps

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"iter"
	"slices"
	"strings"
	"syscall"
)

// Module is one object of a process (glibc's struct link_map).
type Module struct {
	// Path is the name the loader has for it, exactly as composed and never
	// cleaned (l_name); empty for the program.
	Path string
	// Names are the texts by which it has been asked for, in order.
	Names  []string
	Object *Object
	File   *File
	Main   bool
	// By asked for it first; nil for the program and for what it opened.
	By *Module
	// How tells which rule found it: "RPATH of X", "LD_LIBRARY_PATH", …
	How string
	// Origin is what $ORIGIN stands for.
	Origin string
	// Deps are what its DT_NEEDED led to, in order; nil for a miss.
	Deps []*Module

	loader   *Module // l_loader: whose RPATH its own requests see as well
	above    *Module // of those, the nearest that has paths for what it loads
	top      *Module // the last of those, see root
	index    int     // in load order
	isLoader bool
	short    string // musl: the name by which a search found it
	mapped   bool   // its DT_NEEDED have been followed

	rpath, runpath *[]string // split and expanded, on first use
	searched       bool      // is in the list of what the program or an opened object needs
	unchecked      bool      // its versions have not been checked
	opened         bool      // by dlopen, with all that it needs
	prog           string    // the program, as it was called
	byHand         bool      // the program, mapped by a loader that was called by hand
	isaDone        bool      // what it asks of the processor has been checked
	link           linkage
	syms           *Symbols // of its object, see symbols
}

// Truncated reports whether pages that the segments map lie behind the end of the
// file. No loader notices; the process dies by SIGBUS when it touches them. The rest of
// the page in which the file ends reads as zeros (mmap(2)).
func (m *Module) Truncated() bool {
	if m.File == nil {
		return false
	}
	page := pageSize(m.Object.Machine)
	return m.Object.LoadEnd > (m.File.Size+page-1)/page*page
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

// Real is the real path of the file, or empty.
func (m *Module) Real() string {
	if m.File == nil {
		return ""
	}
	return m.File.Path
}

// Process is a running program as its loader sees it: what is loaded, in order.
// What is loaded stays and answers later requests.
type Process struct {
	Loader *Loader
	// Objects in the order of the loader's own list: the program first. The
	// loader itself comes second while a program starts, and then moves behind
	// what is before it in breadth-first order (rtld.c).
	Objects []*Module
	// Misses are the requests that failed, in order, one for each requester and
	// name. Only a tracing process goes on after one.
	Misses []*Error
	// Warnings are messages that the loader prints and goes on (preloads,
	// version information that is not there).
	Warnings []string
	// Versions are the symbol versions that an object asks for and does not
	// get, in order. Without tracing the first is an error.
	Versions []*Error
	// Unbound are the references that nothing defines, which musl tells all
	// when a program starts (M7). With glibc the first is an error.
	Unbound []*Error

	log *transcript // of the searches, when wanted
	// cacheTried is set once a missing cache has been looked for.
	cacheTried bool
	trace      bool
	list       bool   // the loader was called with --list
	secure     bool   // AT_SECURE
	argv0      string // of the program, for messages
	fatal      *Error // what ended the start
	loader     *Module
	listed     []Listed
	// What is being done: it decides on some checks of a file.
	preloading, dlopening, openExec bool
	// noLoading is RTLD_NOLOAD, and notLoaded that it came to a file.
	noLoading, notLoaded bool
	gone                 map[string]bool // directories that are known not to exist
	errno                syscall.Errno   // musl: of the last open that failed
	// stack is set once a program or library made the stack executable.
	stack bool
	names map[string]*Module
	env   *[]string // LD_LIBRARY_PATH, expanded on first use
	ids   map[uint64]*Module

	unique     map[string]*definition // of the unique symbols that were used
	tlsUsed    uint64                 // of the room in the static TLS block
	muslGlobal []*Module              // musl's list while objects are relocated
}

// Error is a request that a loader could not serve.
type Error struct {
	// Name is the name that was asked for.
	Name string
	// Subject stands before the message: the name, or the path of a file that
	// cannot be used.
	Subject string
	// Message is the loader's text, "cannot open shared object file".
	Message string
	// Errno follows the message when it is not 0.
	Errno syscall.Errno
	// By asked for it; nil when the program opened it.
	By *Module
	// Steps are the places that were searched, in order.
	Steps []Step
	// Unknown is set when the file was found and could not be looked at: the
	// real loader may well take it.
	Unknown bool
	// Musl is set when the text is musl's.
	Musl bool
	miss bool // nothing usable was found, as against a file that ended the search
	// Kind tells errors apart that are not about finding or mapping a file.
	Kind ErrorKind
	// Version and File are set for a symbol that is missing in the version that
	// DT_VERNEED asks of a file.
	Version, File string
}

// Alone is the error without the process that it is from: of By what names the
// module and its file stays. Who keeps errors of thousands of processes would keep
// those as well.
func (e *Error) Alone() *Error {
	alone := *e
	if m := e.By; m != nil {
		alone.By = &Module{Path: m.Path, Names: m.Names, Object: m.Object, File: m.File, Main: m.Main, How: m.How, Origin: m.Origin, prog: m.prog}
	}
	return &alone
}

// ErrorKind is what an [Error] is about.
type ErrorKind uint8

// The kinds of errors. They differ in how ld.so prints them at start.
const (
	FileError       ErrorKind = iota // a file is missing or unusable
	VersionError                     // a symbol version is missing
	ISAError                         // the processor is too old
	InnerError                       // an assertion of the loader fails
	SymbolError                      // a symbol is missing
	RelocationError                  // a symbol is missing in the file that has to have it
	CutError                         // a file ends before its segments do: no loader says so, see [Module.Truncated]
)

// Listed is one line of the ldd view (LD_TRACE_LOADED_OBJECTS, musl's --list).
type Listed struct {
	// Name is the name that was asked for.
	Name string
	// Module is what it led to, nil when nothing was found.
	Module *Module
}

// Program is the object of the program itself: the first, but for its filtees.
func (p *Process) Program() *Module {
	for _, m := range p.Objects {
		if m.Main {
			return m
		}
	}
	return nil
}

// List is the ldd view: what was loaded or missed, in order (L63).
func (p *Process) List() []Listed {
	if p.Loader.Libc.Musl {
		return p.listed
	}
	// The filtees of the program stand before it in the search list, and the
	// view begins behind it (dl_main).
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

// Loaded is the object that answers to name, nil when none does: what dlopen
// with RTLD_NOLOAD gives (L9, M4).
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

// Stderr are the lines that the loader prints while the program starts, and the
// last of them why it does not.
func (p *Process) Stderr() []string {
	lines := slices.Clone(p.Warnings)
	if p.Loader.Libc.Musl {
		if p.fatal != nil && p.fatal.Kind == InnerError {
			lines = append(lines, p.fatal.Error())
		}
		for _, e := range p.Misses {
			lines = append(lines, e.Error())
		}
		for _, e := range p.Unbound {
			lines = append(lines, e.Error())
		}
		return lines
	}
	if p.fatal != nil && p.fatal.Kind != VersionError {
		lines = append(lines, p.fatal.startText(p.argv0))
	}
	return lines
}

// Status is the exit status of a program that the loader gave up, else 0.
func (p *Process) Status() int {
	switch {
	case p.Loader.Libc.Musl && len(p.Misses)+len(p.Unbound) > 0:
		return 127
	case p.fatal == nil:
		return 0
	case p.fatal.Kind == VersionError, p.fatal.Musl && p.fatal.Kind == InnerError:
		return 1
	}
	return 127
}

// Missing reports whether no file was found, as against a file that cannot be
// used.
func (e *Error) Missing() bool {
	return e.Errno == syscall.ENOENT || e.Errno == 0 && e.Message == "cannot open shared object file" || e.Errno == 0 && e.Musl
}

// Error is the text as dlerror gives it and as ld.so prints it after `error
// while loading shared libraries: ` (L35); for musl the whole line (M7).
func (e *Error) Error() string {
	if e.Musl && e.Kind == InnerError {
		return e.Message
	}
	if e.Musl {
		s := fmt.Sprintf("Error loading shared library %s: %s", e.Name, muslErrno(e.Errno))
		if e.By != nil {
			s += fmt.Sprintf(" (needed by %s)", e.By)
		}
		return s
	}
	s := e.Message
	if e.Subject != "" {
		s = e.Subject + ": " + s
	}
	if e.Errno != 0 {
		s += ": " + errnoText(e.Errno)
	}
	return s
}

// startText is the line with which ld.so ends the start of a program
// (fatal_error, elf/dl-minimal.c: it knows the texts of six errors only, L35).
func (e *Error) startText(prog string) string {
	switch e.Kind {
	case ISAError, InnerError:
		return e.Error()
	case VersionError:
		return prog + ": " + e.Error()
	case SymbolError:
		return prog + ": symbol lookup error: " + e.Error()
	case RelocationError:
		return prog + ": relocation error: " + e.Error()
	}
	s := prog + ": error while loading shared libraries: "
	switch e.Errno {
	case 0, syscall.ENOMEM, syscall.EINVAL, syscall.ENOENT, syscall.EPERM, syscall.EIO, syscall.EACCES:
		return s + e.Error()
	}
	return fmt.Sprintf("%s%s: %s: Error %d", s, e.Subject, e.Message, int(e.Errno))
}

// Step is one source of directories that a search went through.
type Step struct {
	// Source names it: "LD_LIBRARY_PATH", "RUNPATH of /x/liba.so".
	Source string
	// Tried are the files and directories looked at, in order.
	Tried []Candidate
}

// Candidate is one place of a search.
type Candidate struct {
	Path string
	// Result is empty when nothing was there, else what it was and why it was
	// passed over.
	Result string
}

// errnoText is the text of an errno as strerror has it.
func errnoText(e syscall.Errno) string {
	switch e {
	case syscall.ENOENT:
		return "No such file or directory"
	case syscall.EACCES:
		return "Permission denied"
	case syscall.EPERM:
		return "Operation not permitted"
	case syscall.EINVAL:
		return "Invalid argument"
	case syscall.EIO:
		return "Input/output error"
	case syscall.ENOMEM:
		return "Cannot allocate memory"
	case syscall.EISDIR:
		return "Is a directory"
	case syscall.ENOTDIR:
		return "Not a directory"
	case syscall.ELOOP:
		return "Too many levels of symbolic links"
	case syscall.ENAMETOOLONG:
		return "File name too long"
	}
	return fmt.Sprintf("Error %d", int(e))
}

// add puts m at the end of the load order.
func (p *Process) add(m *Module) {
	p.work().spend(added)
	m.index = len(p.Objects)
	m.unchecked = true
	p.Objects = append(p.Objects, m)
	if !p.Loader.Libc.Musl {
		p.listed = append(p.listed, Listed{Module: m})
	}
	p.register(m)
	if !m.isLoader {
		p.stack = p.stack || p.wantsStack(m.Object)
	}
}

// register makes m answer to its file and its own names.
func (p *Process) register(m *Module) {
	if m.File != nil && (!m.Main || m.byHand) { // the program's own file is never matched (L9)
		if _, ok := p.ids[m.File.ID]; !ok {
			p.ids[m.File.ID] = m
		}
	}
	if p.Loader.Libc.Musl {
		if m.short != "" {
			p.answer(m, m.short)
		}
		return
	}
	for _, n := range append([]string{m.Path, m.Object.Soname}, m.Names...) {
		if n != "" {
			p.answer(m, n)
		}
	}
}

// reindex renews what the order of Objects decides.
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

// move puts the object m right before or after another in the loader's list.
func (p *Process) move(m, mark *Module, after int) {
	if m == mark {
		return
	}
	p.work().spend(8 * len(p.Objects)) // all names are written anew
	p.Objects = slices.DeleteFunc(p.Objects, func(o *Module) bool { return o == m })
	p.Objects = slices.Insert(p.Objects, slices.Index(p.Objects, mark)+after, m)
	p.listed = slices.DeleteFunc(p.listed, func(e Listed) bool { return e.Module == m })
	at := slices.IndexFunc(p.listed, func(e Listed) bool { return e.Module == mark })
	p.listed = slices.Insert(p.listed, at+after, Listed{Module: m})
	p.reindex()
}

// name records that m was asked for by text.
func (p *Process) name(m *Module, text string) {
	p.work().spend(cells(len(m.Names)))
	if slices.Contains(m.Names, text) {
		return
	}
	m.Names = append(m.Names, text)
	p.answer(m, text)
}

// answer makes m answer to text, unless an object loaded before does.
func (p *Process) answer(m *Module, text string) {
	if first, ok := p.names[text]; !ok || m.index < first.index {
		p.names[text] = m
	}
}

// Dlopen opens name for the object by, as RTLD_NOW does; nil by means the
// program. What it needs is opened as well. A failure unloads nothing in a
// tracing process, and all that the call brought in any other (case 229).
func (p *Process) Dlopen(by *Module, name string) (*Module, error) {
	return p.DlopenFlags(by, name, Now)
}

// DlopenFlags is [Process.Dlopen] with dlopen's flags. Symbols are bound where
// they are known, but not by a tracing process (see [Process.Unresolved]). With
// NoLoad the result is nil, without an error, when glibc has no such object.
func (p *Process) DlopenFlags(by *Module, name string, flags Flags) (*Module, error) {
	if flags&(Now|Lazy) == 0 && !p.Loader.Libc.Musl {
		return nil, invalidMode(name)
	}
	if p.Loader.Libc.Musl || by == nil {
		by = p.Program() // M10
	}
	p.dlopening = true
	defer func() { p.dlopening = false }()
	if flags&NoLoad != 0 {
		return p.noLoad(by, name, flags)
	}
	before := p.snapshot()
	m, err := p.request(name, by, true)
	if err != nil {
		p.Misses = append(p.Misses, err)
		p.restore(before)
		return nil, err
	}
	if m.opened || m.Main { // its list has been made (dl_open_worker_begin)
		p.opened(m, flags, before)
		return m, nil
	}
	if err = p.follow([]*Module{m}, true); err == nil {
		err = p.check(true)
	}
	if err == nil && !p.trace {
		err = p.bind(m, flags)
	}
	if err != nil {
		if err.Kind == InnerError {
			p.fatal = err // the program ends
		}
		p.restore(before)
		return nil, err
	}
	m.opened = true
	p.opened(m, flags, before)
	return m, nil
}

// Settle makes a tracing process go on as one that has started: what is loaded
// counts as bound, and from now on a failed dlopen unloads what it brought, and
// symbols are bound. It is for who has no doubt of what is loaded, or has asked
// elsewhere, and would spare the time to bind it.
func (p *Process) Settle() {
	p.trace = false
	for _, m := range p.Objects {
		m.link.bound = true
	}
}

// Mark gives a function that unloads what has come since, and forgets its misses:
// for a tracing process, whose dlopens go past what they miss.
func (p *Process) Mark() (undo func()) {
	before, misses := &state{slices.Clone(p.Objects), slices.Clone(p.listed)}, len(p.Misses)
	return func() {
		p.Misses = p.Misses[:misses]
		p.restore(before)
	}
}

// state is what a failed dlopen goes back to.
type state struct {
	objects []*Module
	listed  []Listed
}

func (p *Process) snapshot() *state {
	if p.trace {
		return nil
	}
	return &state{slices.Clone(p.Objects), slices.Clone(p.listed)}
}

// restore unloads what came since s. The names that an object gained stay with
// it, as add_name_to_object leaves them; musl takes nothing back but the list.
func (p *Process) restore(s *state) {
	if s == nil || len(s.objects) == len(p.Objects) {
		return
	}
	// What stays stands where the failed call has moved it (filtees).
	had := make(map[*Module]bool, len(s.objects))
	for _, m := range s.objects {
		had[m] = true
	}
	p.Objects = slices.DeleteFunc(p.Objects, func(m *Module) bool { return !had[m] })
	p.listed = s.listed
	p.reindex()
}

// startUp loads what the program asks for before it runs: preloads, then its
// needs, breadth first (L8, L13, L14).
func (p *Process) startUp(main *Module) error {
	err := p.load(main)
	if err == nil {
		return nil // not a nil *Error in an error
	}
	p.fatal = err
	return err
}

func (p *Process) load(main *Module) *Error {
	roots := []*Module{main}
	if err := p.stackTunable(main); err != nil {
		return err
	}
	for _, pre := range p.preloads() {
		m, err := p.requestPreload(pre, main)
		if err != nil {
			if !p.Loader.Libc.Musl {
				p.Warnings = append(p.Warnings, fmt.Sprintf("ERROR: ld.so: object '%s' from %s cannot be preloaded (%s): ignored.", pre.name, pre.from, err.Message))
			}
			continue
		}
		if m.How != "interpreter" {
			m.How = pre.from
		}
		if !slices.Contains(roots, m) {
			roots = append(roots, m)
		}
	}
	if err := p.follow(roots, false); err != nil {
		if p.Loader.Libc.Musl {
			p.bind(main, 0) // M7: it goes on, and tells everything
		}
		return err
	}
	if err := p.check(false); err != nil || p.trace && !p.Loader.Libc.Musl { // musl's --list binds
		return err
	}
	return p.bind(main, 0)
}

// preload is one name of LD_PRELOAD or the like.
type preload struct{ name, from string }

// requestPreload is map_doit (elf/rtld.c), in musl load_preload, where no
// object asks and so no object's path is searched.
func (p *Process) requestPreload(pre preload, main *Module) (*Module, *Error) {
	if p.Loader.Libc.Musl {
		return p.requestMusl(pre.name, nil, false)
	}
	p.preloading = true
	defer func() { p.preloading = false }()
	return p.request(pre.name, main, false)
}

// preloads are the entries of LD_PRELOAD, then of --preload, then those of
// /etc/ld.so.preload, which musl does not have (M11). In secure mode names with
// a slash are dropped (dso_name_valid_for_suid), and musl has none.
func (p *Process) preloads() []preload {
	l := p.Loader
	if l.Libc.Musl {
		if p.secure || l.preload != nil { // --preload replaces the variable
			return l.preload
		}
		return split(l.env.get("LD_PRELOAD"), muslBlanks, "LD_PRELOAD")
	}
	list := append(split(l.env.get("LD_PRELOAD"), ": ", "LD_PRELOAD"), l.preload...)
	if p.secure {
		list = slices.DeleteFunc(list, func(pre preload) bool { return strings.Contains(pre.name, "/") || len(pre.name) > 255 })
	}
	return append(list, l.preloadFile...)
}

// withoutComments blanks the comments of ld.so.preload as do_main does
// (elf/rtld.c): each search starts at the beginning again but is as long as what
// follows the comment before, so that later comments can be missed.
func withoutComments(content []byte) string {
	b := slices.Clone(content)
	for rest := len(b); rest > 0; {
		i := bytes.IndexByte(b[:rest], '#')
		if i < 0 {
			break
		}
		rest -= i
		for {
			b[i] = ' '
			rest--
			i++
			if rest <= 0 || b[i] == '\n' {
				break
			}
		}
	}
	return string(b)
}

func split(s, separators, from string) []preload {
	var list []preload
	for _, n := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		list = append(list, preload{n, from})
	}
	return list
}

// loadedBy notes who loads m, and whose paths its own requests see.
func (p *Process) loadedBy(m, by *Module) {
	m.loader = by
	if by == nil {
		return
	}
	m.above, m.top = by.above, by.root()
	if p.hasPaths(by) {
		m.above = by
	}
}

// hasPaths reports whether a module has paths that count for what it loads: with
// glibc not an RPATH beside a RUNPATH (L5), with musl either (M2).
func (p *Process) hasPaths(m *Module) bool {
	if p.Loader.Libc.Musl {
		return m.Object.Rpath != nil || m.Object.Runpath != nil
	}
	return m.Object.Rpath != nil && m.Object.Runpath == nil
}

// withPaths yields m and those that have loaded it, where they have paths: a chain
// of thousands is not gone through for each request.
func (p *Process) withPaths(m *Module) iter.Seq[*Module] {
	return func(yield func(*Module) bool) {
		for ; m != nil; m = m.above {
			if p.hasPaths(m) && (!p.work().spend(1) || !yield(m)) {
				return
			}
		}
	}
}

// follow requests what the objects of queue and those that they bring need,
// breadth first (_dl_map_object_deps). Without tracing the first miss ends it;
// musl reports all that a program misses at start (M7).
func (p *Process) follow(queue []*Module, dlopen bool) *Error {
	var first *Error
	root, walked := queue[0], map[*Module]bool{} // of what has been in the queue
	for _, m := range queue {
		walked[m] = false
	}
	join := func(dep *Module) {
		if _, was := walked[dep]; dep != nil && !was {
			walked[dep] = false
			queue = append(queue, dep)
		}
	}
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		m.searched = true
		if m.isLoader && p.Loader.Libc.Musl {
			continue
		}
		if walked[m] {
			continue
		}
		walked[m] = true
		needed := m.Object.Needed
		if m.mapped {
			// Its needs are loaded; the list is walked through them all the same.
			for _, dep := range m.Deps {
				join(dep)
			}
			if p.trace {
				continue
			}
			needed = nil
		}
		m.mapped = true
		for _, name := range needed {
			if !p.work().spend(1) {
				return p.spent(name, m)
			}
			if name == "" && m.Truncated() {
				// It lies behind the file's end: nobody asks for it, the process is dead
				// when it would read it.
				m.Deps = append(m.Deps, nil)
				continue
			}
			dep, err := p.need(m, name)
			if err != nil {
				p.Misses = append(p.Misses, err)
				if first == nil && (!p.trace || !err.miss) {
					first = err
				}
				if !p.trace && (dlopen || !p.Loader.Libc.Musl) {
					return cmp.Or(p.notFirst(root, queue), err)
				}
			}
			m.Deps = append(m.Deps, dep)
			join(dep)
		}
		before, err := p.filtees(m, queue[:i])
		queue, i = putBefore(queue, i, before)
		for _, dep := range before {
			if !walked[dep] {
				walked[dep] = false
			}
		}
		if err != nil && !p.trace {
			return cmp.Or(p.notFirst(root, queue), err)
		}
		if first == nil {
			first = err
		}
	}
	if err := p.notFirst(root, queue); err != nil {
		return err
	}
	p.setGroup(root, queue)
	if !dlopen && !p.Loader.Libc.Musl {
		p.placeLoader(queue)
	}
	if p.trace {
		// The real one stops here; whoever traces wants to see the rest (L63).
		if p.fatal == nil && !dlopen && !p.Loader.Libc.Musl {
			p.fatal = first
		}
		return nil
	}
	return first
}

// notFirst is an assertion that holds until 2.32: what a program or dlopen begins
// with is the first of its own list, which it is not with filtees of its own
// (bug 16272). It comes before what could not be loaded is told.
func (p *Process) notFirst(root *Module, queue []*Module) *Error {
	if queue[0] == root || p.Loader.Libc.Musl || p.Loader.release >= 232 {
		return nil
	}
	return p.assertion("", root, "dl-deps.c", "_dl_map_object_deps", "map->l_searchlist.r_list[0] == map")
}

// placeLoader moves the loader behind what is before it in the list of what the
// program needs (dl_main, elf/rtld.c). What nothing needs is taken off the list
// up to 2.39 and put at its end by 2.41.
func (p *Process) placeLoader(queue []*Module) {
	i := slices.Index(queue, p.loader)
	if i < 0 && p.Loader.release >= 241 {
		i, p.loader.searched = len(queue), true
	}
	if i > 0 {
		p.move(p.loader, queue[i-1], 1)
	}
}

// putBefore puts the filtees of queue[i] before it. They are walked next, then
// its successors: it gives the queue and the place before the first of them.
func putBefore(queue []*Module, i int, filtees []*Module) ([]*Module, int) {
	if len(filtees) == 0 {
		return queue, i
	}
	m := queue[i]
	queue = slices.DeleteFunc(queue, func(o *Module) bool { return slices.Contains(filtees, o) })
	i = slices.Index(queue, m)
	return slices.Insert(queue, i, filtees...), i - 1
}

// need serves one DT_NEEDED, whose tokens glibc expands first: nothing comes of
// one whose origin is not known (expand_dst, L10).
func (p *Process) need(m *Module, name string) (*Module, *Error) {
	if !p.Loader.Libc.Musl && strings.Contains(name, "$") {
		full, ok := p.expand(m, name)
		if p.secure && full != name {
			return nil, &Error{Name: name, Subject: name, Message: "DST not allowed in SUID/SGID programs", By: m}
		}
		if !ok || full == "" {
			return nil, nil
		}
		name = full
	}
	dep, err := p.request(name, m, false)
	if err != nil && p.trace && err.miss && !p.Loader.Libc.Musl {
		p.listed = append(p.listed, Listed{Name: name})
	}
	return dep, err
}

// filtees loads what m's DT_FILTER and DT_AUXILIARY name and puts it before m:
// there its symbols are found first. A missing auxiliary is no fault (L59).
func (p *Process) filtees(m *Module, earlier []*Module) ([]*Module, *Error) {
	if p.Loader.Libc.Musl {
		return nil, nil
	}
	var before []*Module
	var fault *Error // of a filter, where tracing goes on: the real one stops
	for i, name := range slices.Concat(m.Object.Filter, m.Object.Auxiliary) {
		if p.work().Err() != nil {
			return before, p.spent(name, m)
		}
		lines := len(p.listed)
		dep, err := p.need(m, name)
		if err != nil {
			if i < len(m.Object.Filter) {
				p.Misses = append(p.Misses, err)
				if !p.trace {
					return before, err
				}
				if fault == nil && !err.miss {
					fault = err
				}
			}
			if len(p.listed) > lines { // the ldd view has it there too
				miss := p.listed[lines]
				p.listed = p.listed[:lines]
				at := slices.IndexFunc(p.listed, func(e Listed) bool { return e.Module == m })
				p.listed = slices.Insert(p.listed, at, miss)
			}
			continue
		}
		p.work().spend(cells(len(m.link.filtees) + len(earlier) + len(before)))
		if dep != nil && !slices.Contains(m.link.filtees, dep) {
			m.link.filtees = append(m.link.filtees, dep)
		}
		if dep == nil || dep == m || slices.Contains(earlier, dep) || slices.Contains(before, dep) {
			continue
		}
		p.move(dep, m, 0)
		before = append(before, dep)
	}
	return before, fault
}

func (p *Process) work() *Work { return p.Loader.env.Work }

// request gives the object that by gets when it asks for name (L9, then the
// search of the loader's own kind).
func (p *Process) request(name string, by *Module, dlopen bool) (*Module, *Error) {
	if !p.work().spend(1) {
		return nil, p.spent(name, by)
	}
	if p.Loader.Libc.Musl {
		return p.requestMusl(name, by, dlopen)
	}
	return p.requestGlibc(name, by, dlopen)
}
