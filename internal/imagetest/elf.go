package imagetest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// ELF describes the parts of an ELF file that a dynamic loader reads. The zero value is a bare x86-64 shared object.
type ELF struct {
	Machine elf.Machine // EM_386 makes a 32-bit file; EM_NONE means EM_X86_64
	Type    elf.Type    // ET_NONE means ET_DYN
	Interp  string      // if set, the file is an executable whose entry point calls exit(0)
	Soname  string

	Needed    []string
	Auxiliary []string
	Filter    []string
	Rpath     *string // nil leaves the tag out
	Runpath   *string // nil leaves the tag out
	Flags     uint64  // DT_FLAGS, left out when 0
	Flags1    uint64  // DT_FLAGS_1, left out when 0
	VerNeeds  []VerNeed
	VerDefs   []string // the base first (usually the SONAME), then the versions
	Symbols   []Symbol
	StaticTLS int64 // size of a thread-local block that the initial-exec model reaches, left out when 0

	ExecStack  bool   // PT_GNU_STACK asks for an executable stack
	NoGNUStack bool   // no PT_GNU_STACK
	ISANeeded  uint32 // GNU_PROPERTY_X86_ISA_1_NEEDED, left out when 0
	Dlopen     string // JSON of a .note.dlopen note
	ABITag     [3]int // kernel version of a .note.ABI-tag, left out when 0.0.0
	Rodata     string // bytes of a read-only segment
	GPU        []Fatbin

	Pad         int64 // zero bytes before the segment of the dynamic section
	Tail        int64 // zero bytes of data behind all other, as CUDA 13's libcufft.so has GPU code there
	Gap         int64 // with TablesAtEnd: zero bytes between the string table and the dynamic section
	TablesAtEnd bool  // the string table lies beside the dynamic section, as patchelf writes them
	DynstrAfter bool  // with TablesAtEnd: the string table follows the dynamic section
	NoDynamic   bool  // no dynamic section
	NoSections  bool  // no section headers
}

// VerNeed lists the versions that the object needs of one library.
type VerNeed struct {
	File     string
	Versions []Version
}

// Version is one needed version. A weak one may be missing.
type Version struct {
	Name string
	Weak bool
}

// Symbol is one entry of the dynamic symbol table.
type Symbol struct {
	Name    string
	Version string
	From    string // of an undefined symbol: the VerNeed file of Version, where several list it
	Defined bool
	Weak    bool
	Hidden  bool // of a defined symbol: not the default version (name@version)
	Called  bool // of a defined symbol: the object calls it through its PLT, bound lazily
	Load    bool // bound at load, like an address in data
	Vis     elf.SymVis
	Type    elf.SymType // STT_FUNC (also for 0), STT_OBJECT or STT_TLS; decides how an undefined symbol is relocated
}

// arch holds the facts about a machine that the writer needs.
type arch struct {
	name     string
	page     uint64
	flags    uint32
	start    string // code that calls exit(0)
	ret      string // code that returns
	globDat  uint32
	jumpSlot uint32
	dtpmod   uint32
	tpoff    uint32
}

var arches = map[elf.Machine]arch{
	elf.EM_X86_64: {
		name: "x86_64", page: 0x1000, globDat: 6, jumpSlot: 7, dtpmod: 16, tpoff: 18,
		start: "\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05", // mov $60,%eax; xor %edi,%edi; syscall
		ret:   "\xc3",
	},
	elf.EM_386: {
		name: "i386", page: 0x1000, globDat: 6, jumpSlot: 7, dtpmod: 35, tpoff: 14,
		start: "\xb8\x01\x00\x00\x00\x31\xdb\xcd\x80", // mov $1,%eax; xor %ebx,%ebx; int $0x80
		ret:   "\xc3",
	},
	elf.EM_AARCH64: {
		name: "aarch64", page: 0x10000, globDat: 1025, jumpSlot: 1026, dtpmod: 1028, tpoff: 1030,
		start: "\xa8\x0b\x80\xd2\x00\x00\x80\xd2\x01\x00\x00\xd4", // mov x8,#93; mov x0,#0; svc #0
		ret:   "\xc0\x03\x5f\xd6",
	},
	elf.EM_PPC64: {
		name: "ppc64le", page: 0x10000, flags: 2, globDat: 20, jumpSlot: 21, dtpmod: 68, tpoff: 73,
		start: "\x01\x00\x00\x38\x00\x00\x60\x38\x02\x00\x00\x44", // li r0,1; li r3,0; sc
		ret:   "\x20\x00\x80\x4e",
	},
	elf.EM_RISCV: {
		name: "riscv64", page: 0x1000, flags: 5, globDat: 2, jumpSlot: 5, dtpmod: 7, tpoff: 11,
		start: "\x93\x08\xd0\x05\x13\x05\x00\x00\x73\x00\x00\x00", // li a7,93; li a0,0; ecall
		ret:   "\x67\x80\x00\x00",
	},
}

