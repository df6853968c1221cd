package layers

import (
	"path/filepath"
	"testing"

	"github.com/imgcheck/imgcheck/internal/tooltest"
)

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
