package imagetest

import (
	"debug/elf"
	"slices"
)

// object is the layout of an ELF file: a read-only segment, one for code and a writable one, each on its own pages. Virtual
// addresses equal file offsets, plus a base for ET_EXEC.
type object struct {
	e    *ELF
	arch arch
	str  *strtab
	ver  versions

	ro, rx, rw []*section
	byName     map[string]*section
	headers    uint64 // size of the ELF header and the program headers
	start      [3]uint64
	end        uint64 // end of the last segment
}

// section is a named run of bytes. Its data may be reserved first and filled in once the addresses are known.
type section struct {
	name    string
	typ     elf.SectionType
	flags   elf.SectionFlag
	link    string
	info    uint32
	entsize uint64
	align   uint64
	before  uint64 // zero bytes in front of it
	data    []byte
	bss     uint64 // size of a section without data
	off     uint64
}

func (s *section) size() uint64 { return uint64(len(s.data)) + s.bss }

// chunk is a piece of the file. The bytes between two chunks are zero.
type chunk struct {
	off  int64
	data []byte
}

func (c chunk) end() int64 { return c.off + int64(len(c.data)) }

func newObject(e *ELF) *object {
	o := &object{e: e, arch: e.arch(), str: newStrtab(), ver: newVersions(e), byName: map[string]*section{}}
	o.addNotes()
	if !e.NoDynamic {
		o.addTables()
	}
	if e.Rodata != "" {
		o.add(&o.ro, section{name: ".rodata", align: 16, data: []byte(e.Rodata)})
	}
	o.addGPU(&o.ro, false)
	o.addText()
	if !e.NoDynamic {
		o.addWritable()
	}
	o.addGPU(&o.rw, true)
	o.headers = uint64(len(o.encodeHeader(0))) + o.phentsize()*uint64(len(o.programHeaders()))
	o.place()
	o.fill()
	return o
}

func (o *object) word() uint64 {
	if o.e.is32() {
		return 4
	}
	return 8
}

func (o *object) encoder() *encoder { return &encoder{is32: o.e.is32()} }

func (o *object) add(segment *[]*section, s section) {
	if s.typ == elf.SHT_NULL {
		s.typ = elf.SHT_PROGBITS
	}
	s.flags |= elf.SHF_ALLOC
	s.align = max(1, s.align)
	*segment = append(*segment, &s)
	o.byName[s.name] = &s
}

// addNotes adds .interp and the notes.
func (o *object) addNotes() {
	if o.e.Interp != "" {
		o.add(&o.ro, section{name: ".interp", data: append([]byte(o.e.Interp), 0)})
	}
	if o.e.ISANeeded != 0 {
		w := o.encoder()
		w.u32(0xc0008002, 4, o.e.ISANeeded) // GNU_PROPERTY_X86_ISA_1_NEEDED
		w.b = pad(w.b, int(o.word()))
		o.addNote(".note.gnu.property", "GNU", 5, w.b, o.word())
	}
	if o.e.ABITag != [3]int{} {
		w := o.encoder()
		w.u32(0, uint32(o.e.ABITag[0]), uint32(o.e.ABITag[1]), uint32(o.e.ABITag[2]))
		o.addNote(".note.ABI-tag", "GNU", 1, w.b, 4)
	}
	if o.e.Dlopen != "" {
		o.addNote(".note.dlopen", "FDO", 0x407c0c0a, append([]byte(o.e.Dlopen), 0), 4)
	}
}

func (o *object) addNote(name, owner string, typ uint32, desc []byte, align uint64) {
	w := o.encoder()
	w.u32(4, uint32(len(desc)), typ)
	w.b = append(append(w.b, owner...), 0)
	w.b = pad(append(w.b, desc...), 4)
	o.add(&o.ro, section{name: name, typ: elf.SHT_NOTE, align: align, data: w.b})
}

