package elfdeps

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
)

// initMusl reads the system path: PREFIX/etc/ld-musl-ARCH.path, PREFIX being
// the loader's path less two elements (M3).
func (l *Loader) initMusl() {
	l.release = releaseNumber(l.Libc.Release)
	prefix := strings.TrimSuffix(path.Dir(path.Dir(l.Path)), "/")
	base := strings.TrimSuffix(path.Base(l.Path), ".so.1")
	conf := prefix + "/etc/" + base + ".path"
	l.path = []string{"/lib", "/usr/local/lib", "/usr/lib"}
	if f, err := l.fs.Find(conf); err == nil && isRegular(f) {
		doubts := len(l.Doubts)
		text := string(l.read(conf))
		if len(l.Doubts) == doubts {
			l.path = splitMusl(text)
		}
	}
	l.envDirs = splitMusl(l.env.get("LD_LIBRARY_PATH"))
}

// muslBlanks separate the names of preloads (load_preload).
const muslBlanks = ": \t\n\v\f\r"

// splitMusl splits a path list as path_open does: at colons and newlines, empty
// elements skipped (M1).
func splitMusl(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '\n' })
}

// isMuslOwn reports whether musl answers the name itself: its libc is all of
// these libraries (M5, reserved names in load_library).
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

// requestMusl is load_library (ldso/dynlink.c).
func (p *Process) requestMusl(name string, by *Module, dlopen bool) (m *Module, e *Error) {
	l := p.Loader
	if isMuslOwn(name) || name == l.Path {
		return p.muslItself(name), nil
	}
	if dlopen && by != nil {
		defer func() {
			if e != nil {
				e.By = nil // the program opened it, nothing needs it
			}
		}()
	}
	if strings.Contains(name, "/") {
		f, err := l.find(name)
		if err != nil {
			p.errno = errno(err)
			return nil, muslError(name, by, p.errno, []Step{{Source: "path", Tried: []Candidate{{name, errnoText(errno(err))}}}})
		}
		return p.mapMusl(name, name, "", f, by, "path")
	}
	if m := p.names[name]; m != nil { // M4: found by search before
		return m, nil
	}
	if len(name) > 255 {
		return nil, muslError(name, by, 0, nil)
	}
	var steps []Step
	for _, list := range p.muslLists(by) {
		step := Step{Source: list.source}
		for _, dir := range list.dirs {
			if !p.work().spend(written) {
				return nil, p.spent(name, by)
			}
			full := dir + "/" + name
			f, err := l.find(full)
			if err == nil {
				return p.mapMusl(full, name, name, f, by, list.source)
			}
			e := errno(err)
			step.Tried = append(step.Tried, Candidate{full, skipText(e)})
			if !slices.Contains([]syscall.Errno{syscall.ENOENT, syscall.ENOTDIR, syscall.EACCES, syscall.ENAMETOOLONG}, e) {
				return nil, muslError(name, by, e, append(steps, step)) // M6
			}
			p.errno = e
		}
		steps = append(steps, step)
	}
	p.work().spend(missed)
	// With nowhere to look it is an older errno, or none: "No error
	// information" (case 306).
	return nil, muslError(name, by, p.errno, steps)
}

// muslLists are the sources: LD_LIBRARY_PATH, the paths of the requester and of
// whoever needed it, up to the program, then the system path (M1).
func (p *Process) muslLists(by *Module) []dirList {
	var lists []dirList
	if !p.secure {
		lists = append(lists, dirList{"LD_LIBRARY_PATH", p.Loader.envDirs})
	}
	for m := range p.withPaths(by) {
		lists = append(lists, dirList{"path of " + m.String(), p.muslPath(m)})
	}
	lists = append(lists, dirList{"system path", p.Loader.path})
	return slices.DeleteFunc(lists, func(d dirList) bool { return len(d.dirs) == 0 })
}

// muslPath are the directories of m's DT_RUNPATH, else of its DT_RPATH (M2);
// any token but $ORIGIN makes the whole text void (M9, fixup_rpath).
func (p *Process) muslPath(m *Module) []string {
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

// mapMusl takes a file that was opened: nothing but the ELF magic is checked,
// and one that is no library ends the request (M6).
func (p *Process) mapMusl(full, name, short string, f *File, by *Module, how string) (*Module, *Error) {
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
		return p.muslItself("libc.so"), nil // another libc is never taken
	case f.Mode.IsDir():
		return fail(syscall.EISDIR, "is a directory")
	case f.Fault != "":
		_, err := fail(syscall.EIO, "could not be looked at: "+f.Fault)
		err.Unknown = true
		return nil, err
	case f.Object == nil || !f.Object.Dynamic || f.Object.Class() != l.class:
		// The class is not checked, but the header of another makes no sense.
		return fail(syscall.ENOEXEC, "is not a dynamic ELF file")
	}
	m := &Module{Path: full, Object: f.Object, File: f, By: by, How: how, Origin: muslOrigin(full), short: short}
	p.loadedBy(m, by)
	p.add(m)
	p.listed = append(p.listed, Listed{name, m})
	return m, nil
}

// muslItself is what musl answers to the names of its own libraries. Its place
// in the list is where it was first asked for (load_library).
func (p *Process) muslItself(name string) *Module {
	if !slices.Contains(p.Objects, p.loader) {
		p.add(p.loader)
	}
	// --list tells each of the reserved names once.
	kind, _, _ := strings.Cut(name, ".")
	told := func(e Listed) bool { had, _, _ := strings.Cut(e.Name, "."); return e.Module == p.loader && had == kind }
	if isMuslOwn(name) && !slices.ContainsFunc(p.listed, told) {
		p.listed = append(p.listed, Listed{name, p.loader})
	}
	return p.loader
}

// muslOrigin is the directory part of a library's name, as text, relative or
// not (fixup_rpath).
func muslOrigin(full string) string {
	if i := strings.LastIndexByte(full, '/'); i >= 0 {
		return full[:i]
	}
	return "."
}

func muslError(name string, by *Module, no syscall.Errno, steps []Step) *Error {
	return &Error{Name: name, Subject: name, Message: muslErrno(no), Errno: no, By: by, Steps: steps, Musl: true}
}

// muslErrno is musl's strerror for what loading can meet (src/errno/__strerror.h).
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
