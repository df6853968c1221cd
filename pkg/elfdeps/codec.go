package elfdeps

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// This file encodes objects: few bytes for fields that most objects lack, and the
// symbols by columns, compressed (see packed). Only the same version of this package
// decodes the bytes: callers that store them put [CodecVersion] into the key.

// CodecVersion is the version of the form that [Object.AppendBinary] writes and of the
// fields that [ReadSymbols] sets. A change of either raises it.
const CodecVersion = 17

// maxWeight limits the size of the symbols of a decoded object, in bytes.
const maxWeight = 256 << 20

// errCodec is the error for bytes that AppendBinary does not write.
var errCodec = errors.New("is no encoded ELF object")

// AppendBinary appends the object's encoded form to b. The same object gives the
// same bytes; the error is always nil.
func (o *Object) AppendBinary(b []byte) ([]byte, error) {
	e := encoder{b: b}
	e.b = append(e.b, o.Ident[:]...)
	e.uint(uint64(o.Type))
	e.uint(uint64(o.Machine))
	e.uint(uint64(o.Version))
	e.uint(flags(o.Dynamic, o.Rpath != nil, o.Runpath != nil, o.Symbols != nil, o.Libc != nil, o.Named != nil, o.Modules != nil, o.GPU != nil))
	e.string(o.Fault)
	e.string(o.Interp)
	e.string(o.Soname)
	e.strings(o.Needed)
	for _, s := range []*string{o.Rpath, o.Runpath} {
		if s != nil {
			e.string(*s)
		}
	}
	e.strings(o.Auxiliary)
	e.strings(o.Filter)
	e.int(int64(o.Flags))
	e.uint(uint64(o.Flags1))
	encodeList(&e, o.VersionNeeds, func(v *VersionNeed) {
		e.string(v.File)
		encodeList(&e, v.Versions, func(v *Version) {
			e.string(v.Name)
			e.uint(flags(v.Weak))
		})
	})
	e.strings(o.VersionDefs)
	e.string(o.VersionFault)
	encodeList(&e, o.Dlopen, func(d *DlopenNote) {
		e.strings(d.Soname)
		e.string(d.Feature)
		e.string(d.Description)
		e.string(d.Priority)
	})
	if n := o.Named; n != nil {
		e.uint(flags(n.Partial))
		e.strings(n.Names)
		e.strings(n.Crates)
		e.strings(n.Functions)
		e.strings(n.Variables)
	}
	if m := o.Modules; m != nil {
		e.uint(flags(m.Partial))
		e.strings(m.Names)
		e.strings(m.Idents)
		e.strings(m.Strings)
	}
	if o.GPU != nil {
		code, _ := o.GPU.AppendBinary(nil)
		e.bytes(code)
	}
	e.uint(uint64(o.Stack))
	e.uint(uint64(o.ISANeeded))
	for _, v := range o.MinKernel {
		e.uint(uint64(v))
	}
	e.int(o.LoadEnd)
	e.int(o.LazyTail)
	e.uint(o.TLSSize)
	if l := o.Libc; l != nil {
		e.uint(flags(l.Musl, l.StackTunable))
		e.string(l.Release)
		e.strings(l.SystemDirs)
	}
	encodeList(&e, o.Unread, func(u *Unread) {
		e.string(u.What)
		e.string(u.Why)
	})
	if o.Symbols != nil {
		s := o.Symbols.Pack()
		e.uint(flags(s.Partial, s.SysV, s.BindNow, s.Symbolic, s.StaticTLS))
		e.uint(uint64(s.packed.weight))
		e.bytes(s.packed.zstd)
	}
	return e.b, nil
}

// MarshalBinary returns the object's encoded form.
func (o *Object) MarshalBinary() ([]byte, error) { return o.AppendBinary(nil) }

