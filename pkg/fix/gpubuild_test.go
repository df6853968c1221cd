package fix

import (
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestOtherBuild checks the line that installs the build for the image's CUDA: with its companions
// of the same build, and for no release that the tables do not have.
func TestOtherBuild(t *testing.T) {
	data, err := images.Text("cpu-build.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	wheel := func(name, version string) string {
		return "-- 1/usr/local/lib/python3.12/site-packages/" + name + "-" + version + ".dist-info/METADATA --\ntext\nMetadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n-- want --\n"
	}
	const want = "-- want --\n"
	for _, tt := range []struct{ name, old, new, want string }{
		{"torch alone", want, want, "cu124 torch==2.6.0+cu124\n"},
		{"the image's CUDA", "CUDA_VERSION=12.4.1", "CUDA_VERSION=11.8.0", "cu118 torch==2.6.0+cu118\n"},
		{"a companion", want, wheel("torchvision", "0.21.0+cpu"), "cu124 torch==2.6.0+cu124 torchvision==0.21.0+cu124\n"},
		{"a CUDA without a build", "CUDA_VERSION=12.4.1", "CUDA_VERSION=13.0.1", ""},
		{"a release without builds", "2.6.0+cpu", "1.0.0+cpu", ""},
	} {
		p := plan(t, strings.ReplaceAll(text, tt.old, tt.new), Options{})
		lines := ""
		if p.Snippet != nil {
			lines = strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(strings.Join(p.Snippet.Lines, "\n")) + "\n"
		}
		if tt.want == "" && lines != "" || !strings.Contains(lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, lines, tt.want)
		}
	}
}
