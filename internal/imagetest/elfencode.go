package imagetest

import (
	"debug/elf"
)

func (o *object) pick(if32, if64 uint64) uint64 {
	if o.e.is32() {
		return if32
	}
	return if64
}

func (o *object) phentsize() uint64  { return o.pick(32, 56) }
func (o *object) shentsize() uint64  { return o.pick(40, 64) }
func (o *object) symentsize() uint64 { return o.pick(16, 24) }
func (o *object) relentsize() uint64 { return o.pick(8, 24) }

// encodeHeader returns the ELF header; shoff 0 means no section headers.
func (o *object) encodeHeader(shoff uint64) []byte {
	w := o.encoder()
	class := elf.ELFCLASS64
	if o.e.is32() {
		class = elf.ELFCLASS32
	}
	w.b = append(w.b, 0x7f, 'E', 'L', 'F', byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT))
	w.b = pad(w.b, 16)
	typ := o.e.Type
	if typ == elf.ET_NONE {
		typ = elf.ET_DYN
	}
	var entry, phoff uint64
	if o.e.executable() {
		entry = o.addrOf(".text")
	}
	phoff = o.pick(52, 64)
	w.u16(uint16(typ), uint16(o.e.machine()))
	w.u32(1)
	w.addr(entry, phoff, shoff)
	w.u32(o.arch.flags)
	w.u16(uint16(phoff), uint16(o.phentsize()), uint16(len(o.programHeaders())))
	if shoff == 0 {
		w.u16(0, 0, 0)
		return w.b
	}
	n := uint16(len(o.sections()) + 2) // the null section and .shstrtab
	w.u16(uint16(o.shentsize()), n, n-1)
	return w.b
}

type programHeader struct {
	typ         elf.ProgType
	flags       elf.ProgFlag
	off, filesz uint64
	memsz       uint64
	align       uint64
}

func (o *object) programHeaders() []programHeader {
	var out []programHeader
	if o.e.Interp != "" {
		off := o.pick(52, 64)
		out = append(out, programHeader{elf.PT_PHDR, elf.PF_R, off, o.headers - off, o.headers - off, o.word()})
		out = o.appendSection(out, elf.PT_INTERP, ".interp", elf.PF_R)
	}
	out = o.appendLoads(out)
	out = o.appendSection(out, elf.PT_DYNAMIC, ".dynamic", elf.PF_R|elf.PF_W)
	for _, name := range []string{".note.gnu.property", ".note.ABI-tag", ".note.dlopen"} {
		out = o.appendSection(out, elf.PT_NOTE, name, elf.PF_R)
	}
	out = o.appendSection(out, elf.PT_GNU_PROPERTY, ".note.gnu.property", elf.PF_R)
	out = o.appendSection(out, elf.PT_TLS, ".tbss", elf.PF_R)
	if o.e.NoGNUStack {
		return out
	}
	flags := elf.PF_R | elf.PF_W
	if o.e.ExecStack {
		flags |= elf.PF_X
	}
	return append(out, programHeader{typ: elf.PT_GNU_STACK, flags: flags, align: 16})
}

func (o *object) appendSection(out []programHeader, typ elf.ProgType, name string, flags elf.ProgFlag) []programHeader {
	s := o.byName[name]
	if s == nil {
		return out
	}
	return append(out, programHeader{typ, flags, s.off, uint64(len(s.data)), s.size(), s.align})
}

func (o *object) appendLoads(out []programHeader) []programHeader {
	flags := []elf.ProgFlag{elf.PF_R, elf.PF_R | elf.PF_X, elf.PF_R | elf.PF_W}
	for i, segment := range [][]*section{o.ro, o.rx, o.rw} {
		end := o.headers
		if len(segment) > 0 {
			last := segment[len(segment)-1]
			end = last.off + uint64(len(last.data))
		} else if i > 0 {
			continue
		}
		size := end - o.start[i]
		out = append(out, programHeader{elf.PT_LOAD, flags[i], o.start[i], size, size, o.arch.page})
	}
	return out
}

