package layers

import (
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/tooltest"
)

// writeLayout writes a text image as an OCI layout with the tag "tag".
func writeLayout(t *testing.T, text string) string {
	t.Helper()
	img := imagetest.V1(t, text)
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{refName: "tag"})); err != nil {
		t.Fatal(err)
	}
	return dir
}

// umociDiffers says what umoci does otherwise than overlayfs does with layers
// that containerd or Docker unpacked. umoci unpacks each layer over the ones
// below.
var umociDiffers = map[string]string{
	"a directory takes its own whiteout's place and joins":       "it hides what is below, as the format says",
	"the root is never opaque":                                   "it removes all, as the format says",
	"an opaque marker alone makes its directory, a whiteout too": "a marker removes and makes nothing",
	"a directory replaced by a link and back":                    "it follows the lower layer's link",
	"a path through a link of a lower layer hides the link":      "it follows the lower layer's link",
}

func TestMergeAgreesWithUmoci(t *testing.T) {
	umoci := tooltest.Need(t, "umoci", "umoci")
	for _, tt := range mergeTests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.refused || umociDiffers[tt.name] != "" {
				return
			}
			bundle := filepath.Join(t.TempDir(), "bundle")
			tooltest.Output(t, umoci, "unpack", "--image", writeLayout(t, tt.image)+":tag", bundle)
			compareTrees(t, mergeText(t, tt.image), filepath.Join(bundle, "rootfs"))
		})
	}
}
