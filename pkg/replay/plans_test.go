package replay

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestCut checks the meaning of an open of a truncated file: the process is killed, so
// that the file is not optional any more.
func TestCut(t *testing.T) {
	set := embedded(t)
	pl := &plans{re: &replayer{packs: set}}
	e := &elfdeps.Error{Kind: elfdeps.CutError, Subject: "/opt/libx.so.1"}
	for _, x := range []struct {
		name     string
		means    meaning
		severity packs.Severity
		effect   string
	}{
		{"needed", meaning{verdict: packs.Grave, effect: "nothing works"}, packs.Error, "the process is killed when it loads the file: nothing works"},
		{"optional", meaning{verdict: packs.Grave, optional: true}, packs.Warning, "the process is killed when libx.so.1 is opened"},
		{"of no weight", meaning{verdict: packs.Verdict{Severity: packs.Note}, effect: "it is slow"}, packs.Warning, "the process is killed when it loads the file: it is slow"},
		{"done without", meaning{verdict: set.Verdict("own-copy", packs.Values{"why": "x"}), effect: "it is slow"}, packs.Note, "the process is killed when it loads the file: it is slow"},
	} {
		pl.cut(&x.means, e)
		if x.means.verdict.Severity != x.severity || x.means.effect != x.effect || x.means.optional {
			t.Errorf("%s: got %q %q", x.name, x.means.verdict.Severity, x.means.effect)
		}
	}
}
