package elfdeps

import (
	"debug/elf"
	"fmt"
	"slices"
	"strconv"
)

// linkage is the state of an object's binding.
type linkage struct {
	// group has the object and its needs, breadth first (l_searchlist). Only the
	// program and opened objects have one. The program's is the global scope, which
	// grows with RTLD_GLOBAL.
	group scope
	// scopes are searched for its references, in order (l_scope); set when it is
	// first bound.
	scopes []*scope
	// sorted has the object, then its dependencies in order (l_initfini).
	sorted    []*Module
	filtees   []*Module // the objects that its DT_FILTER and DT_AUXILIARY led to
	global    bool      // is in the global scope
	bound     bool      // relocated
	lazy      bool      // its functions are bound when they are called
	staticTLS bool      // has room in the static TLS block
}

// scope is a list of objects that are searched in order (r_scope_elem).
type scope struct{ list []*Module }

// Binding is a reference and the object that its symbol came from.
type Binding struct {
	From    *Module
	Symbol  string
	Version string // of the reference, or empty
	To      *Module
	// Protected is set when From refers to a protected symbol of its own.
	Protected bool
	// Lazy is set when the reference is not bound before the first call.
	Lazy bool
}

// Unresolved is an undefined reference.
type Unresolved struct {
	Module  *Module
	Symbol  string
	Version string // of the reference, or empty
	File    string // that DT_VERNEED requires the version of
	// Lazy is set for a function that fails only when it is called, unless all
	// references are bound at load (LD_BIND_NOW, RTLD_NOW).
	Lazy bool

	text  string
	fatal bool // text is a failed assertion, which ends ldd -r
}

// String returns the line that ldd -r prints.
func (u Unresolved) String() string {
	if u.fatal {
		return u.text
	}
	return u.text + "\t(" + u.Module.String() + ")"
}

// Error returns the text of dlerror without the path.
func (u Unresolved) Error() string { return u.text }

// query is one look-up (_dl_lookup_symbol_x).
type query struct {
	name    []byte
	hash    uint32
	version *SymbolVersion
	kind    refKind
	newest  bool // dlsym: take the newest version, not the oldest
	from    *Module
	blind   bool // set by find: an object that may define name has no known symbols
	note    *relocation
}

func newQuery(from *Module, name string) *query {
	return &query{name: []byte(name), hash: gnuHash([]byte(name)), kind: refData, from: from}
}

// find searches scopes for a definition (do_lookup_x). It returns no module when no
// object defines the name, and an error when the loader ends.
func (p glibcBinder) find(q *query, scopes []*scope) (*Module, record, *Error) {
	p.work().spend(cells(len(q.name)))
	for _, s := range scopes {
		for i, m := range s.list {
			if i%16 == 0 && !p.work().spend(1) {
				q.blind = true
				return nil, record{}, nil
			}
			if m.syms == nil {
				p.work().spend(int(m.Object.Symbols.Weight() >> 6))
			}
			if q.kind == refCopy && m.Main {
				continue
			}
			syms := m.symbols()
			if syms == nil {
				q.blind = q.blind || m.mayDefine(q.name)
				continue
			}
			i, err := p.match(q, m, syms)
			if err != nil {
				return nil, record{}, err
			}
			if i < 0 {
				if p.Loader.release <= 229 && q.version != nil && q.version.File != "" && m.answers(q.version.File) {
					return nil, record{}, p.linkError(q)
				}
				continue
			}
			if r := syms.record(i); !r.local() {
				if r.bind() == stbUnique && q.kind != refCopy {
					first := p.useUnique(string(q.name), m, r)
					q.note.noteUnique(q, scopes, m, r, first)
					m, r = first.m, first.r
				}
				return m, r, nil
			}
		}
	}
	return nil, record{}, nil
}

// mayDefine reports whether m, whose symbols are not known, may define name.
func (m *Module) mayDefine(name []byte) bool {
	return m.File == nil || m.File.MayDefine == nil || m.File.MayDefine(name)
}

// resolve calls find. A reference to a protected symbol of q's own object is bound to
// that if find returns any definition (the end of _dl_lookup_symbol_x).
func (p glibcBinder) resolve(q *query, rec record, scopes []*scope) (*Module, record, *Error) {
	to, def, err := p.find(q, scopes)
	if to != nil && rec.vis() == elf.STV_PROTECTED {
		return q.from, rec, nil
	}
	return to, def, err
}

const stbUnique = elf.SymBind(10) // STB_GNU_UNIQUE

