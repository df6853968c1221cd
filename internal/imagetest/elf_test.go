package imagetest

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	glibc = "/lib64/ld-linux-x86-64.so.2"
	musl  = "/lib/ld-musl-x86_64.so.1"
)

func needLoader(t *testing.T, path, pkg string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the real loader %s is missing: install the package %s", path, pkg)
	}
}

func parseELF(t *testing.T, text string) *ELF {
	t.Helper()
	e, err := ParseELF(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// writeAll writes files, given as alternating paths and texts, into a new directory.
func writeAll(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for f := range slices.Chunk(files, 2) {
		path := filepath.Join(dir, f[0])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, parseELF(t, f[1]).Bytes(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a program in dir. It returns the exit status and the output, with the parts that differ between machines replaced.
func run(t *testing.T, dir string, env []string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(out), dir, "DIR")
	text = regexp.MustCompile(`0x[0-9a-f]+`).ReplaceAllString(text, "ADDR")
	text = regexp.MustCompile(`(/usr)?/lib(64|/x86_64-linux-gnu)/libc\.so\.6`).ReplaceAllString(text, "LIBC")
	return text, cmd.ProcessState.ExitCode()
}

const (
	exeText  = "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2\nneeded liba.so.1\nrunpath $ORIGIN/../lib\n"
	muslText = "elf x86_64 interp=/lib/ld-musl-x86_64.so.1\nneeded liba.so.1\nrunpath $ORIGIN/../lib\n"
	liba     = "elf x86_64 soname=liba.so.1\nneeded libb.so\nrunpath $ORIGIN\n"
	libb     = "elf x86_64 soname=libb.so\n"
)

// TestGlibc runs written files under the real loader and compares its output.
func TestGlibc(t *testing.T) {
	needLoader(t, glibc, "libc6")
	for _, tt := range []struct {
		name  string
		files []string
		env   []string
		args  []string // default: DIR/bin/exe
		out   string
		code  int
	}{
		{name: "chain", files: []string{"bin/exe", exeText, "lib/liba.so.1", liba, "lib/libb.so", libb}},
		{
			name: "exec type", files: []string{"bin/exe", strings.Replace(exeText, "interp", "type=exec interp", 1), "lib/liba.so.1", liba, "lib/libb.so", libb},
		},
		{
			name:  "trace",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", liba, "lib/libb.so", libb},
			args:  []string{glibc, "--list", "DIR/bin/exe"},
			out: "\tlinux-vdso.so.1 (ADDR)\n\tliba.so.1 => DIR/bin/../lib/liba.so.1 (ADDR)\n" +
				"\tlibb.so => DIR/bin/../lib/libb.so (ADDR)\n",
		},
		{
			name:  "trace by environment, tables at the end, no sections",
			files: []string{"exe", exeText + "needed libb.so", "lib/liba.so.1", "elf x86_64 tables=end nosections\nneeded libb.so\nrpath $ORIGIN", "lib/libb.so", "elf x86_64 tables=end dynstr=after\npad 1MiB\ngap 5MiB\ndef b"},
			env:   []string{"LD_TRACE_LOADED_OBJECTS=1", "LD_LIBRARY_PATH=lib"},
			args:  []string{glibc, "DIR/exe"},
			out:   "\tlinux-vdso.so.1 (ADDR)\n\tliba.so.1 => lib/liba.so.1 (ADDR)\n\tlibb.so => lib/libb.so (ADDR)\n",
		},
		{
			name: "no dependency", files: []string{"exe", "elf x86_64 interp=/lib64/ld-linux-x86-64.so.2\n"}, args: []string{"DIR/exe"},
		},
		{
			name: "missing library", files: []string{"bin/exe", exeText, "lib/liba.so.1", liba}, code: 127,
			out: "DIR/bin/exe: error while loading shared libraries: libb.so: cannot open shared object file: No such file or directory\n",
		},
		{
			name:  "wrong machine",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", strings.Replace(liba, "x86_64", "aarch64", 1)}, code: 127,
			out: "DIR/bin/exe: error while loading shared libraries: liba.so.1: cannot open shared object file: No such file or directory\n",
		},
		{
			name:  "wrong class",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", strings.Replace(liba, "x86_64", "i386", 1)}, code: 127,
			out: "DIR/bin/exe: error while loading shared libraries: liba.so.1: wrong ELF class: ELFCLASS32\n",
		},
		{
			name:  "no dynamic section",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", "elf x86_64 nodynamic\n"}, code: 127,
			out: "DIR/bin/exe: error while loading shared libraries: liba.so.1: object file has no dynamic section\n",
		},
		{
			name: "versions", files: []string{
				"bin/exe", exeText + "verneed liba.so.1 A_1 A_2\nundef f@A_1\nundef d@A_2 data\nundef t@A_2 tls",
				"lib/liba.so.1", "elf x86_64 soname=liba.so.1\nverdef liba.so.1 A_1 A_2\ndef f@@A_1\ndef d@@A_2 object\ndef t@@A_2 tls",
			},
			env: []string{"LD_BIND_NOW=1"},
		},
		{
			name: "missing version", files: []string{
				"bin/exe", exeText + "verneed liba.so.1 A_1 A_3 A_4?",
				"lib/liba.so.1", "elf x86_64 soname=liba.so.1\nverdef liba.so.1 A_1 A_2",
			},
			code: 1,
			out: "DIR/bin/exe: DIR/bin/../lib/liba.so.1: version `A_3' not found (required by DIR/bin/exe)\n" +
				"DIR/bin/exe: DIR/bin/../lib/liba.so.1: weak version `A_4' not found (required by DIR/bin/exe)\n",
		},
		{
			name: "hidden version of another name", files: []string{
				"bin/exe", exeText + "verneed liba.so.1 A_1\nundef f@A_1",
				"lib/liba.so.1", "elf x86_64 soname=liba.so.1\nverdef liba.so.1 A_1 A_2\ndef f@A_2",
			},
			env: []string{"LD_BIND_NOW=1"}, code: 127,
			out: "DIR/bin/exe: symbol lookup error: DIR/bin/exe: undefined symbol: f, version A_1\n",
		},
		{
			name: "two libraries with one version name", files: []string{
				"bin/exe", exeText + "verneed libb.so V_1\nverneed liba.so.1 V_1\nundef f@V_1 from=liba.so.1\n",
				"lib/liba.so.1", "elf x86_64 soname=liba.so.1\nneeded libb.so\nrunpath $ORIGIN\nverdef liba.so.1 V_1\ndef f@@V_1",
				"lib/libb.so", "elf x86_64 soname=libb.so\nverdef libb.so V_1",
			},
			env: []string{"LD_BIND_NOW=1"},
		},
		{
			name:  "undefined function, lazily bound",
			files: []string{"bin/exe", exeText + "undef nowhere", "lib/liba.so.1", "elf x86_64"},
		},
		{
			name:  "undefined function, bound at start",
			files: []string{"bin/exe", exeText + "undef nowhere", "lib/liba.so.1", "elf x86_64"},
			env:   []string{"LD_BIND_NOW=1"}, code: 127,
			out: "DIR/bin/exe: symbol lookup error: DIR/bin/exe: undefined symbol: nowhere\n",
		},
		{
			name:  "undefined function, flags now",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", "elf x86_64\nflags now\nundef nowhere"}, code: 127,
			out: "DIR/bin/exe: symbol lookup error: DIR/bin/../lib/liba.so.1: undefined symbol: nowhere\n",
		},
		{
			name:  "undefined data",
			files: []string{"bin/exe", exeText + "undef nothing data\nundef weakling data weak", "lib/liba.so.1", "elf x86_64"}, code: 127,
			out: "DIR/bin/exe: symbol lookup error: DIR/bin/exe: undefined symbol: nothing\n",
		},
		{
			name:  "ISA level",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", "elf x86_64\nisa 0x8000\nabitag 3.2.0\ndlopen []"}, code: 127,
			out: "DIR/bin/../lib/liba.so.1: CPU ISA level is lower than required\n",
		},
		{
			name:  "missing filter",
			files: []string{"bin/exe", exeText, "lib/liba.so.1", "elf x86_64\nauxiliary libnone.so\nfilter libgone.so"}, code: 127,
			out: "DIR/bin/exe: error while loading shared libraries: libgone.so: cannot open shared object file: No such file or directory\n",
		},
		{
			name:  "the real libc.so.6",
			files: []string{"bin/exe", exeText + "needed libc.so.6\nverneed libc.so.6 GLIBC_2.2.5\nundef malloc@GLIBC_2.2.5\nundef environ@GLIBC_2.2.5 data", "lib/liba.so.1", "elf x86_64\nverneed libc.so.6 GLIBC_9.9?\nneeded libc.so.6"},
			env:   []string{"LD_BIND_NOW=1"},
			out:   "DIR/bin/exe: LIBC: weak version `GLIBC_9.9' not found (required by DIR/bin/../lib/liba.so.1)\n",
		},
		{
			name: "a libc.so.6 of our own", // the loader calls one of its functions and looks up four
			files: []string{
				"bin/exe", exeText, "lib/liba.so.1", "elf x86_64\nneeded libc.so.6\nrunpath $ORIGIN",
				"lib/libc.so.6", "elf x86_64 soname=libc.so.6\nverdef libc.so.6 GLIBC_2.2.5 GLIBC_PRIVATE\ndef __libc_early_init@@GLIBC_PRIVATE\n" +
					"def malloc@@GLIBC_2.2.5\ndef calloc@@GLIBC_2.2.5\ndef free@@GLIBC_2.2.5\ndef realloc@@GLIBC_2.2.5",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeAll(t, tt.files...)
			args := slices.Clone(tt.args)
			if args == nil {
				args = []string{"DIR/bin/exe"}
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "DIR", dir)
			}
			out, code := run(t, dir, tt.env, args...)
			if diff := cmp.Diff(tt.out, out); diff != "" || code != tt.code {
				t.Errorf("got exit status %d, want %d; output (-want +got):\n%s", code, tt.code, diff)
			}
		})
	}
}

func TestMusl(t *testing.T) {
	needLoader(t, musl, "musl")
	for _, tt := range []struct {
		name  string
		files []string
		list  bool
		out   string
		code  int
	}{
		{name: "chain", files: []string{"bin/exe", muslText, "lib/liba.so.1", liba, "lib/libb.so", libb}},
		{
			name: "list", files: []string{"bin/exe", muslText, "lib/liba.so.1", liba, "lib/libb.so", libb}, list: true,
			out: "\tADDR (ADDR)\n\tliba.so.1 => DIR/bin/../lib/liba.so.1 (ADDR)\n\tlibb.so => DIR/bin/../lib/libb.so (ADDR)\n",
		},
		{
			name: "missing library and symbols", code: 127,
			files: []string{"bin/exe", muslText, "lib/liba.so.1", liba + "undef f\nundef d data\nundef w weak"},
			out: "Error loading shared library libb.so: No such file or directory (needed by DIR/bin/../lib/liba.so.1)\n" +
				"Error relocating DIR/bin/../lib/liba.so.1: f: symbol not found\n" +
				"Error relocating DIR/bin/../lib/liba.so.1: d: symbol not found\n",
		},
		{
			name: "only default versions are seen", code: 127,
			files: []string{
				"bin/exe", muslText + "verneed liba.so.1 V\nundef f@V\nundef g@V",
				"lib/liba.so.1", "elf x86_64\nverdef liba.so.1 V\ndef f@@V\ndef g@V",
			},
			out: "Error relocating DIR/bin/exe: g: symbol not found\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeAll(t, tt.files...)
			args := []string{dir + "/bin/exe"}
			if tt.list {
				args = []string{musl, "--list", dir + "/bin/exe"}
			}
			out, code := run(t, dir, nil, args...)
			out = strings.ReplaceAll(out, musl, "ADDR")
			if diff := cmp.Diff(tt.out, out); diff != "" || code != tt.code {
				t.Errorf("got exit status %d, want %d; output (-want +got):\n%s", code, tt.code, diff)
			}
		})
	}
}

// everything uses each directive once.
const everything = `elf x86_64 soname=libx.so.1 interp=/lib/ld.so execstack
needed liba.so
needed libb.so
auxiliary libaux.so
filter libfilter.so
rpath /r:$ORIGIN
runpath
flags origin now
flags1 now pie 0x40000000
isa 0x2
dlopen [{"soname":["libz.so.1"],"feature":"z","priority":"suggested"}]
abitag 3.2.0
rodata "a\x00b"
pad 3MiB
verneed liba.so A_1 A_2?
verdef libx.so.1 X_1 X_2
def f@@X_2
def g@X_1 object weak
def h
def t tls
undef a@A_1
undef b data weak
undef c@A_2 tls from=liba.so
`

func TestDebugELF(t *testing.T) {
	for _, text := range []string{
		everything,
		strings.Replace(everything, "execstack", "execstack tables=end", 1),
		strings.Replace(everything, "execstack", "execstack tables=end dynstr=after type=exec", 1) + "gap 100000\n",
		strings.Replace(everything, "x86_64", "i386", 1),
		strings.Replace(everything, "x86_64", "aarch64", 1),
		strings.Replace(everything, "x86_64", "ppc64le", 1),
		strings.Replace(everything, "x86_64", "riscv64", 1),
		strings.Replace(everything, "x86_64", "22", 1),
	} {
		t.Run(strings.SplitN(text, "\n", 2)[0], func(t *testing.T) { checkDebugELF(t, parseELF(t, text)) })
	}
}

func checkDebugELF(t *testing.T, e *ELF) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(e.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "machine", e.Machine, f.Machine)
	libs, err := f.ImportedLibraries()
	equalOK(t, "needed", []string{"liba.so", "libb.so"}, libs, err)
	for tag, want := range map[elf.DynTag][]string{
		elf.DT_SONAME: {"libx.so.1"}, elf.DT_RPATH: {"/r:$ORIGIN"}, elf.DT_RUNPATH: {""},
	} {
		got, err := f.DynString(tag)
		equalOK(t, tag.String(), want, got, err)
	}
	flags1, err := f.DynValue(elf.DT_FLAGS_1)
	equalOK(t, "DT_FLAGS_1", []uint64{0x48000001}, flags1, err)
	undefined, err := f.ImportedSymbols()
	equalOK(t, "undefined", []elf.ImportedSymbol{{Name: "a", Version: "A_1", Library: "liba.so"}, {Name: "c", Version: "A_2", Library: "liba.so"}},
		slices.DeleteFunc(undefined, func(s elf.ImportedSymbol) bool { return s.Library == "" }), err)
	checkSymbols(t, f)
	checkSegments(t, e, f)
}

func checkSymbols(t *testing.T, f *elf.File) {
	t.Helper()
	symbols, err := f.DynamicSymbols()
	var got []string
	for _, s := range symbols {
		home := ""
		if s.Section != elf.SHN_UNDEF {
			home = f.Sections[s.Section].Name
		}
		got = append(got, strings.Join([]string{s.Name, s.Version, elf.ST_TYPE(s.Info).String(), elf.ST_BIND(s.Info).String(), home}, " "))
	}
	equalOK(t, "symbols", []string{
		"f X_2 STT_FUNC STB_GLOBAL .text", "g X_1 STT_OBJECT STB_WEAK .data", "h  STT_FUNC STB_GLOBAL .text", "t  STT_TLS STB_GLOBAL .tbss",
		"a A_1 STT_FUNC STB_GLOBAL ", "b  STT_OBJECT STB_WEAK ", "c A_2 STT_TLS STB_GLOBAL ",
	}, got, err)
}

func checkSegments(t *testing.T, e *ELF, f *elf.File) {
	t.Helper()
	loads := 0
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_GNU_STACK:
			equal(t, "stack flags", elf.PF_R|elf.PF_W|elf.PF_X, p.Flags)
		case p.Type == elf.PT_LOAD:
			loads++
			equal(t, "page offset", p.Off%p.Align, p.Vaddr%p.Align)
		}
	}
	equal(t, "segments", 3, loads)
	notes, err := f.Section(".note.dlopen").Data()
	equalOK(t, "dlopen note", e.Dlopen+"\x00", string(notes[16:16+len(e.Dlopen)+1]), err)
	rodata, err := f.Section(".rodata").Data()
	equalOK(t, "rodata", e.Rodata, string(rodata), err)
	dynamic, dynstr := f.Section(".dynamic"), f.Section(".dynstr")
	equal(t, "dynstr lies behind the pad", e.TablesAtEnd, dynstr.Offset > uint64(e.Pad))
	equal(t, "dynstr lies behind dynamic", e.DynstrAfter, dynstr.Offset > dynamic.Offset)
	equal(t, "dynamic lies behind the pad", true, dynamic.Offset > uint64(e.Pad))
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	equalOK(t, what, want, got, nil)
}

