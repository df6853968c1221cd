package gpu

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// TestApply makes a fault of each kind in a directory.
func TestApply(t *testing.T) {
	root := t.TempDir()
	rpath := "$ORIGIN"
	library := (&imagetest.ELF{Soname: "libx.so.1", Rpath: &rpath}).Bytes()
	for _, p := range []string{"/lib/runpath.so", "/lib/machine.so", "/lib/empty.so", "/lib/cut.so", "/lib/from.so", "/lib/dir.so", "/lib/sections.so", "/lib/short.so", "/gone/one.so", "/old/in/it.so"} {
		if err := os.MkdirAll(filepath.Dir(root+p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+p, library, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	long := make([]byte, 5000)
	if err := os.WriteFile(root+"/lib/short.so", long, 0o644); err != nil {
		t.Fatal(err)
	}
	f := &Fault{
		Remove: []string{"/gone/**", "/absent/*"}, Empty: []string{"/lib/empty.so"}, Cut: []string{"/lib/cut.*"},
		Move: map[string]string{"/old/in": "/new/in"}, Copy: map[string]string{"/lib/to.so": "/lib/from.so"},
		Link: map[string]string{"/lib/link.so": "to.so"}, Write: map[string]string{"/etc/conf": "text\n"},
		Runpath: []string{"/lib/runpath.so"}, Machine: []string{"/lib/machine.so"},
		Directory: []string{"/lib/dir.so"}, Sectionless: []string{"/lib/sections.so"}, Short: []string{"/lib/short.so"},
	}
	if err := f.Apply(root); err != nil {
		t.Fatal(err)
	}
	for p, size := range map[string]int64{"/gone": -1, "/old/in": -1, "/lib/empty.so": 0, "/lib/cut.so": int64(len(library)) / 2, "/new/in/it.so": int64(len(library)), "/lib/link.so": int64(len(library)), "/etc/conf": 5, "/lib/short.so": int64(len(long)) - 4096, "/lib/sections.so": int64(len(library))} {
		st, err := os.Stat(root + p)
		switch {
		case size < 0 && !os.IsNotExist(err):
			t.Errorf("%s: %v", p, err)
		case size >= 0 && (err != nil || st.Size() != size):
			t.Errorf("%s: %v, want %d bytes", p, err, size)
		}
	}
	o, err := elf.Open(root + "/lib/runpath.so")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if got, err := o.DynString(elf.DT_RUNPATH); err != nil || len(got) != 1 || got[0] != rpath {
		t.Errorf("RUNPATH is %q: %v", got, err)
	}
	if m, err := elf.Open(root + "/lib/machine.so"); err != nil || m.Machine != elf.EM_AARCH64 {
		t.Errorf("the machine: %v", err)
	}
	if st, err := os.Stat(root + "/lib/dir.so"); err != nil || !st.IsDir() {
		t.Errorf("the directory: %v", err)
	}
	sections, err := elf.Open(root + "/lib/sections.so")
	if err != nil {
		t.Fatal(err)
	}
	defer sections.Close()
	if len(sections.Sections) > 0 || len(sections.Progs) == 0 {
		t.Errorf("%d sections and %d segments are left", len(sections.Sections), len(sections.Progs))
	}
}

// TestApplyStaysInside checks that Apply does not follow an absolute link in the root,
// which leads to the machine itself.
func TestApplyStaysInside(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(outside, []byte("whole"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*Fault{
		"empty":       {Empty: []string{"/link"}},
		"cut":         {Cut: []string{"/link"}},
		"machine":     {Machine: []string{"/link"}},
		"runpath":     {Runpath: []string{"/link"}},
		"short":       {Short: []string{"/link"}},
		"sectionless": {Sectionless: []string{"/link"}},
		"write":       {Write: map[string]string{"/link": "other"}},
	} {
		os.Remove(root + "/link")
		if err := os.Symlink(outside, root+"/link"); err != nil {
			t.Fatal(err)
		}
		if err := f.Apply(root); (err == nil) != (name == "write") { // write replaces the link
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(outside); err != nil || string(b) != "whole" {
			t.Fatalf("%s: the file outside is %q", name, b)
		}
	}
	if err := (&Fault{Remove: []string{"/absent/*"}}).Apply(root); err == nil {
		t.Error("nothing was removed, and nothing said")
	}
}