// UnmarshalBinary sets the object to the one that AppendBinary encoded in b. For any b
// it takes at most some tens of times the memory of b, keeps no reference to b, and
// returns an error or sets an object that is encoded as b again.
func (o *Object) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	var r Object
	copy(r.Ident[:], d.take(uint64(len(r.Ident))))
	r.Type = elf.Type(d.uint(1<<16 - 1))
	r.Machine = elf.Machine(d.uint(1<<16 - 1))
	r.Version = uint32(d.uint(1<<32 - 1))
	var rpath, runpath, symbols, libc, named, modules, gpu bool
	d.flags(&r.Dynamic, &rpath, &runpath, &symbols, &libc, &named, &modules, &gpu)
	r.Fault = d.string()
	r.Interp = d.string()
	r.Soname = d.string()
	r.Needed = d.strings()
	if rpath {
		r.Rpath = new(d.string())
	}
	if runpath {
		r.Runpath = new(d.string())
	}
	r.Auxiliary = d.strings()
	r.Filter = d.strings()
	r.Flags = elf.DynFlag(d.int())
	r.Flags1 = elf.DynFlag1(d.uint(1<<32 - 1))
	r.VersionNeeds = decodeList(&d, 2, func(v *VersionNeed) {
		v.File = d.string()
		v.Versions = decodeList(&d, 2, func(v *Version) {
			v.Name = d.string()
			d.flags(&v.Weak)
		})
	})
	r.VersionDefs = d.strings()
	r.VersionFault = d.string()
	r.Dlopen = decodeList(&d, 4, func(n *DlopenNote) {
		n.Soname = d.strings()
		n.Feature = d.string()
		n.Description = d.string()
		n.Priority = d.string()
	})
	if named {
		r.Named = &Named{}
		d.flags(&r.Named.Partial)
		r.Named.Names = d.strings()
		r.Named.Crates = d.strings()
		r.Named.Functions = d.strings()
		r.Named.Variables = d.strings()
	}
	if modules {
		r.Modules = &Modules{}
		d.flags(&r.Modules.Partial)
		r.Modules.Names = d.strings()
		r.Modules.Idents = d.strings()
		r.Modules.Strings = d.strings()
	}
	if gpu {
		r.GPU = new(gpucode.Code)
		d.failed = r.GPU.UnmarshalBinary(d.bytes(false)) != nil || d.failed
	}
	r.Stack = Stack(d.uint(255))
	r.ISANeeded = uint32(d.uint(1<<32 - 1))
	for i := range r.MinKernel {
		r.MinKernel[i] = uint32(d.uint(1<<32 - 1))
	}
	r.LoadEnd = d.int()
	r.LazyTail = d.int()
	r.TLSSize = d.uint(1<<64 - 1)
	if libc {
		r.Libc = &Libc{}
		d.flags(&r.Libc.Musl, &r.Libc.StackTunable)
		r.Libc.Release = d.string()
		r.Libc.SystemDirs = d.strings()
	}
	r.Unread = decodeList(&d, 2, func(u *Unread) {
		u.What = d.string()
		u.Why = d.string()
	})
	if symbols {
		s := &Symbols{}
		d.flags(&s.Partial, &s.SysV, &s.BindNow, &s.Symbolic, &s.StaticTLS)
		weight := d.uint(maxWeight)
		r.Symbols = s.with(&packed{weight: int64(weight), zstd: d.bytes(false)})
	}
	if d.failed || len(d.b) > 0 {
		return errCodec
	}
	*o = r
	return nil
}

// symbols encodes the tables by columns, because values that repeat from symbol to
// symbol compress well. The names, most of the bytes, stay as they are.
func (e *encoder) symbols(s *Symbols) {
	e.uint(flags(s.Names == nil, s.Table == nil, s.Refs == nil, s.Calls == nil))
	e.int(int64(s.First))
	encodeList(e, s.Versions, func(v *SymbolVersion) {
		e.string(v.Name)
		e.string(v.File)
		e.uint(flags(v.Hidden))
	})
	e.bytes(s.Names)
	n := s.count()
	e.uint(uint64(n))
	le, last := binary.LittleEndian, int64(0)
	e.column(s.Table[:n*symbolSize], func(b, r []byte) []byte {
		name := int64(le.Uint32(r))
		b, last = binary.AppendVarint(b, name-last), name
		return b
	})
	e.column(s.Table[:n*symbolSize], func(b, r []byte) []byte { return binary.AppendUvarint(b, uint64(le.Uint32(r[4:]))) })
	for at := 8; at < symbolSize; at++ { // the version's two bytes, info and bits
		e.column(s.Table[:n*symbolSize], func(b, r []byte) []byte { return append(b, r[at]) })
	}
	e.bytes(s.Table[n*symbolSize:])
	e.refs(s.Refs)
	e.refs(s.Calls)
}

// column appends the bytes that one appends for each record of a table.
func (e *encoder) column(table []byte, one func(b, record []byte) []byte) {
	const most = 1 << 10 // records between calls of spill
	for len(table) > 0 {
		part := table[:min(len(table), most*symbolSize)]
		table = table[len(part):]
		b := e.b
		for i := 0; i < len(part); i += symbolSize {
			b = one(b, part[i:i+symbolSize])
		}
		e.b = b
		e.spill(32 << 10)
	}
}

// symbols decodes the tables into s, which has its flags.
func (d *decoder) symbols(s *Symbols) {
	var noNames, noTable, noRefs, noCalls bool
	d.flags(&noNames, &noTable, &noRefs, &noCalls)
	s.First = int(d.int())
	s.Versions = decodeList(d, 3, func(v *SymbolVersion) {
		v.Name = d.string()
		v.File = d.string()
		d.flags(&v.Hidden)
	})
	s.Names = d.bytes(noNames)
	n := d.count(6)
	if cap(d.records) < n {
		d.records = make([]record, n)
	}
	records := d.records[:n]
	clear(records)
	last := int64(0)
	for i := range records {
		last += d.int()
		records[i].name = uint32(last)
		d.failed = d.failed || last != int64(uint32(last))
	}
	for i := range records {
		records[i].size = uint32(d.uint(1<<32 - 1))
	}
	for _, shift := range []int{0, 8} {
		for i, b := range d.take(uint64(n)) {
			records[i].version |= uint16(b) << shift
		}
	}
	for i, b := range d.take(uint64(n)) {
		records[i].info = b
	}
	for i, b := range d.take(uint64(n)) {
		records[i].bits = b
	}
	rest := d.take(d.uint(symbolSize - 1))
	if noTable && (n > 0 || len(rest) > 0) {
		d.failed = true
	}
	if !noTable && !d.failed {
		s.Table = make([]byte, 0, n*symbolSize+len(rest))
		for _, r := range records {
			s.Table = r.append(s.Table)
		}
		s.Table = append(s.Table, rest...)
	}
	s.Refs = d.refs(noRefs)
	s.Calls = d.refs(noCalls)
}

