package lint

import (
	"slices"
	"testing"
)

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"9.1.0.70": "9.1.0.70", "2.6.0+cu124": "2.6.0", "2.3.0a0": "2.3.0", "0.4.35.dev1": "0.4.35",
		"": "", "x": "", "9": "9", "9.": "9", ".9": "", "99999999999999999999": "",
	} {
		if got := parseRelease(text).String(); got != want {
			t.Errorf("parseRelease(%q) = %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct {
		release, versions string
		fits, known       bool
	}{
		{"2.6.0", "", true, true},
		{"", "", true, true},
		{"", ">=2", false, false},
		{"2.6.0", ">=2.7", false, true},
		{"2.7.1", ">=2.7", true, true},
		{"2.7", ">=2.7.1", true, true},
		{"2.6.9", "<2.7", true, true},
		{"2.7.0", "<2.7", false, true},
		{"2.10.0", ">=2.9,<2.11", true, true},
		{"1.12.1", "==1.12", true, true},
	} {
		if fits, known := parseRelease(c.release).within(c.versions); fits != c.fits || known != c.known {
			t.Errorf("%q within %q: %v, %v, want %v, %v", c.release, c.versions, fits, known, c.fits, c.known)
		}
	}
	for _, bad := range []string{"2.0", ">2.0", ">=x", "~=2"} {
		if validVersions(bad) == nil {
			t.Errorf("%q is taken for versions", bad)
		}
	}
}

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

// FuzzRelease: what is written reads as the same.
func FuzzRelease(f *testing.F) {
	for _, s := range []string{"9.1.0.70", "2.6.0+cu124", "..", "00.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := parseRelease(s)
		if again := parseRelease(r.String()); !slices.Equal(r, again) {
			t.Errorf("%q is %v, and %q is %v", s, r, r.String(), again)
		}
	})
}
