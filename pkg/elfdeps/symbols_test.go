package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// agreesOnSymbols compares symbols with debug/elf, which finds the tables by section headers.
// It reports whether it could.
func agreesOnSymbols(t testing.TB, f *elf.File, o *Object) bool {
	t.Helper()
	want, err := f.DynamicSymbols()
	if err != nil || o.Symbols == nil || o.Symbols.Len() == 0 {
		return false
	}
	s := o.Symbols
	if s.Len() > len(want) {
		t.Errorf("debug/elf has %d symbols, we %d", len(want), s.Len())
		return true
	}
	// In an object without exports no table has the number of symbols, and those that no
	// relocation refers to are unknown.
	if s.Len() < len(want) && s.First <= s.Len() {
		t.Errorf("debug/elf has %d symbols, we %d", len(want), s.Len())
	}
	base := map[uint16]bool{} // VER_FLG_BASE: _dl_check_map_versions leaves such a version without a name, whatever its index
	defs, _ := f.DynamicVersions()
	for _, d := range defs {
		base[d.Index] = d.Flags&elf.VER_FLG_BASE != 0
	}
	for i, w := range want[:s.Len()] {
		if base[w.VersionIndex.Index()] {
			w.Version = ""
		}
		got := s.At(i)
		defined := w.Section != elf.SHN_UNDEF
		if got.Name != w.Name || got.Bind != elf.ST_BIND(w.Info) || got.Type != elf.ST_TYPE(w.Info) || got.Vis != elf.ST_VISIBILITY(w.Other) || got.Defined != defined {
			t.Errorf("symbol %d: debug/elf has %+v, we %+v", i+1, w, got)
			return true
		}
		// A verdef without VER_FLG_BASE may give version 1 a name. glibc takes it (_dl_check_map_versions), debug/elf does not.
		if w.HasVersion && s.Versions != nil && got.Version != w.Version && w.VersionIndex.Index() != 1 {
			t.Errorf("symbol %d, %s: debug/elf has version %q of %q, we %q of %q", i+1, w.Name, w.Version, w.Library, got.Version, got.File)
			return true
		}
		if got.File != w.Library && got.File != "" && w.Library != "" {
			t.Errorf("symbol %d, %s: debug/elf has library %q, we %q", i+1, w.Name, w.Library, got.File)
			return true
		}
	}
	return true
}

// agreesOnReferences compares references with the relocation sections that a loader reads.
func agreesOnReferences(t testing.TB, f *elf.File, o *Object) bool {
	t.Helper()
	if f.Class != elf.ELFCLASS64 || o.Symbols.Partial {
		return false
	}
	types := relocTypes[o.Machine]
	want, got := map[string]bool{}, map[string]bool{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return false
		}
		for ; len(b) >= 24; b = b[24:] {
			if info := f.ByteOrder.Uint64(b[8:]); info>>32 != 0 {
				want[fmt.Sprint(info>>32, s.Name == ".rela.plt" && uint32(info) == types.jumpSlot)] = true
			}
		}
	}
	o.Symbols.References(func(i int, lazy bool) { got[fmt.Sprint(i+1, lazy)] = true })
	if !maps.Equal(want, got) {
		t.Errorf("the sections refer to %d symbols, we to %d", len(want), len(got))
	}
	return true
}

