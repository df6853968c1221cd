package depth

import "testing"

func TestExceeds(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "[{}]": false, "[{[]}]": true, "[[": false, "[[[": true, "]]][[": false, "][][][": false,
	} {
		if got := Exceeds([]byte(text), 2); got != want {
			t.Errorf("%q nests more than 2 deep: %v", text, got)
		}
	}
}

func TestDottedExceeds(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"a.b.c.d.e = 1\n", false},
		{"a.b.c.d.e.f = 1\n", true},
		{"a = 'b.c.d.e.f.g.h' # \\\"\n", false},
		{`a."\".\".".c.d.e.f = 1`, true},
		{"[a.b.c]\nd.e = 1\n", false},
		{"[a.b.c]\nd.e.f.g = 1\n", true},
		{"  [[a.b.c.d.e]]\nx.y = 1\n[z]\ny.x = 1", true},
	} {
		if got := DottedExceeds([]byte(c.text), 35); got != c.want {
			t.Errorf("%q costs more than 35: %v", c.text, got)
		}
	}
}

func TestValuesExceed(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a-b: c": false, "a: b\n": false, "a: b\nc: d\n": true, "[a,a": false, "[a,a,": true, "{{{": true,
		"- - a": false, "- - - a": true, "?\ta\n? a": true, "a-b-c-d:e:f?g": false, "\n\n\n": true,
	} {
		if got := ValuesExceed([]byte(text), 2); got != want {
			t.Errorf("%q has more than 2 values: %v", text, got)
		}
	}
}
