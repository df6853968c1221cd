package elfdeps

import (
	"fmt"
	"slices"
	"syscall"
)

// Flags are the flags of dlopen.
type Flags uint8

// The flags of dlopen. Without Global an object is opened locally.
const (
	Now Flags = 1 << iota
	Lazy
	Global
	DeepBind
	NoLoad
	NoDelete
)

// Dlopen opens name for the object by with RTLD_NOW, and loads what it needs; nil
// by means the program. A failed call unloads what it loaded, except in a tracing
// process, which unloads nothing.
func (p *Process) Dlopen(by *Module, name string) (*Module, error) {
	return p.DlopenFlags(by, name, Now)
}

// DlopenFlags is [Process.Dlopen] with the flags of dlopen. It binds the symbols
// that are known, except in a tracing process (see [Process.Unresolved]). With
// NoLoad, and glibc, it returns neither a module nor an error when a file was found
// that is not loaded.
func (p *Process) DlopenFlags(by *Module, name string, flags Flags) (*Module, error) {
	if flags&(Now|Lazy) == 0 && !p.Loader.Libc.Musl {
		return nil, invalidMode(name)
	}
	if p.Loader.Libc.Musl || by == nil {
		by = p.Program() // musl's dlopen does not look at its caller
	}
	p.dlopening = true
	defer func() { p.dlopening = false }()
	if flags&NoLoad != 0 {
		return p.noLoad(by, name, flags)
	}
	if !p.work().spend(crowd(len(p.Objects))) { // of which the state is recorded, and the versions are checked
		return nil, p.Loader.spent(name, by)
	}
	var before *state
	if !p.trace {
		before = p.current()
	}
	m, err := p.request(name, by, true)
	if err != nil {
		p.Misses = append(p.Misses, err)
		p.restore(before)
		return nil, err
	}
	if m.opened || m.Main { // its needs were followed (dl_open_worker_begin, elf/dl-open.c)
		p.binder.opened(m, flags, before)
		return m, nil
	}
	if err := p.open(m, flags); err != nil {
		if err.Kind == InnerError {
			p.fatal = err // the program ends
		}
		p.restore(before)
		return nil, err
	}
	m.opened = true
	p.binder.opened(m, flags, before)
	return m, nil
}

// open loads what m needs, checks it and binds it.
func (p *Process) open(m *Module, flags Flags) *Error {
	if err := p.model.follow([]*Module{m}, true); err != nil {
		return err
	}
	if err := p.model.check(true); err != nil || p.trace {
		return err
	}
	return p.binder.bind(m, flags)
}

// Settle makes a tracing process continue as one that has started: everything
// loaded counts as bound, a failed dlopen unloads what it loaded, and dlopen binds
// symbols. It saves the time to bind a program that was bound elsewhere or needs no
// check.
func (p *Process) Settle() {
	p.trace = false
	for _, m := range p.Objects {
		m.link.bound = true
	}
}

// Mark returns a function that unloads everything loaded since, and drops its
// misses. A tracing process needs it, whose own failed dlopens unload nothing.
func (p *Process) Mark() (undo func()) {
	before, misses := p.current(), len(p.Misses)
	return func() {
		p.Misses = p.Misses[:misses]
		p.restore(before)
	}
}

// state is saved before a dlopen, and restored if it fails.
type state struct {
	objects []*Module
	listed  []Listed
}

func (p *Process) current() *state { return &state{slices.Clone(p.Objects), slices.Clone(p.listed)} }

// restore unloads what was loaded since s. Names that an object gained since stay
// with it (add_name_to_object, elf/dl-load.c), and so does its place, which filtees
// may have changed.
func (p *Process) restore(s *state) {
	if s == nil || len(s.objects) == len(p.Objects) {
		return
	}
	had := make(map[*Module]bool, len(s.objects))
	for _, m := range s.objects {
		had[m] = true
	}
	p.Objects = slices.DeleteFunc(p.Objects, func(m *Module) bool { return !had[m] })
	p.listed = s.listed
	p.reindex()
}

// opened adds m's group to the scopes of those of its objects that were loaded
// before (update_scopes), and with RTLD_GLOBAL to the global scope (add_to_global).
func (p glibcBinder) opened(m *Module, flags Flags, before *state) {
	main := p.Program()
	for _, o := range m.link.group.list {
		old := before == nil || slices.Contains(before.objects, o)
		if old && o.link.scopes != nil && o.root() != main && !slices.Contains(o.link.scopes, &m.link.group) {
			o.link.scopes = append(o.link.scopes, &m.link.group)
		}
	}
	if flags&Global == 0 {
		return
	}
	for _, o := range m.link.group.list {
		if !o.link.global && !slices.Contains(main.link.group.list, o) {
			o.link.global = true
			main.link.group.list = append(main.link.group.list, o)
		}
	}
}

// invalidMode returns dlopen's error for flags with neither Now nor Lazy.
func invalidMode(name string) *Error {
	return &Error{Name: name, Subject: name, Message: "invalid mode for dlopen()", Errno: syscall.EINVAL}
}

// noLoad is dlopen with RTLD_NOLOAD: it returns the object that name leads to if
// that is loaded already. glibc returns neither an object nor an error for a file
// that could be loaded.
func (p *Process) noLoad(by *Module, name string, flags Flags) (*Module, error) {
	before, stack := p.current(), p.stack
	p.noLoading, p.notLoaded = !p.Loader.Libc.Musl, false
	m, err := p.request(name, by, true)
	p.noLoading = false
	if err != nil || !slices.Contains(before.objects, m) {
		p.restore(before)
		p.stack = stack
		switch {
		case p.notLoaded:
			return nil, nil
		case p.Loader.Libc.Musl:
			return nil, &Error{Name: name, Message: fmt.Sprintf("Library %s is not already loaded", name), Kind: SymbolError}
		case err != nil:
			return nil, err
		}
		return nil, nil
	}
	if err := p.model.follow([]*Module{m}, true); err != nil {
		if err.Kind == InnerError {
			p.fatal = err // the program ends
		}
		return nil, err
	}
	p.binder.opened(m, flags, nil)
	return m, nil
}
