package lint

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/testdata/images"
)

// TestJAXOnRedHat checks that JAX finds its libraries on Red Hat, where pip installs its plugin
// below lib64 and NVIDIA's wheels below lib. JAX 0.6.2 and later import nvidia.cudnn and so on;
// 0.4.35 has only its RPATH. The test moves the files of images with Debian's directories.
func TestJAXOnRedHat(t *testing.T) {
	compiled := regexp.MustCompile(`(?m)^(-- \d/usr/local/lib)(/python3\.12/site-packages/jax)`)
	p := embedded(t)
	for _, tt := range []struct{ image, without, want string }{
		{"jax-cuda13-healthy", "", ""},
		{"jax-cuda13-healthy", "nvidia/cudnn/lib/libcudnn.so.9 --", "error: Unable to load cuDNN. Is it installed?"},
		{"jax-healthy", "", "error: Unable to load cuDNN. Is it installed?"},
	} {
		t.Run(tt.image+" without "+tt.without, func(t *testing.T) {
			b, err := images.Text(tt.image + ".txtar")
			if err != nil {
				t.Fatal(err)
			}
			text := compiled.ReplaceAllString(string(b), "${1}64${2}")
			if tt.without != "" {
				text = strings.Replace(text, tt.without, "gone --", 1)
			}
			got := heard(t, p, text)
			if tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}