func (e *ELF) machine() elf.Machine {
	if e.Machine == elf.EM_NONE {
		return elf.EM_X86_64
	}
	return e.Machine
}

func (e *ELF) arch() arch {
	if a, ok := arches[e.machine()]; ok {
		return a
	}
	return arches[elf.EM_X86_64]
}

func (e *ELF) is32() bool { return e.machine() == elf.EM_386 }

func (e *ELF) executable() bool { return e.Interp != "" || e.Type == elf.ET_EXEC }

// Bytes returns the file. The same description always makes the same bytes.
func (e *ELF) Bytes() []byte {
	var b bytes.Buffer
	e.WriteTo(&b) // a bytes.Buffer does not fail
	return b.Bytes()
}

// Size returns the length of the file.
func (e *ELF) Size() int64 {
	chunks := newObject(e).chunks()
	return chunks[len(chunks)-1].end()
}

// WriteTo writes the file. It does not hold Pad and Gap in memory.
func (e *ELF) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for _, c := range newObject(e).chunks() {
		if err := writeZeros(w, c.off-n); err != nil {
			return n, fmt.Errorf("writing ELF file: %w", err)
		}
		if _, err := w.Write(c.data); err != nil {
			return n, fmt.Errorf("writing ELF file: %w", err)
		}
		n = c.end()
	}
	return n, nil
}

var zeros [64 << 10]byte

func writeZeros(w io.Writer, n int64) error {
	for n > 0 {
		m := min(n, int64(len(zeros)))
		if _, err := w.Write(zeros[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// Validate returns an error for the first part of e that has no meaning, such as a symbol version that e does not list.
func (e *ELF) Validate() error {
	for _, s := range e.Symbols {
		if s.Version == "" {
			continue
		}
		if _, ok := newVersions(e).index(s); !ok {
			return fmt.Errorf("symbol %q: no %s lists version %q", s.Name, s.versionDirective(), s.Version)
		}
	}
	if e.Pad < 0 || e.Gap < 0 || e.Pad > maxPad || e.Gap > maxPad {
		return fmt.Errorf("pad and gap must lie between 0 and %d bytes", int64(maxPad))
	}
	if e.Tail < 0 || e.Tail > maxTail {
		return fmt.Errorf("tail must lie between 0 and %d bytes", maxTail)
	}
	if e.is32() && e.Pad+e.Gap > 1<<30 {
		return fmt.Errorf("pad and gap of a 32-bit file must not exceed 1GiB")
	}
	return nil
}

const (
	maxPad  = 1 << 40
	maxTail = 16 << 20 // it is held in memory
)

func (s Symbol) versionDirective() string {
	if s.Defined {
		return "verdef"
	}
	return "verneed"
}

// encoder appends little-endian values; addr has the size of the class.
type encoder struct {
	is32 bool
	b    []byte
}

func (w *encoder) u16(vs ...uint16) {
	for _, v := range vs {
		w.b = binary.LittleEndian.AppendUint16(w.b, v)
	}
}

func (w *encoder) u32(vs ...uint32) {
	for _, v := range vs {
		w.b = binary.LittleEndian.AppendUint32(w.b, v)
	}
}

func (w *encoder) addr(vs ...uint64) {
	for _, v := range vs {
		if w.is32 {
			w.u32(uint32(v))
		} else {
			w.b = binary.LittleEndian.AppendUint64(w.b, v)
		}
	}
}

// strtab is a string table under construction. It holds each string once.
type strtab struct {
	data []byte
	at   map[string]uint32
}

func newStrtab() *strtab { return &strtab{data: []byte{0}, at: map[string]uint32{"": 0}} }

func (t *strtab) add(s string) uint32 {
	off, ok := t.at[s]
	if !ok {
		off = uint32(len(t.data))
		t.at[s] = off
		t.data = append(append(t.data, s...), 0)
	}
	return off
}
