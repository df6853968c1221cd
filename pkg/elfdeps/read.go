package elfdeps

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// Limits on the memory that a hostile file takes, in bytes unless they say otherwise.
const (
	maxFile    = 16 << 30 // the tables of a larger file are not read
	maxStrtab  = 64 << 20
	maxDynamic = 1 << 20
	maxNote    = 1 << 20 // all notes together
	maxVerSect = 4 << 20
	maxName    = 4096    // PATH_MAX: no longer name can be opened
	maxRecords = 1 << 16 // entries of a table
	maxText    = 8 << 20 // all strings of one object together
	maxMusl    = 4 << 20 // no musl is larger
	maxTold    = 8       // reasons why one part could not be read
	maxNotes   = 256     // entries of .note.dlopen, and the names in them
	maxJSON    = 64 << 10
	maxSystem  = 64 // built-in directories; Debian's glibc has four

	maxSystemText = 64 << 10 // text of the built-in directories, about
)

// ErrNotELF is the error for a file that does not begin with the ELF magic, or ends
// before its ELF header does.
var ErrNotELF = errors.New("not an ELF file")

// Reader reads ELF files one after the other with the same buffers, of up to 20 MiB,
// which it keeps. The zero value is ready.
type Reader struct{ w window }

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Read reads the ELF file of size bytes that r streams, in one forward pass. It stops
// as soon as it has all parts, and holds at most 20 MiB of the file and 64 MiB of a
// string table outside those.
//
// The error is [ErrNotELF] or r's own; a malformed ELF file is no error. The parts of it
// that cannot be read are in the object's Unread.
func Read(r io.Reader, size int64) (*Object, error) {
	rd := readers.Get().(*Reader)
	defer readers.Put(rd)
	return rd.read(r, size, false)
}

// ReadSymbols does as the function [ReadSymbols], and packs the symbols ([Symbols.Pack]).
func (rd *Reader) ReadSymbols(r io.Reader, size int64) (*Object, error) {
	o, err := rd.read(r, size, true)
	if err == nil {
		o.Symbols = o.Symbols.Pack()
	}
	return o, err
}

// read reads a file. The names of its symbols are part of rd's buffers.
func (rd *Reader) read(r io.Reader, size int64, symbols bool) (*Object, error) {
	w := &rd.w
	defer w.reset(nil, 0)
	w.reset(r, size)
	magic, err := w.at(0, min(size, int64(len(elf.ELFMAG))))
	if err != nil {
		return nil, err
	}
	if string(magic) != elf.ELFMAG {
		return nil, ErrNotELF
	}
	p := &reader{w: w, obj: new(Object), spare: maxText, wantsSymbols: symbols}
	if err := p.header(); err != nil {
		return nil, err
	}
	p.run()
	if w.err == nil {
		p.finish()
	}
	if w.err != nil {
		return nil, w.err
	}
	return p.obj, nil
}

// reader reads one object. It grants its wishes in the order of their offsets, so that
// the stream need not go back; a granted wish may add others.
type reader struct {
	w     *window
	obj   *Object
	order binary.ByteOrder
	wide  bool // ELFCLASS64
	loads []segment
	// touchEnd is the end of the parts with a program header of their own that a loader reads
	// or writes, as an offset in the file.
	touchEnd uint64
	wishes   []wish
	spare    int            // bytes of strings that the object may still hold
	told     map[string]int // number of reasons in Unread, by part

	strtab  []byte
	dyn     map[elf.DynTag][]uint64
	verneed []byte
	verdef  []byte

	wantsSymbols bool
	sym          *symbolReader // nil unless symbols are wanted
	guess        *guess
	named        *named

	gpu            *gpucode.Walker // nil where no GPU code is searched
	flags          uint32          // e_flags
	sectionHeaders struct {
		off             uint64
		entry, n, names uint16
	}
}

// segment is one program header.
type segment struct {
	typ                              elf.ProgType
	flags                            elf.ProgFlag
	off, vaddr, filesz, memsz, align uint64
}

