package layers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// gzipLayout makes a layout of one layer, whose stored bytes are given.
func gzipLayout(t *testing.T, blob []byte) string {
	t.Helper()
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(blob, types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// indexed returns the listing of an image, and the notes on its reading.
func indexed(t *testing.T, ref string) (string, []string, error) {
	t.Helper()
	var mu sync.Mutex
	var notes []string
	img, err := Open(t.Context(), ref, Options{Note: func(_ int, s string) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, s)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	f, err := img.Index(t.Context())
	if err != nil {
		return "", notes, err
	}
	return listing(f), notes, nil
}

// program writes a shell script.
func program(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "igzip")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestIgzip: whatever the program does that is found, the layer is what it is
// without one, and so is what is wrong with it.
func TestIgzip(t *testing.T) {
	least, find := minIgzip, findIgzip
	t.Cleanup(func() { minIgzip, findIgzip = least, find })
	minIgzip = 0

	var entries []tarEntry
	for i := range 3000 {
		e := tarEntry{content: strings.Repeat(fmt.Sprint("text ", i), 100)}
		e.Name, e.Mode = fmt.Sprint("d/", i), 0o644
		entries = append(entries, e)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(tarOf(t, entries...))
	z.Close()
	whole := packed.Bytes()
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0xff

	scan := func(ref, igzip string) (string, []string, error) {
		findIgzip = func() string { return igzip }
		return indexed(t, ref)
	}
	for name, blob := range map[string][]byte{
		"whole": whole, "cut": whole[:len(whole)/2], "flipped": flipped, "header only": whole[:12],
	} {
		ref := "oci:" + gzipLayout(t, blob)
		want, _, wantErr := scan(ref, "")
		if (wantErr == nil) != (name == "whole") {
			t.Fatalf("%s: %v", name, wantErr)
		}
		for script, works := range map[string]bool{
			"exec gzip -dc":                     true,
			"exit 1":                            false,
			"gzip -dc | head -c 700000; exit 1": false,
			"gzip -dc | tr a-z A-Z; exit 1":     false,
			"kill -9 $$":                        false,
			"exec cat":                          false,
			"head -c 1000 >/dev/null; echo; exit 127": false,
		} {
			got, notes, err := scan(ref, program(t, script))
			if got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s, by %q: %v, want %v; the layer is the same: %v", name, script, err, wantErr, got == want)
			}
			by := "gzip by imgcheck's inflate"
			if works {
				by = "igzip"
			}
			if name == "whole" && !strings.HasSuffix(notes[len(notes)-1], by) {
				t.Errorf("by %q: told %q", script, notes)
			}
		}
		if _, _, err := scan(ref, "/nonexistent/igzip"); fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s, by nothing: %v", name, err)
		}
	}
}

// TestGunzips: only a program that unpacks everything, and says so when it
// cannot, is trusted.
func TestGunzips(t *testing.T) {
	gz, err := exec.LookPath("gzip")
	if err != nil {
		t.Fatal("this test wants gzip: install it")
	}
	for script, want := range map[string]bool{
		"exec " + gz + " -dc":                true,
		"exit 0":                             false,
		gz + " -dc | head -c 16":             false,
		gz + " -dc 2>/dev/null || true":      false,
		"exec " + gz + " -dc --no-such-flag": false,
	} {
		if got := gunzips(program(t, script)); got != want {
			t.Errorf("%q: %v", script, got)
		}
	}
}
