package fix

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestOtherPython checks the lines for wheels that were copied from another release of Python or from
// another machine: only a release that is known to be for this one is installed again, from the index
// that has its build, and nothing that its metadata requires may be absent.
func TestOtherPython(t *testing.T) {
	data, err := images.Text("report-python-other.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	const torch = "Name: torch\nVersion: 2.6.0\n"
	if !strings.Contains(text, torch) {
		t.Fatal("the text has no torch 2.6.0")
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"both", "", "", "--reinstall numpy==2.1.3 torch==2.6.0"},
		{"no classifier of this release", "Classifier: Programming Language :: Python :: 3.12\n", "", ""},
		{"a requirement for newer releases", torch, torch + "Requires-Dist: setuptools; python_version >= \"3.12\"\n", "--reinstall numpy==2.1.3"},
		{"a requirement for older releases", torch, torch + "Requires-Dist: tomli; python_version < \"3.11\"\n", "--reinstall numpy==2.1.3 torch==2.6.0"},
		{"a build of another index", torch, "Name: torch\nVersion: 2.6.0+cu124\n", "--reinstall --index-url https://download.pytorch.org/whl/cu124 torch==2.6.0+cu124"},
		{"a build of no index", torch, "Name: torch\nVersion: 2.6.0+mine\n", "--reinstall numpy==2.1.3"},
	} {
		p := plan(t, strings.ReplaceAll(text, tt.old, tt.new), Options{})
		lines := ""
		if p.Snippet != nil {
			lines = strings.Join(p.Snippet.Lines, "\n") + "\n"
		}
		if tt.want == "" && lines != "" || !strings.Contains(lines, tt.want+"\n") && tt.want != "" {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}