// wish is a range of the file and the function that takes its bytes.
type wish struct {
	off, n int64
	what   string
	do     func([]byte)
	failed func() // called when it cannot be granted, unless nil
}

// want adds a wish for n bytes at off, which Unread calls what.
func (p *reader) want(off, n uint64, what string, do func([]byte)) { p.wantOr(off, n, what, do, nil) }

func (p *reader) wantOr(off, n uint64, what string, do func([]byte), failed func()) {
	if off > uint64(p.w.size) || n > uint64(p.w.size)-off {
		p.refuse(wish{what: what, failed: failed}, errBeyond)
		return
	}
	if p.w.size > maxFile {
		p.refuse(wish{what: what, failed: failed}, fmt.Errorf("is in a file of more than %d GiB", maxFile>>30))
		return
	}
	p.wishes = append(p.wishes, wish{int64(off), int64(n), what, do, failed})
}

func (p *reader) refuse(w wish, why error) {
	p.unread(w.what, why)
	if w.failed != nil {
		w.failed()
	}
}

// unread records why a part could not be read. A table can be wrong in thousands of
// places, of which it records the first.
func (p *reader) unread(what string, why error) {
	if p.told == nil {
		p.told = map[string]int{}
	}
	if p.told[what]++; p.told[what] > maxTold {
		return
	}
	p.obj.Unread = append(p.obj.Unread, Unread{what, why.Error()})
}

// run grants the wishes, lowest offset first.
func (p *reader) run() {
	for len(p.wishes) > 0 {
		next := 0
		for i, w := range p.wishes {
			if w.off < p.wishes[next].off {
				next = i
			}
		}
		w := p.wishes[next]
		p.wishes = slices.Delete(p.wishes, next, next+1)
		b, err := p.w.at(w.off, w.n)
		if err != nil {
			p.refuse(w, err)
			continue
		}
		w.do(b)
	}
}

// header reads e_ident and the ELF header, and adds a wish for the program headers.
func (p *reader) header() error {
	if p.w.size < 52 {
		return fmt.Errorf("%w: it ends within its header", ErrNotELF)
	}
	id, err := p.w.at(0, elf.EI_NIDENT)
	if err != nil {
		return err
	}
	o := p.obj
	copy(o.Ident[:], id)
	p.order = binary.ByteOrder(binary.LittleEndian)
	if elf.Data(id[elf.EI_DATA]) == elf.ELFDATA2MSB {
		p.order = binary.BigEndian
	}
	p.wide = o.Class() != elf.ELFCLASS32
	n := int64(52)
	if p.wide {
		n = 64
	}
	if p.w.size < n {
		return fmt.Errorf("%w: it ends within its header", ErrNotELF)
	}
	b, err := p.w.at(0, n)
	if err != nil {
		return err
	}
	f := fields{b, p.order, p.wide, elf.EI_NIDENT}
	o.Type = elf.Type(f.u16())
	o.Machine = elf.Machine(f.u16())
	o.Version = f.u32()
	f.word() // e_entry
	phoff := f.word()
	p.sectionHeaders.off = f.word()
	p.flags = f.u32()
	f.u16() // e_ehsize
	phentsize, phnum := f.u16(), f.u16()
	p.sectionHeaders.entry, p.sectionHeaders.n, p.sectionHeaders.names = f.u16(), f.u16(), f.u16()
	if o.Type != elf.ET_EXEC && o.Type != elf.ET_DYN {
		return nil // no loader looks further (open_verify)
	}
	entry := uint16(32)
	if p.wide {
		entry = 56
	}
	if phentsize != entry {
		o.Fault = "ELF file's phentsize not the expected size"
		return nil
	}
	total := uint64(phnum) * uint64(phentsize)
	if phoff > uint64(p.w.size) || total > uint64(p.w.size)-phoff {
		o.Fault = "cannot read file data"
		return nil
	}
	p.want(phoff, total, "program headers", p.programHeaders)
	return nil
}

