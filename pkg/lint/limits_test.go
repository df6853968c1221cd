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
