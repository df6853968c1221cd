package elfdeps

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
)

// The functions named in this file are those of musl's ldso/dynlink.c.

// initMusl reads the system path: PREFIX/etc/ld-musl-ARCH.path, PREFIX being the
// loader's path without its last two elements (__dls3).
func (l *Loader) initMusl() {
	l.release = releaseNumber(l.Libc.Release)
	prefix := strings.TrimSuffix(path.Dir(path.Dir(l.Path)), "/")
	base := strings.TrimSuffix(path.Base(l.Path), ".so.1")
	conf := prefix + "/etc/" + base + ".path"
	l.path = []string{"/lib", "/usr/local/lib", "/usr/lib"}
	if f, err := l.fs.Find(conf); err == nil && f.Mode.IsRegular() {
		doubts := len(l.Doubts)
		text := string(l.read(conf))
		if len(l.Doubts) == doubts {
			l.path = splitMusl(text)
		}
	}
	l.envDirs = splitMusl(l.env.get("LD_LIBRARY_PATH"))
}

// load does what __dls3 does with the needs of the program. A miss does not
// keep it from binding, so that all misses and undefined symbols are reported
// together; --list binds, too.
func (p musl) load(main *Module) *Error {
	missed := p.follow(p.withPreloads(main), false)
	return cmp.Or(missed, p.binder.bind(main, 0))
}

// muslBlanks separate the names of preloads (load_preload).
const muslBlanks = ": \t\n\v\f\r"

// preloads returns the names of --preload, else those in LD_PRELOAD; neither in
// secure mode. musl reads no ld.so.preload.
func (p musl) preloads() []preload {
	l := p.Loader
	if p.secure || l.preload != nil {
		return l.preload
	}
	return split(l.env.get("LD_PRELOAD"), muslBlanks, "LD_PRELOAD")
}

// preload is load_preload. No object is the requester, so that no object's path
// is searched. A miss is silent.
func (p musl) preload(pre preload, _ *Module) *Module {
	m, _ := p.serve(pre.name, nil, false)
	return m
}

// follow is load_deps. At start it goes on after misses; dlopen ends with the
// first.
func (p musl) follow(queue []*Module, dlopen bool) *Error {
	var first *Error
	root, queued := queue[0], map[*Module]bool{}
	for _, m := range queue {
		queued[m] = true
	}
	join := func(dep *Module) {
		if dep != nil && !queued[dep] {
			queued[dep] = true
			queue = append(queue, dep)
		}
	}
	for i := 0; i < len(queue); i++ {
		m := queue[i]
		switch {
		case m.isLoader:
			continue
		case m.mapped: // its needs are loaded already, and join the list all the same
			for _, dep := range m.Deps {
				join(dep)
			}
			continue
		}
		m.mapped = true
		for _, name := range m.Object.Needed {
			if !p.work().spend(1) {
				return p.Loader.spent(name, m)
			}
			if m.lost(name) {
				p.Cut = cmp.Or(p.Cut, m)
				m.Deps = append(m.Deps, nil)
				continue
			}
			dep, err := p.request(name, m, false)
			if err != nil {
				p.Misses = append(p.Misses, err)
				if dlopen && !p.trace {
					return err
				}
				first = cmp.Or(first, err)
			}
			m.Deps = append(m.Deps, dep)
			join(dep)
		}
	}
	if root.link.group.list == nil {
		root.link.group.list = slices.Clone(queue)
		p.work().spend(len(queue))
	}
	if p.trace {
		return nil
	}
	return first
}

// check does nothing: musl ignores versions and ISA levels.
func (musl) check(bool) *Error { return nil }

// registerNames makes m answer to the name by which a search found it (shortname), if
// one did. musl never compares DT_SONAME.
func (p musl) registerNames(m *Module) {
	if m.short != "" {
		p.answer(m, m.short)
	}
}

// hasPaths reports whether o has either path: both serve the objects that it
// loads.
func (musl) hasPaths(o *Object) bool { return o.Rpath != nil || o.Runpath != nil }

