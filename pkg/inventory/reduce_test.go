package inventory

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// TestExtractorSame: the same source is reduced once, and another one of the same size is
// not taken for it.
func TestExtractorSame(t *testing.T) {
	x := new(Extractor)
	read := func(name, src string) []byte {
		t.Helper()
		b, err := x.Extract(name, int64(len(src)))(strings.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		if want := pysource.Reduce([]byte(src)); !bytes.Equal(b, want) {
			t.Errorf("%s: %q, want %q", name, b, want)
		}
		return b
	}
	one, other := read("a.py", "import a\nx = a.b\n"), read("b.py", "import c\nx = c.b\n")
	again := read("opt/env/a.py", "import a\nx = a.b\n")
	if &one[0] != &again[0] {
		t.Error("the same source has two texts")
	}
	if &one[0] == &other[0] {
		t.Error("two sources have the same text")
	}
	if _, err := x.Extract("a.py", 17)(strings.NewReader("import")); err == nil {
		t.Error("no error for a file that is cut short")
	}
}
