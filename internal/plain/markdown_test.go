package plain

import (
	"strings"
	"testing"
)

// TestMarkdown: \@, &#64; and \# do not keep GitHub and GitLab from linking and notifying.
func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"libcudnn.so.9":                   "libcudnn.so.9",
		"@octocat and a@b":                "@<!-- -->octocat and a@<!-- -->b",
		"org/repo#3 GH-1 gh-2 RIGH-T":     `org/repo\#<!-- -->3 GH-<!-- -->1 gh-<!-- -->2 RIGH-T`,
		"!1 $2 %3 ~bug &4 & %\"a b\" 7 %": `\!<!-- -->1 $<!-- -->2 %<!-- -->3 \~<!-- -->bug &amp;<!-- -->4 &amp; %<!-- -->"a b" 7 %`,
		"www.evil.example":                "www.<!-- -->evil.example",
		"https://evil.example":            "https:&#47;&#47;evil.example",
		"<img src=x> [a](b) `c` a_b*":     "&lt;img src=x&gt; \\[a\\](b) &#96;c&#96; a\\_b\\*",
		"@\xff@é@":                        "@\xff@<!-- -->é@",
	} {
		if got := Markdown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Markdown(strings.Repeat("@a", 1000)); strings.Contains(got, "@a") {
		t.Errorf("a mention in %.80q", got)
	}
}
