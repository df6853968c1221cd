package elfdeps

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

func parseELF(t testing.TB, text string) *imagetest.ELF {
	t.Helper()
	e, err := imagetest.ParseELF(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// readText reads an ELF file given as text, streaming it.
func readText(t *testing.T, text string) *Object {
	t.Helper()
	e := parseELF(t, text)
	r, w := io.Pipe()
	go func() {
		_, err := e.WriteTo(w)
		w.CloseWithError(err)
	}()
	defer r.Close()
	o, err := Read(r, e.Size())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func readBytes(t *testing.T, b []byte) *Object {
	t.Helper()
	o, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const full = `elf x86_64 soname=liba.so.1
needed libb.so.2
needed libc.so.6
auxiliary libx.so
filter liby.so
runpath $ORIGIN/../lib:/opt
flags now
flags1 nodelete nodeflib
verneed libc.so.6 GLIBC_2.2.5 GLIBC_2.34?
verdef liba.so.1 V1 V2
def f@@V2
undef g@GLIBC_2.34
isa 0x5
dlopen [{"soname":["libz.so.1","libz-ng.so.1"],"feature":"z","priority":"suggested"}]
abitag 3.2.0
`

func fullObject() *Object {
	runpath := "$ORIGIN/../lib:/opt"
	return &Object{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: elf.ET_DYN, Machine: elf.EM_X86_64, Version: 1, Dynamic: true,
		Soname: "liba.so.1", Needed: []string{"libb.so.2", "libc.so.6"}, Auxiliary: []string{"libx.so"}, Filter: []string{"liby.so"},
		Runpath: &runpath, Flags: elf.DF_BIND_NOW, Flags1: elf.DF_1_NODELETE | elf.DF_1_NODEFLIB,
		VersionNeeds: []VersionNeed{{"libc.so.6", []Version{{"GLIBC_2.2.5", false}, {"GLIBC_2.34", true}}}},
		VersionDefs:  []string{"liba.so.1", "V1", "V2"},
		Dlopen:       []DlopenNote{{Soname: []string{"libz.so.1", "libz-ng.so.1"}, Feature: "z", Priority: "suggested"}},
		Stack:        StackNoExec, ISANeeded: 5, MinKernel: [3]uint32{3, 2, 0},
	}
}

// TestReadFields reads one object with all fields in each layout that linkers and patchelf
// produce.
func TestReadFields(t *testing.T) {
	for _, layout := range []string{
		"", " nosections", " tables=end", " tables=end dynstr=after",
		"\npad 17MiB", " tables=end\npad 17MiB", " tables=end dynstr=after\npad 17MiB", " tables=end nosections\npad 40MiB\ngap 3MiB",
		" tables=end dynstr=after\npad 17MiB\ngap 30MiB", // forward there is no limit
		" tables=end\npad 9MiB\ngap 6MiB",
	} {
		head, rest, _ := strings.Cut(full, "\n")
		words, lines, _ := strings.Cut(layout, "\n")
		got := readText(t, head+words+"\n"+rest+lines+"\n")
		got.LoadEnd = 0
		if diff := cmp.Diff(fullObject(), got); diff != "" {
			t.Errorf("layout %q: -want +got:\n%s", layout, diff)
		}
	}
}

// TestReadPassed: a string table too far before the dynamic section is unread, and the names
// in it do not look absent.
func TestReadPassed(t *testing.T) {
	o := readText(t, "elf x86_64 soname=liba.so tables=end\nneeded libb.so\npad 17MiB\ngap 5MiB\n")
	want := []Unread{{"string table", errPassed.Error()}}
	if diff := cmp.Diff(want, o.Unread); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadHeaders(t *testing.T) {
	for _, c := range []struct {
		text string
		want func(o *Object) bool
	}{
		{"elf x86_64 interp=/lib64/ld-linux-x86-64.so.2", func(o *Object) bool { return o.Interp == "/lib64/ld-linux-x86-64.so.2" && o.Dynamic }},
		{"elf x86_64 type=exec", func(o *Object) bool { return o.Type == elf.ET_EXEC }},
		{"elf x86_64 execstack", func(o *Object) bool { return o.Stack == StackExec }},
		{"elf x86_64 nognustack", func(o *Object) bool { return o.Stack == StackAbsent }},
		{"elf x86_64 nodynamic\nrodata \"x\"", func(o *Object) bool { return !o.Dynamic && o.Fault == "" && len(o.Unread) == 0 }},
		{"elf aarch64 soname=a", func(o *Object) bool { return o.Machine == elf.EM_AARCH64 && o.Soname == "a" }},
		{"elf i386 soname=a\nneeded b", func(o *Object) bool {
			return o.Class() == elf.ELFCLASS32 && o.Soname == "a" && slices.Equal(o.Needed, []string{"b"})
		}},
		{"elf ppc64le soname=a", func(o *Object) bool { return o.Machine == elf.EM_PPC64 && o.Soname == "a" }},
		{"elf x86_64\nrpath", func(o *Object) bool { return o.Rpath != nil && *o.Rpath == "" && o.Runpath == nil }},
		{"elf x86_64\nrpath /a\nrunpath /b", func(o *Object) bool { return *o.Rpath == "/a" && *o.Runpath == "/b" }},
		{"elf x86_64\ndef x tls", func(o *Object) bool { return o.TLSSize == 8 }},
		{"elf x86_64\nflags1 pie", func(o *Object) bool { return o.PIE() }},
		{"elf x86_64 soname=ld-linux-x86-64.so.2\nrodata \"ld.so (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39.\\x00/lib/x/\\x00/usr/lib/x/\\x00\"", func(o *Object) bool {
			return cmp.Equal(o.Libc, &Libc{Release: "2.39", SystemDirs: []string{"/lib/x/", "/usr/lib/x/"}})
		}},
		{"elf x86_64\nrodata \"musl libc (x86_64)\\nVersion %s\\x00\\x001.2.5\\x00\"", func(o *Object) bool {
			return cmp.Equal(o.Libc, &Libc{Musl: true, Release: "1.2.5"})
		}},
	} {
		if o := readText(t, c.text+"\n"); !c.want(o) {
			t.Errorf("%s: read as %+v", c.text, o)
		}
	}
}

// edit is a change of one file: a value of some bytes at an offset.
type edit struct {
	off   int
	value uint64
	size  int
}

func edited(b []byte, edits ...edit) []byte {
	b = slices.Clone(b)
	for _, e := range edits {
		var v [8]byte
		binary.LittleEndian.PutUint64(v[:], e.value)
		copy(b[e.off:], v[:e.size])
	}
	return b
}

// dynEntry returns the offset of a value in the dynamic section.
func dynEntry(t *testing.T, b []byte, tag elf.DynTag) int {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	s := f.SectionByType(elf.SHT_DYNAMIC)
	for off := s.Offset; off < s.Offset+s.Size; off += 16 {
		if elf.DynTag(binary.LittleEndian.Uint64(b[off:])) == tag {
			return int(off) + 8
		}
	}
	t.Fatalf("no %s", tag)
	return 0
}

// sectionAt returns the offset of a section in the file.
func sectionAt(t *testing.T, b []byte, name string) int {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return int(f.Section(name).Offset)
}

// TestReadHostile: wrong values in a file are recorded in Unread, bounded, and never an
// error.
func TestReadHostile(t *testing.T) {
	b := parseELF(t, full).Bytes()
	dyn := func(tag elf.DynTag, v uint64) []byte { return edited(b, edit{dynEntry(t, b, tag), v, 8}) }
	verneed, verdef := sectionAt(t, b, ".gnu.version_r"), sectionAt(t, b, ".gnu.version_d")
	for _, c := range []struct {
		name  string
		file  []byte
		what  string // in Unread
		fault string
	}{
		{name: "strsz beyond the file", file: dyn(elf.DT_STRSZ, 1<<60)},
		{name: "strtab nowhere", file: dyn(elf.DT_STRTAB, 1<<40), what: "string table"},
		{name: "strtab null", file: dyn(elf.DT_STRTAB, 0), what: "string table"},
		{name: "soname beyond strtab", file: dyn(elf.DT_SONAME, 1<<40), what: "DT_SONAME"},
		{name: "needed beyond strtab", file: dyn(elf.DT_NEEDED, 1<<31), what: "DT_NEEDED"},
		{name: "verneed nowhere", file: dyn(elf.DT_VERNEED, 1<<50), what: "version needs"},
		{name: "verneed far", file: edited(b, edit{verneed + 12, 1 << 31, 4}), what: "version needs"},
		{name: "vernaux far", file: edited(b, edit{verneed + 8, 1 << 31, 4}), what: "version needs"},
		{name: "verneed onto itself", file: edited(b, edit{verneed + 16 + 12, 0xffffffff, 4}), what: "version needs"},
		{name: "verdef far", file: edited(b, edit{verdef + 16, 1 << 31, 4}), what: "version definitions"},
		{name: "phnum", file: edited(b, edit{56, 0xffff, 2}), fault: "cannot read file data"},
		{name: "phoff", file: edited(b, edit{32, 1<<64 - 8, 8}), fault: "cannot read file data"},
		{name: "phentsize", file: edited(b, edit{54, 55, 2}), fault: "ELF file's phentsize not the expected size"},
		{name: "no phdrs", file: edited(b, edit{56, 0, 2}), fault: "object file has no loadable segments"},
		{name: "unaligned", file: edited(b, edit{64 + 48, 0x10, 8}), fault: "ELF load command alignment not page-aligned"},
		{name: "address off", file: edited(b, edit{64 + 16, 0x10, 8}), fault: faultUnaligned},
		{name: "cut after the headers", file: b[:64+12*56], what: "dynamic section"},
		{name: "cut in the program headers", file: b[:64+56], fault: "cannot read file data"},
		{name: "object file", file: edited(b, edit{16, 1, 2})},
		{name: "garbage after the header", file: append(slices.Clone(b[:64]), bytes.Repeat([]byte{0xff}, 4096)...), fault: "object file has no loadable segments"},
	} {
		o := readBytes(t, c.file)
		if c.what != "" && !slices.ContainsFunc(o.Unread, func(u Unread) bool { return u.What == c.what }) {
			t.Errorf("%s: Unread = %v, want one of %q", c.name, o.Unread, c.what)
		}
		if o.Fault != c.fault {
			t.Errorf("%s: Fault = %q, want %q", c.name, o.Fault, c.fault)
		}
	}
}

// TestReadVersionFault: records have a version that glibc does not know.
func TestReadVersionFault(t *testing.T) {
	b := parseELF(t, full).Bytes()
	o := readBytes(t, edited(b, edit{sectionAt(t, b, ".gnu.version_r"), 2, 2}))
	if want := "unsupported version 2 of Verneed record"; o.VersionFault != want {
		t.Errorf("VersionFault = %q, want %q", o.VersionFault, want)
	}
	o = readBytes(t, edited(b, edit{sectionAt(t, b, ".gnu.version_d"), 7, 2}))
	if want := "unsupported version 7 of Verdef record"; o.VersionFault != want {
		t.Errorf("VersionFault = %q, want %q", o.VersionFault, want)
	}
}

// TestReadLastTag: of two DT_SONAME the last counts, as in
// elf_get_dynamic_info.
func TestReadLastTag(t *testing.T) {
	b := parseELF(t, "elf x86_64 soname=one\nneeded two\n").Bytes()
	o := readBytes(t, edited(b, edit{dynEntry(t, b, elf.DT_NEEDED) - 8, uint64(elf.DT_SONAME), 8}))
	if o.Soname != "one" || o.Needed != nil {
		t.Errorf("Soname, Needed = %q, %q, want the last one, none", o.Soname, o.Needed)
	}
}

// TestReadBoundsText: 65536 names of 4000 bytes each are not all kept.
func TestReadBoundsText(t *testing.T) {
	e := &imagetest.ELF{Needed: slices.Repeat([]string{strings.Repeat("x", 4000)}, 60000)}
	o := readBytes(t, e.Bytes())
	total := 0
	for _, n := range o.Needed {
		total += len(n)
	}
	if total > maxText || len(o.Unread) == 0 {
		t.Errorf("kept %d bytes of names, unread %v", total, o.Unread)
	}
}

// TestReadManyNotes: of 65535 PT_NOTE headers for the same megabyte not all are read.
func TestReadManyNotes(t *testing.T) {
	b := parseELF(t, "elf x86_64 nodynamic\nrodata \"x\"\n").Bytes()
	b = append(b[:64], make([]byte, 65535*56)...)
	for i := range 65535 {
		p := b[64+i*56:]
		binary.LittleEndian.PutUint32(p, uint32(elf.PT_NOTE))
		binary.LittleEndian.PutUint64(p[32:], 1<<20)
	}
	o := readBytes(t, edited(b, edit{56, 65535, 2}))
	if len(o.Unread) != 1 || o.Unread[0].What != "notes" {
		t.Errorf("Unread = %v, want the notes", o.Unread)
	}
}

func TestReadNotELF(t *testing.T) {
	for _, s := range []string{"", "\x7fEL", "version https://git-lfs.github.com/spec/v1\n", "\x7fELF", "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 56)} {
		if _, err := Read(strings.NewReader(s), int64(len(s))); !errors.Is(err, ErrNotELF) {
			t.Errorf("Read(%q) = %v, want ErrNotELF", s, err)
		}
	}
}

// TestReadBrokenStream: a reader's own error is returned, not recorded in the object.
func TestReadBrokenStream(t *testing.T) {
	b := parseELF(t, full).Bytes()
	for n := range len(b) {
		broken := errors.New("the layer is cut")
		r := io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken))
		o, err := Read(r, int64(len(b)))
		if err != nil && !errors.Is(err, broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err == nil && !cmp.Equal(o, readBytes(t, b)) {
			t.Fatalf("cut at %d: the result differs", n)
		}
	}
	if _, err := Read(bytes.NewReader(b[:100]), int64(len(b))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short stream: %v, want unexpected EOF", err)
	}
}

// TestWindow reads random ranges and compares them with the bytes of the file: at returns the
// right bytes, and refuses only those that are no longer held.
func TestWindow(t *testing.T) {
	const size = headSize + 3*tailSize
	file := make([]byte, size)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < size; i += 8 {
		binary.LittleEndian.PutUint64(file[i:], rnd.Uint64())
	}
	w := new(window)
	for i := range 20 {
		var r io.Reader = bytes.NewReader(file)
		if i%2 == 1 {
			r = bufio.NewReaderSize(r, 1<<16) // can skip bytes
		}
		w.reset(r, size)
		for range 30 {
			off, n := rnd.Int64N(size), rnd.Int64N(1<<rnd.IntN(23)+1)
			passed := w.pos
			got, err := w.at(off, n)
			switch {
			case off+n > size:
				if err != errBeyond {
					t.Fatalf("at(%d, %d) = %v, want it beyond the end", off, n, err)
				}
			case err != nil:
				if off+n <= headSize || off >= passed-tailSize {
					t.Fatalf("at(%d, %d) after %d bytes: %v", off, n, passed, err)
				}
			case !bytes.Equal(got, file[off:off+n]):
				t.Fatalf("at(%d, %d) after %d bytes: other bytes", off, n, passed)
			}
		}
	}
}

// TestReadReal reads this machine's libraries and compares them with debug/elf.
func TestReadReal(t *testing.T) {
	files, err := filepath.Glob("/lib/x86_64-linux-gnu/*.so*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no libraries in /lib/x86_64-linux-gnu: this test needs Debian or Ubuntu on amd64 (%v)", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
			continue // a linker script, or a directory
		}
		o := readBytes(t, b)
		if len(o.Unread) != 0 || o.Fault != "" {
			t.Errorf("%s: unread %v, fault %q", file, o.Unread, o.Fault)
		}
		if !agreesWithDebugELF(t, b, o) {
			t.Errorf("%s: debug/elf has nothing to compare", file)
		}
	}
}

func TestReadRealLoaders(t *testing.T) {
	for _, c := range []struct{ path, pkg string }{{"/lib64/ld-linux-x86-64.so.2", "libc6"}, {"/lib/ld-musl-x86_64.so.1", "musl"}} {
		b, err := os.ReadFile(c.path)
		if err != nil {
			t.Fatalf("the real loader %s is missing: install the package %s", c.path, c.pkg)
		}
		o := readBytes(t, b)
		if o.Libc == nil || releaseNumber(o.Libc.Release) == 0 || o.Libc.Musl != (c.pkg == "musl") {
			t.Fatalf("%s: Libc = %+v", c.path, o.Libc)
		}
		want := []string{"/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib/", "/usr/lib/"}
		if !o.Libc.Musl && !slices.Equal(o.Libc.SystemDirs, want) {
			t.Errorf("%s: SystemDirs = %q, want %q", c.path, o.Libc.SystemDirs, want)
		}
	}
}