// useUnique returns the definition of a unique symbol for all objects of the process:
// the first that was used, which is r of m if none was (do_lookup_unique).
func (p glibcBinder) useUnique(name string, m *Module, r record) *definition {
	if first := p.unique[name]; first != nil && slices.Contains(p.Objects, first.m) {
		return first
	}
	if p.unique == nil {
		p.unique = map[string]*definition{}
	}
	d := &definition{m, r}
	p.unique[name] = d
	return d
}

type definition struct {
	m *Module
	r record
}

// answers reports whether an object was requested by name (_dl_name_match_p).
func (m *Module) answers(name string) bool { return m.Path == name || slices.Contains(m.Names, name) }

// match returns the index of the record in m's symbols that q is bound to, or -1
// (check_match).
//
// A reference with a version is bound to a definition of that version, or to one
// without a version that is not hidden. A reference without a version is bound to the
// base or oldest version (version index 2 or less; for dlsym 1 or less), else to the
// only default version.
func (p glibcBinder) match(q *query, m *Module, s *Symbols) (int, *Error) {
	found, only, versions := -1, -1, 0
	var err *Error
	s.candidates(q.name, q.hash, func(i int, r record) bool {
		switch {
		case definingTypes&(1<<r.typ()) == 0:
			return true
		case r.bits&symUndef != 0 && !q.kind.address():
			return true // a program's address of a foreign function serves no calls
		case q.version != nil:
			if s.Versions == nil {
				q.note.noteOther()
				if p.Loader.release < 241 && q.version.File != "" && m.answers(q.version.File) {
					err = p.Loader.assertion(string(q.name), q.from, "dl-lookup.c", "check_match", "version->filename == NULL || ! _dl_name_match_p (version->filename, map)")
					return false
				}
				break
			}
			v := s.version(r)
			if (v == nil || v.Name != q.version.Name) && (q.version.Hidden || v != nil || r.version&0x8000 != 0) {
				return true
			}
		case s.Versions != nil:
			oldest := uint16(3)
			if q.newest {
				oldest = 2
			}
			if r.version&0x7fff >= oldest {
				if r.version&0x8000 == 0 {
					if versions == 0 {
						only = i
					}
					versions++
				}
				return true
			}
		}
		found = i
		return false
	})
	if found < 0 && versions == 1 {
		found = only
	}
	return found, err
}

// linkError returns the error of glibc up to 2.29 for a file that DT_VERNEED names and
// that lacks the symbol.
func (p glibcBinder) linkError(q *query) *Error {
	comma := ""
	if p.Loader.release <= 226 {
		comma = ","
	}
	return &Error{
		Name: string(q.name), Subject: p.file(q.from), By: q.from, Kind: RelocationError, Version: q.version.Name, File: q.version.File,
		Message: fmt.Sprintf("symbol %s%s version %s not defined in file %s with link time reference", q.name, comma, q.version.Name, q.version.File),
	}
}

// undefined returns the error for an undefined reference, which names the object with the
// reference.
func (q *query) undefined(p *Process) *Error {
	e := &Error{Name: string(q.name), Subject: p.file(q.from), Message: "undefined symbol: " + string(q.name), By: q.from, Kind: SymbolError}
	if q.version != nil {
		e.Message += ", version " + q.version.Name
		e.Version, e.File = q.version.Name, q.version.File
	}
	return e
}

// root returns the program or opened object that m was loaded for.
func (m *Module) root() *Module {
	if m.top != nil {
		return m.top
	}
	return m
}

// scopesOf returns l_scope of an object: itself if it has DT_SYMBOLIC, the global
// scope, then the group of its root (_dl_new_object); with RTLD_DEEPBIND the group
// comes first.
func (p glibcBinder) scopesOf(m *Module, flags Flags) []*scope {
	if m.link.scopes != nil {
		return m.link.scopes
	}
	main, root := p.Program(), m.root()
	scopes := []*scope{&main.link.group}
	if root != main && !m.isLoader {
		scopes = append(scopes, &root.link.group)
		if flags&DeepBind != 0 {
			slices.Reverse(scopes)
		}
	}
	if s := m.Object.Symbols; s != nil && s.Symbolic && !m.Main {
		scopes = append([]*scope{{[]*Module{m}}}, scopes...)
	}
	m.link.scopes = scopes
	return scopes
}

