package elfdeps

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// This file reads the GPU code of an object. Its containers are searched where they can
// be, in data, since the section headers, which name their sections, follow at the end of
// the file.

// emCUDA is the machine of a cubin, EM_CUDA.
const emCUDA = elf.Machine(190)

// Limits on the section headers that are read.
const (
	maxSections     = 1 << 16
	maxSectionNames = 1 << 20 // bytes
	maxSectionName  = 64      // bytes

	// Section headers that are held as they stream by, with the names before them: patchelf
	// puts the string tables, which may have many megabytes, behind both.
	heldSections = 1 << 10
	heldNames    = 64 << 10 // bytes
)

// startGPU begins the search for GPU code, which goes through read-only and writable
// data; through code, too, where the linker has put read-only data into the same segment.
// It is called when the program headers are known.
func (p *reader) startGPU() {
	if !p.wantsSymbols || !p.wide || p.w.size > maxFile || len(p.loads) == 0 || p.obj.Machine == emCUDA {
		return
	}
	areas, last := codeAreas(p.loads, uint64(p.w.size))
	if h := p.sectionHeaders; h.entry == 64 && h.n <= heldSections && h.off < uint64(p.w.size) && h.off > uint64(p.w.room)+heldNames {
		p.w.hold(int64(h.off)-heldNames, heldNames+int64(h.entry)*int64(h.n))
	}
	if h := int64(p.sectionHeaders.off); h > int64(last) && h <= p.w.size {
		p.w.names = &nameSearch{from: int64(last), to: h}
	}
	p.gpu = gpucode.NewWalker(areas)
	p.gpu.Feed(0, p.w.head)
	p.w.gpu = p.gpu
}

// codeAreas returns the parts of a file that may have GPU code, by its segments, and the end of
// the last.
func codeAreas(segments []segment, size uint64) (areas []gpucode.Area, last uint64) {
	loads := slices.Clone(segments)
	slices.SortStableFunc(loads, func(a, b segment) int { return cmp.Compare(a.off, b.off) })
	mixed := loads[0].flags&elf.PF_X != 0
	for _, s := range loads {
		if s.off >= size {
			continue
		}
		off, end := max(s.off, last), s.off+min(s.filesz, size-s.off)
		if off >= end || s.flags&elf.PF_X != 0 && !mixed {
			continue
		}
		areas = append(areas, gpucode.Area{Off: int64(off), End: int64(end)})
		last = end
	}
	return areas, last
}

// CodeAreas returns the parts of an ELF file of size bytes in which [Reader] searches GPU code,
// by the file's first bytes, which must hold the program headers. It returns none for a file
// that is no 64-bit little-endian one for a host.
func CodeAreas(head []byte, size int64) []gpucode.Area {
	var h elf.Header64
	n := binary.Size(h)
	if len(head) < n || !bytes.HasPrefix(head, []byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)}) {
		return nil
	}
	if _, err := binary.Decode(head, binary.LittleEndian, &h); err != nil || elf.Machine(h.Machine) == emCUDA {
		return nil
	}
	var loads []segment
	for i := range uint64(h.Phnum) {
		var p elf.Prog64
		off := h.Phoff + i*uint64(h.Phentsize)
		if h.Phoff > uint64(len(head)) || off > uint64(len(head)) || int(h.Phentsize) < binary.Size(p) {
			return nil
		}
		if _, err := binary.Decode(head[off:], binary.LittleEndian, &p); err != nil {
			return nil
		}
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			loads = append(loads, segment{off: p.Off, filesz: p.Filesz, flags: elf.ProgFlag(p.Flags)})
		}
	}
	if len(loads) == 0 || size > maxFile {
		return nil
	}
	areas, _ := codeAreas(loads, uint64(size))
	return areas
}

// finishGPU reads the rest of the areas with GPU code and sets the object's GPU.
func (p *reader) finishGPU() {
	if p.obj.Machine == emCUDA {
		p.obj.GPU = gpucode.NewCubin(p.obj.Ident[elf.EI_ABIVERSION], p.flags, p.w.size)
		return
	}
	if p.gpu == nil || p.w.sweep() != nil {
		return
	}
	if !p.gpu.Found() {
		p.obj.GPU = p.gpu.Code(nil)
		return
	}
	sections := p.sections()
	p.obj.GPU = p.gpu.Code(func(off int64) string {
		i, ok := slices.BinarySearchFunc(sections, uint64(off), func(s section, off uint64) int {
			switch {
			case s.off+s.size <= off:
				return -1
			case s.off > off:
				return 1
			}
			return 0
		})
		if !ok {
			return ""
		}
		return sections[i].name
	})
}

