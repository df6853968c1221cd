package elfdeps

import (
	"fmt"
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
	index    int     // in load order
	isLoader bool
	short    string // musl: the name by which a search found it
	mapped   bool   // its DT_NEEDED have been followed

	rpath, runpath *[]string // split and expanded, on first use
}

func (m *Module) String() string {
	if m.Path != "" {
		return m.Path
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
	// Objects in load order: the program, the loader, then the rest.
	Objects []*Module
	// Misses are the requests that failed, in order, one for each requester and
	// name. Only a tracing process goes on after one.
	Misses []*Error
	// Warnings are messages that the loader prints and goes on (preloads).
	Warnings []string

	trace bool
	names map[string]*Module
	env   *[]string // LD_LIBRARY_PATH, expanded on first use
	ids   map[uint64]*Module
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
}

// Missing reports whether no file was found, as against a file that cannot be
// used.
func (e *Error) Missing() bool { return e.Errno == syscall.ENOENT }

// Error is the text as dlerror gives it and as ld.so prints it after `error
// while loading shared libraries: ` (L35); for musl the whole line (M7).
func (e *Error) Error() string {
	if e.Musl {
		s := fmt.Sprintf("Error loading shared library %s: %s", e.Name, muslErrno(e.Errno))
		if e.By != nil {
			s += fmt.Sprintf(" (needed by %s)", e.By)
		}
		return s
	}
	s := e.Subject + ": " + e.Message
	if e.Errno != 0 {
		s += ": " + errnoText(e.Errno)
	}
	return s
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
	m.index = len(p.Objects)
	p.Objects = append(p.Objects, m)
	if m.File != nil && !m.Main { // the program's own file is never matched (L9)
		if _, ok := p.ids[m.File.ID]; !ok {
			p.ids[m.File.ID] = m
		}
	}
	if p.Loader.Libc.Musl {
		return
	}
	if m.Path != "" {
		p.answer(m, m.Path)
	}
	if m.Object.Soname != "" {
		p.answer(m, m.Object.Soname)
	}
}

// name records that m was asked for by text.
func (p *Process) name(m *Module, text string) {
	for _, n := range m.Names {
		if n == text {
			return
		}
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

// Dlopen opens name for the object by; nil by means the program. What it needs
// is opened as well. A failure unloads nothing in a tracing process, and all
// that the call brought in any other (case 229).
func (p *Process) Dlopen(by *Module, name string) (*Module, error) {
	if p.Loader.Libc.Musl || by == nil {
		by = p.Objects[0] // M10
	}
	mark := len(p.Objects)
	m, err := p.request(name, by, true)
	if err != nil {
		p.Misses = append(p.Misses, err)
		return nil, err
	}
	if err := p.follow([]*Module{m}); err != nil {
		p.unload(mark)
		return nil, err
	}
	return m, nil
}

// unload drops everything loaded since mark.
func (p *Process) unload(mark int) {
	if p.trace {
		return
	}
	p.Objects = p.Objects[:mark]
	clear(p.names)
	clear(p.ids)
	for _, m := range p.Objects {
		if m.File != nil && !m.Main {
			if _, ok := p.ids[m.File.ID]; !ok {
				p.ids[m.File.ID] = m
			}
		}
		for _, n := range append([]string{m.Path, m.Object.Soname}, m.Names...) {
			if n != "" && !p.Loader.Libc.Musl {
				p.answer(m, n)
			}
		}
	}
}

// startUp loads what the program asks for before it runs: preloads, then its
// needs, breadth first (L8, L13, L14).
func (p *Process) startUp(main *Module) error {
	roots := []*Module{main}
	for _, pre := range p.Loader.preloads() {
		m, err := p.request(pre.name, main, false)
		if err != nil {
			if !p.Loader.Libc.Musl {
				p.Warnings = append(p.Warnings, fmt.Sprintf("ERROR: ld.so: object '%s' from %s cannot be preloaded (%s): ignored.", pre.name, pre.from, err.Message))
			}
			continue
		}
		m.How = pre.from
		roots = append(roots, m)
	}
	return p.follow(roots)
}

type preload struct{ name, from string }

// preloads are the entries of LD_PRELOAD, then those of /etc/ld.so.preload,
// which musl does not have (M11).
func (l *Loader) preloads() []preload {
	var list []preload
	for _, n := range strings.FieldsFunc(l.env.get("LD_PRELOAD"), isPreloadSep) {
		list = append(list, preload{n, "LD_PRELOAD"})
	}
	if l.Libc.Musl {
		return list
	}
	for line := range strings.Lines(string(l.read("/etc/ld.so.preload"))) {
		line, _, _ = strings.Cut(line, "#")
		for _, n := range strings.FieldsFunc(line, isPreloadSep) {
			list = append(list, preload{n, "/etc/ld.so.preload"})
		}
	}
	return list
}

func isPreloadSep(r rune) bool { return r == ' ' || r == ':' || r == '\t' || r == '\n' || r == '\r' }

// follow requests the DT_NEEDED of queue and of what they bring, breadth first
// (_dl_map_object_deps). Without tracing the first miss ends it.
func (p *Process) follow(queue []*Module) error {
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		if m.mapped || m.isLoader {
			continue
		}
		m.mapped = true
		for _, name := range m.Object.Needed {
			dep, err := p.request(name, m, false)
			if err != nil {
				p.Misses = append(p.Misses, err)
				m.Deps = append(m.Deps, nil)
				if !p.trace {
					return err
				}
				continue
			}
			m.Deps = append(m.Deps, dep)
			queue = append(queue, dep)
		}
	}
	return nil
}

// request gives the object that by gets when it asks for name (L9, then the
// search of the loader's own kind).
func (p *Process) request(name string, by *Module, dlopen bool) (*Module, *Error) {
	if p.Loader.Libc.Musl {
		return p.requestMusl(name, by, dlopen)
	}
	return p.requestGlibc(name, by, dlopen)
}
