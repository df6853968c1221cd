package layers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// tight lowers the bounds of the budget for a test.
func tight(t *testing.T) {
	t.Helper()
	free, sparse, holes := freeUnpacked, maxSparse, maxHoles
	freeUnpacked, maxSparse, maxHoles = 4<<20, 16<<20, 64<<20
	t.Cleanup(func() { freeUnpacked, maxSparse, maxHoles = free, sparse, holes })
}

// zeroFile returns a tar with a file of n zeros, compressed with zstd.
func zeroFile(t *testing.T, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: n, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, zeros{}, n); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// indexLayout indexes an image of the blobs, in an OCI layout.
func indexLayout(t *testing.T, blobs ...[]byte) (*FS, error) {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, b := range blobs {
		var err error
		if img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(b, types.OCILayerZStd)}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := Open(t.Context(), "oci:"+dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	return found.Index(t.Context())
}

// An image that unpacks to far more than its size is given up before all of it is unpacked:
// in one layer, and in several of which each is small enough.
func TestUnpackedBudget(t *testing.T) {
	tight(t)
	small, large := zeroFile(t, 1<<20), zeroFile(t, 64<<20)
	if _, err := indexLayout(t, small); err != nil {
		t.Errorf("one small layer: %v", err)
	}
	if _, err := indexLayout(t, large); err == nil || !errors.Is(err, errUnpacked) || !strings.Contains(err.Error(), "the image unpacks to far more than it is long") {
		t.Errorf("one large layer: %v", err)
	}
	many := make([][]byte, 32)
	for i := range many {
		many[i] = zeroFile(t, 1<<20+int64(i)<<10)
	}
	if _, err := indexLayout(t, many...); !errors.Is(err, errUnpacked) {
		t.Errorf("many small layers: %v", err)
	}

	var b budget
	s := tools{budget: &b}
	if _, err := s.readBlob(context.Background(), bytes.NewReader(large), nil, &Options{}); !errors.Is(err, errUnpacked) {
		t.Errorf("%v", err)
	}
	if got := b.unpacked.Load(); got > 12<<20 {
		t.Errorf("%d MiB were unpacked", got>>20)
	}
}

// A compressed archive is one stream, whose bytes count before a layer is found in it.
func TestUnpackedArchive(t *testing.T) {
	tight(t)
	name := filepath.Join(t.TempDir(), "image.tar.zst")
	if err := os.WriteFile(name, zeroFile(t, 64<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	img, err := Open(t.Context(), "docker-archive:"+name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if _, err := img.Index(t.Context()); !errors.Is(err, errUnpacked) {
		t.Errorf("%v", err)
	}
}

// Bytes that do not shrink are never too many.
func TestUnpackedPlain(t *testing.T) {
	tight(t)
	var b budget
	l := tools{budget: &b}
	file := tarOf(t, tarEntry{tar.Header{Typeflag: tar.TypeReg, Name: "data"}, strings.Repeat("x", 32<<20)})
	if _, err := l.readBlob(t.Context(), bytes.NewReader(file), nil, &Options{}); err != nil {
		t.Error(err)
	}
}

// Sparse files, which a tar of a few hundred bytes has in any size, are read within a bound
// of the layer, and one of the image.
func TestSparseBudget(t *testing.T) {
	tight(t)
	l, err := ReadLayer(bytes.NewReader(sparseELF(t, 17<<20)), everything)
	if err != nil {
		t.Fatal(err)
	}
	if e := l.Entries[0]; !strings.Contains(e.Fault, "sparse files") || e.Object != nil {
		t.Errorf("fault %q", e.Fault)
	}
	var b budget
	for i := range 8 {
		_, err = (&tools{budget: &b}).readLayer(bytes.NewReader(sparseELF(t, 15<<20)), everything, nil)
		if (err != nil) != (i >= 4) {
			t.Fatalf("layer %d: %v", i, err)
		}
	}
	if !errors.Is(err, errUnpacked) {
		t.Errorf("%v", err)
	}
}