func pad(b []byte, align int) []byte {
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

// addTables adds the tables that the dynamic section points to.
func (o *object) addTables() {
	word := o.word()
	o.add(&o.ro, section{name: ".hash", typ: elf.SHT_HASH, link: ".dynsym", entsize: 4, align: 8, data: o.hashTable()})
	o.add(&o.ro, section{
		name: ".dynsym", typ: elf.SHT_DYNSYM, link: ".dynstr", info: 1, entsize: o.symentsize(), align: word,
		data: make([]byte, o.symentsize()*uint64(len(o.e.Symbols)+1)),
	})
	if o.ver.any() {
		o.add(&o.ro, section{name: ".gnu.version", typ: elf.SHT_GNU_VERSYM, link: ".dynsym", entsize: 2, align: 2, data: o.ver.versym()})
	}
	if n := len(o.e.VerDefs); n > 0 {
		o.add(&o.ro, section{name: ".gnu.version_d", typ: elf.SHT_GNU_VERDEF, link: ".dynstr", info: uint32(n), align: word, data: o.ver.verdef(o.str)})
	}
	if n := len(o.e.VerNeeds); n > 0 {
		o.add(&o.ro, section{name: ".gnu.version_r", typ: elf.SHT_GNU_VERNEED, link: ".dynstr", info: uint32(n), align: word, data: o.ver.verneed(o.str)})
	}
	o.addRelocations()
	for _, s := range o.e.Symbols {
		o.str.add(s.Name)
	}
	o.dynamic() // adds its strings to the table
	if !o.e.TablesAtEnd {
		o.add(&o.ro, section{name: ".dynstr", typ: elf.SHT_STRTAB, data: o.str.data})
	}
}

func (o *object) addRelocations() {
	for _, r := range []struct {
		name string
		n    int
	}{{".dyn", len(o.data())}, {".plt", len(o.functions())}} {
		if r.n == 0 {
			continue
		}
		typ, name := elf.SHT_RELA, ".rela"
		if o.e.is32() {
			typ, name = elf.SHT_REL, ".rel"
		}
		o.add(&o.ro, section{
			name: name + r.name, typ: typ, link: ".dynsym", entsize: o.relentsize(), align: o.word(),
			data: make([]byte, o.relentsize()*uint64(r.n)),
		})
	}
}

// slot is the size reserved for the code of one function.
const slot = 16

// addText adds the entry point and the code of each defined function.
func (o *object) addText() {
	var code []byte
	if o.e.executable() {
		code = pad([]byte(o.arch.start), slot)
	}
	for range o.count(elf.STT_FUNC) {
		code = pad(append(code, o.arch.ret...), slot)
	}
	if len(code) > 0 {
		o.add(&o.rx, section{name: ".text", flags: elf.SHF_EXECINSTR, align: slot, data: code})
	}
}

// count returns the number of defined symbols of a kind.
func (o *object) count(typ elf.SymType) int {
	if o.e.NoDynamic {
		return 0
	}
	n := 0
	for _, s := range o.e.Symbols {
		if s.Defined && s.kind() == typ {
			n++
		}
	}
	return n
}

func (s Symbol) kind() elf.SymType {
	if s.Type == elf.STT_NOTYPE {
		return elf.STT_FUNC
	}
	return s.Type
}

// functions returns the indexes of the functions that are bound lazily. data returns those of all other references.
func (o *object) functions() []int {
	return o.referred(func(s Symbol) bool { return s.kind() == elf.STT_FUNC && !s.Load && (s.Called || !s.Defined) })
}

func (o *object) data() []int {
	list := o.referred(func(s Symbol) bool { return s.Load || s.kind() != elf.STT_FUNC && !s.Defined })
	if o.e.StaticTLS > 0 {
		list = append(list, noSymbol)
	}
	return list
}

// noSymbol is the index for the reference to the object's own thread-local block.
const noSymbol = -1

func (o *object) referred(want func(Symbol) bool) []int {
	var out []int
	for i, s := range o.e.Symbols {
		if want(s) {
			out = append(out, i)
		}
	}
	return out
}

// addWritable adds the dynamic section, the string table if TablesAtEnd is set, and the data.
func (o *object) addWritable() {
	word := o.word()
	dynstr := section{name: ".dynstr", typ: elf.SHT_STRTAB, data: o.str.data}
	dynamic := section{
		name: ".dynamic", typ: elf.SHT_DYNAMIC, flags: elf.SHF_WRITE, link: ".dynstr", entsize: 2 * word, align: word,
		data: make([]byte, 2*word*uint64(len(o.dynamic()))),
	}
	before := o.e.TablesAtEnd && !o.e.DynstrAfter
	if before {
		o.add(&o.rw, dynstr)
		dynamic.before = uint64(o.e.Gap)
	}
	o.add(&o.rw, dynamic)
	o.addData()
	if o.e.TablesAtEnd && !before {
		dynstr.before = uint64(o.e.Gap)
		o.add(&o.rw, dynstr)
	}
	if o.e.Tail > 0 {
		o.add(&o.rw, section{name: ".tail", flags: elf.SHF_WRITE, align: 8, data: make([]byte, o.e.Tail)})
	}
}

func (o *object) addData() {
	word := o.word()
	if n := uint64(o.count(elf.STT_TLS))*8 + uint64(o.e.StaticTLS); n > 0 {
		o.add(&o.rw, section{name: ".tbss", typ: elf.SHT_NOBITS, flags: elf.SHF_WRITE | elf.SHF_TLS, align: 8, bss: n})
	}
	o.add(&o.rw, section{name: ".got.plt", flags: elf.SHF_WRITE, entsize: word, align: word, data: make([]byte, word*uint64(3+len(o.functions())))})
	if n := len(o.data()); n > 0 {
		o.add(&o.rw, section{name: ".got", flags: elf.SHF_WRITE, entsize: word, align: word, data: make([]byte, word*uint64(n))})
	}
	if n := o.count(elf.STT_OBJECT); n > 0 {
		o.add(&o.rw, section{name: ".data", flags: elf.SHF_WRITE, align: 8, data: make([]byte, 8*n)})
	}
}

// place sets the offset of every section.
func (o *object) place() {
	at := o.headers
	for i, segment := range [][]*section{o.ro, o.rx, o.rw} {
		if i == 2 {
			at += uint64(o.e.Pad)
		}
		if i > 0 && len(segment) > 0 {
			at = align(at, o.arch.page)
			o.start[i] = at
		}
		for _, s := range segment {
			s.off = align(at+s.before, s.align)
			at = s.off + uint64(len(s.data))
		}
		o.end = at
	}
}

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }

