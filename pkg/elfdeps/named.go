package elfdeps

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// This file looks for what an object may open by name: file names of libraries
// that stand by themselves, between two NULs, in the read-only data of an object
// that imports dlopen. They are what cuDNN, NCCL or a plug-in host hands to it;
// but they may also be a part of a path, or a name that is only compared.

// Named are the file names of libraries in an object's read-only data.
type Named struct {
	// Names are sorted, each once: base names (libx.so.1), paths (/opt/x/libx.so),
	// and forms that printf fills in (libx.so.%d). What DT_NEEDED, DT_SONAME and
	// the version tables name is left out.
	Names []string `json:",omitempty"`
	// Partial is set when some of that data was not looked at: it lies far from
	// the start of a large file, or has more names than are kept.
	Partial bool `json:",omitempty"`
}

// Limits on what is looked through and kept of one object.
const (
	// maxNamedFar bounds the bytes of a read-only segment that are looked through
	// behind the held start of the file. Linkers put .rodata first there, GPU code
	// behind it: 8 MB and 298 MB in libtorch_cuda.so. Of 1,793 names on a CUDA 13
	// machine this finds 1,750.
	maxNamedFar   = 16 << 20
	maxNamedText  = 32 << 10 // bytes of all names
	maxNamedLen   = 255      // of one name
	maxNamedLooks = 1 << 18  // places that look like a name
)

// openers are the functions that open a library by its name.
var openers = []string{"dlopen\x00", "dlmopen\x00"}

// named gathers the names of one object. What lies behind the held start of the
// file is looked through as it goes by; the held start itself at the end, when it
// is known that the object opens libraries.
type named struct {
	areas []area // of the held start, in the order of their places
	far   []area // behind it
	begun bool   // the first of far continues one of areas, that begins at from
	from  int64
	rest  []byte // what was looked through since the last NUL
	long  bool   // and is longer than a name
	found map[string]bool
	text  int
	looks int
	part  bool
}

// area is a part of the file, [off, end).
type area struct{ off, end int64 }

// startNamed is called when the program headers are known. Read-only data has
// segments of its own where the linker separates code; else it lies behind the
// code in the one that begins with the headers, and is looked for in the held
// start alone.
func (p *reader) startNamed() {
	if !p.wantsSymbols || p.w.size > maxFile || len(p.loads) == 0 {
		return
	}
	loads := slices.Clone(p.loads)
	slices.SortStableFunc(loads, func(a, b segment) int { return cmp.Compare(a.off, b.off) })
	mixed := loads[0].flags&elf.PF_X != 0
	n := &named{}
	last := int64(0)
	for _, s := range loads {
		if s.flags&elf.PF_W != 0 || s.flags&elf.PF_X != 0 && !mixed || s.off >= uint64(p.w.size) {
			continue
		}
		off, end := max(int64(s.off), last), int64(s.off+min(s.filesz, uint64(p.w.size)-s.off))
		if off >= end {
			continue
		}
		last = end
		if off < headSize {
			n.areas = append(n.areas, area{off, min(end, headSize)})
		}
		most := max(off, headSize) + maxNamedFar
		if s.flags&elf.PF_X != 0 {
			most = headSize
		}
		n.part = n.part || end > most
		if off, end = max(off, headSize), min(end, most); off < end {
			if int64(s.off) < headSize {
				n.begun, n.from = true, int64(s.off)
			}
			n.far = append(n.far, area{off, end})
		}
	}
	p.named, p.w.named = n, n
}

// next is the first byte at off or behind it that is to be looked at, or -1.
func (n *named) next(off int64) int64 {
	if n == nil || len(n.far) == 0 {
		return -1
	}
	return max(off, n.far[0].off)
}

// feed takes what is read behind the held start, piece by piece.
func (n *named) feed(w *window, off int64, b []byte) {
	for n != nil && len(n.far) > 0 {
		a := n.far[0]
		if a.off >= off+int64(len(b)) {
			return
		}
		if n.begun {
			n.begun = false
			head := w.head[max(n.from, headSize-maxNamedLen-1):]
			nul := bytes.LastIndexByte(head, 0)
			n.keep(head[nul+1:])
		}
		n.look(b[max(a.off, off)-off : min(a.end-off, int64(len(b)))])
		if a.end > off+int64(len(b)) {
			return
		}
		n.rest, n.long = n.rest[:0], false
		n.far = n.far[1:]
	}
}

// look looks through the next bytes of an area. Names that end in them are taken:
// the one that was begun before, and those that lie within.
func (n *named) look(b []byte) {
	first := bytes.IndexByte(b, 0)
	if first < 0 {
		n.keep(b)
		return
	}
	if n.keep(b[:first]); !n.long {
		n.take(n.rest)
	}
	last := bytes.LastIndexByte(b, 0)
	n.rest, n.long = n.rest[:0], false
	n.keep(b[last+1:])
	n.strings(b[first : last+1])
}

// keep holds what was read since the last NUL, when it may be a name.
func (n *named) keep(b []byte) {
	if n.long = n.long || len(n.rest)+len(b) > maxNamedLen; !n.long {
		n.rest = append(n.rest, b...)
	}
}

var dotSo = []byte(".so")

