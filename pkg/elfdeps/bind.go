package elfdeps

import (
	"debug/elf"
	"fmt"
	"slices"
)

// linkage is what a process knows of how an object's symbols are bound.
type linkage struct {
	// group is what the object and its needs are, breadth first
	// (l_searchlist), for the program and for what was opened; the program's is
	// the global scope and grows with RTLD_GLOBAL.
	group scope
	// scopes are where its references are looked up, in order (l_scope); made
	// when it is bound first.
	scopes []*scope
	// sorted is the order of its dependencies (l_initfini): itself first.
	sorted    []*Module
	filtees   []*Module // what its DT_FILTER and DT_AUXILIARY led to
	global    bool      // is in the global scope
	bound     bool      // relocated
	lazy      bool      // its functions are bound when they are called
	staticTLS bool      // has room in the static TLS block
}

// scope is a list of objects that are searched in order (r_scope_elem).
type scope struct{ list []*Module }

// Binding says which object a reference got its symbol from.
type Binding struct {
	From    *Module
	Symbol  string
	Version string // of the reference, empty without one
	To      *Module
	// Protected is set when the reference is to a protected symbol of the
	// object's own.
	Protected bool
	// Lazy is set when it is bound at the first call only.
	Lazy bool
}

// Unresolved is a reference that nothing defines.
type Unresolved struct {
	Module  *Module
	Symbol  string
	Version string // that is asked for, empty without one
	File    string // of which the version is asked
	// Lazy is set for a function that is missed only when it is called, unless
	// all is bound at load (LD_BIND_NOW, RTLD_NOW).
	Lazy bool

	text  string
	fatal bool
}

// String is the line that ldd -r prints; with a failed assertion it ends.
func (u Unresolved) String() string {
	if u.fatal {
		return u.text
	}
	return u.text + "\t(" + u.Module.String() + ")"
}

// Error is the loader's text as dlerror gives it, less the path.
func (u Unresolved) Error() string { return u.text }

// query is one look-up (_dl_lookup_symbol_x).
type query struct {
	name    []byte
	hash    uint32
	version *SymbolVersion
	kind    refKind
	newest  bool // dlsym: the newest version, not the oldest
	from    *Module
	blind   bool // an object was passed over whose symbols are not known
	note    *relocation
}

func newQuery(from *Module, name string) *query {
	return &query{name: []byte(name), hash: gnuHash([]byte(name)), kind: refData, from: from}
}