// refs encodes each reference by the distance of its symbol from the one before.
func (e *encoder) refs(b []byte) {
	n := len(b) / 4
	e.uint(uint64(n))
	last := int64(0)
	for i := range n {
		r := int64(binary.LittleEndian.Uint32(b[4*i:]))
		e.int((r>>3-last)<<3 | r&7)
		last = r >> 3
	}
	e.bytes(b[4*n:])
}

func (d *decoder) refs(none bool) []byte {
	n := d.count(1)
	b := make([]byte, 0, 4*n+3)
	last := int64(0)
	for range n {
		v := d.int()
		last += v >> 3
		if last != last&(1<<29-1) {
			d.failed = true
			return nil
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(last<<3|v&7))
	}
	b = append(b, d.take(d.uint(3))...)
	if none {
		d.failed = d.failed || len(b) > 0
		return nil
	}
	return slices.Clip(b)
}

// encoder appends values: numbers as varints, signed ones in zigzag, strings after
// their length, lists after their length + 1, nil lists as 0.
type encoder struct {
	b []byte
	w io.Writer // receives b each time it is large, unless nil
}

func (e *encoder) uint(v uint64) {
	e.b = binary.AppendUvarint(e.b, v)
	e.spill(32 << 10)
}

func (e *encoder) int(v int64) { e.uint(uint64(v<<1) ^ uint64(v>>63)) }

// spill writes b to w if it has more than most bytes.
func (e *encoder) spill(most int) {
	if e.w != nil && len(e.b) > most {
		e.w.Write(e.b)
		e.b = e.b[:0]
	}
}

func (e *encoder) string(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(b []byte) {
	e.uint(uint64(len(b)))
	if e.spill(0); e.w != nil {
		e.w.Write(b)
		return
	}
	e.b = append(e.b, b...)
}

func (e *encoder) strings(list []string) {
	encodeList(e, list, func(s *string) { e.string(*s) })
}

func encodeList[T any](e *encoder, list []T, one func(*T)) {
	if list == nil {
		e.uint(0)
		return
	}
	e.uint(uint64(len(list)) + 1)
	for i := range list {
		one(&list[i])
	}
}

// flags packs booleans, the first one lowest.
func flags(list ...bool) uint64 {
	var v uint64
	for i, f := range list {
		if f {
			v |= 1 << i
		}
	}
	return v
}

// decoder takes values off b. After the first value that an encoder does not write it
// has failed and returns zeros.
type decoder struct {
	records  []record // memory for those of symbols
	b        []byte
	elements int // of lists
	failed   bool
}

func (d *decoder) fail() {
	d.b, d.failed = nil, true
}

// uint takes a number of at most most, in its shortest form.
func (d *decoder) uint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > most || n > 1 && d.b[n-1] == 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v := d.uint(1<<64 - 1)
	return int64(v>>1) ^ -int64(v&1)
}

// take returns the next n bytes without copying them.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

// count takes the number of elements that follow, of at least size bytes each.
func (d *decoder) count(size int) int {
	return int(d.uint(uint64(len(d.b) / size)))
}

func (d *decoder) string() string { return string(d.take(d.uint(1<<64 - 1))) }

func (d *decoder) bytes(none bool) []byte {
	b := d.take(d.uint(1<<64 - 1))
	if none {
		d.failed = d.failed || len(b) > 0
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

func (d *decoder) strings() []string {
	return decodeList(d, 1, func(s *string) { *s = d.string() })
}

// maxElements limits the elements of all lists of an object, since an element may take
// some tens of times the memory of its bytes.
const maxElements = 1 << 20

// decodeList takes a list whose elements have at least size bytes each.
func decodeList[T any](d *decoder, size int, one func(*T)) []T {
	n := d.uint(uint64(min(len(d.b)/size, maxElements-d.elements)) + 1)
	if n == 0 {
		return nil
	}
	d.elements += int(n - 1)
	list := make([]T, n-1)
	for i := range list {
		if d.failed {
			return nil
		}
		one(&list[i])
	}
	return list
}

func (d *decoder) flags(list ...*bool) {
	v := d.uint(1<<len(list) - 1)
	for i, f := range list {
		*f = v&(1<<i) != 0
	}
}
