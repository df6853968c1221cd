package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// TestInstalled lists each release once: "CUDA 11.8" from a directory's name adds nothing
// to the 11.8.89 from a library's name.
func TestInstalled(t *testing.T) {
	d := New(Image{Ref: "a"}, &lint.Result{Inventory: &inventory.Inventory{Components: []*inventory.Component{
		{Name: "cuda", Version: "11.8.89"}, {Name: "cuda", Version: "11.8"}, {Name: "cuda", Version: "11"}, {Name: "cuda", Version: "12.1"}, {Name: "cudnn", Version: "11.8"},
	}}})
	var b bytes.Buffer
	if err := Text(&b, d, Options{All: true}); err != nil {
		t.Fatal(err)
	}
	if want := "installed: CUDA 11.8.89, CUDA 12.1, cuDNN 11.8\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in:\n%s", want, b.String())
	}
}
