package plain

import (
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"libcudnn.so.9 → “ü”":              "libcudnn.so.9 → “ü”",
		"a\x1b]0;title\x07b":               "a�]0;title�b",
		"two\nlines\tand\ra return\u0085x": "two lines and a return�x",
		"bad \xff byte":                    "bad � byte",
		"user\u202e txt.exe \u2066":        "user� txt.exe �",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzText: what comes out is shown and nothing else, and stays as it is.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("%q: %q", s, got)
		}
		for _, r := range got {
			if acts(r) {
				t.Errorf("%q: %q", s, r)
			}
		}
		if utf8.RuneCountInString(got) != utf8.RuneCountInString(s) {
			t.Errorf("%q: %q has lost something", s, got)
		}
	})
}
