package elfdeps

import (
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// startText starts /app/main of an image text with a loader of the given release, after
// change edited the objects.
func startText(t *testing.T, release, text string, env []string, change func(path string, s *Symbols)) *Process {
	t.Helper()
	im, err := imagetest.Parse([]byte("-- 0/lib64/ld-linux-x86-64.so.2 --\nelf x86_64 soname=ld-linux-x86-64.so.2\n" +
		`rodata "ld.so (GNU libc) stable release version ` + release + `.\n\x00/lib64/\x00/usr/lib64/\x00"` + "\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	fsys := imageTree(t, im, func(_ string, b []byte) []byte { return b })
	if change != nil {
		for _, f := range im.Layers[0].Files {
			if n := fsys.get(f.Name); n != nil && n.Object != nil {
				change("/"+f.Name, n.Object.Symbols)
			}
		}
	}
	l, err := NewLoader(fsys, glibcInterp, Env{Vars: env})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := l.Start("/app/main")
	return p
}

const program = "-- 0/app/main --\nelf x86_64 interp=/lib64/ld-linux-x86-64.so.2\n"

// setRecord changes the record of a symbol.
func setRecord(s *Symbols, name string, f func(*record)) {
	for i := range s.Len() {
		if s.At(i).Name == name {
			r := s.record(i)
			f(&r)
			copy(s.Table[i*symbolSize:], r.append(nil))
		}
	}
}

// TestRelease: the error for a symbol that is missing in a version depends on the release
// of glibc.
func TestRelease(t *testing.T) {
	text := program + "needed liba.so\nverneed liba.so V1\nundef f@V1 data\n" +
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nverdef liba.so V1\nneeded libb.so\ndef g@@V1 object\n" +
		"-- 0/lib64/libb.so --\nelf x86_64 soname=libb.so\nverdef libb.so V1\n"
	moved := text + "def f@@V1 object\n"
	plain := strings.Replace(text, "verdef liba.so V1\nneeded libb.so\ndef g@@V1 object", "def f object", 1)
	for _, c := range []struct {
		name, release, text string
		want                []string
	}{
		{"missing", "2.28", text, []string{"/app/main: relocation error: /app/main: symbol f version V1 not defined in file liba.so with link time reference"}},
		{"missing", "2.30", text, []string{"/app/main: symbol lookup error: /app/main: undefined symbol: f, version V1"}},
		{"moved to another library", "2.28", moved, []string{"/app/main: relocation error: /app/main: symbol f version V1 not defined in file liba.so with link time reference"}},
		{"moved to another library", "2.31", moved, nil},
		{"provider without versions", "2.36", plain, []string{
			"/app/main: /lib64/liba.so: no version information available (required by /app/main)",
			"Inconsistency detected by ld.so: dl-lookup.c: 107: check_match: Assertion `version->filename == NULL || ! _dl_name_match_p (version->filename, map)' failed!",
		}},
		{"provider without versions", "2.41", plain, []string{"/app/main: /lib64/liba.so: no version information available (required by /app/main)"}},
	} {
		t.Run(c.name+" "+c.release, func(t *testing.T) {
			p := startText(t, c.release, c.text, nil, nil)
			if diff := cmp.Diff(c.want, p.Stderr()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRelink: binding to an IFUNC in an object that is not relocated yet, and a copy of
// another size, only print messages.
func TestRelink(t *testing.T) {
	text := program + "needed liba.so\nneeded libb.so\nundef d data\n" +
		"-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nundef f load\ndef d object\n" +
		"-- 0/lib64/libb.so --\nelf x86_64 soname=libb.so\ndef f\nneeded liba.so\n"
	change := func(path string, s *Symbols) {
		setRecord(s, "f", func(r *record) {
			if r.bits&symUndef == 0 {
				r.info = elf.ST_INFO(elf.STB_GLOBAL, elf.STT_GNU_IFUNC)
			}
		})
		if path != "/app/main" {
			return
		}
		setRecord(s, "d", func(r *record) { r.size = 4; r.bits = 0 })
		r := binary.LittleEndian.Uint32(s.Refs)
		binary.LittleEndian.PutUint32(s.Refs, r&^7|uint32(refCopy))
	}
	p := startText(t, "2.36", text, nil, change)
	want := []string{
		"/app/main: Relink `/lib64/liba.so' with `/lib64/libb.so' for IFUNC symbol `f'",
		"/app/main: Symbol `d' has different size in shared object, consider re-linking",
	}
	if diff := cmp.Diff(want, p.Stderr()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAddressOfProgram: a program that is not position-independent has addresses for
// functions that it does not define. Data references are bound to them, calls are not.
func TestAddressOfProgram(t *testing.T) {
	text := program + "needed liba.so\nundef f\n-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\nundef f load\n"
	address := func(path string, s *Symbols) {
		if path == "/app/main" {
			setRecord(s, "f", func(r *record) { r.bits &^= symNoValue })
		}
	}
	if p := startText(t, "2.36", text, nil, address); p.Status() != 0 {
		t.Errorf("data: %q", p.Stderr())
	}
	p := startText(t, "2.36", strings.Replace(text, "undef f load", "undef f", 1), []string{"LD_BIND_NOW=1"}, address)
	if want := []string{"/app/main: symbol lookup error: /lib64/liba.so: undefined symbol: f"}; !slices.Equal(p.Stderr(), want) {
		t.Errorf("call: got %q, want %q", p.Stderr(), want)
	}
}

// TestUnknownSymbols: an object without known symbols may define every name, and its own
// references are not reported.
func TestUnknownSymbols(t *testing.T) {
	text := program + "needed liba.so\nundef f data\nundef g data\n-- 0/lib64/liba.so --\nelf x86_64 soname=liba.so\ndef g object\nundef h data\n"
	if p := startText(t, "2.36", text, nil, nil); p.Status() != 127 {
		t.Fatalf("status %d", p.Status())
	}
	l := startText(t, "2.36", text, nil, nil).Loader
	f, err := l.find("/lib64/liba.so")
	if err != nil {
		t.Fatal(err)
	}
	f.Object.Symbols = nil
	p, err := l.Start("/app/main")
	if err != nil {
		t.Errorf("start: %v", err)
	}
	if list := p.Unresolved(nil); len(list) > 0 {
		t.Errorf("unresolved: %v", list)
	}
	if list := p.Unknown(); len(list) != 1 || list[0].Path != "/lib64/liba.so" {
		t.Errorf("unknown: %v", list)
	}
	if m, err := p.Sym(nil, "x"); m != nil || err != nil {
		t.Errorf("dlsym: %v, %v", m, err)
	}
	bare := l.Bare()
	f.Object.Symbols = &Symbols{}
	if m, err := bare.Dlopen(nil, "/lib64/liba.so"); err != nil || len(bare.Unresolved(m)) != 0 || len(bare.Unknown()) != 0 {
		t.Errorf("bare: %v, %v", err, bare.Unknown())
	}
}

// TestUnresolvedOfLibrary: a library is opened by a program that loads nothing else.
func TestUnresolvedOfLibrary(t *testing.T) {
	text := program + "-- 0/lib64/libcudnn_cnn.so.8 --\nelf x86_64 soname=libcudnn_cnn.so.8\nneeded libcudnn_ops.so.8\nverneed libcudnn_ops.so.8 libcudnn_ops.so.8\n" +
		"undef trace@libcudnn_ops.so.8\nundef table@libcudnn_ops.so.8 data\nundef there@libcudnn_ops.so.8\nundef __gmon_start__ weak\n" +
		"-- 0/lib64/libcudnn_ops.so.8 --\nelf x86_64 soname=libcudnn_ops.so.8\nverdef libcudnn_ops.so.8 libcudnn_ops.so.8\ndef there@@libcudnn_ops.so.8\n"
	p := startText(t, "2.36", text, nil, nil).Loader.Bare()
	m, err := p.Dlopen(nil, "/lib64/libcudnn_cnn.so.8")
	if err != nil {
		t.Fatal(err)
	}
	list := p.Unresolved(m)
	var lines []string
	for _, u := range list {
		lines = append(lines, u.String())
	}
	want := []string{
		"undefined symbol: table, version libcudnn_ops.so.8\t(/lib64/libcudnn_cnn.so.8)",
		"undefined symbol: trace, version libcudnn_ops.so.8\t(/lib64/libcudnn_cnn.so.8)",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if list[0].Lazy || !list[1].Lazy || list[1].File != "libcudnn_ops.so.8" || list[1].Version != "libcudnn_ops.so.8" {
		t.Errorf("got %+v", list)
	}
}
