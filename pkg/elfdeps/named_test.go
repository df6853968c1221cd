package elfdeps

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// onlyReader has no Discard.
type onlyReader struct{ r io.Reader }

func (r onlyReader) Read(p []byte) (int, error) { return r.r.Read(p) }

// discardReader skips bytes without returning them.
type discardReader struct{ *bytes.Reader }

func (r discardReader) Discard(n int) (int, error) {
	at, err := r.Seek(int64(n), io.SeekCurrent)
	if err == nil && at > r.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestNamed(t *testing.T) {
	const imports = "elf x86_64 soname=liba.so.1\nneeded libb.so.1\nundef dlopen\n"
	text := `rodata "x\x00libc.so.1\x00libb.so.1\x00liba.so.1\x00/opt/x/libd.so\x00cannot open libe.so\x00libf.so: no\x00\x00libg.so.%d\x00lib%s.so\x00libh.sock\x00h.so\x00libi.so.1a\x00libc.so.1\x00lib.so\x00$ORIGIN/libj.so.1.2\x00"` + "\n"
	want := &Named{Names: []string{"$ORIGIN/libj.so.1.2", "/opt/x/libd.so", "lib%s.so", "libc.so.1", "libg.so.%d"}}
	for _, c := range []struct {
		name, text string
		want       *Named
	}{
		{"imports dlopen", imports + text, want},
		{"imports dlmopen", "elf x86_64 soname=liba.so.1\nneeded libb.so.1\nundef dlmopen\n" + text, want},
		{"of another class", "elf i386 soname=liba.so.1\nneeded libb.so.1\nundef dlopen\n" + text, want},
		{"tables at the end", "elf x86_64 soname=liba.so.1 tables=end dynstr=after\nneeded libb.so.1\nundef dlopen\n" + text, want},
		{"far from its tables", imports + text + "pad 40MiB\n", want},
		{"has dlopen itself", "elf x86_64 soname=liba.so.1\ndef dlopen\n" + text, nil},
		{"imports a name that ends so", "elf x86_64 soname=liba.so.1\nundef my_dlopen\n" + text, nil},
		{"no import", "elf x86_64 soname=liba.so.1\nneeded libb.so.1\n" + text, nil},
		{"no names", imports, &Named{}},
		{"crates", imports + `rodata "/r/index.crates.io-6f17/cudarc-0.11.7/src/lib.rsUnable/r/index.crates.io-6f17/ort-sys-2.0.0-rc.10/src/a.rs/b/cudarc/src/lib.rs/c/x-1.2/src/y/-1.2.3/src/z"` + "\n", &Named{Crates: []string{"cudarc-0.11.7", "ort-sys-2.0.0-rc.10"}}},
		{"variables", imports + `rodata "go1.20\x00lib_path_PATHONNX_LIB_PATHnot set/A_PATH"` + "\n", &Named{Variables: []string{"A_PATH", "_PATHONNX_LIB_PATH"}}},
		{"functions", imports + `rodata "cuInitcublasCreate_v2cublasDestroy_v2\x00ncclRedOpCreatePreMulSum\x00myCreate"` + "\n", &Named{Functions: []string{"cublasCreate", "ncclRedOpCreate"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := parseELF(t, c.text).Bytes()
			for _, r := range []io.Reader{onlyReader{bytes.NewReader(file)}, discardReader{bytes.NewReader(file)}} {
				o, err := ReadSymbols(r, int64(len(file)))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, o.Named); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
	file := parseELF(t, imports+text).Bytes()
	if o, err := Read(bytes.NewReader(file), int64(len(file))); err != nil || o.Named != nil {
		t.Errorf("read without symbols, so that its imports are unknown, and yet Named is %+v, %v", o.Named, err)
	}
}

// TestNamedFar: read-only data begins within the window's head and goes on behind it. A
// name is found wherever the head ends in it, and data too far behind sets Partial.
func TestNamedFar(t *testing.T) {
	e := parseELF(t, "elf x86_64 soname=liba.so.1\nundef dlopen\n")
	const most = headSize + maxNamedFar
	e.Rodata = strings.Repeat("\x00", maxHead) // too long for a wider head
	file := e.Bytes()
	name := []byte("libb.so.1")
	for _, c := range []struct {
		at   int
		want []string
	}{
		{1 << 20, []string{"libb.so.1"}},
		{headSize - 11, []string{"libb.so.1"}},
		{headSize - 9, []string{"libb.so.1"}}, // its NUL is behind the head
		{headSize - 5, []string{"libb.so.1"}},
		{headSize, []string{"libb.so.1"}}, // the NUL before it is in the head
		{headSize + 1, []string{"libb.so.1"}},
		{headSize + skipStep - 4, []string{"libb.so.1"}},
		{most - 10, []string{"libb.so.1"}},
		{most - 9, nil},
		{most + 100, nil},
	} {
		copy(file[c.at:], name)
		for _, r := range []io.Reader{onlyReader{bytes.NewReader(file)}, discardReader{bytes.NewReader(file)}} {
			o, err := ReadSymbols(r, int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&Named{Names: c.want, Partial: true}, o.Named); diff != "" {
				t.Errorf("%d behind the start: -want +got:\n%s", c.at-headSize, diff)
			}
		}
		clear(file[c.at : c.at+len(name)])
	}
}

// TestMarksFar: a crate and a function are found wherever the window's head ends in them, and
// wherever the bytes behind it come in parts.
func TestMarksFar(t *testing.T) {
	e := parseELF(t, "elf x86_64 soname=liba.so.1\nundef dlopen\n")
	e.Rodata = strings.Repeat("\x00", maxHead)
	file := e.Bytes()
	mark := []byte("/cudarc-0.11.7/src/cublasCreate_v2")
	want := &Named{Partial: true, Crates: []string{"cudarc-0.11.7"}, Functions: []string{"cublasCreate"}}
	for _, at := range []int{1 << 20, headSize - 30, headSize - 17, headSize - 3, headSize, headSize + skipStep - 20, headSize + skipStep - 8} {
		copy(file[at:], mark)
		for _, r := range []io.Reader{onlyReader{bytes.NewReader(file)}, discardReader{bytes.NewReader(file)}} {
			o, err := ReadSymbols(r, int64(len(file)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, o.Named); diff != "" {
				t.Errorf("%d behind the start: -want +got:\n%s", at-headSize, diff)
			}
		}
		clear(file[at : at+len(mark)])
	}
}

// TestNamedBeforeHeaders: BOLT puts the program headers far behind the first segments, as in the
// libLLVM.so that comes with Rust's compiler. Bytes that were passed over to read them are not searched, and
// Partial says so; the rest of the object is read.
func TestNamedBeforeHeaders(t *testing.T) {
	e := parseELF(t, "elf x86_64 soname=liba.so.1 tables=end dynstr=after\nneeded libb.so.1\nundef dlopen\n")
	e.Rodata = strings.Repeat("\x00", maxHead+8<<20)
	file := e.Bytes()
	le := binary.LittleEndian
	off, n := le.Uint64(file[32:]), int(le.Uint16(file[54:]))*int(le.Uint16(file[56:]))
	headers := slices.Clone(file[off : off+uint64(n)])
	clear(file[off : off+uint64(n)])
	file = append(file, make([]byte, -len(file)&7)...)
	le.PutUint64(file[32:], uint64(len(file)))
	copy(file[1<<20:], "\x00libhead.so.1\x00")
	copy(file[maxHead+4<<20:], "\x00libpassed.so.1\x00")
	file = append(file, headers...)
	for _, r := range []io.Reader{onlyReader{bytes.NewReader(file)}, discardReader{bytes.NewReader(file)}} {
		o, err := ReadSymbols(r, int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&Named{Names: []string{"libhead.so.1"}, Partial: true}, o.Named); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if o.Soname != "liba.so.1" || !slices.Equal(o.Needed, []string{"libb.so.1"}) || o.GPU == nil || o.GPU.Partial == "" {
			t.Errorf("soname %q, needed %q, GPU code %+v", o.Soname, o.Needed, o.GPU)
		}
	}
}

func TestNamedIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1 << 14 {
		fmt.Fprintf(&b, "\x00lib%d.so", i)
	}
	n := &named{}
	n.look([]byte(b.String() + "\x00"))
	if !n.part || n.text-maxNamedText > maxNamedLen*(1<<14) || len(n.found) > maxNamedText/8 {
		t.Errorf("partial %v, %d names of %d bytes", n.part, len(n.found), n.text)
	}
	n = &named{}
	n.look([]byte("\x00" + strings.Repeat(".so", maxNamedLooks+1) + "\x00"))
	if !n.part || len(n.found) > 0 {
		t.Errorf("partial %v, names %v", n.part, n.found)
	}
}

var libraryNameRE = regexp.MustCompile(`^([A-Za-z0-9_+.%${}/-]*/)?lib[A-Za-z0-9_+.%${}-]+$`)

// namesOf returns the names in b by their definition: it checks each string between two NULs
// by itself.
func namesOf(b []byte) []string {
	var list []string
	parts := strings.Split(string(b), "\x00")
	for _, s := range parts[:len(parts)-1] { // the last has no NUL
		base := s[strings.LastIndexByte(s, '/')+1:]
		stem, rest, found := strings.Cut(base, ".so")
		if len(s) > maxNamedLen || !found || len(stem) < 4 || !libraryNameRE.MatchString(s) || !regexp.MustCompile(`^(\.[0-9%ds]+)*$`).MatchString(rest) {
			continue
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// FuzzNamed: for any bytes, however they are cut, the names found are those of the
// definition; at a limit they are some of those.
func FuzzNamed(f *testing.F) {
	f.Add([]byte("x\x00libc.so.1\x00/opt/libd.so\x00libe.so.%d\x00lib.so\x00liba.so.x\x00libb.sort\x00.so.so\x00lib.so.so"), uint64(1))
	f.Add([]byte("libc.so.1\x00lib"+strings.Repeat("a", 248)+".so\x00lib"+strings.Repeat("a", 250)+".so\x00"), uint64(2))
	f.Add([]byte("\x00\x00lib$x{y}.so.1..2\x00lib+.so.1.\x00a\x00/libx.so"), uint64(3))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		want := namesOf(b)
		rnd := rand.New(rand.NewPCG(seed, 1))
		for i := range 4 {
			n := &named{}
			for rest := b; len(rest) > 0; {
				cut := len(rest)
				if i > 0 {
					cut = min(cut, 1+rnd.IntN(1<<(2*i)))
				}
				n.look(rest[:cut])
				rest = rest[cut:]
			}
			var got []string
			for s := range n.found {
				got = append(got, s)
			}
			slices.Sort(got)
			if n.part {
				got = slices.DeleteFunc(got, func(s string) bool { return slices.Contains(want, s) })
				want = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("cut %d: -want +got:\n%s", i, diff)
			}
		}
	})
}