func (p *reader) programHeaders(b []byte) {
	o := p.obj
	f := fields{b, p.order, p.wide, 0}
	var segs []segment
	for !f.done() {
		s := f.segment()
		if s.typ == elf.PT_LOAD {
			p.load(s)
			continue
		}
		segs = append(segs, s)
	}
	if len(p.loads) == 0 {
		o.Fault = "object file has no loadable segments"
	}
	p.widen()
	p.startGPU()
	// Of several, the kernel takes the first PT_INTERP, glibc the last
	// PT_DYNAMIC (_dl_process_pt_dynamic) and the last PT_GNU_STACK.
	var dynamic *segment
	interp, notes := false, uint64(0)
	for i, s := range segs {
		switch s.typ {
		case elf.PT_INTERP:
			if !interp {
				p.want(s.off, min(s.filesz, maxName), "interpreter", func(b []byte) { o.Interp = cstring(b) })
			}
			interp = true
		case elf.PT_DYNAMIC:
			if s.filesz > 0 {
				dynamic = &segs[i]
				p.touchEnd = max(p.touchEnd, s.off+s.filesz)
			}
		case elf.PT_NOTE:
			if s.filesz > maxNote-notes {
				p.unread("notes", fmt.Errorf("are longer than the %d bytes that are read", maxNote))
				continue
			}
			notes += max(s.filesz, 1<<10) // which limits their number, too
			notes = min(notes, maxNote)
			p.want(s.off, s.filesz, "notes", func(b []byte) { p.notes(b, s.align) })
		case elf.PT_GNU_STACK:
			o.Stack = StackNoExec
			if s.flags&elf.PF_X != 0 {
				o.Stack = StackExec
			}
		case elf.PT_TLS:
			o.TLSSize = s.memsz
			p.touchEnd = max(p.touchEnd, s.off+s.filesz)
		case elf.PT_GNU_RELRO:
			p.touchEnd = max(p.touchEnd, s.off+s.filesz)
		}
	}
	if dynamic == nil {
		return
	}
	o.Dynamic = true
	p.startGuess()
	p.startNamed()
	if dynamic.filesz > maxDynamic {
		p.unread("dynamic section", fmt.Errorf("is %d bytes long, more than the %d that are read", dynamic.filesz, maxDynamic))
		return
	}
	off, room, ok := p.offset(dynamic.vaddr) // loaders use p_vaddr, not p_offset
	if !ok || room < dynamic.filesz {
		off = dynamic.off
	}
	p.want(off, dynamic.filesz, "dynamic section", p.dynamic)
}

// widen makes room for the tables of symbols where the linker has put them in the first
// segment, without code, and they are too long for the head.
func (p *reader) widen() {
	if !p.wantsSymbols || len(p.loads) == 0 {
		return
	}
	first := slices.MinFunc(p.loads, func(a, b segment) int { return cmp.Compare(a.off, b.off) })
	if end := first.off + first.filesz; first.flags&(elf.PF_X|elf.PF_W) == 0 && end > first.off && end <= uint64(p.w.size) {
		p.w.widen(int64(end))
	}
}

// load records a PT_LOAD segment and checks it as _dl_map_object_from_fd does.
func (p *reader) load(s segment) {
	const page = 4096
	o := p.obj
	p.loads = append(p.loads, s)
	if end := s.off + s.filesz; end >= s.off && end < 1<<62 {
		o.LoadEnd = max(o.LoadEnd, int64(end))
	}
	switch {
	case o.Fault != "":
	case s.align&(page-1) != 0:
		o.Fault = "ELF load command alignment not page-aligned"
	case (s.vaddr-s.off)&(page-1) != 0:
		o.Fault = faultUnaligned
	}
}

// faultUnaligned is the text from glibc 2.35 on; before 2.35 it ends in "properly
// aligned".
const faultUnaligned = "ELF load command address/offset not page-aligned"

