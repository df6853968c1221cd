package predict

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// wheelOf writes a wheel of texts; those that begin with "elf " are ELF files.
func wheelOf(t testing.TB, method uint16, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: files[i], Method: method})
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(files[i+1])
		if strings.HasPrefix(files[i+1], "elf ") {
			e, err := imagetest.ParseELF(files[i+1])
			if err != nil {
				t.Fatal(err)
			}
			text = e.Bytes()
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const library = "elf x86_64 soname=liba.so.1\nneeded libb.so.2\nneeded libc.so.6\n"

func TestReadZip(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		text := wheelOf(t, method, "a/liba.so.1", library, "a/notes.so", "no library", "a/data.bin", "x", "../out.so", library, "a-1.0.dist-info/METADATA", "Name: a\nVersion: 1.0\nRequires-Dist: b>1\n\n")
		c, err := readZip(bytes.NewReader(text), int64(len(text)), 1<<40)
		if err != nil || c.Version != "1.0" || len(c.Requires) != 1 || len(c.Members) != 4 {
			t.Fatalf("%+v %v", c, err)
		}
		if o := c.Members[0].Object; o == nil || strings.Join(o.Needed, " ") != "libb.so.2 libc.so.6" || c.Members[1].Object != nil || c.Members[1].Unread != "" {
			t.Errorf("%+v", c.Members)
		}
		if u := c.unread(); u != "" {
			t.Errorf("unread: %v", u)
		}
	}
	// Without bytes to read, a library is there, and what it needs is not known.
	text := wheelOf(t, zip.Deflate, "a/liba.so.1", library, "b/libb.so", library, "a-1.0.dist-info/METADATA", "Version: 1.0\n")
	c, err := readZip(bytes.NewReader(text), int64(len(text)), 1000)
	if err != nil || !strings.HasPrefix(c.unread(), "what 2 libraries need: liba.so.1 takes 0 MB, which is more than --wheels allows") {
		t.Errorf("%v %v", c.unread(), err)
	}
	d := &distribution{contents: c}
	for _, e := range d.entries(&python{site: "site"}) {
		if strings.Contains(e.Path, ".so") == (e.Fault == "") || e.Object != nil || !strings.HasPrefix(e.Path, "site/") {
			t.Errorf("%+v", e)
		}
	}
}

// Files of a wheel's .data go where pip puts them.
func TestEntries(t *testing.T) {
	c := &contents{Members: []member{{Name: "a/b.so"}, {Name: "a-1.data/purelib/c.py"}, {Name: "a-1.data/scripts/run"}, {Name: "a-1.data/data/lib/d.so"}, {Name: "a-1.data/headers/e.h"}, {Name: "a.data"}}}
	var paths []string
	for _, e := range (&distribution{contents: c}).entries(&python{site: "s", prefix: "p"}) {
		paths = append(paths, e.Path)
	}
	if got := strings.Join(paths, " "); got != "s/a/b.so s/c.py p/bin/run p/lib/d.so s/a.data" {
		t.Error(got)
	}
}

// FuzzReadZip: a wheel that is read has its files below the directory of packages, and each
// library has an object or none with a reason.
func FuzzReadZip(f *testing.F) {
	f.Add(wheelOf(f, zip.Deflate, "a/liba.so.1", library, "a-1.data/data/x", "y", "a-1.dist-info/METADATA", "Name: a\nVersion: 1\n\n"))
	f.Add(wheelOf(f, zip.Store, "a.so", library, "/b.so", "x", "c/../../d.so", "y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readZip(bytes.NewReader(text), int64(len(text)), int64(len(text)))
		if err != nil {
			return
		}
		for i, e := range (&distribution{contents: c}).entries(&python{site: "site/x", prefix: "prefix"}) {
			if !strings.HasPrefix(e.Path, "site/x/") && !strings.HasPrefix(e.Path, "prefix/") {
				t.Errorf("%d: %q", i, e.Path)
			}
			if e.Object != nil && e.Fault != "" {
				t.Errorf("%q has an object, and %s", e.Path, e.Fault)
			}
		}
	})
}