// find searches scopes for a definition (do_lookup_x). It returns nothing when
// there is none, and an error when the loader gives up.
func (p *Process) find(q *query, scopes []*scope) (*Module, record, *Error) {
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

// mayDefine reports whether an object whose symbols are not known may define one.
func (m *Module) mayDefine(name []byte) bool {
	return m.File == nil || m.File.MayDefine == nil || m.File.MayDefine(name)
}

// resolve is find, and keeps a reference to a protected symbol of q's own object
// there once there is any definition (the end of _dl_lookup_symbol_x, L56).
func (p *Process) resolve(q *query, rec record, scopes []*scope) (*Module, record, *Error) {
	to, def, err := p.find(q, scopes)
	if to != nil && rec.vis() == elf.STV_PROTECTED {
		return q.from, rec, nil
	}
	return to, def, err
}

const stbUnique = elf.SymBind(10) // STB_GNU_UNIQUE

// useUnique gives the first definition of a unique symbol that was ever used, m's
// where none was (do_lookup_unique).
func (p *Process) useUnique(name string, m *Module, r record) *definition {
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

// answers reports whether an object is known by name (_dl_name_match_p).
func (m *Module) answers(name string) bool { return m.Path == name || slices.Contains(m.Names, name) }

// match is the search of one object with check_match (elf/dl-lookup.c, L52): the
// record that q gets there, or -1.
func (p *Process) match(q *query, m *Module, s *Symbols) (int, *Error) {
	found, only, versions := -1, -1, 0
	var err *Error
	s.candidates(q.name, q.hash, func(i int, r record) bool {
		switch {
		case definingTypes&(1<<r.typ()) == 0:
			return true
		case r.bits&symUndef != 0 && !q.kind.address():
			return true // the address that a program gives a function is none to call
		case q.version != nil:
			if s.Versions == nil { // L47
				q.note.noteOther()
				if p.Loader.release < 241 && q.version.File != "" && m.answers(q.version.File) {
					err = p.assertion(string(q.name), q.from, "dl-lookup.c", "check_match", "version->filename == NULL || ! _dl_name_match_p (version->filename, map)")
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

// linkError is what glibc up to 2.29 says when the file that DT_VERNEED names
// lacks the symbol.
func (p *Process) linkError(q *query) *Error {
	comma := ""
	if p.Loader.release <= 226 {
		comma = ","
	}
	return &Error{
		Name: string(q.name), Subject: p.file(q.from), By: q.from, Kind: RelocationError, Version: q.version.Name, File: q.version.File,
		Message: fmt.Sprintf("symbol %s%s version %s not defined in file %s with link time reference", q.name, comma, q.version.Name, q.version.File),
	}
}

// undefined is the error of a strong reference that nothing defines (L51, L53).
func (p *Process) undefined(q *query) *Error {
	e := &Error{Name: string(q.name), Subject: p.file(q.from), Message: "undefined symbol: " + string(q.name), By: q.from, Kind: SymbolError}
	if q.version != nil {
		e.Message += ", version " + q.version.Name
		e.Version, e.File = q.version.Name, q.version.File
	}
	return e
}

// root is what an object was loaded for: the program, or what was opened.
func (m *Module) root() *Module {
	if m.top != nil {
		return m.top
	}
	return m
}

// scopesOf is l_scope of an object: itself if it is symbolic, the global scope,
// then the group of what it was loaded for (_dl_new_object, L54–L56).
func (p *Process) scopesOf(m *Module, flags Flags) []*scope {
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

// setGroup keeps what m and its needs are, and the order of their dependencies
// (the end of _dl_map_object_deps).
func (p *Process) setGroup(m *Module, list []*Module) {
	if m.link.group.list != nil {
		return
	}
	m.link.group.list = slices.Clone(list)
	p.work().spend(len(list))
	for _, o := range list {
		if o != m && o.link.sorted == nil && o.link.group.list == nil && (len(o.Deps) > 0 || len(o.link.filtees) > 0) {
			o.link.sorted = append([]*Module{o}, slices.DeleteFunc(slices.Concat(o.Deps, o.link.filtees), func(d *Module) bool { return d == nil })...)
		}
	}
	order := []*Module{m}
	for _, o := range list {
		if o != m {
			order = append(order, o)
		}
	}
	switch {
	case p.Loader.release >= 235:
		// 2.35 as Ubuntu has it leaves the first of a circle where it comes to stand
		// (bug 28937, mended in 2.37 and in Debian's 2.36).
		order = sortDepthFirst(order, p.Loader.release >= 236 && m.Object.Soname != "libc.so.6")
	default:
		sortByMoving(order[1:], p.work())
	}
	m.link.sorted = order
}

// sortDepthFirst is _dl_sort_maps_dfs (elf/dl-sort-maps.c), from glibc 2.35 on:
// the dependencies of an object come behind it.
func sortDepthFirst(list []*Module, keepFirst bool) []*Module {
	visited := map[*Module]bool{}
	var post []*Module
	var visit func(m *Module)
	visit = func(m *Module) {
		if visited[m] {
			return
		}
		visited[m] = true
		for _, d := range m.link.sorted {
			if !visited[d] && !d.Main {
				visit(d)
			}
		}
		post = append(post, m)
	}
	for _, m := range slices.Backward(list) {
		visit(m)
		if len(post) >= len(list) {
			break
		}
	}
	slices.Reverse(post)
	post = post[max(0, len(post)-len(list)):]
	if i := slices.Index(post, list[0]); keepFirst && i > 0 {
		post = slices.Insert(slices.Delete(post, i, i+1), 0, list[0])
	}
	return post
}

// sortByMoving is _dl_sort_maps_original: an object moves behind the last that
// depends on it.
func sortByMoving(maps []*Module, work *Work) {
	n := len(maps)
	if n <= 1 {
		return
	}
	seen := make([]int, n)
	for i := 0; i < n; {
		seen[i]++
		this := maps[i]
		k := n - 1
		for k > i && !slices.Contains(maps[k].link.sorted, this) {
			work.spend(cells(len(maps[k].link.sorted)))
			k--
		}
		if !work.spend(cells(n)) {
			return
		}
		if k == i {
			i++
			clear(seen[min(i, n):])
			continue
		}
		copy(maps[i:], maps[i+1:k+1])
		maps[k] = this
		if seen[i+1] > n-i {
			i++
			clear(seen[i:])
			continue
		}
		had := seen[i]
		copy(seen[i:], seen[i+1:k+1])
		seen[k] = had
	}
}

// relocationOrder are the objects that opening m, or starting it, binds, in
// order: dependencies first.
func (p *Process) relocationOrder(m *Module) []*Module {
	var order []*Module
	if p.Loader.release <= 231 && !m.Main {
		// What is in the loader's list from m on, sorted by itself (dl_open_worker).
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
	for _, o := range slices.Backward(m.link.sorted) { // each stands there once
		if !slices.Contains(order[:first], o) {
			order = append(order, o)
		}
	}
	return slices.DeleteFunc(order, func(o *Module) bool { return o.isLoader || o.link.bound })
}

// bind relocates what m brought, m being the program or what was opened. The
// error is the first that the loader ends with.
func (p *Process) bindGlibc(m *Module, flags Flags) *Error {
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

// relocate is _dl_relocate_object: the references that are bound at load, and
// without lazy those to functions as well.
func (p *Process) relocate(m *Module, scopes []*scope, lazy bool) *Error {
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

// queryOf is the look-up of a reference, nil for one that stays in its object
// (resolve_map).
func queryOf(m *Module, s *Symbols, r ref) (*query, record) {
	rec := s.record(r.symbol())
	if rec.local() {
		return nil, rec
	}
	name := s.name(rec)
	return &query{name: name, hash: gnuHash(name), version: s.version(rec), kind: r.kind(), from: m}, rec
}

// reference binds one reference (elf_machine_rela), and notes what of that is more
// than a look-up.
func (p *Process) reference(m *Module, s *Symbols, r ref, scopes []*scope, note *relocation) *Error {
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
		return nil // L50; or it may be in what could not be looked at
	case to == nil:
		return p.undefined(q)
	case resolver && !to.link.bound: // L57
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

// tlsSurplus is the room in the static TLS block for objects that are opened
// later (TLS_STATIC_SURPLUS; since 2.32 GLRO(dl_tls_static_surplus)), and
// tlsSlack what rounding may add to it.
const (
	tlsSurplus = 1664
	tlsSlack   = 64 + 64
)

// staticTLS gives an opened object room in the static TLS block, for a reference
// of m. It fails only when there cannot be room (L58): how much is left depends
// on sizes that are rounded.
func (p *Process) staticTLS(m, to *Module) *Error {
	if !p.dlopening || to.link.staticTLS || to.link.bound && to.loader != nil || slices.Contains(p.Program().link.group.list, to) {
		return nil
	}
	p.tlsUsed += to.Object.TLSSize
	if p.tlsUsed > tlsSurplus+tlsSlack {
		return &Error{Name: to.Path, Subject: to.Path, Message: "cannot allocate memory in static TLS block", By: m, Kind: SymbolError}
	}
	to.link.staticTLS = true
	return nil
}

// Unknown are the objects of the process whose symbols are not known: what they
// define is counted as possible, what they refer to is not checked.
func (p *Process) Unknown() []*Module {
	var list []*Module
	for _, m := range p.Objects {
		if s := m.Object.Symbols; m.File != nil && (s == nil || s.Partial) {
			list = append(list, m)
		}
	}
	return list
}

// Unresolved are the references of m that nothing in its scope defines, in the
// order in which relocation comes to them, each once: what ldd -r prints of m.
// With nil for m they are those of all objects, in the order of relocation.
//
// References to what an object defines whose symbols are not known are not among
// them.
func (p *Process) Unresolved(m *Module) []Unresolved {
	if m == nil {
		var all []Unresolved
		for _, o := range p.Loader.model.order(p) {
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
			err = p.undefined(q)
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

// Complete reports whether all that m refers to is found, or may be: whether
// [Process.Unresolved] would give nothing. It is remembered where that is so.
func (p *Process) Complete(m *Module) bool {
	held, keyed := m.Object.Symbols, false
	if held == nil || m.isLoader {
		return true
	}
	var key bindKey
	if !p.Loader.Libc.Musl {
		key, keyed = p.bindKey(m, p.scopesOf(m, 0), false)
		key[0] ^= 1 // it is no relocation
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

// eachReference calls f with each reference of m to a symbol of another object, in
// the order of relocation. q is its look-up, rec its symbol in m, and find looks it
// up; lazy is set for those in DT_JMPREL.
func (p *Process) eachReference(m *Module, f func(q *query, rec record, lazy bool, find func() (*Module, record, *Error))) {
	s := m.symbols()
	if s == nil || m.isLoader {
		return
	}
	visit := func(refs []byte, lazy bool) {
		s.each(refs, func(r ref) bool {
			if q, rec := queryOf(m, s, r); q != nil {
				f(q, rec, lazy, func() (*Module, record, *Error) { return p.Loader.model.find(p, m, q, rec) })
			}
			return true
		})
	}
	if p.Loader.model.callsFirst {
		visit(s.Calls, true)
		visit(s.Refs, false)
		return
	}
	visit(s.Refs, false)
	visit(s.Calls, true)
}

// findGlibc looks q up in m's scopes.
func (p *Process) findGlibc(m *Module, q *query, rec record) (*Module, record, *Error) {
	return p.resolve(q, rec, p.scopesOf(m, 0))
}

// orderGlibc returns the group of the program, then those of the opened objects.
func (p *Process) orderGlibc() []*Module {
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

// Bindings are the references to a symbol and what each got, as LD_DEBUG=bindings
// tells, in the order of relocation; those that are bound at the first call are
// among them.
func (p *Process) Bindings(symbol string) []Binding {
	var list []Binding
	if p.trace {
		p.unique = nil // nothing was bound yet
	}
	for _, m := range p.Loader.model.order(p) {
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

// Sym is dlsym: the object that name is found in, by way of what handle and its
// needs are, or of all that the program sees when handle is nil (L52).
//
// Without an object and an error it could not be decided, because there are
// objects whose symbols are not known.
func (p *Process) Sym(handle *Module, name string) (*Module, error) { return p.sym(handle, name, nil) }

// VSym is dlvsym.
func (p *Process) VSym(handle *Module, name, version string) (*Module, error) {
	return p.sym(handle, name, &SymbolVersion{Name: version, Hidden: true})
}

func (p *Process) sym(handle *Module, name string, version *SymbolVersion) (*Module, error) {
	from := handle
	if from == nil {
		from = p.Program()
	}
	q := newQuery(from, name)
	q.version, q.newest = version, version == nil
	return p.Loader.model.sym(p, handle, q)
}

// symGlibc is dlsym or dlvsym: it searches the group of handle.
func (p *Process) symGlibc(handle *Module, q *query) (*Module, error) {
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
		return nil, p.undefined(q)
	}
	return to, nil
}

// Call is what happens when m calls a function for the first time: the object
// that it gets it from. The error ends the program with status 127, and its
// [Process.Stderr] tells it (L50).
func (p *Process) Call(m *Module, name string) (*Module, error) {
	var to *Module
	var failed *Error
	p.eachReference(m, func(q *query, rec record, lazy bool, find func() (*Module, record, *Error)) {
		if !lazy || string(q.name) != name || to != nil || failed != nil {
			return
		}
		if to, _, failed = find(); to == nil && failed == nil && !q.blind && rec.bind() != elf.STB_WEAK {
			failed = p.undefined(q)
		}
	})
	if failed != nil {
		p.fatal = failed
		return nil, failed
	}
	return to, nil
}