func (o *object) encodeProgramHeaders() []byte {
	w := o.encoder()
	for _, p := range o.programHeaders() {
		addr := o.addr(p.off)
		if p.typ == elf.PT_GNU_STACK {
			addr = 0
		}
		w.u32(uint32(p.typ))
		if !o.e.is32() {
			w.u32(uint32(p.flags))
		}
		w.addr(p.off, addr, addr, p.filesz, p.memsz)
		if o.e.is32() {
			w.u32(uint32(p.flags))
		}
		w.addr(p.align)
	}
	return w.b
}

func (o *object) sectionNames() *strtab {
	names := newStrtab()
	for _, s := range o.sections() {
		names.add(s.name)
	}
	names.add(".shstrtab")
	return names
}

func (o *object) sectionHeaders(names *strtab) []byte {
	w := o.encoder()
	w.b = make([]byte, o.shentsize())
	for _, s := range o.sections() {
		w.sectionHeader(names.add(s.name), s, o.addr(s.off), uint32(o.sectionIndex(s.link)))
	}
	shstrtab := &section{typ: elf.SHT_STRTAB, align: 1, data: names.data, off: o.end}
	w.sectionHeader(names.add(".shstrtab"), shstrtab, 0, 0)
	return w.b
}

func (w *encoder) sectionHeader(name uint32, s *section, addr uint64, link uint32) {
	w.u32(name, uint32(s.typ))
	w.addr(uint64(s.flags), addr, s.off, s.size())
	w.u32(link, s.info)
	w.addr(s.align, s.entsize)
}

// hashTable returns the content of .hash.
func (o *object) hashTable() []byte {
	n := len(o.e.Symbols)
	buckets := make([]uint32, n/2+1)
	chains := make([]uint32, n+1)
	for i, s := range o.e.Symbols {
		b := sysvHash(s.Name) % uint32(len(buckets))
		chains[i+1] = buckets[b]
		buckets[b] = uint32(i + 1)
	}
	w := o.encoder()
	w.u32(uint32(len(buckets)), uint32(len(chains)))
	w.u32(buckets...)
	w.u32(chains...)
	return w.b
}

// dynamic returns the entries of the dynamic section as alternating tags and values. Before place, their number and strings
// are final; their addresses are not.
func (o *object) dynamic() [][2]uint64 {
	var out [][2]uint64
	put := func(tag elf.DynTag, v uint64) { out = append(out, [2]uint64{uint64(tag), v}) }
	text := func(tag elf.DynTag, list ...string) {
		for _, s := range list {
			put(tag, uint64(o.str.add(s)))
		}
	}
	text(elf.DT_NEEDED, o.e.Needed...)
	if o.e.Soname != "" {
		text(elf.DT_SONAME, o.e.Soname)
	}
	text(elf.DT_AUXILIARY, o.e.Auxiliary...)
	text(elf.DT_FILTER, o.e.Filter...)
	if o.e.Rpath != nil {
		text(elf.DT_RPATH, *o.e.Rpath)
	}
	if o.e.Runpath != nil {
		text(elf.DT_RUNPATH, *o.e.Runpath)
	}
	put(elf.DT_HASH, o.addrOf(".hash"))
	put(elf.DT_STRTAB, o.addrOf(".dynstr"))
	put(elf.DT_SYMTAB, o.addrOf(".dynsym"))
	put(elf.DT_STRSZ, uint64(len(o.str.data)))
	put(elf.DT_SYMENT, o.symentsize())
	o.dynamicRelocations(put)
	o.dynamicVersions(put)
	if o.e.Interp != "" {
		put(elf.DT_DEBUG, 0)
	}
	if o.e.Flags != 0 {
		put(elf.DT_FLAGS, o.e.Flags)
	}
	if o.e.Flags1 != 0 {
		put(elf.DT_FLAGS_1, o.e.Flags1)
	}
	put(elf.DT_NULL, 0)
	return out
}

func (o *object) dynamicRelocations(put func(elf.DynTag, uint64)) {
	name, table, size, ent := ".rela", elf.DT_RELA, elf.DT_RELASZ, elf.DT_RELAENT
	if o.e.is32() {
		name, table, size, ent = ".rel", elf.DT_REL, elf.DT_RELSZ, elf.DT_RELENT
	}
	if n := len(o.functions()); n > 0 {
		put(elf.DT_PLTGOT, o.addrOf(".got.plt"))
		put(elf.DT_PLTRELSZ, uint64(n)*o.relentsize())
		put(elf.DT_PLTREL, uint64(table))
		put(elf.DT_JMPREL, o.addrOf(name+".plt"))
	}
	if n := len(o.data()); n > 0 {
		put(table, o.addrOf(name+".dyn"))
		put(size, uint64(n)*o.relentsize())
		put(ent, o.relentsize())
	}
}

