package elfdeps

import (
	"fmt"
	"path"
	"strings"
	"syscall"
)

// Run starts the program of `ld.so ARGUMENT...`: the arguments are the loader's
// options, the program, and its arguments, which are ignored (dl_main, elf/rtld.c;
// __dls3, ldso/dynlink.c).
//
// Run follows the options --list, --library-path, --inhibit-cache, --preload and
// --argv0. It ignores --verify, --audit, --inhibit-rpath and those for hwcaps
// subdirectories.
func (l *Loader) Run(args []string) (*Process, error) {
	byHand := *l
	byHand.searched = new(searches)
	p := byHand.process(false)
	for ; len(args) > 0 && strings.HasPrefix(args[0], "--"); args = args[1:] {
		name, value, joined := strings.Cut(args[0], "=")
		switch name {
		case "--list", "--verify", "--inhibit-cache":
			if name == "--list" { // glibc's ends at the first miss; LD_TRACE_LOADED_OBJECTS does not
				p.listing, p.trace = true, l.Libc.Musl
			}
			if name == "--inhibit-cache" {
				byHand.cache, byHand.noCache = nil, false
			}
			continue
		}
		if !joined || !l.Libc.Musl {
			if len(args) < 2 {
				return p, fmt.Errorf("%s: no argument follows", args[0])
			}
			value, args = args[1], args[1:]
		}
		byHand.option(p, name, value)
	}
	if len(args) == 0 {
		return p, fmt.Errorf("%s: no program follows", l.Path)
	}
	if p.argv0 == "" {
		p.argv0 = args[0]
	}
	return p, byHand.run(p, args[0])
}

// TraceFile traces any file, program or library, as `LD_TRACE_LOADED_OBJECTS=1 ld.so
// FILE` does; ldd shows that. It goes on after misses.
func (l *Loader) TraceFile(file string) (*Process, error) {
	p := l.process(true)
	p.argv0 = file
	return p, l.run(p, file)
}

// option applies an option that has a value.
func (l *Loader) option(p *Process, name, value string) {
	switch name {
	case "--library-path":
		l.envDirs = splitEnvPath(value)
		if l.Libc.Musl {
			l.envDirs = splitMusl(value)
		}
	case "--preload":
		if l.Libc.Musl {
			l.preload = split(value, muslBlanks, "--preload")
			return
		}
		l.preload = append(l.preload, split(value, ": ", "--preload")...)
	case "--argv0":
		p.argv0 = value
	}
}

// run maps and loads the program of a loader that was called by hand. The file may be
// a library.
func (l *Loader) run(p *Process, prog string) error {
	f, err := p.model.program(prog)
	if err != nil {
		p.fatal = err
		return err
	}
	// Before 2.42 $ORIGIN is the directory of the path as given, with its links.
	main := &Module{Object: f.Object, File: f, Main: true, How: "program", prog: prog, Names: []string{prog}, byHand: true, Origin: originOf(prog, l.env.Cwd)}
	switch {
	case l.Libc.Musl:
		main.Names, main.Origin = nil, muslOrigin(prog)
	case l.release >= 242:
		main.Origin = path.Dir(f.Path)
	}
	p.add(main)
	p.addLoader()
	if interp := f.Object.Interp; interp != "" && !l.Libc.Musl {
		p.loader.Names = []string{interp}
		p.reindex()
	}
	return p.startUp(main)
}

// program finds the file of a program. It searches for a name without a slash
// as for a library that an object without paths requests.
func (p glibc) program(prog string) (*File, *Error) {
	fail := func(message string, no syscall.Errno) *Error {
		return &Error{Name: prog, Subject: prog, Message: message, Errno: no}
	}
	var f *File
	var v verdict
	p.openExec = true
	defer func() { p.openExec = false }()
	if strings.Contains(prog, "/") {
		f, v = p.verify(prog)
	} else {
		bare := &Module{Object: &Object{}, Main: true}
		p.Objects = []*Module{bare}
		s := search{p: p, name: prog, by: bare}
		for _, list := range append(s.lists(), dirList{"built-in directories", p.Loader.system}) {
			full, found, err := s.walk(list)
			if err != nil {
				return nil, err
			}
			if found != nil {
				f, v = p.verify(full)
				break
			}
		}
		p.Objects, p.env = nil, nil
	}
	switch {
	case v.kind == vFatal:
		return nil, fail(v.message, v.errno)
	case f == nil && v.otherClass != "":
		return nil, fail("wrong ELF class: "+v.otherClass, 0)
	case f == nil && v.errno == 0:
		return nil, fail("cannot open shared object file", syscall.ENOENT)
	case f == nil:
		return nil, fail("cannot open shared object file", v.errno)
	case f.Object.Fault != "":
		return nil, fail(f.Object.Fault, 0)
	case !f.Object.Dynamic:
		return nil, fail("object file has no dynamic section", 0)
	}
	return f, nil
}

// program finds the file of a program (__dls3).
func (p musl) program(prog string) (*File, *Error) {
	f, err := p.Loader.find(prog)
	message := ""
	switch {
	case err != nil:
		message = fmt.Sprintf("%s: cannot load %s: %s", p.Loader.Path, prog, muslErrno(errno(err)))
	case f.Object == nil || !f.Object.Dynamic:
		message = fmt.Sprintf("%s: %s: Not a valid dynamic program", p.Loader.Path, prog)
	default:
		return f, nil
	}
	return nil, &Error{Name: prog, Message: message, Musl: true, Kind: InnerError}
}
