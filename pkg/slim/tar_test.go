package slim_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/slim"
)

// member is a member of a tar as archive/tar reads it.
type member struct {
	header  string
	content string
}

func read(b []byte) (list []member, err error) {
	tr := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Size > 1<<20 {
			return nil, fmt.Errorf("%d bytes are too many for a test", h.Size)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			return nil, err
		}
		list = append(list, member{fmt.Sprintf("%+v", *h), string(content)})
	}
}

func written(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range headers {
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(tw, strings.NewReader(strings.Repeat(h.Name[:1], int(h.Size))), h.Size); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tars returns tars of each form that archive/tar writes, and those of GNU and BSD tar in
// testdata, which have sparse files of each form.
func tars(t *testing.T) map[string][]byte {
	t.Helper()
	long := strings.Repeat("long/", 60) + "name"
	list := map[string][]byte{
		"empty": written(t),
		"forms": written(t,
			tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "of all members"}},
			tar.Header{Typeflag: tar.TypeDir, Name: "dir/", Mode: 0o755},
			tar.Header{Typeflag: tar.TypeReg, Name: "dir/a", Mode: 0o644, Size: 700},
			tar.Header{Typeflag: tar.TypeReg, Name: long, Size: 1024, Format: tar.FormatGNU},
			tar.Header{Typeflag: tar.TypeReg, Name: long + "2", Size: 3, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.xattr.user.x": "\x00y"}},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: long, Format: tar.FormatGNU},
			tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "dir/a"},
			tar.Header{Typeflag: tar.TypeReg, Name: "empty"},
			tar.Header{Typeflag: tar.TypeReg, Name: "block", Size: 512},
		),
	}
	list["trailing"] = append(bytes.Clone(list["forms"]), "what some writers leave behind"...)
	list["cut"] = list["forms"][:len(list["forms"])-1024] // without the blocks of the end
	files, err := filepath.Glob(filepath.Join("testdata", "*.tar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no tars in testdata", err)
	}
	for _, f := range files {
		if list[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// law checks what Rewrite promises for a tar: nothing changes if nothing is dropped, and
// archive/tar reads the rest as it was if each member whose number drop has a bit for is.
func law(t *testing.T, b []byte, drop uint64) {
	t.Helper()
	old, err := read(b)
	if err != nil {
		return // Rewrite may refuse it
	}
	var same bytes.Buffer
	if err := slim.Rewrite(&same, bytes.NewReader(b), func(slim.Member) (slim.Edit, error) { return slim.Edit{}, nil }); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && len(b)%512 != 0 {
			return // cut short within a block: archive/tar takes it for the end after extended headers
		}
		t.Fatalf("archive/tar reads it, and Rewrite says: %v", err)
	}
	if !bytes.Equal(same.Bytes(), b) {
		t.Fatalf("%d bytes became %d others, though nothing was dropped", len(b), same.Len())
	}
	global := fmt.Sprintf("Typeflag:%d ", tar.TypeXGlobalHeader)
	var want []member
	seen := 0
	for _, m := range old {
		if strings.Contains(m.header, global) {
			want = append(want, m)
			continue
		}
		if drop>>(seen%64)&1 == 0 {
			want = append(want, m)
		}
		seen++
	}
	asked := 0
	var less bytes.Buffer
	if err := slim.Rewrite(&less, bytes.NewReader(b), func(slim.Member) (slim.Edit, error) {
		asked++
		return slim.Edit{Drop: drop>>((asked-1)%64)&1 == 1}, nil
	}); err != nil {
		t.Fatal(err)
	}
	got, err := read(less.Bytes())
	if err != nil {
		t.Fatalf("archive/tar does not read the rest: %v", err)
	}
	if asked != seen || !slices.Equal(got, want) {
		t.Fatalf("asked about %d of %d members, and %d stayed, not %d", asked, seen, len(got), len(want))
	}
}

func TestRewrite(t *testing.T) {
	for name, b := range tars(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := read(b); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(10) {
				law(t, b, 1<<i)
				law(t, b, ^uint64(1<<i))
			}
			law(t, b, 0x5555)
		})
	}
}

