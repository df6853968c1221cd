package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unmarked escapes what is a mark of Markdown, and the addresses that become links by themselves.
var unmarked = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"|", `\|`, "`", "&#96;", "://", ":&#47;&#47;", "#", `\#`, "!", `\!`, "~", `\~`)

// apart is a comment of HTML. GitHub and GitLab look for names and numbers to link, and whom to notify, in
// the page that Markdown has become, in which \@ and &#64; are an @: only another element in
// between helps.
const apart = "<!-- -->"

// Markdown returns a line of text as Markdown in which nothing is a mark, a link, a mention of somebody
// or a reference to an issue. It belongs outside of code spans.
func Markdown(s string) string {
	var b strings.Builder
	from := 0
	cut := func(to int) {
		b.WriteString(unmarked.Replace(s[from:to]))
		b.WriteString(apart)
		from = to
	}
	for i, c := range s {
		end := i + utf8.RuneLen(c)
		if c == utf8.RuneError || end >= len(s) {
			continue
		}
		next, _ := utf8.DecodeRuneInString(s[end:])
		switch {
		case strings.ContainsRune("@#!~%$&^", c) && (unicode.IsLetter(next) || unicode.IsDigit(next) || strings.ContainsRune(`_-"`, next)):
			cut(end)
		case c == '-' && unicode.IsDigit(next) && i >= 2 && strings.EqualFold(s[i-2:i], "GH"):
			cut(end)
		case c == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"):
			cut(end)
		}
	}
	b.WriteString(unmarked.Replace(s[from:]))
	return b.String()
}
