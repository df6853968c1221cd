package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Limits on the memory that the symbols of a hostile file take.
const (
	maxSymbols    = 1 << 21   // libtorch_cpu.so, the largest known, has 0.2 million
	maxRelocs     = 512 << 20 // bytes of one table
	relocStep     = 1 << 20   // bytes of a table that are read together
	maxHashedTail = 64 << 10  // bytes in which the last chain of DT_GNU_HASH must end
	maxNamed      = 256 << 20 // bytes of the names of all symbols, which may share them
)

// Symbols has the parts of one object that decide how symbols are bound: its dynamic
// symbols, their versions, and the symbols that its relocations refer to, at load or at
// the first call.
//
// The tables are bytes, since a machine with GPU libraries has millions of symbols; the
// methods read them. Symbols that were decoded, or returned by Pack, hold the tables
// compressed: of the fields only the flags are set.
type Symbols struct {
	// Names is DT_STRTAB.
	Names []byte `json:",omitempty"`
	// Table has a record of [symbolSize] bytes for each entry of .dynsym except the
	// first, which is empty.
	Table []byte `json:",omitempty"`
	// First is the lowest .dynsym index in the hash table: symbols below it are
	// references only.
	First int `json:",omitempty"`
	// Versions are the versions by version index (l_versions); nil when a loader
	// ignores the versions in this object.
	Versions []SymbolVersion `json:",omitempty"`
	// Refs are the references in DT_RELA or DT_REL, bound at load. Calls are those in
	// DT_JMPREL, bound at the first call unless all are bound at load. Each is packed
	// (see ref), in the order of the tables, without repetitions.
	Refs  []byte `json:",omitempty"`
	Calls []byte `json:",omitempty"`
	// Partial is set when some relocations could not be read, so that Refs and Calls may
	// lack references.
	Partial bool `json:",omitempty"`
	// SysV is set when the object has no DT_GNU_HASH.
	SysV bool `json:",omitempty"`
	// BindNow is set by DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW, Symbolic by DT_SYMBOLIC or
	// DF_SYMBOLIC.
	BindNow  bool `json:",omitempty"`
	Symbolic bool `json:",omitempty"`
	// StaticTLS is set when the object uses its own thread-local variables by the
	// initial-exec model.
	StaticTLS bool `json:",omitempty"`

	packed      *packed // the tables, which are nil then
	id          atomic.Uint64
	relocations atomic.Pointer[relocations]
	once        sync.Once
	heads, next []uint32 // hash table of definitions: record numbers + 1
}

// SymbolVersion is the version of one version index.
type SymbolVersion struct {
	// Name is empty for an index without a name, such as that of the base.
	Name string `json:",omitempty"`
	// File is the file that DT_VERNEED requires the version of; empty for a version of
	// DT_VERDEF.
	File   string `json:",omitempty"`
	Hidden bool   `json:",omitempty"` // vna_other has the hidden bit
}

// Symbol is one entry of an object's dynamic symbol table.
type Symbol struct {
	Name    string
	Version string // or empty
	File    string // that DT_VERNEED requires Version of, or empty
	Hidden  bool   // not the default version (name@version)
	Bind    elf.SymBind
	Type    elf.SymType
	Vis     elf.SymVis
	Defined bool // has a section
	// Exported is set when a loader can find the definition by its name.
	Exported bool
	Size     uint32 // of data, capped
}

// symbolSize is the size of a record: u32 offset of the name, u32 size of the data, u16
// version index with the hidden bit, u8 st_info, u8 of the bits below.
const symbolSize = 12

const (
	symVis     = 3      // st_other's visibility
	symUndef   = 1 << 2 // SHN_UNDEF
	symNoValue = 1 << 3 // st_value is 0, so that it defines nothing
	symAbs0    = 1 << 4 // st_value is 0 in SHN_ABS, which defines something for glibc only
)

// record is a decoded entry of Table.
type record struct {
	name, size uint32
	version    uint16
	info, bits uint8
}

func (r record) bind() elf.SymBind { return elf.ST_BIND(r.info) }
func (r record) typ() elf.SymType  { return elf.ST_TYPE(r.info) }
func (r record) vis() elf.SymVis   { return elf.SymVis(r.bits & symVis) }

