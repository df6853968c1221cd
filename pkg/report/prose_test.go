package report

import "testing"

// TestProseOfOthers: a text makes a code span for nothing that CommonMark reads as text.
func TestProseOfOthers(t *testing.T) {
	for text, want := range map[string]string{
		"`a` of @b":              "`a` of @<!-- -->b",
		"`a @b`":                 "`a @b`",
		"`x`` @b [c](d) ``` y":   `'x'' @<!-- -->b \[c\](d) ''' y`,
		"``x` @b <img src=x> ` ": `''x' @<!-- -->b &lt;img src=x&gt; ' `,
		"`a":                     "'a",
	} {
		if got := prose(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
