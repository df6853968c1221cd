package fix

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestExtensionBuild checks the lines that install the build of an extension for the torch of the
// image, and that there are none for a torch that the page or the setup has no build for.
func TestExtensionBuild(t *testing.T) {
	const site = "-- 5/usr/local/lib/python3.12/site-packages/"
	torch := func(version string) string {
		return site + "torch-" + version + ".dist-info/METADATA --\ntext\nMetadata-Version: 2.1\nName: torch\nVersion: " + version + "\n" +
			site + "torch/version.py --\ntext\n__version__ = '" + version + "'\ncuda = '12.4'\n"
	}
	const page, setup = "report-torch-scatter.txtar", "torch-extension-setup.txtar"
	for _, tt := range []struct{ name, text, others, want string }{
		{"a page", page, "", "--reinstall --only-binary :all: --find-links https://data.pyg.org/whl/torch-2.6.0+cu124.html torch-scatter\n"},
		{"a release that the page may not have", page, torch("2.13.0+cu124"), ""},
		{"a setup", setup, "", "packaging setuptools wheel && /.uv pip install --no-cache --python /usr/local/bin/python3.12 --no-deps --reinstall --no-build-isolation flash-attn==2.7.4.post1\n"},
		{"a torch of another maker", setup, torch("2.6.0a0+ecf3bae40a.nv25.01"), ""},
	} {
		b, err := images.Text(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(b), "-- want --\n", tt.others+"-- want --\n", 1)
		if tt.others != "" {
			text = strings.Replace(text, "\n-- ", "\nlayer 5 RUN pip install torch\n-- ", 1)
		}
		p := plan(t, text, Options{})
		lines := plainLines(p)
		if tt.want == "" && lines != "" || !strings.HasSuffix(lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}