// strings takes the names in b, which begins and ends with a NUL.
func (n *named) strings(b []byte) {
	for at := 0; ; {
		i := bytes.Index(b[at:], dotSo)
		if i < 0 {
			return
		}
		if n.looks++; n.looks > maxNamedLooks {
			n.part = true
			return
		}
		i += at
		at = i + len(dotSo)
		from := max(0, i-maxNamedLen-1)
		begin := bytes.LastIndexByte(b[from:i], 0)
		length := bytes.IndexByte(b[i:min(len(b), i+maxNamedLen+1)], 0)
		if begin < 0 || length < 0 {
			continue
		}
		n.take(b[from+begin+1 : i+length])
		at = i + length
	}
}

// take keeps a string that is the file name of a library.
func (n *named) take(s []byte) {
	if !namesLibrary(s) || n.found[string(s)] {
		return
	}
	if n.text += len(s); n.text > maxNamedText {
		n.part = true
		return
	}
	if n.found == nil {
		n.found = map[string]bool{}
	}
	n.found[string(s)] = true
}

// namesLibrary reports whether s is a file name that begins with lib and ends in
// .so or in .so and numbers, by itself or at the end of a path.
func namesLibrary(s []byte) bool {
	if len(s) > maxNamedLen {
		return false
	}
	base := s[bytes.LastIndexByte(s, '/')+1:]
	i := bytes.Index(base, dotSo)
	if i < 4 || !bytes.HasPrefix(base, []byte("lib")) {
		return false
	}
	for _, c := range s[:len(s)-len(base)+i] {
		if !isNameByte(c) && c != '/' {
			return false
		}
	}
	// .so alone, or each number behind its dot
	for rest := base[i+len(dotSo):]; len(rest) > 0; {
		if rest[0] != '.' {
			return false
		}
		j := 1
		for j < len(rest) && (rest[j] >= '0' && rest[j] <= '9' || rest[j] == '%' || rest[j] == 'd' || rest[j] == 's') {
			j++
		}
		if j == 1 {
			return false
		}
		rest = rest[j:]
	}
	return true
}

// isNameByte reports whether a byte stands in names of libraries and of their
// directories. A dollar is that of $ORIGIN, a percent sign printf's.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-+.%${}", c) >= 0
}

// lookAll looks through the held start, and reads on to the end of what is looked
// through behind it.
func (w *window) lookAll(n *named) error {
	if len(n.far) > 0 {
		if err := w.skip(n.far[len(n.far)-1].end); err != nil {
			return err
		}
	}
	for _, a := range n.areas {
		if err := w.fillHead(a.end); err != nil {
			return err
		}
		n.rest, n.long = n.rest[:0], false
		n.look(w.head[a.off:a.end])
	}
	return nil
}

// finishNamed keeps the names when the object imports what opens a library by its
// name. Of what was not read of the areas, it reads on.
func (p *reader) finishNamed() {
	n := p.named
	if n == nil || p.obj.Symbols == nil || !p.obj.Symbols.imports(openers) {
		return
	}
	n.areas = without(n.areas, p.tables())
	if p.w.lookAll(n) != nil {
		return
	}
	for _, list := range [][]string{p.obj.Needed, p.obj.Auxiliary, p.obj.Filter, {p.obj.Soname}} {
		for _, s := range list {
			delete(n.found, s)
		}
	}
	for _, v := range p.obj.VersionNeeds {
		delete(n.found, v.File)
	}
	p.obj.Named = &Named{Partial: n.part}
	for s := range n.found {
		p.obj.Named.Names = append(p.obj.Named.Names, s)
	}
	slices.Sort(p.obj.Named.Names)
}

// imports reports whether one of the names, each with its NUL, is that of an
// undefined symbol.
func (s *Symbols) imports(names []string) bool {
	for i := range s.count() {
		if s.Table[i*symbolSize+symbolSize-1]&symUndef == 0 {
			continue
		}
		off := uint64(s.record(i).name)
		for _, name := range names {
			if end := off + uint64(len(name)); end <= uint64(len(s.Names)) && string(s.Names[off:end]) == name {
				return true
			}
		}
	}
	return false
}

// without are the areas less what others cover.
func without(areas, covered []area) []area {
	for _, c := range covered {
		var list []area
		for _, a := range areas {
			for _, part := range []area{{a.off, min(a.end, c.off)}, {max(a.off, c.end), a.end}} {
				if part.off < part.end {
					list = append(list, part)
				}
			}
		}
		areas = list
	}
	return areas
}

// tables are the parts of the file that hold the tables which were read for the
// object's symbols: much of what stands at its start, and no read-only data.
func (p *reader) tables() []area {
	var list []area
	add := func(addr, n uint64) {
		if off, room, ok := p.offset(addr); ok && n > 0 {
			list = append(list, area{int64(off), int64(off + min(n, room))})
		}
	}
	add(p.last(elf.DT_STRTAB), uint64(len(p.strtab)))
	add(p.last(elf.DT_SYMTAB), uint64(len(p.sym.syms)))
	add(p.last(elf.DT_VERSYM), uint64(len(p.sym.versym)))
	for _, t := range p.sym.tables {
		list = append(list, area{int64(t[0]), int64(t[0] + t[1])})
	}
	return list
}
