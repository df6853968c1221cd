package main

import (
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// shelf has the text images, for tests that scan all of them. Each is built once, pushed once
// to one registry, and scanned once with and once without a plan. It lives as long as the
// process. Only one test at a time may use it.
var shelf = struct {
	server func() (*imagetest.Server, error)
	texts  map[string]*shelved
}{server: sync.OnceValues(imagetest.Registry), texts: map[string]*shelved{}}

// shelved is an image of the shelf.
type shelved struct {
	parsed *imagetest.Image
	image  v1.Image
	ref    string                    // empty until it is pushed
	scans  map[bool]*report.Document // by NoPlan
}

// shelfServer returns the registry of the shelf. Tests may push other images to it, but
// no tag "latest" below "test/".
func shelfServer(t *testing.T) *imagetest.Server {
	t.Helper()
	server, err := shelf.server()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// onShelf builds a text image unless it is there.
func onShelf(t *testing.T, name string) *shelved {
	t.Helper()
	if s := shelf.texts[name]; s != nil {
		return s
	}
	data, err := images.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	s := &shelved{scans: map[bool]*report.Document{}}
	if s.parsed, err = imagetest.Parse(data); err != nil {
		t.Fatal(err)
	}
	if s.image, err = s.parsed.V1(); err != nil {
		t.Fatal(err)
	}
	shelf.texts[name] = s
	return s
}

// pushText pushes a text image to a registry. The caller may change the config and the
// layers of parsed, but not their files.
func pushText(t *testing.T, server *imagetest.Server, name string) (parsed *imagetest.Image, ref string) {
	t.Helper()
	s := onShelf(t, name)
	ref, err := server.Push("test/"+strings.TrimSuffix(name, ".txtar")+":latest", s.image)
	if err != nil {
		t.Fatal(err)
	}
	return s.copied(), ref
}

// shelfText returns a text image as pushText does, and its reference in the registry of the
// shelf.
func shelfText(t *testing.T, name string) (parsed *imagetest.Image, ref string) {
	t.Helper()
	s, server := onShelf(t, name), shelfServer(t)
	if s.ref == "" {
		_, s.ref = pushText(t, server, name)
	}
	return s.copied(), s.ref
}

// copied returns a copy of the text without copies of its files.
func (s *shelved) copied() *imagetest.Image {
	im := *s.parsed
	im.Config = *im.Config.DeepCopy()
	im.Layers = slices.Clone(im.Layers)
	for i := range im.Layers {
		im.Layers[i].Files = slices.Clip(im.Layers[i].Files)
	}
	return &im
}

// scanOf returns the report of a text image as the program makes it, with a plan, or
// without. It is the same for all tests, which must not change it.
func scanOf(t *testing.T, name string, noPlan bool) *report.Document {
	t.Helper()
	_, ref := shelfText(t, name)
	s := onShelf(t, name)
	if doc := s.scans[noPlan]; doc != nil {
		return doc
	}
	doc, err := scanImage(t.Context(), ref, scan.Options{NoPlan: noPlan})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s.scans[noPlan] = doc
	return doc
}