// dynamic reads the dynamic section and adds wishes for its tables.
func (p *reader) dynamic(b []byte) {
	p.dyn = map[elf.DynTag][]uint64{}
	f := fields{b, p.order, p.wide, 0}
	for f.room(2) {
		tag, val := elf.DynTag(f.word()), f.word()
		if tag == elf.DT_NULL {
			break
		}
		if len(p.dyn[tag]) < maxRecords {
			p.dyn[tag] = append(p.dyn[tag], val)
		}
	}
	o := p.obj
	o.Flags = elf.DynFlag(p.last(elf.DT_FLAGS))
	o.Flags1 = elf.DynFlag1(p.last(elf.DT_FLAGS_1))
	addr := p.last(elf.DT_STRTAB)
	if addr == 0 {
		if needsStrings(p.dyn) {
			p.unread("string table", errors.New("has no place: there is no DT_STRTAB"))
		}
		return
	}
	off, room, ok := p.offset(addr)
	if !ok {
		p.unread("string table", fmt.Errorf("is at address %#x, which no PT_LOAD segment holds", addr))
		return
	}
	n := p.last(elf.DT_STRSZ)
	if n == 0 || n > room { // loaders do not need DT_STRSZ; the segment bounds it
		n = min(room, maxStrtab)
	}
	if n > maxStrtab {
		p.unread("string table", fmt.Errorf("is %d bytes long, more than the %d that are read", n, maxStrtab))
		return
	}
	p.want(off, n, "string table", func(b []byte) { p.strtab = b })
	p.wantTable(elf.DT_VERNEED, "version needs", func(b []byte) { p.verneed = b })
	p.wantTable(elf.DT_VERDEF, "version definitions", func(b []byte) { p.verdef = b })
	if p.wantsSymbols {
		p.wantSymbols()
	}
}

// needsStrings reports whether a dynamic section has a tag that points into the string
// table.
func needsStrings(dyn map[elf.DynTag][]uint64) bool {
	for _, tag := range []elf.DynTag{elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH, elf.DT_AUXILIARY, elf.DT_FILTER, elf.DT_VERNEED, elf.DT_VERDEF} {
		if dyn[tag] != nil {
			return true
		}
	}
	return false
}

// wantTable adds a wish for a table whose length is in no tag: for the rest of its
// segment, up to a limit.
func (p *reader) wantTable(tag elf.DynTag, what string, do func([]byte)) {
	addr := p.last(tag)
	if addr == 0 {
		return
	}
	off, room, ok := p.offset(addr)
	if !ok {
		p.unread(what, fmt.Errorf("are at address %#x, which no PT_LOAD segment holds", addr))
		return
	}
	p.want(off, min(room, maxVerSect), what, do)
}

// last returns the value of a tag, 0 when absent. The last of several counts
// (elf_get_dynamic_info, elf/get-dynamic-info.h).
func (p *reader) last(tag elf.DynTag) uint64 {
	if v := p.dyn[tag]; len(v) > 0 {
		return v[len(v)-1]
	}
	return 0
}

// offset returns the place in the file of a virtual address, and the number of bytes
// from there to the end of its segment.
func (p *reader) offset(addr uint64) (off, room uint64, ok bool) {
	for _, s := range p.loads {
		if addr < s.vaddr || addr-s.vaddr >= s.filesz {
			continue
		}
		off = s.off + (addr - s.vaddr)
		if off < s.off || off > uint64(p.w.size) {
			return 0, 0, false
		}
		return off, min(s.filesz-(addr-s.vaddr), uint64(p.w.size)-off), true
	}
	return 0, 0, false
}

