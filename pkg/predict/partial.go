package predict

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"

	"github.com/imgcheck/imgcheck/internal/deflatetail"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// The bytes of a compressed library that are read at its two ends, at first and at most.
const (
	headSize = 64 << 10
	tailSize = 256 << 10
	maxEnd   = 4 << 20
	maxHead  = 32 << 20 // that the beginning decodes to
)

// Limits of a dynamic section and of a name, in bytes, and of versions.
const (
	maxDynamic  = 64 << 10
	maxName     = 4096
	maxVersions = 2000 // of both tables
)

// ends are the known parts of a file.
type ends struct {
	head []byte
	tail []int16 // up to the end of the file, some of it unknown
	size int64
	// late is set if the last bytes that were asked for lie nearer to the end, and are not known.
	late bool
}

// at returns n bytes, or nil if they are not all known.
func (e *ends) at(off, n uint64) []byte {
	size := uint64(e.size)
	if off > size || n > size-off || n > maxDynamic {
		return nil
	}
	if off+n <= uint64(len(e.head)) {
		return e.head[off : off+n]
	}
	e.late = off > size/2
	start := size - uint64(len(e.tail))
	if off < start {
		return nil
	}
	b := make([]byte, n)
	for i := range b {
		v := e.tail[off-start+uint64(i)]
		if v == deflatetail.Unknown {
			return nil
		}
		b[i] = byte(v)
	}
	return b
}

// name returns a text that ends with a NUL.
func (e *ends) name(off uint64) (string, bool) {
	var b []byte
	for len(b) < maxName {
		c := e.at(off+uint64(len(b)), 1)
		switch {
		case c == nil:
			return "", false
		case c[0] == 0:
			return string(b), true
		}
		b = append(b, c[0])
	}
	return "", false
}

var errPartly = errors.New("its ends do not tell")

// readEnds reads what a library needs from the two ends of its compressed bytes; left are the
// bytes that may be read of the wheel.
func readEnds(at io.ReaderAt, f *zip.File, left func() int64) (*elfdeps.Object, error) {
	off, err := f.DataOffset()
	if err != nil || f.Method != zip.Deflate {
		return nil, errPartly
	}
	packed := int64(min(f.CompressedSize64, 1<<50))
	e := &ends{size: int64(f.UncompressedSize64)}
	for head, tail := int64(headSize), int64(tailSize); ; {
		if left() < head+tail {
			return nil, errPartly
		}
		if err := e.read(at, off, packed, head, tail); err != nil {
			return nil, err
		}
		o, err := e.object()
		if err == nil || !errors.Is(err, errPartly) {
			return o, err
		}
		if e.late {
			tail *= 4
		} else {
			head *= 4
		}
		if max(head, tail) > maxEnd || head+tail > packed {
			return nil, errPartly
		}
	}
}

// read decodes head bytes of the beginning and tail bytes of the end.
func (e *ends) read(at io.ReaderAt, off, packed, head, tail int64) error {
	first := make([]byte, min(head, packed))
	if _, err := at.ReadAt(first, off); err != nil && err != io.EOF {
		return err
	}
	last := make([]byte, min(tail, packed))
	if _, err := at.ReadAt(last, off+packed-int64(len(last))); err != nil && err != io.EOF {
		return err
	}
	r := flate.NewReader(bytes.NewReader(first))
	e.head, _ = io.ReadAll(io.LimitReader(r, min(maxHead, e.size))) // it ends in the middle of a block
	e.tail = deflatetail.Decode(last)
	if int64(len(e.tail)) > e.size {
		return errors.New("its end is longer than the file")
	}
	return nil
}

// object returns what a loader reads of a library for x86-64, without symbols: the ELF header, the
// program headers, the dynamic section and the versions with their strings
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html,
// https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html).
func (e *ends) object() (*elfdeps.Object, error) {
	h := e.at(0, 64)
	switch {
	case h == nil:
		return nil, errPartly
	case string(h[:4]) != elf.ELFMAG:
		return nil, elfdeps.ErrNotELF
	case h[elf.EI_CLASS] != byte(elf.ELFCLASS64) || h[elf.EI_DATA] != byte(elf.ELFDATA2LSB):
		return nil, errPartly
	}
	le := binary.LittleEndian
	o := &elfdeps.Object{Type: elf.Type(le.Uint16(h[16:])), Machine: elf.Machine(le.Uint16(h[18:])), Version: le.Uint32(h[20:])}
	copy(o.Ident[:], h)
	if o.Type != elf.ET_DYN && o.Type != elf.ET_EXEC { // which no loader loads
		return nil, errPartly
	}
	size, n := uint64(le.Uint16(h[54:])), uint64(le.Uint16(h[56:]))
	if size != 56 || n == 0 || n > 200 {
		return nil, errPartly
	}
	table := e.at(le.Uint64(h[32:]), size*n)
	if table == nil {
		return nil, errPartly
	}
	d := &dynamic{ends: e, o: o}
	for p := table; len(p) >= 56; p = p[56:] {
		d.segment(elf.ProgType(le.Uint32(p)), elf.ProgFlag(le.Uint32(p[4:])), le.Uint64(p[8:]), le.Uint64(p[16:]), le.Uint64(p[32:]), le.Uint64(p[40:]))
	}
	if err := d.read(); err != nil {
		return nil, err
	}
	return o, nil
}

// dynamic is a dynamic section that is being read.
type dynamic struct {
	*ends
	o       *elfdeps.Object
	loads   [][4]uint64 // address, offset, bytes in the file and in memory
	addr    uint64      // of the section
	sz      uint64      // its bytes
	strings uint64      // the offset of the string table
	program bool        // it has an interpreter
}

