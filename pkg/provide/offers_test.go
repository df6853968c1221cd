package provide

import (
	"slices"
	"testing"
)

func TestOffers(t *testing.T) {
	for _, tt := range []struct {
		library, cuda, release string
		versions               []string
		want                   []string
	}{
		{"libcudnn.so.9", "12", "12.4.1", nil, []string{"pypi:", "redist:", "image:nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04"}},
		{"libcudnn.so.9", "12", "", []string{"==9.5.*"}, []string{"pypi:", "redist:", "image:nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04"}},
		{"libcudnn.so.9", "12", "", []string{"==9.99.*"}, []string{"pypi:", "redist:"}},
		{"libnccl.so.2", "12", "12.4.1", nil, []string{"pypi:", "image:nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04"}},
		{"libnvinfer.so.10", "12", "", nil, []string{"pypi:"}},
		{"libcudart.so.10.1", "10", "", nil, nil}, // no source has it
		{"libcudnn.so.9", "", "", nil, nil},       // for which CUDA is not known
		{"libfoo.so.1", "12", "", nil, nil},
	} {
		if got := Offers(tt.library, tt.cuda, tt.release, tt.versions); !slices.Equal(got, tt.want) {
			t.Errorf("%s for CUDA %q, %s: %q, want %q", tt.library, tt.cuda, tt.versions, got, tt.want)
		}
	}
	if l := LicenseOf("libcudnn_ops.so.9"); l == nil || l.Name != "cuDNN Software License Agreement" {
		t.Errorf("cuDNN comes under %v", l)
	}
	if l := LicenseOf("libfoo.so.1"); l != nil {
		t.Errorf("an unknown library comes under %v", l)
	}
}