// touched returns the end of what a loader reads or writes while it loads the object, as an
// offset in the file: the tables that the dynamic section names, what is made read-only after
// the relocations, and the page in which a segment ends whose rest is to be zeros
// (_dl_map_segments, elf/dl-map-segments.h). All code counts, since constructors may lie anywhere
// in it. Relocations of data behind these parts are not looked at.
func (p *reader) touched() uint64 {
	const page = 4096
	end := p.touchEnd
	for _, s := range p.loads {
		if s.flags&elf.PF_X != 0 || s.memsz > s.filesz && (s.vaddr+s.filesz)%page != 0 {
			end = max(end, s.off+s.filesz)
		}
	}
	for _, t := range touchedTables {
		addr, n := p.last(t.tag), uint64(1)
		if t.size != 0 {
			n = max(1, p.last(t.size))
		}
		for _, s := range p.loads {
			if addr != 0 && addr >= s.vaddr && addr-s.vaddr < s.filesz {
				end = max(end, s.off+(addr-s.vaddr)+min(n, s.filesz-(addr-s.vaddr)))
			}
		}
	}
	return end
}

// minLazyTail is the least LazyTail, in bytes. A shorter one is likely to be data with
// relocations.
const minLazyTail = 64 << 10

// touchedTables are the tables that a loader reads, or calls the functions of, with the tags
// of their sizes in bytes.
var touchedTables = []struct{ tag, size elf.DynTag }{
	{elf.DT_STRTAB, elf.DT_STRSZ},
	{elf.DT_SYMTAB, 0},
	{elf.DT_HASH, 0},
	{elf.DT_GNU_HASH, 0},
	{elf.DT_RELA, elf.DT_RELASZ},
	{elf.DT_REL, elf.DT_RELSZ},
	{elf.DT_JMPREL, elf.DT_PLTRELSZ},
	{elf.DT_PLTGOT, 0},
	{elf.DT_VERSYM, 0},
	{elf.DT_VERNEED, 0},
	{elf.DT_VERDEF, 0},
	{elf.DT_INIT, 0},
	{elf.DT_INIT_ARRAY, elf.DT_INIT_ARRAYSZ},
}

// finish sets the object's fields from the tables that were read.
func (p *reader) finish() {
	o := p.obj
	if p.dyn != nil && o.LoadEnd > 0 {
		if tail := o.LoadEnd - int64(min(p.touched(), uint64(o.LoadEnd))); tail >= minLazyTail {
			o.LazyTail = tail
		}
	}
	if p.strtab != nil {
		o.Needed = p.names(elf.DT_NEEDED)
		o.Auxiliary = p.names(elf.DT_AUXILIARY)
		o.Filter = p.names(elf.DT_FILTER)
		o.Soname = p.name("DT_SONAME", p.last(elf.DT_SONAME), p.dyn[elf.DT_SONAME] != nil)
		o.Rpath = p.text(elf.DT_RPATH)
		o.Runpath = p.text(elf.DT_RUNPATH)
		p.versionNeeds()
		p.versionDefs()
	}
	p.symbols()
	p.finishNamed()
	p.finishModules()
	p.finishGPU()
	if o.mayBeLibc(p.w.size) {
		if b, err := p.w.at(0, p.w.size); err == nil {
			o.Libc = libcFacts(b)
		}
	}
	slices.SortFunc(o.Unread, func(a, b Unread) int { return strings.Compare(a.What+a.Why, b.What+b.Why) })
	o.Unread = slices.Compact(o.Unread)
}

// mayBeLibc reports whether o may be a loader or C library, so that all of the file, of
// size bytes, is searched for Libc. musl's file has no SONAME on most systems; it needs no library and
// is no program.
func (o *Object) mayBeLibc(size int64) bool {
	if isLoaderName(o.Soname) {
		return size <= headSize
	}
	return o.Dynamic && o.Type == elf.ET_DYN && o.Soname == "" && len(o.Needed) == 0 && o.Interp == "" && !o.PIE() && size <= maxMusl
}

func (p *reader) names(tag elf.DynTag) []string {
	var names []string
	for _, off := range p.dyn[tag] {
		names = append(names, p.name(tag.String(), off, true))
	}
	return names
}

func (p *reader) text(tag elf.DynTag) *string {
	if len(p.dyn[tag]) == 0 {
		return nil
	}
	s := p.name(tag.String(), p.last(tag), true)
	return &s
}

