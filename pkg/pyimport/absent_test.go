package pyimport

import (
	"testing"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

func TestCalled(t *testing.T) {
	for _, tt := range []struct {
		source string
		line   int
		want   bool
	}{
		{"", 0, false},
		{"import a\nfrom b import c\nx = [1, 'y']\ndef f(): g()\n", 0, false},
		{"import a\na.set(__name__)\n", 0, true},
		{"import a\na.set(__name__)\n", 1, false},
		{"import a\nx = a.set(__name__)\n", 2, true},
		{"try:\n  import a\nexcept ImportError:\n  pass\n", 0, false},
		{"try:\n  import a\nexcept ImportError:\n  f()\n", 0, true},
		{"for x in y:\n  import a\n", 0, true},
	} {
		reduced := pysource.Reduce([]byte(tt.source))
		for _, text := range []string{tt.source, string(reduced)} {
			if got := called(pysource.Parse([]byte(text)).Body, tt.line); got != tt.want {
				t.Errorf("%q up to line %d: got %v, want %v", text, tt.line, got, tt.want)
			}
		}
	}
}

func TestHasWord(t *testing.T) {
	for text, want := range map[string]bool{"": false, "ab": true, "x.ab()": true, "abc": false, "_ab": false, "abc ab": true, "'ab'": true} {
		if got := hasWord([]byte(text), "ab"); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
