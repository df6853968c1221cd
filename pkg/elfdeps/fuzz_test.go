package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// FuzzRead: whatever the bytes are, Read ends, holds a bounded amount, gives the
// same for every way that the stream is cut, and agrees with debug/elf where
// both look at the same tables.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		full,
		"elf i386 soname=a\nneeded b\nrpath /x\n",
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
	})
}

// chunkReader gives its bytes in pieces of random sizes.
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
}

// agreesWithDebugELF compares the names in the dynamic section and reports
// whether there was anything to compare.
//
// debug/elf finds the dynamic section and its strings by section headers, which
// no loader reads, and does not stop at DT_NULL: only where the sections name
// the same bytes as the segments do need the two agree.
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

// sameTables reports whether section headers and program headers name the same
// dynamic section and string table.
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
	strtab, strsz, ended := uint64(0), uint64(0), false
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
	return len(d) == 0 && str.Type == elf.SHT_STRTAB && str.Flags&elf.SHF_COMPRESSED == 0 && str.Offset == at(strtab) && str.Size == strsz
}

// FuzzCache: whatever the bytes are, a cache is parsed without panic and within
// bounds, and a lookup gives at most a path that stands in the file.
func FuzzCache(f *testing.F) {
	f.Add([]byte(cacheMagicOld+"\x00\x01\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00a.so\x00/x/a.so\x00"), "a.so")
	f.Add(newCache("liba.so.1", "/c/liba.so.1"), "liba.so.1")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		c := ParseCache(b)
		for _, release := range []int{228, 236, 242} {
			got, ok := c.Lookup(name, 0x303, release, elf.EM_X86_64, 3)
			if ok && !bytes.Contains(b, []byte(got)) {
				t.Fatalf("Lookup(%q) = %q, which the cache does not hold", name, got)
			}
		}
		if compareCacheNames(name, name) != 0 {
			t.Fatalf("%q differs from itself", name)
		}
	})
}

// newCache is a cache of the new format with one entry.
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
