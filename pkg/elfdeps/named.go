package elfdeps

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"strings"
)

// This file finds the libraries that an object may open by name: file names of
// libraries that stand between two NULs in the read-only data of an object that imports
// dlopen. cuDNN, NCCL and programs with plug-ins give such names to dlopen. A name may
// also be a part of a path, or be compared only.

// Named are the file names of libraries in an object's read-only data.
type Named struct {
	// Names are sorted, each once: base names (libx.so.1), paths (/opt/x/libx.so), and
	// formats for printf (libx.so.%d). The names in DT_NEEDED, DT_SONAME and the version
	// tables are left out.
	Names []string `json:",omitempty"`
	// Partial is set when some of that data was not searched, because it lies far from
	// the start of a large file or has more names than the limits allow.
	Partial bool `json:",omitempty"`
	// Crates are the packages of Cargo's registries, with their versions, whose source files
	// the data names, as the panics of Rust programs do: "cudarc-0.11.7". They are sorted.
	Crates []string `json:",omitempty"`
	// Functions are the functions in the data with which the use of a GPU library begins
	// (see beginnings): a program that asks dlsym for them has their names there. They are
	// sorted.
	Functions []string `json:",omitempty"`
	// Variables are the runs of capitals, digits and underscores with "_PATH" in them: names of
	// variables that hold a path, or texts that such a name is a part of, since Go and Rust put
	// nothing between their strings. They are sorted.
	Variables []string `json:",omitempty"`
}

// Limits on the search of one object.
const (
	// maxNamedFar limits the bytes of a read-only segment that are searched behind the
	// window's head. Linkers put .rodata first there and GPU code behind it: 8 MB and
	// 298 MB in libtorch_cuda.so. Of 1,793 names on a CUDA 13 machine this finds 1,750.
	maxNamedFar   = 16 << 20
	maxNamedText  = 32 << 10 // bytes of all names
	maxNamedLen   = 255      // of one name
	maxNamedLooks = 1 << 18  // places that look like a name
)

// openers are the functions that open a library by its name.
var openers = []string{"dlopen\x00", "dlmopen\x00"}

// named gathers the names of one object. It searches the bytes behind the window's head
// as they stream by, and the head at the end, when it is known whether the object opens
// libraries.
type named struct {
	areas []area // in the head, in the order of their places
	far   []area // behind the head
	begun bool   // the first of far continues an area of the head, which begins at from
	from  int64
	rest  []byte // the bytes since the last NUL
	long  bool   // there are more of them than a name has
	found map[string]bool
	text  int  // bytes of found
	looks int  // places that look like a name
	part  bool // some data was not searched

	marks    map[string]bool // crates, functions and variables
	edge     []byte          // the last bytes behind the head, for a mark that goes on in the next
	markText int             // bytes of marks
	tries    int             // places that look like a mark
}

// area is a part of the file, [off, end).
type area struct{ off, end int64 }

// startNamed finds the areas of read-only data. It is called when the program headers
// are known; these may lie anywhere in the file, and what was passed over to read them is
// not searched. Read-only data has segments of its own if the linker separates code.
// Otherwise it lies behind the code in the segment that begins with the headers, and
// only the window's head is searched.
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
		if off < p.w.room {
			n.areas = append(n.areas, area{off, min(end, p.w.room)})
		}
		most := max(off, p.w.room) + maxNamedFar
		if s.flags&elf.PF_X != 0 {
			most = p.w.room
		}
		n.part = n.part || end > most
		off, end = max(off, p.w.room), min(end, most)
		if off < min(end, p.w.pos) { // passed over on the way to program headers that lie behind it
			n.part, n.long = true, true // perhaps in the midst of a name
			off = p.w.pos
		}
		if off < end {
			if int64(s.off) < p.w.room && off == p.w.room {
				n.begun, n.from = true, int64(s.off)
			}
			n.far = append(n.far, area{off, end})
		}
	}
	p.named, p.w.named = n, n
}

// next returns the offset of the first byte to search from off on, or -1.
func (n *named) next(off int64) int64 {
	if n == nil || len(n.far) == 0 {
		return -1
	}
	return max(off, n.far[0].off)
}

// feed searches the bytes behind the window's head as they are read.
func (n *named) feed(w *window, off int64, b []byte) {
	for n != nil && len(n.far) > 0 {
		a := n.far[0]
		if a.off >= off+int64(len(b)) {
			return
		}
		if n.begun {
			n.begun = false
			head := w.head[max(n.from, w.room-maxNamedLen-1):]
			n.edge = slices.Clone(head)
			nul := bytes.LastIndexByte(head, 0)
			n.keep(head[nul+1:])
		}
		more := b[max(a.off, off)-off : min(a.end-off, int64(len(b)))]
		n.look(more)
		n.markFar(more)
		if a.end > off+int64(len(b)) {
			return
		}
		n.rest, n.long = n.rest[:0], false
		n.edge = nil
		n.far = n.far[1:]
	}
}

// look searches the next bytes of an area for names that end in them.
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

// keep adds to the bytes since the last NUL, as long as they may be a name.
func (n *named) keep(b []byte) {
	if n.long = n.long || len(n.rest)+len(b) > maxNamedLen; !n.long {
		n.rest = append(n.rest, b...)
	}
}

var dotSo = []byte(".so")

// strings searches b, which begins and ends with a NUL.
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

// take adds s to found if it is the file name of a library.
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

// namesLibrary reports whether s, or the end of the path s, is a file name that begins
// with lib and ends in .so or in .so and numbers.
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
	// .so, then any number of numbers, each behind a dot
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

// isNameByte reports whether c occurs in the names of libraries and their directories,
// in $ORIGIN or in a format for printf.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-+.%${}", c) >= 0
}

// lookAll searches the head, and reads to the end of the areas behind it.
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
		n.mark(w.head[a.off:a.end])
	}
	return nil
}

// finishNamed sets the object's Named if it imports one of openers. It reads the parts
// of the areas that were not read before.
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
	for m := range n.marks {
		switch {
		case isCrate(m):
			p.obj.Named.Crates = append(p.obj.Named.Crates, m)
		case strings.Contains(m, string(holdsPath)):
			p.obj.Named.Variables = append(p.obj.Named.Variables, m)
		default:
			p.obj.Named.Functions = append(p.obj.Named.Functions, m)
		}
	}
	slices.Sort(p.obj.Named.Variables)
	slices.Sort(p.obj.Named.Crates)
	slices.Sort(p.obj.Named.Functions)
}

// imports reports whether an undefined symbol has one of the names, which end in a NUL.
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

// without returns the parts of areas that covered does not cover.
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

// tables returns the areas of the tables that were read for the object's symbols. They
// are a large part of the head and have no read-only data.
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
