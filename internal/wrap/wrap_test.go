package wrap

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWords(t *testing.T) {
	tests := []struct {
		text  string
		width int
		want  []string
	}{
		{"one  two three", 0, []string{"one  two three"}},
		{"one  two", 8, []string{"one  two"}},
		{"one two three", 8, []string{"one two", "three"}},
		{"one\ntwo", 80, []string{"one two"}},
		{"… … …", 3, []string{"… …", "…"}},
		{"a /very/long/path b", 5, []string{"a", "/very/long/path", "b"}},
		{"", 5, []string{""}},
	}
	for _, tt := range tests {
		if got := Words(tt.text, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("%q at %d: %q, want %q", tt.text, tt.width, got, tt.want)
		}
	}
}

// FuzzWords states that the words and their order stay, and that only a line of one word
// is longer than the width.
func FuzzWords(f *testing.F) {
	f.Add("one two  three\nfour", 7)
	f.Fuzz(func(t *testing.T, text string, width int) {
		lines := Words(text, width)
		if got, want := strings.Fields(strings.Join(lines, " ")), strings.Fields(text); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for _, l := range lines {
			if width > 0 && utf8.RuneCountInString(l) > width && len(strings.Fields(l)) > 1 {
				t.Errorf("%q is wider than %d", l, width)
			}
		}
	})
}
