// Package gpucode reads which GPU code a file carries: for which architectures there is
// machine code (SASS), intermediate code (PTX) or LTO IR, in which containers.
//
// NVIDIA's tools put the code of each translation unit into a container ("fatbin"), of
// which the driver takes one entry for its GPU. A library has up to tens of thousands of
// containers in its sections. A [Walker] finds them in a stream of bytes, reads the
// headers of their entries and hops over the rest; it decompresses nothing. A [Code] has
// the containers of a file by the sets of their entries, a few kilobytes for the largest
// libraries.
//
// The package does not know GPUs, drivers or their rules: which entry a driver takes,
// and whether it can, is decided elsewhere. It does not know ELF either, except the
// header of a cubin: a caller says which parts of a file to search, and the names of its
// sections.
//
// NVIDIA documents the header of a container (fatbinary.h of CUDA 9 and 10) and keeps
// that of an entry internal. Its layout here agrees with n-eiling's
// cuda-fatbin-decompression, ZLUDA and jiegec's fatbinary, and with the files of CUDA
// 12.4 and 13.0; cuobjdump lists the same architectures.
package gpucode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of an entry. Its numbers are those of fatbinary.h.
type Kind uint16

// The kinds of entries that are known.
const (
	PTX  Kind = 1
	SASS Kind = 2 // a cubin
	IR   Kind = 8 // NVVM IR, for linking at run time
)

// knownKinds are the kinds with which a container may begin: besides the above, the
// cubins before CUDA 3, another ELF form and an unknown one (nvopen-tools).
var knownKinds = []Kind{PTX, SASS, 4, IR, 0x10, 0x40}

// Flags are properties of an entry.
type Flags uint8

// The flags of an entry that decide whether a driver can use it. LZ4 and Zstd are the
// compressions of its payload. Specific code runs on its architecture only (sm_90a),
// Family code on the architectures of its family (sm_100f). Mercury is set for the
// machine code of sm_100 and later. Unsure is set for a loose cubin that may be Specific
// or Family code without saying so (CUDA 13).
const (
	LZ4 Flags = 1 << iota
	Zstd
	Specific
	Family
	Mercury
	Unsure
)

// ISA is a version of the PTX language: its major number times 256 and its minor number;
// 0 where an entry has none.
type ISA uint16

// String returns the version as in PTX's .version directive: 8.4.
func (v ISA) String() string { return fmt.Sprintf("%d.%d", v>>8, v&0xff) }

// Entry is one or more entries of a container that differ in their payload only.
type Entry struct {
	Kind  Kind
	Arch  uint32 // the architecture as a decimal number: 75 for sm_75 and compute_75
	Flags Flags  `json:",omitempty"`
	ISA   ISA    `json:",omitempty"` // of PTX, as the header has it
	Count uint32
}

// Name returns the architecture with its suffix, such as 75, 90a or 100f.
func (e Entry) Name() string {
	s := strconv.FormatUint(uint64(e.Arch), 10)
	switch {
	case e.Flags&Specific != 0:
		s += "a"
	case e.Flags&Family != 0:
		s += "f"
	}
	return s
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Flags, b.Flags), cmp.Compare(a.ISA, b.ISA), cmp.Compare(a.Count, b.Count))
}

// Group is the containers of one section that have the same entries.
type Group struct {
	// Section is the name of the ELF section, or empty if it is not known or the file
	// is no ELF file.
	Section    string `json:",omitempty"`
	Containers uint32
	Bytes      int64 // of the containers together, as stored
	// Cut is set for containers that end before all their entries, or have headers
	// that make no sense: the entries are those before that.
	Cut     bool `json:",omitempty"`
	Entries []Entry
	// Payloads are the bytes of the payloads of each of Entries, as stored, in all
	// containers together.
	Payloads []int64 `json:",omitempty"`
}

// Form says where a file has its GPU code.
type Form uint8

// The forms of files with GPU code.
const (
	Sections Form = iota // in sections of an ELF file for the host
	Cubin                // the file is a cubin
	Fatbin               // the file is containers
)

// Code is the GPU code of a file. It does not change once it is read.
type Code struct {
	Form Form `json:",omitempty"`
	// Groups are sorted by section, then by entries.
	Groups []Group `json:",omitempty"`
	// Partial is the reason why the file may have more code than Groups, or empty.
	Partial string `json:",omitempty"`
	// Compiles are the architectures that a compiler's file names as its targets
	// (sm_90a), without the prefix, sorted by number. See [Targets].
	Compiles []string `json:",omitempty"`
	// Claims are the architectures that PyTorch's file says it was built for, in its order:
	// sm_90, compute_90. See [Claims].
	Claims []string `json:",omitempty"`
}

// Sections in which cuobjdump looks. The driver launches no kernel from relocatable
// code, which is linked into a container of the first section.
const (
	FatbinSection      = ".nv_fatbin"
	RelocatableSection = "__nv_relfatbin"
)

// Weight returns about how many bytes the code holds in memory.
func (c *Code) Weight() int64 {
	if c == nil {
		return 0
	}
	n := 64 + len(c.Partial)
	for _, s := range slices.Concat(c.Compiles, c.Claims) {
		n += 16 + len(s)
	}
	for _, g := range c.Groups {
		n += 64 + len(g.Section) + 24*len(g.Entries)
	}
	return int64(n)
}

// CompareNames orders names of architectures by their number, then by their suffix.
func CompareNames(a, b string) int {
	number := func(s string) int {
		n, _ := strconv.Atoi(strings.TrimRight(s, "af"))
		return n
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
}

// NewCubin returns the code of a loose cubin, an ELF file of machine 190 (EM_CUDA), by
// its e_ident[EI_ABIVERSION] and e_flags (LLVM's BinaryFormat/ELF.h). Up to ABI 7 (CUDA
// 12) the low byte is the architecture, and 0x800 marks code for one architecture only.
// From ABI 8 on it is the second byte, and nothing reliable marks such code.
func NewCubin(abi byte, flags uint32, size int64) *Code {
	e := Entry{Kind: SASS, Count: 1}
	if abi >= 8 {
		e.Arch = flags >> 8 & 0xff
		if e.Arch >= 90 {
			e.Flags |= Unsure
		}
	} else {
		e.Arch = flags & 0xff
		if flags&0x800 != 0 {
			e.Flags |= Specific
		}
	}
	c := &Code{Form: Cubin}
	if e.Arch == 0 {
		c.Partial = "the cubin's header names no architecture"
		return c
	}
	c.Groups = []Group{{Bytes: size, Entries: []Entry{e}, Payloads: []int64{size}}}
	return c
}

// sortGroups brings groups into the order of Code.Groups.
func sortGroups(list []Group) {
	slices.SortFunc(list, func(a, b Group) int {
		cut := func(g Group) int {
			if g.Cut {
				return 1
			}
			return 0
		}
		return cmp.Or(strings.Compare(a.Section, b.Section), slices.CompareFunc(a.Entries, b.Entries, compareEntries), cmp.Compare(cut(a), cut(b)))
	})
}
