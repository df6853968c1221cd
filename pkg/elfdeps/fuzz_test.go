package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzRead: for any bytes, Read ends, holds a bounded amount, returns the same however the
// stream is cut into reads, and agrees with debug/elf where both read the same tables.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		full,
		"elf i386 soname=a\nneeded b\nrpath /x\n",
		"elf x86_64 soname=a\nneeded b\nverneed b W X?\nverdef a V1 V2\nundef f@W\nundef g@X data\nundef t tls\ndef h@@V1 called\ndef h@V2\ndef i object protected\nstatictls 8\n",
		"elf x86_64 tables=end dynstr=after interp=/lib64/ld-linux-x86-64.so.2\nneeded b\nrunpath\n",
	} {
		f.Add(parseELF(f, text).Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := Read(bytes.NewReader(b), int64(len(b)))
		for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(b)), &chunkReader{b, rand.New(rand.NewPCG(1, uint64(len(b))))}} {
			again, err2 := Read(r, int64(len(b)))
			if (err == nil) != (err2 == nil) || !cmp.Equal(o, again) {
				t.Fatalf("the stream's pieces change the result: %v, %v\n%s", err, err2, cmp.Diff(o, again))
			}
		}
		if (o == nil) == (err == nil) {
			t.Fatalf("object and error: %v, %v", o, err)
		}
		if o == nil {
			return
		}
		bounded(t, o)
		agreesWithDebugELF(t, b, o)
		fuzzSymbols(t, b, o)
	})
}

// FuzzReadBehindHead: where the head of a file is too small for what is read, the parts that were
// read are the same as with a larger head, however the file's bytes are passed over; the others are
// in Unread. Real heads have 16 MiB, which no input of a fuzz target has.
func FuzzReadBehindHead(f *testing.F) {
	far := func(text string) []byte { // the program headers come last
		b := parseELF(f, text).Bytes()
		le := binary.LittleEndian
		off, n := le.Uint64(b[32:]), uint64(le.Uint16(b[54:]))*uint64(le.Uint16(b[56:]))
		le.PutUint64(b[32:], uint64(len(b)))
		return append(b, b[off:off+n]...)
	}
	const text = "elf x86_64 soname=a tables=end dynstr=after\nneeded b\nundef dlopen\nrodata \"x\\x00libc.so.1\\x00\"\n"
	for _, head := range []uint16{64, 200, 1000} {
		f.Add(far(text), head)
		f.Add(far(text+"gpu sm_90\n"), head)
		f.Add(parseELF(f, text).Bytes(), head)
		f.Add(parseELF(f, full).Bytes(), head)
	}
	f.Fuzz(func(t *testing.T, b []byte, head uint16) {
		want, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
		for _, r := range []io.Reader{onlyReader{bytes.NewReader(b)}, discardReader{bytes.NewReader(b)}} {
			rd := &Reader{window{least: max(64, int64(head))}}
			got, err2 := rd.read(r, int64(len(b)), true)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%v with a large head, %v with one of %d", err, err2, head)
			}
			if err != nil {
				continue
			}
			bounded(t, got)
			if len(got.Unread) > len(want.Unread) {
				continue
			}
			a, b := *want, *got
			for _, o := range []*Object{&a, &b} {
				o.Symbols, o.Named, o.Modules, o.GPU, o.Unread = nil, nil, nil, nil, nil
			}
			if !cmp.Equal(a, b) {
				t.Fatalf("a head of %d bytes changes the object:\n%s", head, cmp.Diff(a, b))
			}
			if got.Named == nil || want.Named == nil || got.Named.Partial {
				continue
			}
			for _, s := range want.Named.Names { // tables of symbols are searched behind the head
				if !slices.Contains(got.Named.Names, s) {
					t.Fatalf("a head of %d bytes loses the name %q", head, s)
				}
			}
		}
	})
}

// FuzzLibcFacts: searching for words first finds the same matches as the expressions alone.
func FuzzLibcFacts(f *testing.F) {
	for _, s := range []string{
		"\x00GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n\x00", "ld.so (x) development release version 2.40",
		" release version 1\x00ld.so (a) stable release version 2.3", "/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00",
		"a/\x00/b/\x00c/lib/\x00/usr/lib/\x00/usr", "/lib/\x00/lib", "ld.so ld.so (ld.so (a) stable release version 2.34",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		release := ""
		if m := glibcRE.FindSubmatch(b); m != nil {
			release = string(m[1])
		}
		if got := glibcRelease(b); got != release {
			t.Errorf("the release is %q, not %q", got, release)
		}
		if got, want := systemDirs(b), systemDirsRE.Find(b); len(b) < maxSystemText && !bytes.Equal(got, want) {
			t.Errorf("the directories are %q, not %q", got, want)
		}
	})
}

