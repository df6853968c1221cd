package lint

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TestTooManyInstalls tells in one line that an image has more frameworks than are
// replayed.
func TestTooManyInstalls(t *testing.T) {
	defer func(was int) { maxInstalls = was }(maxInstalls)
	const torch = "/lib/python3.10/site-packages/torch/lib/libtorch_cpu.so"
	m, err := imagetest.Parse([]byte(elfText("a"+torch) + elfText("b"+torch)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.LayerTar(0, &b); err != nil {
		t.Fatal(err)
	}
	l, err := layers.ReadLayer(&b, nil)
	if err != nil {
		t.Fatal(err)
	}
	img, p := &Image{FS: layers.Merge(l)}, packs(t)
	n := len(newWorld(img, p).installs)
	if n < 2 {
		t.Fatalf("%d installations", n)
	}
	maxInstalls = n
	if _, err := Run(t.Context(), img, p); err != nil {
		t.Error(err)
	}
	maxInstalls = n - 1
	if _, err := Run(t.Context(), img, p); err == nil || !strings.Contains(err.Error(), "scan an image with fewer environments") {
		t.Errorf("error %v", err)
	}
}

// TestTooManySeen tells in one line that an image's environments see more packages
// together than are looked at.
func TestTooManySeen(t *testing.T) {
	defer func(was int) { maxSeen = was }(maxSeen)
	list := []layers.Entry{}
	keep := func(name, text string) {
		list = append(list, layers.Entry{Path: name, Mode: 0o644, Size: int64(len(text)), Content: []byte(text)})
	}
	for _, pkg := range []string{"a", "b"} {
		keep("usr/lib/python3.10/site-packages/"+pkg+"-1.dist-info/METADATA", "Name: "+pkg+"\nVersion: 1\n")
	}
	for _, venv := range []string{"v", "w"} {
		keep("srv/"+venv+"/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.10\n")
	}
	img, p := &Image{FS: layers.Merge(layers.NewLayer(list))}, packs(t)
	maxSeen = 6 // two of three environments
	if _, err := Run(t.Context(), img, p); err != nil {
		t.Error(err)
	}
	maxSeen = 5
	if _, err := Run(t.Context(), img, p); err == nil || !strings.Contains(err.Error(), "environments see more than the 5 packages") {
		t.Errorf("error %v", err)
	}
}