func (o *object) dynamicVersions(put func(elf.DynTag, uint64)) {
	if n := len(o.e.VerDefs); n > 0 {
		put(elf.DT_VERDEF, o.addrOf(".gnu.version_d"))
		put(elf.DT_VERDEFNUM, uint64(n))
	}
	if n := len(o.e.VerNeeds); n > 0 {
		put(elf.DT_VERNEED, o.addrOf(".gnu.version_r"))
		put(elf.DT_VERNEEDNUM, uint64(n))
	}
	if o.ver.any() {
		put(elf.DT_VERSYM, o.addrOf(".gnu.version"))
	}
}

// fill writes the tables that contain addresses.
func (o *object) fill() {
	if o.e.NoDynamic {
		return
	}
	w := o.encoder()
	for _, d := range o.dynamic() {
		w.addr(d[0], d[1])
	}
	copy(o.byName[".dynamic"].data, w.b)
	copy(o.byName[".dynsym"].data, o.symbolTable())
	o.fillRelocations()
	got := o.encoder()
	got.addr(o.addrOf(".dynamic")) // the loader fills in the two words that follow
	copy(o.byName[".got.plt"].data, got.b)
}

func (o *object) symbolTable() []byte {
	w := o.encoder()
	w.b = make([]byte, o.symentsize())
	next := map[elf.SymType]uint64{elf.STT_FUNC: o.addrOf(".text"), elf.STT_OBJECT: o.addrOf(".data")}
	if o.e.executable() {
		next[elf.STT_FUNC] += slot
	}
	home := map[elf.SymType]string{elf.STT_FUNC: ".text", elf.STT_OBJECT: ".data", elf.STT_TLS: ".tbss"}
	step := map[elf.SymType]uint64{elf.STT_FUNC: slot, elf.STT_OBJECT: 8, elf.STT_TLS: 8}
	for _, s := range o.e.Symbols {
		var value, size uint64
		var index uint16
		if kind := s.kind(); s.Defined {
			value, size, index = next[kind], step[kind], o.sectionIndex(home[kind])
			next[kind] += step[kind]
		}
		w.symbol(o.str.add(s.Name), s, value, size, index)
	}
	return w.b
}

func (w *encoder) symbol(name uint32, s Symbol, value, size uint64, index uint16) {
	bind := elf.STB_GLOBAL
	if s.Weak {
		bind = elf.STB_WEAK
	}
	info := elf.ST_INFO(bind, s.kind())
	w.u32(name)
	if w.is32 {
		w.addr(value, size)
	}
	w.b = append(w.b, info, byte(s.Vis))
	w.u16(index)
	if !w.is32 {
		w.addr(value, size)
	}
}

func (o *object) fillRelocations() {
	prefix := ".rela"
	if o.e.is32() {
		prefix = ".rel"
	}
	o.fillTable(prefix+".plt", o.functions(), o.addrOf(".got.plt")+3*o.word())
	o.fillTable(prefix+".dyn", o.data(), o.addrOf(".got"))
}

func (o *object) fillTable(name string, symbols []int, got uint64) {
	if len(symbols) == 0 {
		return
	}
	types := map[elf.SymType]uint32{elf.STT_FUNC: o.arch.jumpSlot, elf.STT_OBJECT: o.arch.globDat, elf.STT_TLS: o.arch.dtpmod}
	w := o.encoder()
	for i, sym := range symbols {
		typ := uint64(o.arch.tpoff)
		if sym != noSymbol {
			typ = uint64(types[o.e.Symbols[sym].kind()])
			if o.e.Symbols[sym].Load {
				typ = uint64(o.arch.globDat)
			}
		}
		w.addr(got + uint64(i)*o.word())
		if o.e.is32() {
			w.addr(uint64(sym+1)<<8 | typ)
		} else {
			w.addr(uint64(sym+1)<<32|typ, 0)
		}
	}
	copy(o.byName[name].data, w.b)
}