// fuzzSymbols: reading symbols, and names with them, does not change the other fields. The
// symbols are the same however the stream is cut, stay in bounds when they are bound, and
// have the names and versions that debug/elf finds.
func fuzzSymbols(t *testing.T, b []byte, without *Object) {
	t.Helper()
	o, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("with symbols: %v", err)
	}
	again, err := ReadSymbols(iotest.OneByteReader(bytes.NewReader(b)), int64(len(b)))
	if err != nil || !cmp.Equal(o, again) {
		t.Fatalf("the stream's pieces change the symbols: %v\n%s", err, cmp.Diff(o, again))
	}
	s := o.Symbols
	bare := *o
	bare.Symbols, bare.Named, bare.Modules, bare.Unread = nil, nil, nil, slices.DeleteFunc(slices.Clone(o.Unread), func(u Unread) bool {
		return strings.HasPrefix(u.What, "symbol") || u.What == "relocations"
	})
	if len(bare.Unread) == 0 {
		bare.Unread = nil
	}
	if diff := cmp.Diff(without, &bare); diff != "" {
		t.Fatalf("-without symbols +with:\n%s", diff)
	}
	if s == nil {
		return
	}
	bounded(t, o)
	if s.Len() > maxSymbols || len(s.Names) > maxStrtab || len(s.Refs)+len(s.Calls) > len(b) || len(s.Versions) > 1<<15 {
		t.Fatalf("%d symbols, %d bytes of names, %d of references", s.Len(), len(s.Names), len(s.Refs)+len(s.Calls))
	}
	p := &Process{Loader: &Loader{release: newestGlibc, machine: o.Machine}, names: map[string]*Module{}, ids: map[uint64]*Module{}}
	m := &Module{Path: "/a", Object: o, Main: true}
	p.setModel()
	p.loader = &Module{isLoader: true, Object: &Object{}}
	p.add(m)
	glibc{p}.setGroup(m, []*Module{m})
	p.Unresolved(nil)
	for i := range min(s.Len(), 50) { // no object refers to an empty name, and none is found by it
		sym := s.At(i)
		p.Bindings(sym.Name)
		if to, _ := p.VSym(m, sym.Name, sym.Version); to == nil && sym.Exported && sym.Name != "" && sym.Version != "" && !sym.Hidden && sym.Bind != elf.STB_LOCAL && s.Versions != nil {
			first := -1
			s.candidates([]byte(sym.Name), gnuHash([]byte(sym.Name)), func(j int, _ record) bool { first = j; return j != i })
			if first != i { // candidates does not return it
				t.Fatalf("symbol %d, %+v, is not found", i, sym)
			}
		}
	}
	if f, err := elf.NewFile(bytes.NewReader(b)); err == nil && len(o.Unread) == 0 && sameTables(f, b) && sameSymbols(f, o) {
		agreesOnSymbols(t, f, o)
	}
}

// sameSymbols reports whether the section headers and the dynamic section have the same
// tables of symbols and versions.
func sameSymbols(f *elf.File, o *Object) bool {
	at := func(typ elf.SectionType, tag elf.DynTag) bool {
		var found []*elf.Section
		for _, s := range f.Sections {
			if s.Type == typ {
				found = append(found, s)
			}
		}
		vals, err := f.DynValue(tag)
		if err != nil || len(vals) > 1 || len(found) != len(vals) {
			return false
		}
		if len(found) == 0 {
			return true
		}
		s := found[0]
		off, ok := fileOffset(f, vals[0])
		return ok && s.Offset == off && s.Addr == vals[0] && s.Flags&elf.SHF_COMPRESSED == 0
	}
	dyn := f.SectionByType(elf.SHT_DYNAMIC)
	sym := f.SectionByType(elf.SHT_DYNSYM)
	return sym != nil && sym.Link == dyn.Link && sym.Size == uint64(o.Symbols.Len()+1)*symbolEntryOf(f) &&
		at(elf.SHT_DYNSYM, elf.DT_SYMTAB) && at(elf.SHT_GNU_VERSYM, elf.DT_VERSYM) && at(elf.SHT_GNU_VERNEED, elf.DT_VERNEED) && at(elf.SHT_GNU_VERDEF, elf.DT_VERDEF) &&
		sameVersionLinks(f, dyn.Link)
}

