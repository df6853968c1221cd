package layers

import (
	"bytes"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// v1Image is a text image as a value.
func v1Image(t testing.TB, text string) v1.Image {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	img, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// dockerTar is a text image as docker save wrote it before version 25, its
// layers compressed.
func dockerTar(t testing.TB, text string) []byte {
	t.Helper()
	ref, err := name.ParseReference("example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarball.Write(ref, v1Image(t, text), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