func (p musl) list() []Listed { return p.listed }

func (p musl) stderr() []string {
	lines := slices.Clone(p.Warnings)
	if p.fatal != nil && p.fatal.Kind == InnerError {
		lines = append(lines, p.fatal.Error())
	}
	for _, e := range slices.Concat(p.Misses, p.Unbound) {
		lines = append(lines, e.Error())
	}
	return lines
}

func (p musl) status() int {
	switch {
	case len(p.Misses)+len(p.Unbound) > 0:
		return 127
	case p.fatal == nil:
		return 0
	case p.fatal.Kind == InnerError:
		return 1
	}
	return 127
}

// splitMusl splits a path list at colons and newlines, and skips empty elements
// (path_open).
func splitMusl(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '\n' })
}

// isMuslOwn reports whether name is one of the names that load_library reserves:
// musl's libc, which is its loader as well, is all of these libraries.
func isMuslOwn(name string) bool {
	rest, ok := strings.CutPrefix(name, "lib")
	if !ok {
		return false
	}
	for _, own := range []string{"c.", "pthread.", "rt.", "m.", "dl.", "util.", "xnet."} {
		if strings.HasPrefix(rest, own) {
			return true
		}
	}
	return false
}

// serve is load_library.
func (p musl) serve(name string, by *Module, dlopen bool) (m *Module, e *Error) {
	l := p.Loader
	if isMuslOwn(name) || name == l.Path {
		return p.itself(name), nil
	}
	if dlopen && by != nil {
		defer func() {
			if e != nil {
				e.By = nil // no object needs what the program opens
			}
		}()
	}
	if strings.Contains(name, "/") {
		f, err := l.find(name)
		if err != nil {
			p.errno = errno(err)
			return nil, muslError(name, by, p.errno, []Step{{Source: "path", Tried: []Candidate{{name, errnoText(errno(err))}}}})
		}
		return p.mapFile(name, name, "", f, by, "path")
	}
	if m := p.names[name]; m != nil {
		return m, nil
	}
	if len(name) > 255 {
		return nil, muslError(name, by, 0, nil)
	}
	var steps []Step
	for _, list := range p.lists(by) {
		step := Step{Source: list.source}
		for _, dir := range list.dirs {
			if !p.work().spend(written) {
				return nil, p.Loader.spent(name, by)
			}
			full := dir + "/" + name
			f, err := l.find(full)
			if err == nil {
				return p.mapFile(full, name, name, f, by, list.source)
			}
			e := errno(err)
			step.Tried = append(step.Tried, Candidate{full, skipText(e)})
			if !slices.Contains([]syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ENAMETOOLONG}, e) {
				return nil, muslError(name, by, e, append(steps, step)) // path_open gives up
			}
			p.errno = e
		}
		steps = append(steps, step)
	}
	p.work().spend(missed)
	// With nowhere to look errno is that of an earlier request, or 0: "No error
	// information".
	return nil, muslError(name, by, p.errno, steps)
}

// lists returns the sources of a search: LD_LIBRARY_PATH, the paths of the
// requester and of the objects that loaded it, up to the program, and the system
// path.
func (p musl) lists(by *Module) []dirList {
	var lists []dirList
	if !p.secure {
		lists = append(lists, dirList{"LD_LIBRARY_PATH", p.Loader.envDirs})
	}
	for m := range p.withPaths(by) {
		lists = append(lists, dirList{"path of " + m.String(), p.path(m)})
	}
	lists = append(lists, dirList{"system path", p.Loader.path})
	return slices.DeleteFunc(lists, func(d dirList) bool { return len(d.dirs) == 0 })
}