// name returns the string at off in the string table, or "" if there is false.
func (p *reader) name(what string, off uint64, there bool) string {
	if !there {
		return ""
	}
	if off >= uint64(len(p.strtab)) {
		p.unread(what, fmt.Errorf("points to %d in a string table of %d bytes", off, len(p.strtab)))
		return ""
	}
	limit := maxName
	if what == elf.DT_RPATH.String() || what == elf.DT_RUNPATH.String() {
		limit = 1 << 20 // a list of paths; conda and Nix write long ones
	}
	s := p.strtab[off:]
	s = s[:min(len(s), limit+1)] // since a table may have no NUL, and thousands of names
	end := bytes.IndexByte(s, 0)
	if end < 0 {
		p.unread(what, fmt.Errorf("is longer than %d bytes or has no end", limit))
		return ""
	}
	if p.spare -= end; p.spare < 0 {
		p.unread(what, fmt.Errorf("would make more than %d bytes of names", maxText))
		return ""
	}
	return string(s[:end])
}

// versionNeeds follows the chains of vn_next and vna_next (elf/dl-version.c).
func (p *reader) versionNeeds() {
	const what = "version needs"
	records := 0
	for at := uint64(0); p.verneed != nil; {
		if p.beyond(what, p.verneed, at+16) {
			return
		}
		f := fields{p.verneed, p.order, p.wide, int(at)}
		if v := f.u16(); v != 1 {
			p.versionFault("Verneed", v)
			return
		}
		cnt, file, aux, next := f.u16(), f.u32(), f.u32(), f.u32()
		need := VersionNeed{File: p.name(what, uint64(file), true)}
		for v := at + uint64(aux); cnt > 0; cnt-- {
			if p.beyond(what, p.verneed, v+16) {
				return
			}
			a := fields{p.verneed, p.order, p.wide, int(v)}
			a.u32() // vna_hash
			flags := a.u16()
			other := a.u16()
			name, nextAux := a.u32(), a.u32()
			need.Versions = append(need.Versions, Version{p.name(what, uint64(name), true), flags&2 != 0})
			p.symbolVersion(other, SymbolVersion{need.Versions[len(need.Versions)-1].Name, need.File, other&0x8000 != 0})
			if records++; p.tooMany(what, records) {
				return
			}
			if nextAux == 0 {
				break
			}
			v += uint64(nextAux)
		}
		p.obj.VersionNeeds = append(p.obj.VersionNeeds, need)
		if records++; p.tooMany(what, records) || next == 0 {
			return
		}
		at += uint64(next)
	}
}

// beyond reports whether end lies behind a table, and records that.
func (p *reader) beyond(what string, table []byte, end uint64) bool {
	if end <= uint64(len(table)) {
		return false
	}
	p.unread(what, fmt.Errorf("run beyond the %d bytes that could be read", len(table)))
	return true
}

// tooMany reports whether a table has more records than are read, and records that.
func (p *reader) tooMany(what string, records int) bool {
	if records <= maxRecords {
		return false
	}
	p.unread(what, fmt.Errorf("are more than the %d that are read", maxRecords))
	return true
}

// versionDefs follows the chain of vd_next. The first vd_aux of a record is its name.
func (p *reader) versionDefs() {
	const what = "version definitions"
	for at := uint64(0); p.verdef != nil; {
		if p.beyond(what, p.verdef, at+20) {
			return
		}
		f := fields{p.verdef, p.order, p.wide, int(at)}
		if v := f.u16(); v != 1 {
			p.versionFault("Verdef", v)
			return
		}
		flags, index := f.u16(), f.u16()
		f.u16() // vd_cnt
		f.u32() // vd_hash
		aux, next := f.u32(), f.u32()
		v := at + uint64(aux)
		if p.beyond(what, p.verdef, v+8) {
			return
		}
		a := fields{p.verdef, p.order, p.wide, int(v)}
		p.obj.VersionDefs = append(p.obj.VersionDefs, p.name(what, uint64(a.u32()), true))
		if flags&1 == 0 { // VER_FLG_BASE is not set: no reference requires a base by its name
			p.symbolVersion(index, SymbolVersion{Name: p.obj.VersionDefs[len(p.obj.VersionDefs)-1]})
		} else {
			p.symbolVersion(index, SymbolVersion{})
		}
		if p.tooMany(what, len(p.obj.VersionDefs)) || next == 0 {
			return
		}
		at += uint64(next)
	}
}

