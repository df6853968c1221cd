package buildkit

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// baseImage is patched by change.
const baseImage = `
env PATH=/bin
entrypoint ["/bin/app"]
layer 0 COPY base /
layer 1 COPY app /
-- 0/lib --
symlink usr/lib
-- 0/etc/keep --
keep
-- 0/usr/lib/libz.so.1 --
elf x86_64 soname=libz.so.1
-- 1/opt --
dir mode=751 uid=7 gid=8
-- 1/opt/old --
old
`

// change adds a file and links, one below a link, removes a file, sets a
// variable.
func change() patch.Change {
	content := "new\n"
	return patch.Change{
		Files: []patch.File{
			{Path: "opt/lib/new.so.1", Mode: 0o644, Size: int64(len(content)), UID: 3, Open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(content)), nil
			}},
			{Path: "opt/lib/new.so", Link: "new.so.1"},
			{Path: "lib/libz.so", Link: "libz.so.1"},
			{Path: "opt/old", Remove: true},
		},
		Env:       []patch.EnvEdit{{Name: "LD_LIBRARY_PATH", Value: "/opt/lib"}},
		CreatedBy: "imgcheck patch",
	}
}

// patched pushes an image to a registry and lays a change over it.
func patched(t *testing.T, text string, c patch.Change) (*imagetest.Server, string, *patch.Base, *patch.Patched) {
	t.Helper()
	reg, err := imagetest.Registry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push("app:1", v)
	if err != nil {
		t.Fatal(err)
	}
	base, err := patch.OpenBase(t.Context(), ref, patch.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	img, err := base.Images[0].Open(t.Context(), layers.Options{Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := patch.Apply(base.Images[0], f, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return reg, ref, base, p
}

func TestDefinitionIsTheSame(t *testing.T) {
	_, ref, _, p := patched(t, baseImage, change())
	var last []byte
	for range 5 {
		b, err := Definition(t.Context(), p, ref, true)
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && !bytes.Equal(b, last) {
			t.Fatal("the same image gives other bytes")
		}
		last = b
	}
}