// FuzzRewrite holds the law for any bytes.
func FuzzRewrite(f *testing.F) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "a", Size: 3},
		{Name: "b", Size: 513, Format: tar.FormatPAX, PAXRecords: map[string]string{"comment": "x"}},
		{Name: strings.Repeat("c", 200), Format: tar.FormatGNU},
	} {
		tw.WriteHeader(&h)
		tw.Write(make([]byte, h.Size))
	}
	tw.Close()
	f.Add(b.Bytes(), uint64(2))
	files, _ := filepath.Glob(filepath.Join("testdata", "*.tar"))
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil {
			f.Add(b, uint64(1))
		}
	}
	f.Fuzz(law)
}

// TestContent changes a file in place, and refuses another length.
func TestContent(t *testing.T) {
	b := tars(t)["forms"]
	upper := func(w io.Writer, r io.Reader) error {
		old, _ := io.ReadAll(r)
		_, err := w.Write(bytes.ToUpper(old))
		return err
	}
	edit := func(m slim.Member) (slim.Edit, error) {
		if m.Name == "dir/a" {
			return slim.Edit{Content: upper}, nil
		}
		return slim.Edit{}, nil
	}
	var out bytes.Buffer
	if err := slim.Rewrite(&out, bytes.NewReader(b), edit); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Replace(b, []byte(strings.Repeat("d", 700)), []byte(strings.Repeat("D", 700)), 1); !bytes.Equal(out.Bytes(), want) {
		t.Error("more than the content of dir/a has changed, or less")
	}
	for _, other := range []string{"", strings.Repeat("x", 701)} {
		err := slim.Rewrite(io.Discard, bytes.NewReader(b), func(m slim.Member) (slim.Edit, error) {
			return slim.Edit{Content: func(w io.Writer, _ io.Reader) error {
				_, err := io.WriteString(w, other)
				return err
			}}, nil
		})
		if err == nil || !strings.Contains(err.Error(), "its new content has another length") {
			t.Errorf("new content of %d bytes: %v", len(other), err)
		}
	}
}

// TestHostile refuses tars whose headers would take much memory, and those that end early.
func TestHostile(t *testing.T) {
	whole := tars(t)["forms"]
	huge := written(t, tar.Header{Name: strings.Repeat("n", 200), Format: tar.FormatGNU})
	copy(huge[124:], "77777777777\x00") // the size of the long name
	for name, b := range map[string][]byte{"cut in a file": whole[:4*1024-100], "huge name": huge} {
		if err := slim.Rewrite(io.Discard, bytes.NewReader(b), func(slim.Member) (slim.Edit, error) { return slim.Edit{}, nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestText gives files contents of other lengths, and refuses headers whose size has another form.
func TestText(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("long", 1000)} {
		for name, b := range tars(t) {
			old, err := read(b)
			if err != nil {
				t.Fatal(err)
			}
			asked := -1
			for i := range old {
				var out bytes.Buffer
				n, sparse := -1, false
				err := slim.Rewrite(&out, bytes.NewReader(b), func(m slim.Member) (slim.Edit, error) {
					if n++; n != i {
						return slim.Edit{}, nil
					}
					asked, sparse = n, m.Sparse || m.Typeflag != tar.TypeReg
					return slim.Edit{Text: []byte(text)}, nil
				})
				if asked != i { // a global header is not asked about
					continue
				}
				if sparse != (err != nil) {
					t.Errorf("%s, member %d: error %v", name, i, err)
				}
				if err != nil {
					continue
				}
				now, err := read(out.Bytes())
				if err != nil || len(now) != len(old) {
					t.Fatalf("%s, member %d: %d of %d members are left: %v", name, i, len(now), len(old), err)
				}
				changed := 0
				for j := range now {
					if now[j] != old[j] {
						changed++
						if now[j].content != text {
							t.Errorf("%s, member %d: its content has %d bytes", name, j, len(now[j].content))
						}
					}
				}
				if changed > 1 {
					t.Errorf("%s, member %d: %d members have changed", name, i, changed)
				}
			}
		}
	}
}
