package indexes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// TestMoveCache: a machine with the same key reads nothing that another has read; one with
// another key believes no file of it, and neither believes files that somebody has changed.
func TestMoveCache(t *testing.T) {
	alone(t)
	host := server(t, false, nil)
	image := inRegistry(t, host, "app", testImage(t))
	ref, err := name.ParseReference(host + "/cache:ci")
	if err != nil {
		t.Fatal(err)
	}
	first := newMachine(t)
	want := first.scan(image, nil)
	pushed, err := PushCache(t.Context(), first.cache, ref, source.Options{})
	if err != nil || pushed.Files != 6 || pushed.Left > 0 || !strings.HasPrefix(pushed.At, host+"/cache@sha256:") { // five layers, a report
		t.Fatalf("%+v, %v", pushed, err)
	}
	pull := func(c *layers.Cache) Moved {
		t.Helper()
		m, err := PullCache(t.Context(), c, ref, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return *m
	}
	second := newMachine(t)
	if m := pull(second.cache); m.Files != 6 || m.Bytes != pushed.Bytes || m.Left+m.There > 0 {
		t.Errorf("%+v", m)
	}
	if got := second.scan(image, nil); got != want || second.read > 0 {
		t.Errorf("%d bytes are read", second.read)
	}
	if m := pull(second.cache); m.Files > 0 || m.There != 6 {
		t.Errorf("again: %+v", m)
	}
	small := newMachine(t)
	if small.cache.Max = pushed.Bytes / 2; pull(small.cache).Left == 0 {
		t.Error("a full cache takes everything")
	}
	t.Setenv("IMGCHECK_CACHE_KEY", "another machine's")
	third := newMachine(t)
	if m := pull(third.cache); m.Files > 0 || m.Left != 6 {
		t.Errorf("with another key: %+v", m)
	}
	if list, err := os.ReadDir(third.cache.Dir); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestHostileCache: files with names that are no cache's, or with changed bytes, do not get into
// a cache.
func TestHostileCache(t *testing.T) {
	alone(t)
	host := server(t, false, nil)
	ref, err := name.ParseReference(host + "/cache:ci")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	if err := m.cache.PutDocument("key", []byte("document")); err != nil {
		t.Fatal(err)
	}
	files, err := m.cache.Files()
	if err != nil {
		t.Fatal(err)
	}
	good, err := m.cache.Export(files[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	to, err := source.NewArtifacts(ref.Context(), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(good)
	changed[3] ^= 1
	manifest := v1.Manifest{ArtifactType: cacheType}
	for file, b := range map[string][]byte{
		"../../evil": good, "/etc/passwd": good, "": good, ".imgcheck-new-1": good, strings.Repeat("a", 64) + ".layer": changed, strings.Repeat("b", 64) + ".document": good[:40],
	} {
		d, err := to.Blob(t.Context(), b, fileType)
		if err != nil {
			t.Fatal(err)
		}
		d.Annotations = map[string]string{titleKey: file}
		manifest.Layers = append(manifest.Layers, d)
	}
	if _, err := to.Put(t.Context(), manifest, "ci"); err != nil {
		t.Fatal(err)
	}
	victim := newMachine(t)
	got, err := PullCache(t.Context(), victim.cache, ref, source.Options{})
	if err != nil || got.Files+got.There > 0 || got.Left != 6 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := filepath.Glob(victim.cache.Dir + "/*"); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	other, err := name.ParseReference(inRegistry(t, host, "app", testImage(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PullCache(t.Context(), victim.cache, other, source.Options{}); err == nil || !strings.Contains(err.Error(), "it is no cache of imgcheck") {
		t.Errorf("%v", err)
	}
	if _, err := PushCache(t.Context(), newMachine(t).cache, ref, source.Options{}); err == nil || !strings.Contains(err.Error(), "it has no files") {
		t.Errorf("%v", err)
	}
}