func equalOK(t *testing.T, what string, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestBigFile checks that a pad takes no memory.
func TestBigFile(t *testing.T) {
	e := parseELF(t, "elf x86_64\nneeded a\npad 1GiB\n")
	before := testing.AllocsPerRun(1, func() {
		if _, err := e.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if before > 1000 {
		t.Errorf("writing took %v allocations", before)
	}
	if got := e.Size(); got < 1<<30 || got > 1<<30+64<<10 {
		t.Errorf("size is %d", got)
	}
}

func TestELFTextErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", `parsing ELF text: line 1: want "elf MACHINE ..."`},
		{"elf vax", `parsing ELF text: line 1: unknown machine "vax": want x86_64, aarch64, i386, ppc64le, riscv64 or an e_machine number`},
		{"elf x86_64 big", `parsing ELF text: line 1: unknown word "big"`},
		{"elf x86_64\n\n# prose\nfoo bar", `parsing ELF text: line 4: unknown directive "foo"`},
		{"elf x86_64\nneeded", `parsing ELF text: line 2: needed: nothing follows`},
		{"elf x86_64\npad 3MB", `parsing ELF text: line 2: pad: "3MB" is not a size like 4096, 64KiB, 17MiB or 1GiB, of at most 1024GiB`},
		{"elf x86_64\nundef f@V", `parsing ELF text: symbol "f": no verneed lists version "V"`},
		{"elf x86_64\nverdef liba V\ndef f@@W", `parsing ELF text: symbol "f": no verdef lists version "W"`},
		{"elf x86_64\nundef f function", `parsing ELF text: line 2: undef: "f": unknown word "function"`},
	} {
		if _, err := ParseELF(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("ParseELF(%q)\n got %v\nwant %v", tt.text, err, tt.want)
		}
	}
}

// FuzzELFText checks that ParseELF never panics, and that the text printed from its result parses to the same bytes.
func FuzzELFText(f *testing.F) {
	f.Add(everything)
	f.Add(exeText)
	f.Add("elf 0x16 nosections nodynamic nognustack tables=end dynstr=after type=dyn\ngap 1KiB\nrunpath\nrodata `x`")
	f.Add("elf i386 type=exec\nverneed f a?? b\nundef x@b\nverdef a b\ndef y@@b\ndef z@b tls")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseELF(text)
		if err != nil {
			return
		}
		again, err := ParseELF(e.Text())
		if err != nil {
			t.Fatalf("%v\nin the text printed:\n%s", err, e.Text())
		}
		if again.Text() != e.Text() {
			t.Fatalf("printed, parsed and printed again:\n%s\nwant:\n%s", again.Text(), e.Text())
		}
		if e.Size() != again.Size() {
			t.Fatalf("size was %d, is %d", e.Size(), again.Size())
		}
		if e.Size() < 1<<22 && sha256.Sum256(e.Bytes()) != sha256.Sum256(again.Bytes()) {
			t.Fatal("other bytes after printing and parsing")
		}
	})
}
