package inventory

import (
	"bytes"
	"reflect"
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

// TestReduceMetadata leaves out descriptions, wherever they are, and no field that is read.
func TestReduceMetadata(t *testing.T) {
	const fields = "Metadata-Version: 1.2\nName: x\nVersion: 1\n"
	for name, tt := range map[string][2]string{
		"a body":              {fields + "Requires-Dist: a\n\nRequires-Dist: b\n", fields + "Requires-Dist: a\n"},
		"a body, DOS":         {"Name: x\r\nVersion: 1\r\n\r\nName: y\r\n", "Name: x\r\nVersion: 1\r\n"},
		"a field":             {fields + "Description: one\n        two\n        \n\tthree\nRequires-Dist: a\n", fields + "Description: one\nRequires-Dist: a\n"},
		"nothing to leave":    {fields + "License: y", fields + "License: y"},
		"an empty file":       {"", ""},
		"an empty first line": {"\nName: x\n", ""},
	} {
		x := new(Extractor)
		for range 2 {
			got, err := x.Extract("site-packages/x-1.dist-info/METADATA", int64(len(tt[0])))(strings.NewReader(tt[0]))
			if err != nil || string(got) != tt[1] || got == nil {
				t.Errorf("%s: %q, %v, not %q", name, got, err, tt[1])
			}
		}
		var whole, reduced Inventory
		a, b := readMetadata(&whole, "p/x.dist-info/METADATA", []byte(tt[0])), readMetadata(&reduced, "p/x.dist-info/METADATA", []byte(tt[1]))
		if (a == nil) != (b == nil) || !reflect.DeepEqual(whole.Packages, reduced.Packages) {
			t.Errorf("%s: the packages differ", name)
		}
	}
	if _, err := new(Extractor).Extract("x.egg-info/PKG-INFO", 9)(strings.NewReader("Name: x")); err == nil {
		t.Error("a file that is cut short has no error")
	}
	x := new(Extractor) // a source with the same bytes is reduced as a source
	const both = "import a\n\nimport b\n"
	source, err := x.Extract("a.py", int64(len(both)))(strings.NewReader(both))
	if err != nil {
		t.Fatal(err)
	}
	header, err := x.Extract("a.egg-info/PKG-INFO", int64(len(both)))(strings.NewReader(both))
	if err != nil || string(header) != "import a\n" || !strings.Contains(string(source), "import b") {
		t.Errorf("%q, %q, %v", source, header, err)
	}
}
