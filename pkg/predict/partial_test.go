package predict

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

// TestReadEnds reads the libraries of this machine that have more than a megabyte from their two
// ends, as they are and as patchelf leaves them: what is known is what the whole file says.
func TestReadEnds(t *testing.T) {
	names, err := filepath.Glob("/usr/lib/x86_64-linux-gnu/*.so.*")
	if err != nil {
		t.Fatal(err)
	}
	patchelf := tooltest.Need(t, "patchelf", "patchelf")
	tried, known := 0, 0
	for _, name := range names {
		st, err := os.Lstat(name)
		if err != nil || !st.Mode().IsRegular() || st.Size() < 1<<20 || st.Size() > 8<<20 || tried >= 30 {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		patched := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.WriteFile(patched, text, 0o755); err != nil {
			t.Fatal(err)
		}
		tooltest.Output(t, patchelf, "--set-rpath", "$ORIGIN/../a/long/path/that/needs/another/place", "--add-needed", "libcudnn.so.9", patched)
		other, err := os.ReadFile(patched)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range [][]byte{text, other} {
			tried++
			if endsTell(t, name, text) {
				known++
			}
		}
	}
	t.Logf("%d of %d", known, tried)
	if tried < 4 || known < tried/2 {
		t.Errorf("the ends of %d of %d libraries tell what they need", known, tried)
	}
}

// endsTell compares what the ends of a library tell with what the whole file says.
func endsTell(t *testing.T, name string, text []byte) bool {
	t.Helper()
	wheel := wheelOf(t, zip.Deflate, "a.so", string(text))
	z, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readEnds(bytes.NewReader(wheel), z.File[0], func() int64 { return 16 << 20 })
	if err != nil {
		return false
	}
	want, err := elfdeps.Read(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	if !slices.Equal(got.Needed, want.Needed) || got.Soname != want.Soname || !same(got.Runpath, want.Runpath) || !same(got.Rpath, want.Rpath) || got.Flags != want.Flags || got.Flags1 != want.Flags1 || got.Stack != want.Stack || got.TLSSize != want.TLSSize || got.LoadEnd != want.LoadEnd || got.Type != want.Type || !cmp.Equal(got.VersionNeeds, want.VersionNeeds) || !cmp.Equal(got.VersionDefs, want.VersionDefs) || got.Ident != want.Ident {
		t.Errorf("%s: the ends say\n%+v, and the file\n%+v", name, got, want)
	}
	return true
}

// TestReadWheel: of a large library of an index the two ends are fetched, and what needs more
// bytes than are allowed is not known.
func TestReadWheel(t *testing.T) {
	names, err := filepath.Glob("/usr/lib/x86_64-linux-gnu/libicudata.so.*")
	if err != nil || len(names) == 0 {
		t.Fatal("libicudata is missing: install libxml2-utils")
	}
	text, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	wheel := wheelOf(t, zip.Deflate, "a/liba.so", string(text), "a/small.so", library, "a-1.0.dist-info/METADATA", "Name: a\nVersion: 1.0\n")
	fetched := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/simple/a/" {
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			fmt.Fprintf(w, `{"files":[{"filename":"a-1.0-py3-none-manylinux2014_x86_64.whl","url":"/a.whl","size":%d}]}`, len(wheel))
			return
		}
		var from, to int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
			t.Errorf("a request without a range: %v", err)
		}
		fetched += to - from + 1
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(wheel))
	}))
	defer server.Close()
	x, err := pyindex.New(server.URL+"/simple", pyindex.Options{Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Wheel(context.Background(), "a", "", pyindex.Platform{Python: "3.11", Glibc: "2.36"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		most   int64
		unread string
	}{{4e6, ""}, {250_000, "takes 1"}} {
		fetched = 0
		o := Options{Most: c.most}
		got, err := o.readWheel(context.Background(), w)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Members[:2] {
			large := m.Name == "a/liba.so"
			switch {
			case !large || c.unread == "":
				if m.Object == nil || m.Unread != "" || large && m.Object.Soname == "" {
					t.Errorf("at most %d: %s is not known: %s", c.most, m.Name, m.Unread)
				}
			case m.Object != nil || !strings.HasPrefix(m.Unread, c.unread):
				t.Errorf("at most %d: %s: %q", c.most, m.Name, m.Unread)
			}
		}
		if int64(fetched) > c.most || fetched > len(wheel)/2 {
			t.Errorf("%d bytes of %d were fetched, at most %d", fetched, len(wheel), c.most)
		}
	}
}

// FuzzEnds: a file that is known as a whole is read as elfdeps reads it, where that can read all.
func FuzzEnds(f *testing.F) {
	e, err := imagetest.ParseELF(library + "runpath $ORIGIN\nverdef liba.so.1 A_1\nverneed libc.so.6 GLIBC_2.2.5 GLIBC_2.38\n")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(e.Bytes(), uint16(100))
	f.Add(e.Bytes(), uint16(60000))
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		x := &ends{head: text[:min(int(cut), len(text))], size: int64(len(text))}
		for _, b := range text[min(int(cut)+7, len(text)):] {
			x.tail = append(x.tail, int16(b))
		}
		got, err := x.object()
		if err != nil {
			return
		}
		want, err := elfdeps.Read(bytes.NewReader(text), int64(len(text)))
		if err != nil || len(want.Unread) > 0 || want.Fault != "" || want.VersionFault != "" {
			return
		}
		if !slices.Equal(got.Needed, want.Needed) || got.Soname != want.Soname {
			t.Errorf("%v %q, and the file says %v %q", got.Needed, got.Soname, want.Needed, want.Soname)
		}
	})
}