// local reports whether a reference to r stays in its own object
// (dl_symbol_visibility_binds_local_p).
func (r record) local() bool {
	return r.bind() == elf.STB_LOCAL || r.vis() == elf.STV_HIDDEN || r.vis() == elf.STV_INTERNAL
}

// Len returns the number of symbols without the empty first one.
func (s *Symbols) Len() int { return s.unpack().count() }

func (s *Symbols) count() int {
	if s == nil {
		return 0
	}
	return len(s.Table) / symbolSize
}

// record returns the entry of .dynsym index i+1.
func (s *Symbols) record(i int) record {
	b := s.Table[i*symbolSize:]
	le := binary.LittleEndian
	return record{le.Uint32(b), le.Uint32(b[4:]), le.Uint16(b[8:]), b[10], b[11]}
}

func (r record) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, r.name)
	b = le.AppendUint32(b, r.size)
	b = le.AppendUint16(b, r.version)
	return append(b, r.info, r.bits)
}

// name returns the name of a record, a part of s.Names.
func (s *Symbols) name(r record) []byte {
	if uint64(r.name) >= uint64(len(s.Names)) {
		return nil
	}
	b := s.Names[r.name:]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// version returns the version of a record, or nil.
func (s *Symbols) version(r record) *SymbolVersion {
	i := int(r.version & 0x7fff)
	if i >= len(s.Versions) || s.Versions[i].Name == "" {
		return nil
	}
	return &s.Versions[i]
}

// At returns the symbol of .dynsym index i+1.
func (s *Symbols) At(i int) Symbol {
	s = s.unpack()
	r := s.record(i)
	sym := Symbol{
		Name: string(s.name(r)), Hidden: r.version&0x8000 != 0, Bind: r.bind(), Type: r.typ(), Vis: r.vis(),
		Defined: r.bits&symUndef == 0, Exported: s.exported(i, r), Size: r.size,
	}
	if v := s.version(r); v != nil {
		sym.Version, sym.File = v.Name, v.File
	}
	return sym
}

// exported reports whether a loader can find record i as a definition.
func (s *Symbols) exported(i int, r record) bool {
	return i+1 >= s.First && r.bits&(symUndef|symNoValue) == 0 && definingTypes&(1<<r.typ()) != 0 && !r.local()
}

// definingTypes are the types of symbols that can be definitions (ALLOWED_STT).
const definingTypes = 1<<elf.STT_NOTYPE | 1<<elf.STT_OBJECT | 1<<elf.STT_FUNC | 1<<elf.STT_COMMON | 1<<elf.STT_TLS | 1<<elf.STT_GNU_IFUNC

// refKind is the class of a relocation (elf_machine_type_class).
type refKind uint8

const (
	refData refKind = iota // an address
	refPLT                 // a call or a thread-local variable
	refCopy                // a variable that is copied into the program
	refTLS                 // initial-exec TLS
	refGOT                 // an address in the global offset table
)

// ref is a packed reference: .dynsym index × 8 + kind.
type ref uint32

func (r ref) symbol() int   { return int(r>>3) - 1 }
func (r ref) kind() refKind { return refKind(r & 7) }

// address reports whether the reference may be bound to the address that a program has
// for a function of a library (not ELF_RTYPE_CLASS_PLT).
func (k refKind) address() bool { return k == refData || k == refGOT }

// each calls f with the references packed in b until f returns false.
func (s *Symbols) each(b []byte, f func(ref) bool) bool {
	for ; len(b) >= 4; b = b[4:] {
		r := ref(binary.LittleEndian.Uint32(b))
		if i := r.symbol(); i < 0 || i >= s.count() {
			continue
		}
		if !f(r) {
			return false
		}
	}
	return true
}

// References calls f with each symbol that a relocation refers to, by its number in At,
// in the order of relocation, once for each kind of reference. lazy is set for those in
// DT_JMPREL.
func (s *Symbols) References(f func(i int, lazy bool)) {
	if s = s.unpack(); s == nil {
		return
	}
	s.each(s.Refs, func(r ref) bool { f(r.symbol(), false); return true })
	s.each(s.Calls, func(r ref) bool { f(r.symbol(), true); return true })
}

// Defines reports whether a loader finds a definition of name in any version.
func (s *Symbols) Defines(name string) bool {
	found := false
	if s = s.unpack(); s.count() > 0 {
		s.candidates([]byte(name), gnuHash([]byte(name)), func(i int, r record) bool {
			found = s.exported(i, r)
			return !found
		})
	}
	return found
}

// Defined returns the names of which a loader finds a definition in any version.
func (s *Symbols) Defined(names []string) []string {
	var list []string
	for u := s.unpack(); len(names) > 0; names = names[1:] {
		if u.Defines(names[0]) {
			list = append(list, names[0])
		}
	}
	return list
}

// Exported calls f with the names that begin with prefix and have a definition that a
// loader finds, in the order of the table, until f returns false.
func (s *Symbols) Exported(prefix string, f func(name string) bool) {
	s = s.unpack()
	for i := range s.count() {
		r := s.record(i)
		if name := s.name(r); bytes.HasPrefix(name, []byte(prefix)) && s.exported(i, r) && !f(string(name)) {
			return
		}
	}
}

// Equal reports whether s and o hold the same.
func (s *Symbols) Equal(o *Symbols) bool {
	if s, o = s.unpack(), o.unpack(); s == nil || o == nil {
		return s == o
	}
	return bytes.Equal(s.Names, o.Names) && bytes.Equal(s.Table, o.Table) && s.First == o.First &&
		slices.Equal(s.Versions, o.Versions) && (s.Versions == nil) == (o.Versions == nil) &&
		bytes.Equal(s.Refs, o.Refs) && bytes.Equal(s.Calls, o.Calls) && s.Partial == o.Partial && s.SysV == o.SysV &&
		s.BindNow == o.BindNow && s.Symbolic == o.Symbolic && s.StaticTLS == o.StaticTLS
}

// gnuHash returns the hash of DT_GNU_HASH.
func gnuHash(name []byte) uint32 {
	h := uint32(5381)
	for _, c := range name {
		h = h*33 + uint32(c)
	}
	return h
}

// maxSameHash limits how many symbols of one hash are compared in one object. Real
// objects have as many as a function has versions.
const maxSameHash = 256

// build makes the table for candidates: the first record of each hash value, and for
// each record the next one. Symbols of one name have the order of the object's own hash
// table: ascending in DT_GNU_HASH, descending in DT_HASH, whose chains GNU ld and lld
// link that way.
func (s *Symbols) build() {
	size := 16
	for size < s.count() {
		size *= 2
	}
	s.heads, s.next = make([]uint32, size), make([]uint32, s.count())
	for i := range s.count() {
		if !s.SysV {
			i = s.count() - 1 - i
		}
		r := s.record(i)
		name := s.name(r)
		if i+1 < s.First || r.bits&symNoValue != 0 || len(name) == 0 {
			continue
		}
		h := gnuHash(name) & uint32(size-1)
		s.heads[h], s.next[i] = uint32(i+1), s.heads[h]
	}
}

// candidates calls f with the records of a name that have a value, and their numbers,
// in the order of the object's hash table, until f returns false.
func (s *Symbols) candidates(name []byte, hash uint32, f func(i int, r record) bool) {
	s.once.Do(s.build)
	i := s.heads[hash&uint32(len(s.heads)-1)]
	for n := 0; i != 0 && n < maxSameHash; i, n = s.next[i-1], n+1 {
		r := s.record(int(i - 1))
		end := uint64(r.name) + uint64(len(name))
		if end > uint64(len(s.Names)) || end < uint64(len(s.Names)) && s.Names[end] != 0 {
			continue // as name, which also ends with the table
		}
		if string(s.Names[r.name:end]) == string(name) && !f(int(i-1), r) {
			return
		}
	}
}

// ReadSymbols reads an object as [Read] does, with its Symbols. They are nil, with a
// reason in Unread, if the symbol table could not be read.
func ReadSymbols(r io.Reader, size int64) (*Object, error) {
	rd := readers.Get().(*Reader)
	defer readers.Put(rd)
	o, err := rd.read(r, size, true)
	if err == nil && o.Symbols != nil && o.Symbols.Names != nil {
		o.Symbols.Names = bytes.Clone(o.Symbols.Names)
	}
	return o, err
}

// symbolReader gathers the symbols of the object that a reader reads.
type symbolReader struct {
	count  int // entries of .dynsym, 0 when unknown
	first  int // .dynsym index in the hash table
	failed bool

	syms, versym []byte
	refs, calls  []byte
	seen         []uint16 // by .dynsym index, a bit for each kind and table
	highest      int      // .dynsym index in a relocation
	partial      bool
	staticTLS    bool
	tables       [][2]uint64 // offset and size of the relocation tables
	guessed      bool        // guess read a part of them
	versions     map[uint16]SymbolVersion
	highVersion  uint16
}

// symbolEntry returns the size of an Elf_Sym.
func (p *reader) symbolEntry() uint64 {
	if p.wide {
		return 24
	}
	return 16
}

// wantSymbols adds wishes for the tables that bind symbols.
func (p *reader) wantSymbols() {
	s := &symbolReader{versions: map[uint16]SymbolVersion{}}
	p.sym = s
	if p.last(elf.DT_SYMTAB) == 0 {
		return
	}
	s.first = 1
	switch gnu, sysv := p.last(elf.DT_GNU_HASH), p.last(elf.DT_HASH); {
	case gnu != 0:
		p.wantGNUHash(gnu)
	case sysv != 0:
		p.wantPart(sysv, 0, 16, "symbol hash table", func(b []byte) {
			n := uint64(p.order.Uint32(b[4:]))
			if p.obj.Machine == elf.EM_S390 && p.wide || p.obj.Machine == 0x9026 { // 64-bit words
				n = p.order.Uint64(b[8:])
			}
			p.wantEntries(n)
		})
	default:
		s.first = maxSymbols // without a hash table a loader finds no definition
		p.wantEntries(1)
	}
	p.wantRelocations()
}

// wantPart adds a wish for the bytes [from, from+n) of the table at addr, which its
// segment must hold.
func (p *reader) wantPart(addr, from, n uint64, what string, do func([]byte)) {
	off, room, ok := p.offset(addr)
	if !ok || from > room || n > room-from {
		p.sym.failed = true
		p.unread(what, fmt.Errorf("is at address %#x, beyond what a PT_LOAD segment holds", addr))
		return
	}
	p.want(off+from, n, what, do)
}

// wantGNUHash follows DT_GNU_HASH to the index of its last symbol (_dl_setup_hash),
// because the length of .dynsym is recorded in no other place.
func (p *reader) wantGNUHash(addr uint64) {
	const what = "symbol hash table"
	p.wantPart(addr, 0, 16, what, func(b []byte) {
		buckets, first, bloom := uint64(p.order.Uint32(b)), uint64(p.order.Uint32(b[4:])), uint64(p.order.Uint32(b[8:]))
		word := uint64(4)
		if p.wide {
			word = 8
		}
		if buckets > maxSymbols || first > maxSymbols || bloom > maxSymbols {
			p.sym.failed = true
			p.unread(what, fmt.Errorf("is for more than the %d symbols that are read", maxSymbols))
			return
		}
		p.sym.first = int(first)
		start := 16 + bloom*word
		p.wantPart(addr, start, buckets*4, what, func(b []byte) {
			last := uint64(0)
			for ; len(b) >= 4; b = b[4:] {
				last = max(last, uint64(p.order.Uint32(b)))
			}
			if last < first || last == 0 {
				p.wantEntries(first)
				return
			}
			chain := start + buckets*4 + (last-first)*4
			_, room, _ := p.offset(addr)
			p.wantPart(addr, chain, min(maxHashedTail, max(chain, room)-chain)&^3, what, func(b []byte) {
				for n := last + 1; len(b) >= 4; n, b = n+1, b[4:] {
					if p.order.Uint32(b)&1 != 0 {
						p.wantEntries(n)
						return
					}
				}
				p.sym.failed = true
				p.unread(what, errors.New("has no end"))
			})
		})
	})
}

// wantEntries adds wishes for n entries of .dynsym and .gnu.version.
func (p *reader) wantEntries(n uint64) {
	s := p.sym
	if n > maxSymbols {
		s.failed = true
		p.unread("symbol table", fmt.Errorf("has more than the %d symbols that are read", maxSymbols))
		return
	}
	s.count = int(n)
	p.wantPart(p.last(elf.DT_SYMTAB), 0, n*p.symbolEntry(), "symbol table", func(b []byte) { s.syms = b })
	if addr := p.last(elf.DT_VERSYM); addr != 0 {
		p.wantPart(addr, 0, n*2, "symbol versions", func(b []byte) { s.versym = b })
	}
}

// wantRelocations adds wishes for DT_RELA, DT_REL and DT_JMPREL in pieces, since the
// largest are tens of megabytes long. Most entries are relative and are dropped.
func (p *reader) wantRelocations() {
	rela, rel := uint64(12), uint64(8)
	if p.wide {
		rela, rel = 24, 16
	}
	types, known := relocTypes[p.obj.Machine]
	if !known {
		p.sym.partial = true
		p.unread("relocations", fmt.Errorf("are of a machine whose types are not known: %s", p.obj.Machine))
		return
	}
	plt, pltSize := p.last(elf.DT_JMPREL), p.last(elf.DT_PLTRELSZ)
	for _, t := range []struct{ addr, size, entry uint64 }{
		{p.last(elf.DT_REL), p.last(elf.DT_RELSZ), rel},
		{p.last(elf.DT_RELA), p.last(elf.DT_RELASZ), rela},
	} {
		if t.addr != 0 && plt != 0 && t.addr+t.size == plt+pltSize {
			t.size -= min(t.size, pltSize) // the table ends with DT_JMPREL (_ELF_DYNAMIC_DO_RELOC)
		}
		p.wantRelocs(t.addr, t.size, t.entry, types, &p.sym.refs)
	}
	entry := rel
	if elf.DynTag(p.last(elf.DT_PLTREL)) == elf.DT_RELA {
		entry = rela
	}
	p.wantRelocs(plt, pltSize, entry, types, &p.sym.calls)
}

func (p *reader) wantRelocs(addr, size, entry uint64, types relocs, into *[]byte) {
	if addr == 0 || size < entry {
		return
	}
	const what = "relocations"
	off, room, ok := p.offset(addr)
	if size -= size % entry; !ok || size > room || size > maxRelocs {
		p.sym.partial = true
		p.unread(what, fmt.Errorf("are %d bytes at address %#x, more than a segment holds or than are read", size, addr))
		return
	}
	p.sym.tables = append(p.sym.tables, [2]uint64{off, size})
	if p.guess.covers(off, size, entry) {
		p.sym.guessed = true
		size = uint64(max(p.guess.begin, int64(off)) - int64(off)) // guess read the rest
	}
	step := relocStep / entry * entry
	for at := uint64(0); at < size; at += step {
		n := min(step, size-at)
		p.wantOr(off+at, n, what, func(b []byte) { p.relocsInto(p.sym, b, entry, types, into) }, func() { p.sym.partial = true })
	}
}

// relocsInto reads a run of relocations. It keeps a symbol once for each kind of
// reference.
func (p *reader) relocsInto(s *symbolReader, b []byte, entry uint64, types relocs, into *[]byte) {
	last := uint32(0)
	for ; uint64(len(b)) >= entry; b = b[entry:] {
		var sym, typ uint32
		if p.wide {
			info := p.order.Uint64(b[8:])
			sym, typ = uint32(info>>32), uint32(info)
		} else {
			info := p.order.Uint32(b[4:])
			sym, typ = info>>8, info&0xff
		}
		if sym == 0 {
			s.staticTLS = s.staticTLS || typ != 0 && (typ == types.tpoff || typ == types.tpoff2)
			continue
		}
		packed := sym<<3 | uint32(types.kind(typ))
		if packed == last {
			continue
		}
		last = packed
		if sym >= maxSymbols {
			s.partial = true
			p.unread("relocations", fmt.Errorf("name a symbol beyond the %d that are read", maxSymbols))
			return
		}
		if into == &s.calls && typ == types.jumpSlot {
			s.keep(packed, 8, &s.calls)
		} else {
			s.keep(packed, 0, &s.refs) // not lazy in DT_JMPREL either (elf_machine_lazy_rel)
		}
	}
}

// keep appends a reference unless seen has one of its symbol and kind. table is the
// place of the table's bits in seen.
func (s *symbolReader) keep(packed uint32, table uint, to *[]byte) {
	sym := int(packed >> 3)
	if sym >= len(s.seen) {
		s.seen = append(s.seen, make([]uint16, max(sym+1, 2*len(s.seen), s.count)-len(s.seen))...)
	}
	bit := uint16(1) << (uint(packed&7) + table)
	if s.seen[sym]&bit != 0 {
		return
	}
	s.seen[sym] |= bit
	s.highest = max(s.highest, sym)
	*to = binary.LittleEndian.AppendUint32(*to, packed)
}

func leUint32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// relocs are the relocation types of a machine that need more than the address of a
// symbol.
type relocs struct {
	jumpSlot, copy uint32
	globDat        uint32
	tpoff, tpoff2  uint32
	dtpmod, dtpoff uint32
	tlsdesc        uint32
}

func (t relocs) kind(typ uint32) refKind {
	switch typ {
	case 0:
		return refData
	case t.globDat:
		return refGOT
	case t.jumpSlot, t.dtpmod, t.dtpoff, t.tlsdesc:
		return refPLT
	case t.copy:
		return refCopy
	case t.tpoff, t.tpoff2:
		return refTLS
	}
	return refData
}

var relocTypes = map[elf.Machine]relocs{
	elf.EM_X86_64:  {jumpSlot: 7, copy: 5, globDat: 6, tpoff: 18, dtpmod: 16, dtpoff: 17, tlsdesc: 36},
	elf.EM_386:     {jumpSlot: 7, copy: 5, globDat: 6, tpoff: 14, tpoff2: 37, dtpmod: 35, dtpoff: 36, tlsdesc: 41},
	elf.EM_AARCH64: {jumpSlot: 1026, copy: 1024, globDat: 1025, tpoff: 1030, dtpmod: 1028, dtpoff: 1029, tlsdesc: 1031},
	elf.EM_ARM:     {jumpSlot: 22, copy: 20, globDat: 21, tpoff: 19, dtpmod: 17, dtpoff: 18, tlsdesc: 13},
	elf.EM_PPC64:   {jumpSlot: 21, copy: 19, globDat: 20, tpoff: 73, dtpmod: 68, dtpoff: 78},
	elf.EM_S390:    {jumpSlot: 11, copy: 9, globDat: 10, tpoff: 56, dtpmod: 54, dtpoff: 55},
	elf.EM_RISCV:   {jumpSlot: 5, copy: 4, tpoff: 11, dtpmod: 7, dtpoff: 9, tlsdesc: 12},
}

// runsWithin reports whether no string of a string table is longer than most bytes.
func runsWithin(table []byte, most int) bool {
	for len(table) > most {
		end := bytes.LastIndexByte(table[:most+1], 0)
		if end < 0 {
			return false
		}
		table = table[end+1:]
	}
	return true
}

// symbols makes the object's Symbols from the tables that were read.
func (p *reader) symbols() {
	s := p.sym
	if s == nil || s.failed || p.strtab == nil && p.last(elf.DT_SYMTAB) != 0 {
		return
	}
	if p.guess != nil {
		p.guess.take(s, s.tables)
	}
	if p.last(elf.DT_SYMTAB) != 0 && !p.moreSymbols() {
		return
	}
	out := &Symbols{
		First: s.first, Refs: s.refs, Calls: s.calls, Partial: s.partial, StaticTLS: s.staticTLS, SysV: p.last(elf.DT_GNU_HASH) == 0,
		BindNow:  p.dyn[elf.DT_BIND_NOW] != nil || p.obj.Flags&elf.DF_BIND_NOW != 0 || p.obj.Flags1&elf.DF_1_NOW != 0,
		Symbolic: p.dyn[elf.DT_SYMBOLIC] != nil || p.obj.Flags&elf.DF_SYMBOLIC != 0,
	}
	entry := int(p.symbolEntry())
	n := max(0, min(s.count, len(s.syms)/entry)-1)
	out.First = min(out.First, n+1)
	out.Table = make([]byte, 0, n*symbolSize)
	named, few := 0, n == 0 || runsWithin(p.strtab, maxNamed/n)
	ended := uint64(bytes.LastIndexByte(p.strtab, 0) + 1) // a loader reads a name behind it to a NUL beyond the table
	for i := 1; i <= n; i++ {
		r := p.record(s.syms[i*entry:])
		if 2*i+2 <= len(s.versym) {
			r.version = p.order.Uint16(s.versym[2*i:])
		}
		out.Table = r.append(out.Table)
		at := uint64(r.name)
		if at >= ended && at < uint64(len(p.strtab)) {
			p.unread("symbol table", errors.New("has a name without an end"))
			return
		}
		if !few && at < ended {
			named += bytes.IndexByte(p.strtab[at:], 0)
		}
		if named > maxNamed {
			p.unread("symbol table", fmt.Errorf("has more than %d MiB of names", maxNamed>>20))
			return
		}
	}
	if n > 0 {
		out.Names = p.strtab
	}
	if s.highVersion > 0 && p.last(elf.DT_VERSYM) != 0 { // l_versyms is set
		out.Versions = make([]SymbolVersion, s.highVersion+1)
		for i, v := range s.versions {
			out.Versions[i] = v
		}
	}
	p.obj.Symbols = out
}

// moreSymbols reads the entries of .dynsym behind those of the hash table: for an object
// that exports nothing, DT_GNU_HASH does not have the number of symbols, and the highest
// index in a relocation is taken. It reports whether the symbol table could be read.
func (p *reader) moreSymbols() bool {
	s := p.sym
	if s.syms == nil && s.count > 0 {
		return false // with a reason in Unread
	}
	if s.highest < s.count {
		return s.versym != nil || p.last(elf.DT_VERSYM) == 0 || s.count == 0
	}
	s.count = s.highest + 1
	get := func(tag elf.DynTag, n uint64, what string) []byte {
		off, room, ok := p.offset(p.last(tag))
		if !ok || n > room {
			p.unread(what, fmt.Errorf("is at address %#x, beyond what a PT_LOAD segment holds", p.last(tag)))
			return nil
		}
		b, err := p.w.at(int64(off), int64(n))
		if err != nil {
			p.unread(what, err)
			return nil
		}
		return b
	}
	if s.syms = get(elf.DT_SYMTAB, uint64(s.count)*p.symbolEntry(), "symbol table"); s.syms == nil {
		return false
	}
	if p.last(elf.DT_VERSYM) != 0 {
		s.versym = get(elf.DT_VERSYM, uint64(s.count)*2, "symbol versions")
		return s.versym != nil
	}
	return true
}

// record packs an Elf_Sym.
func (p *reader) record(b []byte) record {
	var r record
	var shndx uint16
	var value, size uint64
	var other uint8
	r.name = p.order.Uint32(b)
	if p.wide {
		r.info, other, shndx = b[4], b[5], p.order.Uint16(b[6:])
		value, size = p.order.Uint64(b[8:]), p.order.Uint64(b[16:])
	} else {
		value, size = uint64(p.order.Uint32(b[4:])), uint64(p.order.Uint32(b[8:]))
		r.info, other, shndx = b[12], b[13], p.order.Uint16(b[14:])
	}
	r.bits = other & symVis
	if elf.SectionIndex(shndx) == elf.SHN_UNDEF {
		r.bits |= symUndef
	}
	if value == 0 && r.typ() != elf.STT_TLS {
		if elf.SectionIndex(shndx) == elf.SHN_ABS {
			r.bits |= symAbs0
		} else {
			r.bits |= symNoValue
		}
	}
	if typ := r.typ(); typ == elf.STT_OBJECT || typ == elf.STT_COMMON || typ == elf.STT_NOTYPE {
		r.size = uint32(min(size, 1<<32-1)) // copy relocations compare it
	}
	return r
}

// symbolVersion records the version of a version index (_dl_check_map_versions).
func (p *reader) symbolVersion(index uint16, v SymbolVersion) {
	if p.sym == nil {
		return
	}
	p.sym.highVersion = max(p.sym.highVersion, index&0x7fff)
	if v.Name != "" {
		p.sym.versions[index&0x7fff] = v
	}
}
