// Package elfdeps reads the parts of an ELF file that a dynamic loader uses, and
// predicts what the loader of a file system would do with the file.
//
// It has two halves. [Read] turns a stream of bytes into an [Object], in one
// forward pass and bounded memory. A [Loader] is the dynamic loader found in a
// file system, glibc's or musl's, with its built-in directories, its cache and its
// environment. It starts a [Process], which holds the loaded objects: they decide
// the results of later requests. Errors have the loader's own texts. A process also
// binds the symbols of objects that [ReadSymbols] read: it ends where the real one
// says `undefined symbol`, and lists the undefined references that ldd -r prints.
//
// The package does not know images, layers, registries, frameworks or rules. It
// sees a file system through [FS]; a caller that wants the layer of a file looks
// the file up by its path.
//
// It follows the rules of glibc's elf/dl-load.c, elf/dl-cache.c, elf/dl-deps.c,
// elf/dl-version.c and elf/dl-lookup.c and of musl's ldso/dynlink.c. A comment that
// names a function without a file means one of these. Where releases differ, the
// release is a number: 236 is glibc 2.36, 10205 musl 1.2.5.
package elfdeps

import (
	"debug/elf"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// Object has the parts of one ELF file that a dynamic loader reads. It is a plain
// value, which can be stored and compared, and does not change once it is read.
type Object struct {
	// Ident is e_ident as in the file; loaders check it byte by byte.
	Ident   [elf.EI_NIDENT]byte
	Type    elf.Type
	Machine elf.Machine
	Version uint32 // e_version, 1 in every valid file

	// Fault is glibc's error for the program headers ("cannot read file data",
	// "object file has no loadable segments"), or empty.
	Fault string `json:",omitempty"`

	Interp  string `json:",omitempty"` // PT_INTERP
	Dynamic bool   `json:",omitempty"` // has a PT_DYNAMIC segment with bytes in the file

	Soname  string   `json:",omitempty"` // DT_SONAME
	Needed  []string `json:",omitempty"` // DT_NEEDED in file order
	Rpath   *string  `json:",omitempty"` // DT_RPATH, nil when the tag is absent
	Runpath *string  `json:",omitempty"` // DT_RUNPATH, nil when the tag is absent

	Auxiliary []string `json:",omitempty"` // DT_AUXILIARY
	Filter    []string `json:",omitempty"` // DT_FILTER

	Flags  elf.DynFlag  `json:",omitempty"` // DT_FLAGS
	Flags1 elf.DynFlag1 `json:",omitempty"` // DT_FLAGS_1

	VersionNeeds []VersionNeed `json:",omitempty"` // DT_VERNEED
	VersionDefs  []string      `json:",omitempty"` // DT_VERDEF, the base entry first
	// VersionFault is glibc's error for these two tables ("unsupported version 2 of
	// Verneed record"), or empty.
	VersionFault string `json:",omitempty"`

	Dlopen []DlopenNote `json:",omitempty"` // .note.dlopen
	// Named is set by [ReadSymbols] for an object that imports dlopen or dlmopen.
	Named *Named `json:",omitempty"`
	// Modules is set by [ReadSymbols] for an extension module of Python, or a library that
	// imports modules.
	Modules *Modules `json:",omitempty"`

	// GPU is set by [ReadSymbols] for a 64-bit object that carries GPU code, and for a
	// cubin.
	GPU *gpucode.Code `json:",omitempty"`

	Stack     Stack     `json:",omitempty"` // PT_GNU_STACK
	ISANeeded uint32    `json:",omitempty"` // GNU_PROPERTY_X86_ISA_1_NEEDED
	MinKernel [3]uint32 `json:",omitzero"`  // .note.ABI-tag of a Linux object
	LoadEnd   int64     `json:",omitempty"` // largest p_offset+p_filesz of a PT_LOAD, in bytes
	TLSSize   uint64    `json:",omitempty"` // p_memsz of PT_TLS, in bytes
	// LazyTail are the bytes before LoadEnd that a loader maps, and neither reads nor writes
	// while it loads the object, as far as its headers tell; 0 if they do not tell it.
	LazyTail int64 `json:",omitempty"`

	// Symbols is set by [ReadSymbols] if the symbol table could be read.
	Symbols *Symbols `json:",omitempty"`

	// Libc is set for a dynamic loader or a C library.
	Libc *Libc `json:",omitempty"`

	// Unread lists the parts that could not be read, and why. They are unknown, not
	// absent.
	Unread []Unread `json:",omitempty"`
}

// VersionNeed is one file of DT_VERNEED and the versions required of it.
type VersionNeed struct {
	File     string
	Versions []Version
}

// Version is one vernaux entry.
type Version struct {
	Name string
	Weak bool `json:",omitempty"` // VER_FLG_WEAK
}

// DlopenNote is one entry of a .note.dlopen section. Any one of its sonames serves
// (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/).
type DlopenNote struct {
	Soname      []string `json:"soname"`
	Feature     string   `json:"feature,omitempty"`
	Description string   `json:"description,omitempty"`
	Priority    string   `json:"priority,omitempty"`
}

// Unread says that a part of a file could not be read.
type Unread struct {
	What string // "string table", "version needs" …
	Why  string
}

// decisive are the parts of a file that decide how it is loaded.
var decisive = []string{"program headers", "dynamic section", "string table"}

// Unexamined returns the reason why it is unknown how the file is loaded, such as
// "the string table lies in …", or "". With a reason, an empty Needed means nothing.
func (o *Object) Unexamined() string {
	for _, u := range o.Unread {
		if slices.Contains(decisive, u.What) {
			return "the " + u.What + " " + u.Why
		}
	}
	return ""
}

// Stack is the stack that PT_GNU_STACK requests.
type Stack uint8

// The three states of PT_GNU_STACK. An absent header means an executable stack
// on x86-64 (DEFAULT_STACK_PERMS in glibc's sysdeps/x86_64/stackinfo.h).
const (
	StackAbsent Stack = iota
	StackNoExec
	StackExec
)

// Libc has the facts in the bytes of a dynamic loader or C library.
type Libc struct {
	Musl bool `json:",omitempty"`
	// Release is the version as the file prints it ("2.36", "1.2.5"), or empty if the
	// file has none.
	Release string `json:",omitempty"`
	// SystemDirs are the built-in directories of glibc's ld.so, each with its trailing
	// slash, in order.
	SystemDirs []string `json:",omitempty"`
	// StackTunable is set for a ld.so that makes the stack executable when
	// GLIBC_TUNABLES has glibc.rtld.execstack=2 (glibc commit 12a497c716: 2.42
	// upstream, and some builds of 2.41).
	StackTunable bool `json:",omitempty"`
}

// Class returns the file's EI_CLASS.
func (o *Object) Class() elf.Class { return elf.Class(o.Ident[elf.EI_CLASS]) }

// PIE reports whether an ET_DYN object is a program (DF_1_PIE).
func (o *Object) PIE() bool { return o.Flags1&elf.DF_1_PIE != 0 }

// isLoaderName reports whether soname is that of a dynamic loader or C library,
// whose bytes are searched for its release and built-in directories.
func isLoaderName(soname string) bool {
	switch {
	case strings.HasPrefix(soname, "ld-linux"), strings.HasPrefix(soname, "ld64.so"), strings.HasPrefix(soname, "ld.so."):
		return true
	case soname == "libc.so.6", soname == "libc.so", strings.HasPrefix(soname, "libc.musl-"):
		return true
	}
	return false
}