// section is a section of the file.
type section struct {
	name      string
	off, size uint64
}

// sections returns the sections that have bytes in the file, by their offsets. It returns
// nil if the section headers or their names are not within reach.
func (p *reader) sections() []section {
	entry, n := uint64(p.sectionHeaders.entry), uint64(p.sectionHeaders.n)
	if entry != 64 || n == 0 || n > maxSections {
		return nil
	}
	b, err := p.w.at(int64(p.sectionHeaders.off), int64(entry*n))
	if err != nil {
		return nil
	}
	type header struct {
		name uint32
		section
	}
	var list []header
	var names section
	f := fields{b, p.order, p.wide, 0}
	for i := range n {
		var h header
		h.name = f.u32()
		typ := elf.SectionType(f.u32())
		f.word() // sh_flags
		f.word() // sh_addr
		h.off, h.size = f.word(), f.word()
		f.take(24) // sh_link to sh_entsize
		if h.size > uint64(p.w.size) || h.off > uint64(p.w.size)-h.size || typ == elf.SHT_NOBITS || h.size == 0 {
			continue
		}
		if i == uint64(p.sectionHeaders.names) {
			names = h.section
		}
		list = append(list, h)
	}
	if names.size > maxSectionNames {
		return nil
	}
	text, err := p.w.at(int64(names.off), int64(names.size))
	if err != nil {
		if text = p.w.names.at(int64(names.off), int64(names.size)); text == nil {
			return nil
		}
	}
	var out []section
	for _, h := range list {
		if uint64(h.name) < uint64(len(text)) {
			name := cstring(text[h.name:min(len(text), int(h.name)+maxSectionName)])
			out = append(out, section{name, h.off, h.size})
		}
	}
	slices.SortFunc(out, func(a, b section) int { return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.size, b.size)) })
	return out
}

// nameSearch searches the names of the sections in the part of a file between its last segment
// and its section headers. lld puts the strings of symbols, which may have many megabytes,
// between the names and the headers; so the names have gone by when their place is known.
type nameSearch struct {
	from, to int64
	buf      []byte // the last bytes that were fed, which end at end
	end      int64
	kept     []byte // the bytes around the name of the section for GPU code, from keptAt
	keptAt   int64
}

// Bytes around the section's name that are kept. The names of an ELF file have some hundred.
const (
	namesBefore = 4 << 10
	namesAfter  = 16 << 10
)

// next returns the offset of the next byte that is searched, from pos on, or -1.
func (n *nameSearch) next(pos int64) int64 {
	if n == nil || pos >= n.to || len(n.kept) >= namesBefore+namesAfter {
		return -1
	}
	return max(pos, n.from)
}

// feed searches b, the file's bytes from off.
func (n *nameSearch) feed(off int64, b []byte) {
	if n == nil || off >= n.to || off+int64(len(b)) <= n.from {
		return
	}
	if n.kept != nil {
		if off == n.keptAt+int64(len(n.kept)) {
			n.kept = append(n.kept, b[:min(len(b), namesBefore+namesAfter-len(n.kept))]...)
		}
		return
	}
	if off != n.end {
		n.buf = n.buf[:0]
	}
	n.buf = append(n.buf, b...)
	n.end = off + int64(len(b))
	if i := bytes.Index(n.buf, []byte("\x00"+gpucode.FatbinSection+"\x00")); i >= 0 {
		start := max(0, i-namesBefore)
		n.kept = slices.Clone(n.buf[start:min(len(n.buf), start+namesBefore+namesAfter)])
		n.keptAt = n.end - int64(len(n.buf)-start)
		n.buf = nil
		return
	}
	n.buf = n.buf[:copy(n.buf, n.buf[max(0, len(n.buf)-namesBefore):])]
}

// at returns n bytes from off, or nil if they were not kept.
func (n *nameSearch) at(off, size int64) []byte {
	if n == nil || off < n.keptAt || off+size > n.keptAt+int64(len(n.kept)) {
		return nil
	}
	return n.kept[off-n.keptAt : off-n.keptAt+size]
}
