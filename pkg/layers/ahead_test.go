package layers

import (
	"archive/tar"
	"bytes"
	"testing"
)

// TestAheadOfTheEnd drains a tar that ends without the two blocks of zeros, as
// some writers leave it and every reader takes it: "reading tar: EOF" was what a
// gzip layer of that kind came to.
func TestAheadOfTheEnd(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "work/", Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	a := ahead(&b)
	defer a.stop()
	if _, err := ReadLayer(a, nil); err != nil {
		t.Error(err)
	}
}
