package lint

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// TestModulesNotLookedAt checks that a module listed in a RECORD is reported if it is not in
// the image, unless it may be among skipped files.
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
		res, err := Run(t.Context(), img, embedded(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(res.Findings, func(f Finding) bool { return f.Rule == "module-lost" }); got != c.want {
			t.Errorf("%q skipped: found %v, want %v", c.skipped, got, c.want)
		}
	}
}

// moduleCase is a text, and the message and reason of the finding about its lost modules.
type moduleCase struct{ name, text, message, because string }

// moduleCases returns cases of lost modules that no text image has.
func moduleCases() []moduleCase {
	record := func(name string, modules ...string) string {
		text := wheelText(name, "1.0") + "-- " + siteDir + name + "-1.0.dist-info/RECORD --\ntext\n"
		for _, m := range modules {
			text += m + ",sha256=aaa,1\n"
		}
		return text
	}
	const tag = ".cpython-312-x86_64-linux-gnu.so"
	loader := elfText("lib64/ld-linux-x86-64.so.2", "soname=ld-linux-x86-64.so.2", `rodata "ld.so (GNU libc) stable release version 2.36.\x00"`)
	return []moduleCase{
		{
			"several", record("a", "a/_b"+tag, "a/_c"+tag, "a/_d"+tag),
			"_b" + tag + ", which a 1.0 has installed, is missing, and so are 2 more of its modules", "no program is known to import it",
		},
		{
			"a text", loader + record("a", "a/_b"+tag) + "-- " + siteDir + "a/_b" + tag + " --\ntext\nnothing\n",
			"_b" + tag + ", which a 1.0 has installed, is not a library", "no program is known to import it",
		},
		{
			"of a framework that others import", loader + record("scipy", "scipy/_cyutility"+tag) + elfText(siteDir[2:]+"scipy/linalg/_fblas"+tag),
			"_cyutility" + tag + ", which scipy 1.0 has installed, is missing", "SciPy is often installed as a dependency and never imported",
		},
	}
}

// TestModuleClauses checks the findings of moduleCases.
func TestModuleClauses(t *testing.T) {
	for _, c := range moduleCases() {
		t.Run(c.name, func(t *testing.T) {
			f := onlyFinding(t, "module-lost", textImage(t, c.text, false))
			if f.Severity != packs.Warning || f.Message != c.message || f.Because != c.because {
				t.Errorf("got %s %q because %q\nwant %q because %q", f.Severity, f.Message, f.Because, c.message, c.because)
			}
		})
	}
}