func (d *dynamic) segment(kind elf.ProgType, flags elf.ProgFlag, off, addr, filesz, memsz uint64) {
	switch kind {
	case elf.PT_LOAD:
		d.loads = append(d.loads, [4]uint64{addr, off, filesz, memsz})
		if end := off + filesz; end <= uint64(d.size) && end >= off {
			d.o.LoadEnd = max(d.o.LoadEnd, int64(end))
		}
	case elf.PT_DYNAMIC:
		d.addr, d.sz, d.o.Dynamic = addr, filesz, true // the loader takes the address (_dl_map_object_from_fd, l_ld)
	case elf.PT_INTERP:
		d.program = true
	case elf.PT_TLS:
		d.o.TLSSize = memsz
	case elf.PT_GNU_STACK:
		if d.o.Stack = elfdeps.StackNoExec; flags&elf.PF_X != 0 {
			d.o.Stack = elfdeps.StackExec
		}
	}
}

// offset returns where n bytes of an address are in the file. Segments that overlap there, as no linker makes them, do
// not tell.
func (d *dynamic) offset(addr, n uint64) (off uint64, ok bool) {
	within := 0
	for _, l := range d.loads {
		if addr < l[0] || addr-l[0] >= max(l[2], l[3]) {
			continue
		}
		within++
		if at := addr - l[0]; at < l[2] && n <= l[2]-at {
			off, ok = l[1]+at, true
		}
	}
	return off, ok && within == 1
}

// read reads the section, and the names and versions that it has.
func (d *dynamic) read() error {
	if !d.o.Dynamic || d.program || d.sz > maxDynamic {
		return errPartly
	}
	off, ok := d.offset(d.addr, d.sz)
	if !ok {
		return errPartly
	}
	var list [][2]uint64
	value := map[elf.DynTag]uint64{}
	for at := uint64(0); at+16 <= d.sz; at += 16 {
		b := d.at(off+at, 16)
		if b == nil {
			return errPartly
		}
		x := [2]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
		if elf.DynTag(x[0]) == elf.DT_NULL {
			break
		}
		value[elf.DynTag(x[0])] = x[1]
		list = append(list, x)
	}
	if d.strings, ok = d.offset(value[elf.DT_STRTAB], value[elf.DT_STRSZ]); !ok {
		return errPartly
	}
	for _, x := range list {
		if err := d.entry(elf.DynTag(x[0]), x[1], value[elf.DT_STRSZ]); err != nil {
			return err
		}
	}
	return d.versions(value)
}

// versions reads the versions that the library needs and defines.
func (d *dynamic) versions(value map[elf.DynTag]uint64) error {
	left := uint64(maxVersions)
	le := binary.LittleEndian
	// each reads records that are linked by the offset at next; it returns an error if one is not
	// known.
	each := func(off, n, size, next uint64, take func(off uint64, b []byte) error) error {
		for ; n > 0; n-- {
			if left == 0 {
				return errPartly
			}
			left--
			b := d.at(off, size)
			if b == nil {
				return errPartly
			}
			if err := take(off, b); err != nil {
				return err
			}
			step := uint64(le.Uint32(b[next:]))
			if step == 0 {
				return nil
			}
			off += step
		}
		return nil
	}
	if addr, ok := value[elf.DT_VERNEED]; ok {
		off, ok := d.offset(addr, 16)
		if !ok {
			return errPartly
		}
		if err := each(off, value[elf.DT_VERNEEDNUM], 16, 12, func(off uint64, b []byte) error {
			file, ok := d.name(d.strings + uint64(le.Uint32(b[4:])))
			if !ok || le.Uint16(b) != 1 {
				return errPartly
			}
			need := elfdeps.VersionNeed{File: file}
			err := each(off+uint64(le.Uint32(b[8:])), uint64(le.Uint16(b[2:])), 16, 12, func(_ uint64, b []byte) error {
				name, ok := d.name(d.strings + uint64(le.Uint32(b[8:])))
				if !ok {
					return errPartly
				}
				need.Versions = append(need.Versions, elfdeps.Version{Name: name, Weak: le.Uint16(b[4:])&2 != 0})
				return nil
			})
			d.o.VersionNeeds = append(d.o.VersionNeeds, need)
			return err
		}); err != nil {
			return err
		}
	}
	addr, ok := value[elf.DT_VERDEF]
	if !ok {
		return nil
	}
	off, ok := d.offset(addr, 20)
	if !ok {
		return errPartly
	}
	return each(off, value[elf.DT_VERDEFNUM], 20, 16, func(off uint64, b []byte) error {
		aux := d.at(off+uint64(le.Uint32(b[12:])), 8)
		if aux == nil || le.Uint16(b) != 1 {
			return errPartly
		}
		name, ok := d.name(d.strings + uint64(le.Uint32(aux)))
		if !ok {
			return errPartly
		}
		d.o.VersionDefs = append(d.o.VersionDefs, name)
		return nil
	})
}

// entry reads an entry of the section; size is that of the string table.
func (d *dynamic) entry(tag elf.DynTag, value, size uint64) error {
	switch tag {
	case elf.DT_FLAGS:
		d.o.Flags = elf.DynFlag(value)
		return nil
	case elf.DT_FLAGS_1:
		d.o.Flags1 = elf.DynFlag1(value)
		return nil
	case elf.DT_AUXILIARY, elf.DT_FILTER:
		return errPartly
	case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH:
	default:
		return nil
	}
	if value >= size {
		return errPartly
	}
	name, ok := d.name(d.strings + value)
	if !ok {
		return errPartly
	}
	switch tag {
	case elf.DT_NEEDED:
		d.o.Needed = append(d.o.Needed, name)
	case elf.DT_SONAME:
		d.o.Soname = name
	case elf.DT_RPATH:
		d.o.Rpath = &name
	default:
		d.o.Runpath = &name
	}
	return nil
}
