package fix

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestNewPackage checks the lines that install the package of a missing module: in the releases that
// the package which imports it requires, and not if the only release that would do is refused by
// another package.
func TestNewPackage(t *testing.T) {
	data, err := images.Text("import-required-release.txtar")
	if err != nil {
		t.Fatal(err)
	}
	image := func(module, requires string, others ...string) string {
		text := strings.ReplaceAll(string(data), "import plugs_legacy", "from "+module+" import anything")
		text = strings.ReplaceAll(text, "Requires-Dist: plugs\n", requires)
		return strings.Replace(text, "-- want --\n", strings.Join(others, "")+"-- want --\n", 1)
	}
	wheel := func(name, version, requires string) string {
		return "-- 2/usr/local/lib/python3.12/site-packages/" + name + "-" + version + ".dist-info/METADATA --\ntext\nMetadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n" + requires
	}
	setuptools := wheel("setuptools", "82.0.0", "")
	for _, tt := range []struct{ name, text, want string }{
		{"any release", image("requests", ""), "/usr/local/bin/python3.12 requests\n"},
		{"the releases that its metadata requires", image("requests", "Requires-Dist: requests>=2.31,<3\n"), "requests>=2.31,<3\n"},
		{"a requirement that may not apply", image("requests", "Requires-Dist: requests>=2.31; extra == \"web\"\n"), "requests\n"},
		{"the last release that has it", image("pkg_resources", "", setuptools), "setuptools<82\n"},
		{"a release that another package refuses", image("pkg_resources", "", setuptools, wheel("other", "1.0", "Requires-Dist: setuptools>=82\n")), ""},
		{"a module of no known package", image("plugs", ""), ""},
	} {
		p := plan(t, tt.text, Options{})
		lines := plainLines(p)
		if tt.want == "" && lines != "" || !strings.Contains(lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}

// TestNoLines checks why there are no lines: nothing in the first two images shows where the Python of
// the program has packages of pip, and the loader of the third is musl's.
func TestNoLines(t *testing.T) {
	for name, want := range map[string]string{
		"fresh/clx-no-transformers.txtar": "the image does not show into which directory pip would install it for python3.10",
		"fresh/immich-no-cv2.txtar":       "the image does not show into which directory pip would install it for python3.12",
		"fresh/perplexica-alpine.txtar":   "musl cannot load files that are linked with glibc: the base image has to have glibc, or the files have to be built for musl",
	} {
		data, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		p := plan(t, string(data), Options{})
		if len(p.Reasons) != 1 || p.Reasons[0].Why != want || p.Snippet != nil {
			t.Errorf("%s: %q, want %q", name, p.Reasons, want)
		}
	}
}

// plainLines returns the lines of a plan's snippet as words for a shell without quotes.
func plainLines(p *Plan) string {
	if p.Snippet == nil {
		return ""
	}
	return strings.NewReplacer(`","`, " ", `"]`, "", "'", "").Replace(strings.Join(p.Snippet.Lines, "\n")) + "\n"
}
