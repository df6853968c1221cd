// Package plaintest holds what is printed against the law that package plain keeps:
// no terminal and no CI system obeys it. It looks by other means than that package
// does, after the sources of GitHub's runner (ActionCommand.cs).
package plaintest

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Poison is what an image could hold to act on a terminal, on the log of a CI system,
// or on whoever reads line by line.
var Poison = []string{
	"lib\n::stop-commands::x\n" + Injected,
	"::error::lib\x1b[31m\r\n " + Injected,
	"  ::add-mask::a",
	"\u00a0\ufeff::set-output name=a::b",
	"lib##[error]x.so",
	"##vso[task.complete result=Succeeded;]",
	"a\x1b]0;title\x07\u009b2J\u202eb\x00\xff\u2028" + Injected,
	"x]]>%0A::error::,:title=%",
	"a ::warning::b ::c",
	" ", "::", "##",
}

// Injected begins no line unless an image can make lines.
const Injected = "INJECTED"

// May reports whether a text may be put into an image: one that itself begins with
// Injected would rightly stand at the beginning of a line.
func May(s string) bool { return !strings.HasPrefix(strings.TrimSpace(s), Injected) }

// Lawful looks in a text for what a terminal or a CI system obeys, and for lines that
// an image has made. colors says that our own colours may be in it.
func Lawful(t testing.TB, what, text string, colors bool) {
	t.Helper()
	Obeyed(t, what, text, colors)
	for line := range strings.SplitSeq(text, "\n") {
		if !May(line) {
			t.Errorf("%s: the image has made a line: %q", what, line)
		}
	}
}

var (
	color   = regexp.MustCompile("\x1b\\[[0-9;]*m")
	command = regexp.MustCompile(`##[A-Za-z]*\[`)
)

// Obeyed looks in a text for what a terminal or a CI system obeys.
func Obeyed(t testing.TB, what, text string, colors bool) {
	t.Helper()
	if colors {
		text = color.ReplaceAllString(text, "")
	}
	if i := strings.IndexFunc(text, acts); i >= 0 {
		t.Errorf("%s: a control character: %q", what, text[max(0, i-40):min(len(text), i+4)])
	}
	for line := range strings.SplitSeq(text, "\n") {
		if Begins(line) || command.MatchString(line) {
			t.Errorf("%s: a CI system obeys %q", what, line)
		}
	}
}

func acts(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Begins reports whether a line begins with "::" behind blanks, or behind what has no
// width.
func Begins(line string) bool {
	return strings.HasPrefix(strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }), "::")
}