// versionFault records the error of match_symbol and _dl_check_map_versions
// (elf/dl-version.c) for a record with a version other than 1.
func (p *reader) versionFault(record string, v uint16) {
	if p.obj.VersionFault == "" {
		p.obj.VersionFault = fmt.Sprintf("unsupported version %d of %s record", v, record)
	}
}

// Types of notes that decide about loading.
const (
	noteABITag      = 1          // "GNU": NT_GNU_ABI_TAG
	noteGNUProperty = 5          // "GNU": NT_GNU_PROPERTY_TYPE_0
	noteDlopen      = 0x407c0c0a // "FDO"
	propertyISA     = 0xc0008002 // GNU_PROPERTY_X86_ISA_1_NEEDED
)

// notes reads one PT_NOTE segment.
func (p *reader) notes(b []byte, align uint64) {
	if align != 8 {
		align = 4
	}
	round := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= 12 {
		f := fields{b, p.order, p.wide, 0}
		namesz, descsz, typ := uint64(f.u32()), uint64(f.u32()), f.u32()
		desc := round(12 + namesz)
		if namesz > uint64(len(b)) || desc > uint64(len(b)) || descsz > uint64(len(b))-desc {
			return
		}
		p.note(strings.TrimRight(string(b[12:12+namesz]), "\x00"), typ, b[desc:desc+descsz])
		b = b[min(uint64(len(b)), round(desc+descsz)):]
	}
}

func (p *reader) note(owner string, typ uint32, desc []byte) {
	switch {
	case owner == "FDO" && typ == noteDlopen:
		var notes []DlopenNote
		text := bytes.TrimRight(desc, "\x00")
		if len(text) > maxJSON {
			p.unread(".note.dlopen", fmt.Errorf("is %d bytes long, more than the %d that are read", len(text), maxJSON))
			return
		}
		if err := json.Unmarshal(text, &notes); err != nil {
			p.unread(".note.dlopen", err)
			return
		}
		n := len(p.obj.Dlopen) + len(notes)
		for _, note := range slices.Concat(p.obj.Dlopen, notes) {
			n += len(note.Soname)
		}
		if n > maxNotes {
			p.unread(".note.dlopen", fmt.Errorf("has more than the %d entries and names that are read", maxNotes))
			return
		}
		p.obj.Dlopen = append(p.obj.Dlopen, notes...)
	case owner == "GNU" && typ == noteABITag && len(desc) >= 16:
		f := fields{desc, p.order, p.wide, 0}
		if f.u32() == 0 { // ELF_NOTE_OS_LINUX
			p.obj.MinKernel = [3]uint32{f.u32(), f.u32(), f.u32()}
		}
	case owner == "GNU" && typ == noteGNUProperty:
		p.properties(desc)
	}
}

func (p *reader) properties(b []byte) {
	align := 4
	if p.wide {
		align = 8
	}
	for len(b) >= 8 {
		typ, n := p.order.Uint32(b), int64(p.order.Uint32(b[4:]))
		if n > int64(len(b)-8) {
			return
		}
		if typ == propertyISA && n == 4 {
			p.obj.ISANeeded |= p.order.Uint32(b[8:])
		}
		b = b[min(len(b), (8+int(n)+align-1)&^(align-1)):]
	}
}

var (
	// The list of built-in directories: NUL-terminated strings with a trailing slash,
	// one after the other (system_dirs).
	systemDirsRE = regexp.MustCompile(`(?:/(?:usr/)?lib[0-9a-z_/-]*/\x00){2,}`)
	glibcRE      = regexp.MustCompile(`(?:ld\.so|GNU C Library) \([^)\x00]*\) (?:stable|development) release version (\d+\.\d+)`)
	muslRE       = regexp.MustCompile(`\x00(1\.\d{1,2}\.\d{1,2})\x00`)
)

