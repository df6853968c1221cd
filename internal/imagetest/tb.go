package imagetest

import v1 "github.com/google/go-containerregistry/pkg/v1"

// TB is what is needed of a test here; a *testing.T is one. The program links this
// package for its demo, and package testing it does not.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// V1 is the image of a text. The test fails where that is none.
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

// Serve is a registry that is there until the test ends.
func Serve(t TB) *Server {
	t.Helper()
	s, err := Registry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
