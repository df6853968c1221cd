// Package plaintest checks the promise of package plain: no terminal and no CI system
// obeys printed text. It does so by other means than plain, after the source of GitHub's
// runner (ActionCommand.cs).
package plaintest

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// Poison are texts that an image may contain to act on a terminal, on the log of a CI
// system, or on a program that reads line by line.
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
	"lib\u200bcuda\u2060\u00ad\U000e0041\u3164\u2067x.so",
}

// Injected is at the beginning of a line only if an image can make lines.
const Injected = "INJECTED"

// May reports whether a test may put a text into an image. A text that begins with
// Injected could stand at the beginning of a line without a fault.
func May(s string) bool { return !strings.HasPrefix(strings.TrimSpace(s), Injected) }

// Lawful fails the test if a terminal or a CI system obeys a part of the text, or if an
// image made a line of it. colors means that the text may have the program's own colours.
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

// Obeyed fails the test if a terminal or a CI system obeys a part of the text.
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
	return r != '\n' && unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point)
}

// Begins reports whether a line begins with "::" after blanks or characters without
// width.
func Begins(line string) bool {
	return strings.HasPrefix(strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }), "::")
}
