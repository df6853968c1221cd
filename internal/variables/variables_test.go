package variables

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "a", "EMPTY": ""}
	for _, c := range []struct{ text, want, missing string }{
		{"x:$A-${A}", "x:a-a", ""},
		{"${B:-${A}}/${B-${C:-d}e}", "a/de", ""},
		{"${EMPTY:-x}${EMPTY-y}", "x", ""},
		{"${A:+b}${B:+c}${EMPTY+d}", "bd", ""},
		{"$$A ${A:?no} $", "$A a $", ""},
		{"a:$TAG", "a:", "TAG"},
		{"${B:?say B}", "", "B"},
		{"${TAG", "", "${"},
		{"$1 ${-x}", "$1 ", "${"},
		{"${A:}", "", "A"},
	} {
		out, missing := Expand(c.text, values)
		if out != c.want || missing != c.missing {
			t.Errorf("%q is %q, %q is missing; want %q, %q", c.text, out, missing, c.want, c.missing)
		}
	}
}

// FuzzExpand: a text without dollars stays, and the result has no more than the text and the
// values that it names.
func FuzzExpand(f *testing.F) {
	f.Add("${A:-${B-c}}$A$$${A?x}", "v")
	f.Add(strings.Repeat("${A:-", 30), "")
	f.Fuzz(func(t *testing.T, text, value string) {
		out, missing := Expand(text, map[string]string{"A": value})
		if !strings.Contains(text, "$") && (out != text || missing != "") {
			t.Errorf("%q is %q", text, out)
		}
		if len(out) > len(text)*(len(value)+1) {
			t.Errorf("%d bytes become %d", len(text), len(out))
		}
	})
}
