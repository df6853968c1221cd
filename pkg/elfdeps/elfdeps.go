// Package elfdeps knows what a dynamic loader needs to know of an ELF file, and
// what the image's own loader would do with it.
//
// It has two halves. [Read] turns a stream of bytes into an [Object]: one
// forward pass, bounded memory, nothing but what loading depends on. A [Loader]
// is the dynamic loader found in a file system, glibc's or musl's, with its
// built-in directories, its cache and its environment; it starts a [Process],
// which keeps what is loaded, because what is loaded already decides what the
// next request gets. Failures read as the loader's own words. Where [ReadSymbols]
// kept an object's symbols, the process binds them as well: it ends where the
// real one says `undefined symbol`, and tells what ldd -r would.
//
// The package does not know images, layers, registries, frameworks or rules. It
// sees a file system through [FS], and whoever wants to name a layer looks up
// the file that it names.
//
// The rules it follows are those of glibc's elf/dl-load.c, elf/dl-cache.c,
// elf/dl-deps.c, elf/dl-version.c and elf/dl-lookup.c and of musl's
// ldso/dynlink.c; each is named where it is implemented.
package elfdeps

import (
	"debug/elf"
	"slices"
	"strings"
)

// Object is what a dynamic loader reads of one ELF file. It is a plain value:
// it can be stored and compared, and is never changed once it was read.
type Object struct {
	// Ident is e_ident as it stands in the file; loaders judge it byte by byte.
	Ident   [elf.EI_NIDENT]byte
	Type    elf.Type
	Machine elf.Machine
	Version uint32 // e_version, 1 in every valid file

	// Fault is what glibc would say of the program headers ("cannot read file
	// data", "object file has no loadable segments"), or empty.
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
	// VersionFault is what glibc would say of these two tables ("unsupported
	// version 2 of Verneed record"), or empty.
	VersionFault string `json:",omitempty"`

	Dlopen []DlopenNote `json:",omitempty"` // .note.dlopen
	// Named are set by [ReadSymbols] for an object that imports what opens a
	// library by its name.
	Named *Named `json:",omitempty"`

	Stack     Stack     `json:",omitempty"` // what PT_GNU_STACK says
	ISANeeded uint32    `json:",omitempty"` // GNU_PROPERTY_X86_ISA_1_NEEDED
	MinKernel [3]uint32 `json:",omitzero"`  // .note.ABI-tag of a Linux object
	LoadEnd   int64     `json:",omitempty"` // largest p_offset+p_filesz of a PT_LOAD, in bytes
	TLSSize   uint64    `json:",omitempty"` // p_memsz of PT_TLS, in bytes

	// Symbols are set by [ReadSymbols], where they could be read.
	Symbols *Symbols `json:",omitempty"`

	// Libc is set for a dynamic loader or a C library.
	Libc *Libc `json:",omitempty"`

	// Unread lists what could not be read and why. What it names is unknown,
	// not absent.
	Unread []Unread `json:",omitempty"`
}

// VersionNeed is one file of DT_VERNEED with the versions asked of it.
type VersionNeed struct {
	File     string
	Versions []Version
}

// Version is one vernaux entry.
type Version struct {
	Name string
	Weak bool `json:",omitempty"` // VER_FLG_WEAK
}

// DlopenNote is one entry of a .note.dlopen section: sonames of which any one
// serves (https://uapi-group.org/specifications/specs/elf_dlopen_metadata/).
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

// decisive are the parts of a file without which nothing is known of how it is
// loaded.
var decisive = []string{"program headers", "dynamic section", "string table"}

// Unexamined says why it is not known how the file is loaded, as "the string table
// lies in …": that it names no libraries means nothing. It is empty where that is
// known.
func (o *Object) Unexamined() string {
	for _, u := range o.Unread {
		if slices.Contains(decisive, u.What) {
			return "the " + u.What + " " + u.Why
		}
	}
	return ""
}

// Stack is what PT_GNU_STACK asks for.
type Stack uint8

// The three states of PT_GNU_STACK. An absent header means an executable stack
// on x86-64 (DEFAULT_STACK_PERMS in glibc's sysdeps/x86_64/stackinfo.h).
const (
	StackAbsent Stack = iota
	StackNoExec
	StackExec
)

// Libc is what the bytes of a dynamic loader or C library tell about it.
type Libc struct {
	Musl bool `json:",omitempty"`
	// Release is the version as the file prints it ("2.36", "1.2.5"), or empty
	// when it does not tell.
	Release string `json:",omitempty"`
	// SystemDirs are the built-in directories compiled into glibc's ld.so, each
	// with its trailing slash, in order.
	SystemDirs []string `json:",omitempty"`
	// StackTunable is set for a ld.so that makes the stack executable when
	// GLIBC_TUNABLES has glibc.rtld.execstack=2 (12a497c716: upstream's 2.42, and
	// some builds of 2.41).
	StackTunable bool `json:",omitempty"`
}

// Class is the file's EI_CLASS.
func (o *Object) Class() elf.Class { return elf.Class(o.Ident[elf.EI_CLASS]) }

// PIE reports whether an ET_DYN object is a program (DF_1_PIE).
func (o *Object) PIE() bool { return o.Flags1&elf.DF_1_PIE != 0 }

// isLoaderName reports whether soname is that of a dynamic loader or C library,
// whose bytes are searched for release and built-in directories.
func isLoaderName(soname string) bool {
	switch {
	case strings.HasPrefix(soname, "ld-linux"), strings.HasPrefix(soname, "ld64.so"), strings.HasPrefix(soname, "ld.so."):
		return true
	case soname == "libc.so.6", soname == "libc.so", strings.HasPrefix(soname, "libc.musl-"):
		return true
	}
	return false
}
