package imagetest

import v1 "github.com/google/go-containerregistry/pkg/v1"

// TB is the part of *testing.T that this package uses. The program links this
// package for its demo, and must not link package testing.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// V1 returns the image of a text. It fails the test if the text does not parse.
func V1(t TB, text string) v1.Image {
	t.Helper()
	im, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	img, err := im.V1()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// Serve starts a registry that runs until the test ends.
func Serve(t TB) *Server {
	t.Helper()
	s, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
