package replay

import (
	"bytes"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/nodejs"
)

// TestExtract says which files are kept whole: what pyenv reads of Python source, pysource
// would leave out.
func TestExtract(t *testing.T) {
	for name, whole := range map[string]bool{
		"usr/lib/python3.11/site.py": true, "opt/venv/lib/python3.11/site-packages/__editable___a_1_0_finder.py": true, "opt/venv/pyvenv.cfg": true,
		"usr/lib/python3/dist-packages/a.pth": true, "usr/lib/python3.11/os.py": false, "spark/py4j-src.zip": false, "var/lib/rpm/rpmdb.sqlite": false,
	} {
		if !Wants(name, 1000) {
			t.Errorf("%s is not kept", name)
		}
		if got := Extractor()(name, 1000) == nil; got != whole {
			t.Errorf("%s is kept whole: got %t, want %t", name, got, whole)
		}
	}
}

// TestExtractorScripts: equal JavaScript files share one text, which later files do not
// change; a package.json with the bytes of a script is reduced as what it is.
func TestExtractorScripts(t *testing.T) {
	extract := Extractor()
	read := func(name, src string) []byte {
		t.Helper()
		b, err := extract(name, int64(len(src)))(strings.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const src, object = "require('./a.node')\n", "{}"
	one, marked := read("app/a.js", src), read("app/b.js", string(nodejs.Reduce([]byte(src))))
	read("app/c.js", strings.Repeat("require('c')\n", 100))
	if want := nodejs.Reduce([]byte(src)); !bytes.Equal(one, want) || !bytes.Equal(marked, want) {
		t.Errorf("%q and %q, want %q", one, marked, want)
	}
	if again := read("srv/a.js", src); &one[0] != &again[0] {
		t.Error("the same source has two texts")
	}
	read("app/d.js", object)
	if got, want := read("app/node_modules/d/package.json", object), nodejs.ReducePackage([]byte(object)); !bytes.Equal(got, want) {
		t.Errorf("package.json: %q, want %q", got, want)
	}
}