// path returns the directories of m's DT_RUNPATH, else of its DT_RPATH. A text
// with any token but $ORIGIN is ignored as a whole (fixup_rpath).
func (p musl) path(m *Module) []string {
	text := m.Object.Runpath
	if text == nil {
		text = m.Object.Rpath
	}
	if text == nil {
		return nil
	}
	if m.rpath == nil {
		var dirs []string
		full := strings.NewReplacer("${ORIGIN}", m.Origin, "$ORIGIN", m.Origin).Replace(*text)
		usable := m.Origin != "" && (!p.secure || !m.Main && m.Origin[0] == '/')
		if !strings.Contains(full, "$") && (usable || full == *text) {
			dirs = splitMusl(full)
		}
		m.rpath = &dirs
	}
	return *m.rpath
}

// mapFile makes an object of the opened file f, unless it is one already. full is
// the path that was opened; short is the name of the search that found it, or "".
// The first file that opens is final: one that is no library ends the request.
func (p musl) mapFile(full, name, short string, f *File, by *Module, how string) (*Module, *Error) {
	if m := p.ids[f.ID]; m != nil {
		if short != "" && m.short == "" {
			m.short = short
			p.answer(m, short)
		}
		return m, nil
	}
	l := p.Loader
	fail := func(no syscall.Errno, why string) (*Module, *Error) {
		return nil, muslError(name, by, no, []Step{{Source: how, Tried: []Candidate{{full, why}}}})
	}
	switch {
	case f.Object != nil && f.Object.Libc != nil && !strings.HasPrefix(f.Object.Soname, "ld"):
		return p.itself("libc.so"), nil // load_library drops any other libc
	case f.Mode.IsDir():
		return fail(syscall.EISDIR, "is a directory")
	case f.Fault != "":
		_, err := fail(syscall.EIO, "could not be examined: "+f.Fault)
		err.Unknown = true
		return nil, err
	case f.Object == nil || !f.Object.Dynamic || f.Object.Class() != l.class:
		// map_library does not check the class; a header of the other class makes no
		// sense to it.
		return fail(syscall.ENOEXEC, "is not a dynamic ELF file")
	}
	m := &Module{Path: full, Object: f.Object, File: f, By: by, How: how, Origin: muslOrigin(full), short: short}
	p.loadedBy(m, by)
	p.add(m)
	p.listed = append(p.listed, Listed{name, m})
	return m, nil
}

// itself returns the loader, which answers to the names of musl's own libraries
// (load_library). Its place in the list of objects is that of the first request.
func (p musl) itself(name string) *Module {
	if !slices.Contains(p.Objects, p.loader) {
		p.add(p.loader)
	}
	// --list names each of the reserved libraries once.
	kind, _, _ := strings.Cut(name, ".")
	same := func(e Listed) bool { had, _, _ := strings.Cut(e.Name, "."); return e.Module == p.loader && had == kind }
	if isMuslOwn(name) && !slices.ContainsFunc(p.listed, same) {
		p.listed = append(p.listed, Listed{name, p.loader})
	}
	return p.loader
}

// muslOrigin returns the $ORIGIN of a library: the directory part of its path, as
// text, relative or not (fixup_rpath).
func muslOrigin(full string) string {
	if i := strings.LastIndexByte(full, '/'); i >= 0 {
		return full[:i]
	}
	return "."
}

func muslError(name string, by *Module, no syscall.Errno, steps []Step) *Error {
	return &Error{Name: name, Subject: name, Message: muslErrno(no), Errno: no, By: by, Steps: steps, Musl: true}
}

// muslErrno returns the text of musl's strerror (src/errno/__strerror.h).
func muslErrno(e syscall.Errno) string {
	switch e {
	case 0:
		return "No error information"
	case syscall.ENOENT:
		return "No such file or directory"
	case syscall.EISDIR:
		return "Is a directory"
	case syscall.ENOEXEC:
		return "Exec format error"
	case syscall.ELOOP:
		return "Symbolic link loop"
	case syscall.ENOTDIR:
		return "Not a directory"
	case syscall.ENAMETOOLONG:
		return "Filename too long"
	case syscall.EACCES:
		return "Permission denied"
	case syscall.EIO:
		return "I/O error"
	}
	return fmt.Sprintf("Error %d", int(e))
}
