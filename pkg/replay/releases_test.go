package replay

import (
	"testing"
)

// TestNameRelease checks the releases in the names of files.
func TestNameRelease(t *testing.T) {
	for name, want := range map[string]string{
		"libcudnn.so.9.14.0": "9.14.0", "libcudnn-74a4c495.so.9.1.0": "9.1.0", "libnvrtc.so.12.4.127": "12.4.127", "libcudnn.so.9": "9",
		"libnvrtc.so.11.2": "", "libcudart.so.11.0": "", "libnvrtc-builtins.so.11.8": "11.8", "libnvrtc.so": "",
	} {
		if got := nameRelease(name).String(); got != want {
			t.Errorf("nameRelease(%q) = %q, want %q", name, got, want)
		}
	}
}
