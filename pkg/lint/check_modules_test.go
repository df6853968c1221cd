package lint

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// TestModulesNotLookedAt: a module that a RECORD lists is gone when it is not in the
// image, and not when it may be among what was passed over.
func TestModulesNotLookedAt(t *testing.T) {
	const module = "a/_b.cpython-312-x86_64-linux-gnu.so"
	text := wheelText("a", "1.0") + "-- " + siteDir + "a-1.0.dist-info/RECORD --\ntext\n" + module + ",sha256=aaa,1\n"
	for _, c := range []struct {
		skipped string
		want    bool
	}{
		{"usr/share/doc", true}, {siteDir[2:] + module, false}, {"usr/lib/python3.12", false}, {"", false}, {siteDir[2:] + "a/_bc.so", true},
	} {
		img := textImage(t, text, false)
		img.FS.Skipped = []layers.LayerSkip{{Layer: 0, Skip: layers.Skip{Path: c.skipped, Why: "a test"}}}
		res, err := Run(t.Context(), img, packs(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(res.Findings, func(f Finding) bool { return f.Rule == "module-lost" }); got != c.want {
			t.Errorf("%q passed over: told %v, want %v", c.skipped, got, c.want)
		}
	}
}
