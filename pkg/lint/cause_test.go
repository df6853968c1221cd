package lint

import (
	"path"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestCausesAreShared checks that the findings about one library share their cause where
// they have one: several rules meet it, or one rule by several names of the file.
func TestCausesAreShared(t *testing.T) {
	want := map[string]string{
		"ctranslate2-execstack.txtar":           "libctranslate2-bc15bf3f.so.4.5.0",
		"execstack-tunable-unknown.txtar":       "libctranslate2-bc15bf3f.so.4.5.0",
		"report-cpu-torch-cuda-extension.txtar": "libc10_cuda.so",
		"stdlib-module-cut.txtar":               "_json.cpython-312-x86_64-linux-gnu.so",
		"stdlib-module.txtar":                   "libbz2.so.1.0",
	}
	for _, im := range textImages(t) {
		library, ok := want[im.name]
		if !ok {
			continue
		}
		delete(want, im.name)
		var causes []string
		for _, f := range im.findings {
			if path.Base(f.Library) == library {
				causes = append(causes, f.Cause)
			}
		}
		if len(causes) != 2 || causes[0] != causes[1] {
			t.Errorf("%s: the findings about %s have the causes %q, want the same two", im.name, library, causes)
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no text images %v", want)
	}
}

// TestCauseOfKind checks that in all text images a missing library, and an unusable file,
// has one cause, whatever rules meet it.
func TestCauseOfKind(t *testing.T) {
	for _, im := range textImages(t) {
		causes := map[string]string{} // by kind and library
		for _, f := range im.findings {
			if f.Library == "" || f.Cause == "" || f.Kind != packs.Missing && f.Kind != packs.Unusable {
				continue
			}
			key := string(f.Kind) + " " + path.Base(f.Library)
			if other := causes[key]; other != "" && other != f.Cause {
				t.Errorf("%s: %s has two causes, %q and %q", im.name, key, other, f.Cause)
			}
			causes[key] = f.Cause
		}
	}
}