// addr returns the virtual address of a file offset.
func (o *object) addr(off uint64) uint64 {
	if o.e.Type == elf.ET_EXEC {
		return off + 0x400000
	}
	return off
}

func (o *object) addrOf(name string) uint64 {
	if s := o.byName[name]; s != nil {
		return o.addr(s.off)
	}
	return 0
}

func (o *object) sections() []*section { return slices.Concat(o.ro, o.rx, o.rw) }

// sectionIndex returns the number of a section, counted from 1.
func (o *object) sectionIndex(name string) uint16 {
	return uint16(slices.IndexFunc(o.sections(), func(s *section) bool { return s.name == name }) + 1)
}

// chunks returns the pieces of the file in the order of their offsets.
func (o *object) chunks() []chunk {
	out := []chunk{{0, nil}}
	for _, s := range o.sections() {
		out = append(out, chunk{int64(s.off), s.data})
	}
	var shoff uint64
	if o.e.NoSections {
		out = append(out, chunk{int64(o.end), nil}) // the file may end in a pad
	} else {
		names := o.sectionNames()
		shoff = align(o.end+uint64(len(names.data)), 8)
		out = append(out, chunk{int64(o.end), names.data}, chunk{int64(shoff), o.sectionHeaders(names)})
	}
	out[0].data = append(o.encodeHeader(shoff), o.encodeProgramHeaders()...)
	return out
}
