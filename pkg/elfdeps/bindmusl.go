package elfdeps

import (
	"debug/elf"
	"slices"
	"strings"
)

// The functions named in this file are those of musl's ldso/dynlink.c.

// relocationOrder returns the objects in the order of reloc_all: as they were loaded, and
// the program last if m is the program.
func (p muslBinder) relocationOrder(m *Module) []*Module {
	var order []*Module
	for _, o := range p.Objects {
		if !o.Main && !o.isLoader {
			order = append(order, o)
		}
	}
	if m.Main {
		order = append(order, m)
	}
	return order
}

// callsFirst is true: DT_JMPREL comes first (reloc_all).
func (muslBinder) callsFirst() bool { return true }

func (p muslBinder) order() []*Module { return p.relocationOrder(p.Program()) }

// bind relocates the objects that are new: calls first, and functions at once
// unless dlopen has RTLD_LAZY. At start it keeps all errors and returns the first;
// dlopen ends with the first.
func (p muslBinder) bind(m *Module, flags Flags) *Error {
	main := p.Program()
	if m.Main {
		main.link.group.list = slices.Clone(p.Objects)
	}
	p.muslGlobal = main.link.group.list
	if !m.Main { // add_syms: while relocation lasts
		p.muslGlobal = slices.Clone(p.muslGlobal)
		for _, o := range m.link.group.list {
			if !slices.Contains(p.muslGlobal, o) {
				p.muslGlobal = append(p.muslGlobal, o)
			}
		}
	}
	var first *Error
	for _, o := range p.relocationOrder(m) {
		s := o.symbols()
		if s == nil || o.link.bound {
			continue
		}
		o.link.bound = true
		one := func(r ref, lazy bool) bool {
			q, rec := queryOfMusl(o, s, r)
			if q == nil {
				return true
			}
			to, _, _ := p.lookup(o, q, rec)
			if to != nil || q.blind || rec.bits&symUndef != 0 && rec.bind() == elf.STB_WEAK {
				return true
			}
			if (lazy || r.kind() == refGOT) && flags&Lazy != 0 && !s.BindNow {
				return true
			}
			err := &Error{Name: string(q.name), By: o, Message: "Error relocating " + o.String() + ": " + string(q.name) + ": symbol not found", Kind: SymbolError}
			if m.Main {
				p.Unbound = append(p.Unbound, err)
			}
			if first == nil {
				first = err
			}
			return m.Main
		}
		ok := s.each(s.Calls, func(r ref) bool { return one(r, true) }) && s.each(s.Refs, func(r ref) bool { return one(r, false) })
		if !ok {
			return first
		}
	}
	p.muslGlobal = nil
	return first
}

// opened adds m's group to the global list with RTLD_GLOBAL.
func (p muslBinder) opened(m *Module, flags Flags, _ *state) {
	p.muslGlobal = nil
	if flags&Global == 0 {
		return
	}
	main := p.Program()
	for _, o := range m.link.group.list {
		if !slices.Contains(main.link.group.list, o) {
			main.link.group.list = append(main.link.group.list, o)
		}
	}
}

// queryOfMusl returns the look-up of a reference and its symbol in m; the look-up
// is nil for a local symbol. Visibility does not matter.
func queryOfMusl(m *Module, s *Symbols, r ref) (*query, record) {
	rec := s.record(r.symbol())
	if rec.bind() == elf.STB_LOCAL {
		return nil, rec
	}
	name := s.name(rec)
	return &query{name: name, hash: gnuHash(name), kind: r.kind(), from: m}, rec
}

// lookup is find_sym with the additions of do_relocs. There is one list for all
// objects, and DT_SYMBOLIC is ignored. From 1.2.4 on the loader itself defines the
// LFS64 names.
func (p muslBinder) lookup(m *Module, q *query, rec record) (*Module, record, *Error) {
	list := p.muslGlobal
	if list == nil {
		list = p.scope(m)
	}
	if q.kind == refCopy && len(list) > 0 {
		list = list[1:]
	}
	s := m.symbols()
	needDef := q.kind == refPLT && s != nil && rec.typ() != elf.STT_TLS
	if to, def := p.find(q, list, needDef); to != nil {
		return to, def, nil
	}
	if base := lfs64(string(q.name)); base != "" && p.Loader.release >= 10204 {
		to, def := p.find(newQuery(m, base), []*Module{p.loader}, true)
		return to, def, nil
	}
	return nil, record{}, nil
}

// scope returns the global list and the group that m was opened with.
func (p muslBinder) scope(m *Module) []*Module {
	main := p.Program()
	p.work().spend(len(p.Objects))
	list := slices.Clone(main.link.group.list)
	if list == nil {
		list = slices.Clone(p.Objects) // in a tracing process
	}
	for _, o := range append([]*Module{m}, m.root().link.group.list...) {
		if !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return list
}

// find is find_sym2: it returns the first definition in list. It ignores
// versions, except that those that are not the default ones are not visible.
func (p muslBinder) find(q *query, list []*Module, needDef bool) (*Module, record) {
	const types = definingTypes &^ (1 << elf.STT_GNU_IFUNC)
	for i, m := range list {
		if i%16 == 0 && !p.work().spend(1) {
			q.blind = true
			return nil, record{}
		}
		s := m.symbols()
		if s == nil {
			q.blind = q.blind || m.mayDefine(q.name)
			continue
		}
		found := -1
		s.candidates(q.name, q.hash, func(i int, r record) bool {
			if r.version&0x8000 != 0 {
				return true
			}
			undef := r.bits&symUndef != 0 && (needDef || r.typ() == elf.STT_TLS)
			if !undef && r.bits&symAbs0 == 0 && types&(1<<r.typ()) != 0 && (r.bind() == elf.STB_GLOBAL || r.bind() == elf.STB_WEAK || r.bind() == stbUnique) {
				found = i
			}
			return false
		})
		if found >= 0 {
			return m, s.record(found)
		}
	}
	return nil, record{}
}

// sym is do_dlsym.
func (p muslBinder) sym(handle *Module, q *query) (*Module, error) {
	list := p.scope(p.Program())
	if handle != nil && !handle.Main {
		list = handle.link.group.list
	}
	to, _ := p.find(q, list, false)
	if to != nil || q.blind {
		return to, nil
	}
	return nil, &Error{Name: string(q.name), Message: "Symbol not found: " + string(q.name), Kind: SymbolError}
}

const lfs64Names = " aio_cancel aio_error aio_fsync aio_read aio_return aio_suspend aio_write alphasort creat fallocate" +
	" fgetpos fopen freopen fseeko fsetpos fstat fstatat fstatfs fstatvfs ftello ftruncate ftw" +
	" getdents getrlimit glob globfree lio_listio lockf lseek lstat mkostemp mkostemps mkstemp" +
	" mkstemps mmap nftw open openat posix_fadvise posix_fallocate pread preadv prlimit pwrite" +
	" pwritev readdir scandir sendfile setrlimit stat statfs statvfs tmpfile truncate versionsort" +
	" __fxstat __fxstatat __lxstat __xstat "

// lfs64 returns the name under which musl has the function that glibc's headers call
// name, or "" for a name without the suffix 64 (get_lfs64).
func lfs64(name string) string {
	if name == "readdir64_r" {
		return "readdir_r"
	}
	base, ok := strings.CutSuffix(name, "64")
	if !ok || len(name) > 18 || !strings.Contains(lfs64Names, " "+base+" ") {
		return ""
	}
	return base
}