// machineFiles calls f with the ELF files of this machine, or of ELFDEPS_FILES.
func machineFiles(t testing.TB, f func(file string, r *os.File, size int64)) {
	t.Helper()
	roots := []string{"/usr/lib", "/usr/bin"}
	if dir := os.Getenv("ELFDEPS_FILES"); dir != "" {
		roots = filepath.SplitList(dir)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			r, err := os.Open(p)
			if err != nil {
				return nil
			}
			defer r.Close()
			st, err := r.Stat()
			if err != nil {
				return err
			}
			magic := make([]byte, 4)
			if n, _ := r.ReadAt(magic, 0); n < 4 || string(magic) != elf.ELFMAG {
				return nil
			}
			f(p, r, st.Size())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSymbolsOfThisMachine compares the symbols and references of every tenth library of this
// machine, or of all files below the directories in ELFDEPS_FILES, with debug/elf.
func TestSymbolsOfThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("reads libraries of this machine")
	}
	every := 10
	if os.Getenv("ELFDEPS_FILES") != "" {
		every = 1
	}
	files := 0
	var objects, compared, symbols, names, table, refs, partial, unread int
	var plain, full time.Duration
	machineFiles(t, func(file string, r *os.File, size int64) {
		if files++; files%every != 0 {
			return
		}
		begin := time.Now()
		without, err := Read(r, size)
		if err != nil || !without.Dynamic {
			return
		}
		plain += time.Since(begin)
		if _, err := r.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		o, err := ReadSymbols(r, size)
		full += time.Since(begin)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			return
		}
		objects++
		if o.Symbols == nil {
			unread++
			t.Logf("%s: %v", file, o.Unread)
			return
		}
		s := o.Symbols
		if s.Partial {
			partial++
			t.Logf("%s: %v", file, o.Unread)
		}
		symbols += s.Len()
		names += len(s.Names)
		table += len(s.Table)
		refs += len(s.Refs) + len(s.Calls)
		f, err := elf.NewFile(r)
		if err != nil {
			return
		}
		defer f.Close()
		if agreesOnSymbols(t, f, o) && agreesOnReferences(t, f, o) {
			compared++
		}
		if t.Failed() {
			t.Fatal(file)
		}
	})
	t.Logf("%d objects, %d compared with debug/elf; %d symbols; %d bytes of names, %d of records, %d of references; %d without symbols, %d partial; %v without symbols, %v with",
		objects, compared, symbols, names, table, refs, unread, partial, plain, full)
}

// TestSymbolsAreStored: symbols survive JSON and gob, the formats of stored indexes.
func TestSymbolsAreStored(t *testing.T) {
	b := parseELF(t, "elf x86_64 soname=liba.so\nverdef liba.so V1\nverneed libb.so W\ndef f@@V1\ndef x object\nundef g@W\nundef y data\n").Bytes()
	o, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var viaJSON, viaGob Object
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &viaJSON)
	}
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := gob.NewEncoder(&buf).Encode(o); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(&buf).Decode(&viaGob); err != nil {
		t.Fatal(err)
	}
	for _, got := range []*Object{&viaJSON, &viaGob} {
		if diff := cmp.Diff(o, got); diff != "" {
			t.Errorf("-read +stored:\n%s", diff)
		}
	}
	var list []Symbol
	for i := range o.Symbols.Len() {
		list = append(list, o.Symbols.At(i))
	}
	want := []Symbol{
		{Name: "f", Version: "V1", Bind: elf.STB_GLOBAL, Type: elf.STT_FUNC, Defined: true, Exported: true},
		{Name: "x", Bind: elf.STB_GLOBAL, Type: elf.STT_OBJECT, Defined: true, Exported: true, Size: 8},
		{Name: "g", Version: "W", File: "libb.so", Bind: elf.STB_GLOBAL, Type: elf.STT_FUNC},
		{Name: "y", Bind: elf.STB_GLOBAL, Type: elf.STT_OBJECT},
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// BenchmarkReadSymbols reads the libraries of this machine with and without their symbols.
func BenchmarkReadSymbols(b *testing.B) {
	for name, read := range map[string]func(*os.File, int64) (*Object, error){
		"without": func(r *os.File, n int64) (*Object, error) { return Read(r, n) },
		"with":    func(r *os.File, n int64) (*Object, error) { return ReadSymbols(r, n) },
	} {
		b.Run(name, func(b *testing.B) {
			objects, held := 0, 0
			for b.Loop() {
				objects, held = 0, 0
				machineFiles(b, func(file string, r *os.File, size int64) {
					o, err := read(r, size)
					if err != nil || !o.Dynamic {
						return
					}
					objects++
					if s := o.Symbols; s != nil {
						held += len(s.Names) + len(s.Table) + len(s.Refs) + len(s.Calls)
					}
				})
			}
			b.ReportMetric(float64(objects), "objects")
			b.ReportMetric(float64(held)/float64(max(1, objects)), "bytes/object")
			runtime.GC()
		})
	}
}
