package pyimport

import "testing"

func TestWithFlags(t *testing.T) {
	for _, c := range []struct {
		pattern string
		bits    int64
		want    string
		ok      bool
	}{
		{"a b", 0, "a b", true},
		{"a b", 2, "(?i)a b", true},
		{"a  b # comment\nc", 64, "abc", true},
		{`a\ [ #]` + "\tb", 64 | 8 | 16, `(?ms)a\ [ #]b`, true},
		{"a", 256, "", false},
		{"a", 32, "a", true},
	} {
		got, ok := withFlags(c.pattern, c.bits)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q with %d: got %q, %v", c.pattern, c.bits, got, ok)
		}
	}
}