func symbolEntryOf(f *elf.File) uint64 {
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym32Size
	}
	return elf.Sym64Size
}

// sameVersionLinks reports whether the version tables use the string table of the dynamic
// section, and each version index has one version.
func sameVersionLinks(f *elf.File, strings uint32) bool {
	seen := map[uint16]bool{}
	needs, err := f.DynamicVersionNeeds()
	defs, err2 := f.DynamicVersions()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) || err2 != nil && !errors.Is(err2, elf.ErrNoSymbols) {
		return false
	}
	once := func(i uint16) bool { had := seen[i] || i > 0x7fff; seen[i] = true; return !had }
	for _, n := range needs {
		for _, d := range n.Needs {
			if d.Dep == "" || !once(d.Index) {
				return false
			}
		}
	}
	for _, d := range defs {
		if d.Name == "" || !once(d.Index) {
			return false
		}
	}
	for _, typ := range []elf.SectionType{elf.SHT_GNU_VERNEED, elf.SHT_GNU_VERDEF} {
		if s := f.SectionByType(typ); s != nil && s.Link != strings {
			return false
		}
	}
	return true
}

func fileOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			return p.Off + addr - p.Vaddr, true
		}
	}
	return 0, false
}

// chunkReader returns its bytes in pieces of random sizes.
type chunkReader struct {
	b   []byte
	rnd *rand.Rand
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+r.rnd.IntN(100))], r.b)
	r.b = r.b[n:]
	return n, nil
}

func bounded(t *testing.T, o *Object) {
	t.Helper()
	text := len(o.Soname) + len(o.Interp)
	for _, list := range [][]string{o.Needed, o.Auxiliary, o.Filter, o.VersionDefs} {
		for _, s := range list {
			text += len(s)
		}
	}
	if text > maxText+maxName || len(o.Needed) > maxRecords || len(o.VersionNeeds) > maxRecords || len(o.VersionDefs) > maxRecords+1 {
		t.Fatalf("%d bytes of names, %d needed, %d version needs", text, len(o.Needed), len(o.VersionNeeds))
	}
	told, notes := map[string]int{}, len(o.Dlopen)
	for _, u := range o.Unread {
		if told[u.What]++; told[u.What] > maxTold {
			t.Fatalf("%d reasons why %s could not be read", told[u.What], u.What)
		}
	}
	for _, d := range o.Dlopen {
		notes += len(d.Soname)
	}
	if notes > maxNotes || o.Libc != nil && len(o.Libc.SystemDirs) > maxSystem {
		t.Fatalf("%d names of .note.dlopen, libc %+v", notes, o.Libc)
	}
	named := 0
	for i := range o.Symbols.Len() {
		named += len(o.Symbols.At(i).Name)
	}
	if named > maxNamed {
		t.Fatalf("%d bytes of names of symbols", named)
	}
}

// agreesWithDebugELF compares the names in the dynamic section and reports whether it could.
//
// debug/elf finds the dynamic section and its strings by section headers, which no loader
// reads, and does not stop at DT_NULL. So the two must agree only where sections and segments
// have the same bytes.
func agreesWithDebugELF(t *testing.T, b []byte, o *Object) bool {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil || len(o.Unread) > 0 || !o.Dynamic || !sameTables(f, b) {
		return false
	}
	strs := func(tag elf.DynTag) []string {
		list, err := f.DynString(tag)
		if err != nil {
			t.Fatalf("debug/elf: %s: %v", tag, err)
		}
		return list
	}
	last := func(tag elf.DynTag) *string {
		list := strs(tag)
		if len(list) == 0 {
			return nil
		}
		return &list[len(list)-1]
	}
	var soname *string
	if o.Soname != "" {
		soname = &o.Soname
	}
	if s := last(elf.DT_SONAME); s != nil && *s != "" && !cmp.Equal(s, soname) {
		t.Errorf("DT_SONAME: debug/elf has %q, we %q", *s, o.Soname)
	}
	if diff := cmp.Diff(last(elf.DT_RPATH), o.Rpath); diff != "" {
		t.Errorf("DT_RPATH: -debug/elf +ours:\n%s", diff)
	}
	if diff := cmp.Diff(last(elf.DT_RUNPATH), o.Runpath); diff != "" {
		t.Errorf("DT_RUNPATH: -debug/elf +ours:\n%s", diff)
	}
	if libs, err := f.ImportedLibraries(); err != nil || !slices.Equal(libs, o.Needed) {
		t.Errorf("DT_NEEDED: debug/elf has %q (%v), we %q", libs, err, o.Needed)
	}
	return true
}