func libcFacts(b []byte) *Libc {
	if bytes.Contains(b, []byte("musl libc (")) {
		c := &Libc{Musl: true}
		if m := muslRE.FindSubmatch(b); m != nil {
			c.Release = string(m[1])
		}
		return c
	}
	c := &Libc{Release: glibcRelease(b)}
	if m := systemDirs(b); m != nil {
		c.SystemDirs = strings.Split(strings.TrimSuffix(string(m), "\x00"), "\x00")
		c.SystemDirs = slices.Clone(c.SystemDirs[:min(len(c.SystemDirs), maxSystem)])
	}
	if c.Release == "" && c.SystemDirs == nil {
		return nil
	}
	c.StackTunable = bytes.Contains(b, []byte("cannot enable executable stack as tunable requires"))
	return c
}

// glibcRelease returns the release that glibcRE finds in b. Searching for words of a
// match is a hundred times as fast as the expression, which then sees one string.
func glibcRelease(b []byte) string {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte(" release version "))
		if i < 0 {
			return ""
		}
		begin := bytes.LastIndexByte(b[:at+i], 0) + 1
		end := len(b)
		if n := bytes.IndexByte(b[at+i:], 0); n >= 0 {
			end = at + i + n
		}
		if m := glibcRE.FindSubmatch(b[begin:end]); m != nil {
			return string(m[1])
		}
		at = end
	}
}

// systemDirs returns the match of systemDirsRE in b. It first searches for two strings
// in a row that end and begin with a slash.
func systemDirs(b []byte) []byte {
	for at := 0; ; {
		i := bytes.Index(b[at:], []byte("/\x00/"))
		if i < 0 {
			return nil
		}
		begin := bytes.LastIndexByte(b[:at+i], 0) + 1
		end := at + i + 2
		for end-begin < maxSystemText {
			n := bytes.IndexByte(b[end:], 0)
			if n < 1 || b[end+n-1] != '/' {
				break
			}
			end += n + 1
		}
		if m := systemDirsRE.Find(b[begin:end]); m != nil {
			return m
		}
		at = end
	}
}

// fields reads fixed-width integers one after the other. Callers check the length
// first; past the end it returns zeros and does not panic.
type fields struct {
	b     []byte
	order binary.ByteOrder
	wide  bool
	at    int
}

func (f *fields) take(n int) []byte {
	if f.at+n > len(f.b) {
		f.at = len(f.b)
		return make([]byte, n)
	}
	b := f.b[f.at : f.at+n]
	f.at += n
	return b
}

func (f *fields) u16() uint16 { return f.order.Uint16(f.take(2)) }
func (f *fields) u32() uint32 { return f.order.Uint32(f.take(4)) }

// word reads an address, offset or size: 4 bytes in ELFCLASS32, else 8.
func (f *fields) word() uint64 {
	if f.wide {
		return f.order.Uint64(f.take(8))
	}
	return uint64(f.u32())
}

func (f *fields) done() bool { return f.at >= len(f.b) }

// room reports whether n more words follow.
func (f *fields) room(n int) bool {
	width := 4
	if f.wide {
		width = 8
	}
	return len(f.b)-f.at >= n*width
}

// segment reads one program header. The two classes differ in the order of its fields.
func (f *fields) segment() segment {
	var s segment
	s.typ = elf.ProgType(f.u32())
	if f.wide {
		s.flags = elf.ProgFlag(f.u32())
	}
	s.off, s.vaddr = f.word(), f.word()
	f.word() // p_paddr
	s.filesz, s.memsz = f.word(), f.word()
	if !f.wide {
		s.flags = elf.ProgFlag(f.u32())
	}
	s.align = f.word()
	return s
}

// cstring returns b up to its first NUL.
func cstring(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