// relocationOrder returns the objects that opening or starting m binds, dependencies
// first.
func (p glibcBinder) relocationOrder(m *Module) []*Module {
	var order []*Module
	if p.Loader.release <= 231 && !m.Main {
		// The loader's list from m on, sorted by itself (dl_open_worker, elf/dl-open.c).
		for _, o := range p.Objects[m.index:] {
			if !o.isLoader && !o.link.bound {
				order = append(order, o)
			}
		}
		sortByMoving(order, p.work())
		slices.Reverse(order)
		return order
	}
	if p.Loader.release >= 239 && m.Main { // libc.so.6 first (elf/rtld.c)
		for _, o := range m.link.sorted {
			if o.Object.Soname == "libc.so.6" {
				order = append(order, o)
			}
		}
	}
	first := len(order)
	for _, o := range slices.Backward(m.link.sorted) { // which has no duplicates
		if !slices.Contains(order[:first], o) {
			order = append(order, o)
		}
	}
	return slices.DeleteFunc(order, func(o *Module) bool { return o.isLoader || o.link.bound })
}

// bind relocates the objects that m loaded, and ends with the first error. Functions
// are bound at their first call, unless LD_BIND_NOW is set or dlopen lacks RTLD_LAZY.
func (p glibcBinder) bind(m *Module, flags Flags) *Error {
	p.loader.link.bound = true
	lazy := p.Loader.env.get("LD_BIND_NOW") == ""
	if !m.Main {
		lazy = lazy && flags&Lazy != 0
	}
	for _, o := range p.relocationOrder(m) {
		if err := p.relocate(o, p.scopesOf(o, flags), lazy); err != nil {
			return err
		}
		o.link.bound = true
	}
	return nil
}

// relocate is _dl_relocate_object (elf/dl-reloc.c): it binds the references that are
// bound at load, and without lazy those to functions as well.
func (p glibcBinder) relocate(m *Module, scopes []*scope, lazy bool) *Error {
	held := m.Object.Symbols
	if held == nil {
		return nil
	}
	key, keyed := p.bindKey(m, scopes, lazy)
	var known, note *relocation
	if keyed {
		known, note = held.known(key), new(relocation)
	}
	if known == nil && m.symbols() == nil {
		return nil
	}
	if held.StaticTLS {
		if err := p.staticTLS(m, m); err != nil {
			return err
		}
	}
	if known != nil && known.repeat(p, scopes) {
		m.link.lazy = lazy && !held.BindNow
		return nil
	}
	s := m.symbols()
	var failed *Error
	one := func(r ref) bool {
		failed = p.reference(m, s, r, scopes, note)
		return failed == nil
	}
	if !s.each(s.Refs, one) {
		return failed
	}
	m.link.lazy = lazy && !s.BindNow
	if !m.link.lazy {
		s.each(s.Calls, one)
	}
	if failed == nil && keyed {
		held.remember(key, note)
	}
	return failed
}

// queryOf returns the look-up of a reference and its symbol in m; the look-up is nil
// for a symbol that is local to the object (RESOLVE_MAP, elf/dl-reloc.c).
func queryOf(m *Module, s *Symbols, r ref) (*query, record) {
	rec := s.record(r.symbol())
	if rec.local() {
		return nil, rec
	}
	name := s.name(rec)
	return &query{name: name, hash: gnuHash(name), version: s.version(rec), kind: r.kind(), from: m}, rec
}

