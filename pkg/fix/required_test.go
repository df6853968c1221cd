package fix

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestAsRequired checks the lines that install a package again so that pip brings what it requires to
// the releases that fit, and that there are none if that changes what other packages need.
func TestAsRequired(t *testing.T) {
	image := func(name string, others ...string) string {
		b, err := images.Text(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(b), "-- want --\n", strings.Join(others, "")+"-- want --\n", 1)
	}
	wheel := func(name, version, requires string) string {
		return "-- 3/usr/local/lib/python3.12/site-packages/" + name + "-" + version + ".dist-info/METADATA --\ntext\nMetadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n" + requires
	}
	extension := func(of string) string {
		return "-- 3/usr/local/lib/python3.12/site-packages/" + of + "/_C.so --\nelf x86_64\nneeded libc10.so\nneeded libc.so.6\n"
	}
	const broken, unmet, plugin = "torch-extension-required.txtar", "requirement-unmet.txtar", "report-jax-plugin.txtar"
	ofIndex := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "fastkernels-1.2.0", "fastkernels-1.2.0+cu124"), "Version: 1.2.0", "Version: 1.2.0+cu124")
	}
	for _, tt := range []struct{ name, text, want string }{
		{"metadata alone", image(unmet), "xformers==0.0.29\n"},
		{"an extension of the package", image(broken), "fastkernels==1.2.0\n"},
		{"an extra", image(plugin), "jax[cuda12]==0.4.38\n"},
		{"another package wants the installed release", image(unmet, wheel("other", "1.0", "Requires-Dist: torch>=2.6\n")), ""},
		{"another package wants both", image(unmet, wheel("other", "1.0", "Requires-Dist: torch>=2.5\n")), "xformers==0.0.29\n"},
		{"an extension of another package", image(broken, wheel("other", "1.0", "Requires-Dist: torch\n"), extension("other")), ""},
		{"an extension that is made for the release", image(broken, wheel("other", "1.0", "Requires-Dist: torch==2.5.1\n"), extension("other")), "fastkernels==1.2.0\n"},
		{"a build that PyPI does not have", ofIndex(image(broken)), ""},
	} {
		p := plan(t, tt.text, Options{})
		lines := plainLines(p)
		if tt.want == "" && lines != "" || !strings.HasSuffix(lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}

func TestAddRequirements(t *testing.T) {
	for _, tt := range []struct{ list, more, want string }{
		{"a==1", "b==2 a==1", "a==1 b==2"},
		{"jax==0.4.38", "jax[cuda12]==0.4.38", "jax[cuda12]==0.4.38"},
		{"jax[cuda12]==0.4.38 numpy", "jax==0.4.38", "jax[cuda12]==0.4.38 numpy"},
		{"jax==0.4.30", "jax[cuda12]==0.4.38", "jax==0.4.30 jax[cuda12]==0.4.38"},
	} {
		got := strings.Join(addRequirements(strings.Fields(tt.list), strings.Fields(tt.more)), " ")
		if got != tt.want {
			t.Errorf("%s and %s: %s, want %s", tt.list, tt.more, got, tt.want)
		}
	}
}