// sameTables reports whether section headers and program headers have the same dynamic
// section and string table.
func sameTables(f *elf.File, b []byte) bool {
	s := f.SectionByType(elf.SHT_DYNAMIC)
	if s == nil || int(s.Link) >= len(f.Sections) || s.Flags&elf.SHF_COMPRESSED != 0 {
		return false
	}
	var dynamics []*elf.Prog
	var loads []*elf.Prog
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_DYNAMIC:
			dynamics = append(dynamics, p)
		case elf.PT_LOAD:
			loads = append(loads, p)
		}
	}
	at := func(addr uint64) uint64 {
		for _, p := range loads {
			if addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
				return p.Off + addr - p.Vaddr
			}
		}
		return 1<<64 - 1
	}
	if len(dynamics) != 1 || dynamics[0].Off != s.Offset || dynamics[0].Filesz != s.Size || at(dynamics[0].Vaddr) != s.Offset || s.Size > uint64(len(b)) {
		return false
	}
	if f.Class == elf.ELFCLASS32 && f.Type == elf.ET_REL {
		return false
	}
	strtab, strsz, ended := uint64(0), uint64(1<<64-1), false // without DT_STRSZ, no loader knows where the strings end
	word := 8
	if f.Class == elf.ELFCLASS32 {
		word = 4
	}
	d, err := s.Data()
	if err != nil {
		return false
	}
	get := func(b []byte) uint64 {
		if word == 4 {
			return uint64(f.ByteOrder.Uint32(b))
		}
		return f.ByteOrder.Uint64(b)
	}
	for ; len(d) >= 2*word; d = d[2*word:] {
		tag, val := elf.DynTag(get(d)), get(d[word:])
		switch {
		case tag == elf.DT_NULL:
			ended = true
		case ended:
			return false
		case tag == elf.DT_STRTAB:
			strtab = val
		case tag == elf.DT_STRSZ:
			strsz = val
		}
	}
	str := f.Sections[s.Link]
	return len(d) == 0 && str.Type == elf.SHT_STRTAB && str.Flags&elf.SHF_COMPRESSED == 0 && str.Offset == at(strtab) && str.Size == strsz &&
		(strsz == 0 || at(strtab+strsz-1) == str.Offset+strsz-1) // a segment may end in the table
}

// FuzzCache: any bytes are parsed as a cache without panic and within bounds, and a lookup
// returns only paths that are in the file.
func FuzzCache(f *testing.F) {
	f.Add([]byte(cacheMagicOld+"\x00\x01\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00a.so\x00/x/a.so\x00"), "a.so")
	f.Add(newCache("liba.so.1", "/c/liba.so.1"), "liba.so.1")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		c := ParseCache(b)
		if c != nil {
			written := WriteCache(c.Entries())
			if again := WriteCache(ParseCache(written).Entries()); !bytes.Equal(again, written) {
				t.Fatal("a cache changes when its entries are written again")
			}
		}
		for _, release := range []int{228, 236, 242} {
			got, ok := c.Lookup(name, 0x303, release, elf.EM_X86_64, Env{CPU: 3})
			if ok && !bytes.Contains(b, []byte(got)) {
				t.Fatalf("Lookup(%q) = %q, which is not in the cache", name, got)
			}
		}
		if compareCacheNames(name, name) != 0 {
			t.Fatalf("%q differs from itself", name)
		}
	})
}

// newCache returns a cache of the new format with one entry.
func newCache(key, value string) []byte {
	b := []byte(cacheMagicNew)
	b = binary.LittleEndian.AppendUint32(b, 1)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)+len(value)+2))
	b = append(b, 2, 0, 0, 0)
	b = append(b, make([]byte, 16)...)
	for _, v := range []uint32{0x303, 72, 72 + uint32(len(key)) + 1, 0, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(append(append(b, key...), 0), value+"\x00"...)
}