// reference binds one reference (elf_machine_rela), and notes effects beyond the
// look-up.
func (p glibcBinder) reference(m *Module, s *Symbols, r ref, scopes []*scope, note *relocation) *Error {
	q, rec := queryOf(m, s, r)
	if q == nil {
		return nil
	}
	q.note = note
	to, def, err := p.resolve(q, rec, scopes)
	resolver := to != nil && def.typ() == elf.STT_GNU_IFUNC && to != m && def.bits&symUndef == 0
	if resolver && to.link.bound {
		note.noteReady(scopes, to)
	}
	switch {
	case err != nil:
		note.noteOther()
		if q.blind {
			return nil
		}
		return err
	case to == nil && (rec.bind() == elf.STB_WEAK || q.blind):
		return nil
	case to == nil:
		return q.undefined(p.Process)
	case resolver && !to.link.bound:
		note.noteOther()
		if to.Main {
			return &Error{
				Name: string(q.name), By: m, Kind: InnerError,
				Message: fmt.Sprintf("%s: IFUNC symbol '%s' referenced in '%s' is defined in the executable and creates an unsatisfiable circular dependency.", p.argv0, q.name, m.Path),
			}
		}
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: Relink `%s' with `%s' for IFUNC symbol `%s'", p.argv0, m.Path, to.Path, q.name))
	case q.kind == refCopy && def.size > rec.size:
		note.noteOther()
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: Symbol `%s' has different size in shared object, consider re-linking", p.argv0, q.name))
	case q.kind == refTLS && p.dlopening:
		note.noteOther()
		return p.staticTLS(m, to)
	}
	return nil
}

// tlsSurplus is the size in bytes of the room in the static TLS block for objects that
// are opened later (TLS_STATIC_SURPLUS; since 2.32 GLRO(dl_tls_static_surplus)).
// Rounding may add up to tlsSlack. tlsOptional of it is the default of
// glibc.rtld.optional_static_tls (_dl_tls_static_surplus_init).
const (
	tlsSurplus  = 1664
	tlsOptional = 512
	tlsSlack    = 64 + 64
)

// surplus returns the room with the tunable, which exists from 2.32 on.
func (p glibcBinder) surplus() uint64 {
	text := p.Loader.env.tunable("glibc.rtld.optional_static_tls")
	if n, err := strconv.ParseUint(text, 0, 32); err == nil && p.Loader.release >= 232 {
		return tlsSurplus - tlsOptional + n
	}
	return tlsSurplus
}

// staticTLS takes room in the static TLS block for the opened object to, which m refers
// to. Since the rest of the room depends on rounded sizes, it fails only when the room
// cannot suffice.
func (p glibcBinder) staticTLS(m, to *Module) *Error {
	if !p.dlopening || to.link.staticTLS || to.link.bound && to.loader != nil || slices.Contains(p.Program().link.group.list, to) {
		return nil
	}
	p.tlsUsed += to.Object.TLSSize
	if p.tlsUsed > p.surplus()+tlsSlack {
		return &Error{Name: to.Path, Subject: to.Path, Message: "cannot allocate memory in static TLS block", By: m, Kind: TLSError}
	}
	to.link.staticTLS = true
	return nil
}

// Unknown returns the objects of the process whose symbols are not known. They count
// as defining any name that they may define, and their references are not checked.
func (p *Process) Unknown() []*Module {
	var list []*Module
	for _, m := range p.Objects {
		if s := m.Object.Symbols; m.File != nil && (s == nil || s.Partial) {
			list = append(list, m)
		}
	}
	return list
}

// Unresolved returns the undefined references of m, or of all objects if m is nil,
// in the order of relocation, each once, as ldd -r prints them.
//
// It leaves out a reference that an object without known symbols may define.
func (p *Process) Unresolved(m *Module) []Unresolved {
	if m == nil {
		var all []Unresolved
		for _, o := range p.binder.order() {
			all = append(all, p.Unresolved(o)...)
		}
		return all
	}
	var list []Unresolved
	index := map[string]int{}
	p.eachReference(m, func(q *query, rec record, lazy bool, find func() (*Module, record, *Error)) {
		to, _, err := find()
		if to != nil || q.blind || rec.bind() == elf.STB_WEAK && err == nil {
			return
		}
		lazy = lazy && !m.Object.Symbols.BindNow
		u := Unresolved{Module: m, Symbol: string(q.name), Lazy: lazy}
		if q.version != nil {
			u.Version, u.File = q.version.Name, q.version.File
		}
		if err == nil {
			err = q.undefined(p)
		}
		u.text, u.fatal = err.Message, err.Kind == InnerError
		if i, ok := index[u.text]; ok {
			list[i].Lazy = list[i].Lazy && lazy
			return
		}
		index[u.text] = len(list)
		list = append(list, u)
	})
	return list
}

// Complete reports whether [Process.Unresolved] of m is empty. It remembers the
// objects and scopes for which it is.
func (p *Process) Complete(m *Module) bool {
	held, keyed := m.Object.Symbols, false
	if held == nil || m.isLoader {
		return true
	}
	var key bindKey
	if g, ok := p.binder.(glibcBinder); ok {
		key, keyed = g.bindKey(m, g.scopesOf(m, 0), false)
		key[0] ^= 1 // not the key of a relocation
	}
	if keyed && held.known(key) != nil {
		return true
	}
	if len(p.Unresolved(m)) > 0 {
		return false
	}
	if keyed && p.work().Err() == nil {
		held.remember(key, new(relocation))
	}
	return true
}

// eachReference calls f with each reference of m that is looked up in scopes, in the
// order of relocation. q is the look-up, rec its symbol in m, and find does it; lazy is
// set for references in DT_JMPREL.
func (p *Process) eachReference(m *Module, f func(q *query, rec record, lazy bool, find func() (*Module, record, *Error))) {
	s := m.symbols()
	if s == nil || m.isLoader {
		return
	}
	visit := func(refs []byte, lazy bool) {
		s.each(refs, func(r ref) bool {
			if q, rec := queryOf(m, s, r); q != nil {
				f(q, rec, lazy, func() (*Module, record, *Error) { return p.binder.lookup(m, q, rec) })
			}
			return true
		})
	}
	if p.binder.callsFirst() {
		visit(s.Calls, true)
		visit(s.Refs, false)
		return
	}
	visit(s.Refs, false)
	visit(s.Calls, true)
}

// callsFirst is false: DT_JMPREL comes last (ELF_DYNAMIC_RELOCATE).
func (glibcBinder) callsFirst() bool { return false }

// lookup looks q up in m's scopes.
func (p glibcBinder) lookup(m *Module, q *query, rec record) (*Module, record, *Error) {
	return p.resolve(q, rec, p.scopesOf(m, 0))
}

// order returns the program's objects, dependencies first, then those of the opened
// objects.
func (p glibcBinder) order() []*Module {
	var list []*Module
	add := func(m *Module) {
		for _, o := range slices.Backward(m.link.sorted) {
			if !slices.Contains(list, o) {
				list = append(list, o)
			}
		}
	}
	add(p.Program())
	for _, m := range p.Objects {
		add(m)
	}
	return list
}

// Bindings returns the bindings of all references to symbol, as LD_DEBUG=bindings
// shows them, in the order of relocation. They include those that are bound at the
// first call.
func (p *Process) Bindings(symbol string) []Binding {
	var list []Binding
	if p.trace {
		p.unique = nil // no object was bound
	}
	for _, m := range p.binder.order() {
		s := m.symbols()
		p.eachReference(m, func(q *query, rec record, lazy bool, find func() (*Module, record, *Error)) {
			if string(q.name) != symbol {
				return
			}
			to, _, err := find()
			if to == nil || err != nil {
				return
			}
			b := Binding{From: m, Symbol: symbol, To: to, Protected: rec.vis() == elf.STV_PROTECTED, Lazy: lazy && (!s.BindNow || p.Loader.Libc.Musl)}
			if q.version != nil {
				b.Version = q.version.Name
			}
			if i := slices.IndexFunc(list, func(o Binding) bool { o.Lazy = b.Lazy; return o == b }); i >= 0 {
				list[i].Lazy = list[i].Lazy && b.Lazy
				return
			}
			list = append(list, b)
		})
	}
	return list
}

// Sym is dlsym: it returns the object that defines name in the group of handle, or in
// the program's scopes if handle is nil.
//
// It returns neither an object nor an error if the result depends on an object whose
// symbols are not known.
func (p *Process) Sym(handle *Module, name string) (*Module, error) {
	return p.dlsym(handle, name, nil)
}

// VSym is dlvsym.
func (p *Process) VSym(handle *Module, name, version string) (*Module, error) {
	return p.dlsym(handle, name, &SymbolVersion{Name: version, Hidden: true})
}

func (p *Process) dlsym(handle *Module, name string, version *SymbolVersion) (*Module, error) {
	from := handle
	if from == nil {
		from = p.Program()
	}
	q := newQuery(from, name)
	q.version, q.newest = version, version == nil
	return p.binder.sym(handle, q)
}

// sym is dlsym, and dlvsym if q has a version.
func (p glibcBinder) sym(handle *Module, q *query) (*Module, error) {
	scopes := p.scopesOf(q.from, 0)
	if handle != nil {
		scopes = []*scope{&handle.link.group}
	}
	to, _, err := p.find(q, scopes)
	switch {
	case err != nil:
		return nil, err
	case to == nil && q.blind:
		return nil, nil
	case to == nil:
		return nil, q.undefined(p.Process)
	}
	return to, nil
}

// Call returns the object that defines the function name when m first calls it. An
// error ends the program with status 127 and the message in [Process.Stderr].
func (p *Process) Call(m *Module, name string) (*Module, error) {
	var to *Module
	var failed *Error
	p.eachReference(m, func(q *query, rec record, lazy bool, find func() (*Module, record, *Error)) {
		if !lazy || string(q.name) != name || to != nil || failed != nil {
			return
		}
		if to, _, failed = find(); to == nil && failed == nil && !q.blind && rec.bind() != elf.STB_WEAK {
			failed = q.undefined(p)
		}
	})
	if failed != nil {
		p.fatal = failed
		return nil, failed
	}
	return to, nil
}
