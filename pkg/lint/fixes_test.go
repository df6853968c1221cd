package lint

import "testing"

// TestDebianPackage: names of packages that Debian has, by their libraries.
func TestDebianPackage(t *testing.T) {
	for library, want := range map[string]string{
		"libmagic.so.1": "libmagic1", "libpng16.so.16": "libpng16-16", "libQt5Core.so.5": "libqt5core5",
		"libopencv_imgproc.so.406": "libopencv-imgproc406", "libstdc++.so.6": "libstdc++6",
		"libm.so.6": "libc6", "libtorch_cuda_cu.so": "", "libgomp-a34b3233.so.1": "", ".so.1": "",
	} {
		if got := debianPackage(library); got != want {
			t.Errorf("%s: %q, not %q", library, got, want)
		}
	}
}
