package plain

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"libcudnn.so.9 → “ü”":              "libcudnn.so.9 → “ü”",
		"a\x1b]0;title\x07b":               "a�]0;title�b",
		"two\nlines\tand\ra return\u0085x": "two lines and a return�x",
		"a line\u2028separator":            "a line separator",
		"bad \xff byte":                    "bad � byte",
		"user\u202e txt.exe \u2066":        `user\u202e txt.exe \u2066`,
		"lib\u200bcuda\ufeff.so\U000e0041": `lib\u200bcuda\ufeff.so\U000e0041`,
		"#[1] ##a ## [b]":                  "#[1] ##a ## [b]",
		"a ##[error]b":                     "a ## [error]b",
		"###[x]##vso[task.setvariable]":    "### [x]##vso [task.setvariable]",
		"#\n#[x]":                          "# #[x]",
		"std::string a::b":                 "std::string a::b",
		" ::error::a":                      " : :error::a",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// FuzzText states that Text returns one line without effects, does not change its own
// result, and loses no letter.
func FuzzText(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff")
	f.Add("a ##[error]b##\n[")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || Text(got) != got {
			t.Errorf("%q: %q", s, got)
		}
		plaintest.Obeyed(t, s, got, false)
		if strings.Contains(got, "\n") {
			t.Errorf("%q: %q has lines", s, got)
		}
		if letters(got) != letters(spelled(Masked(strings.ToValidUTF8(s, "�")))) {
			t.Errorf("%q: %q has lost something", s, got)
		}
	})
}

// spelled returns a text with its invisible characters escaped.
func spelled(s string) string {
	var b strings.Builder
	for _, r := range s {
		if invisible(r) {
			b.WriteString(escape(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// letters returns the characters of a text that are always kept.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || acts(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
}

func TestWriter(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		colors     bool
	}{
		{"", "", false},
		{"  so\n  std::x ::y\n", "  so\n  std::x ::y\n", false},
		{"::error::x\n", ": :error::x\n", false},
		{"a\n \u00a0\u3000::error::x\n", "a\n \u00a0\u3000: :error::x\n", false},
		{"\ufeff::error::x\n", "\\ufeff: :error::x\n", false},
		{"a\t\r\n::x", "a  \n: :x", false},
		{": ::x\n:", ": ::x\n:", false},
		{":::x", ": ::x", false},
		{"lib##[group]x\n", "lib## [group]x\n", false},
		{"##\n[x]", "##\n[x]", false},
		{"\x1b[1mbold\x1b[0m", "�[1mbold�[0m", false},
		{"\x1b[1;31mbold\x1b[0m", "\x1b[1;31mbold\x1b[0m", true},
		{"\x1b[1m::x\x1b[0m", "\x1b[1m: :x\x1b[0m", true},
		{"#\x1b[1m#\x1b[0m[x]", "#\x1b[1m#\x1b[0m [x]", true},
		{"\x1b[2Ja\x1b]0;t\x07", "�[2Ja�]0;t�", true},
		{"\x1b[1111111111111111m", "�[1111111111111111m", true},
		{"\xff→", "�→", false},
	} {
		for size := 1; size <= 3; size++ { // of one Write
			if got := written(t, tt.text+"\n", tt.colors, size); got != tt.want+"\n" {
				t.Errorf("%q, %d at a time: %q, want %q", tt.text, size, got, tt.want+"\n")
			}
		}
	}
}

// written returns the result of a text that is written in parts of a size.
func written(t *testing.T, text string, colors bool, size int) string {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, colors)
	for i := 0; i < len(text); i += size {
		part := text[i:min(i+size, len(text))]
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(part), err)
		}
	}
	return b.String()
}

// FuzzWriter states that no line acts, whatever is written, and in whatever parts.
func FuzzWriter(f *testing.F) {
	f.Add(" ::error::x\n##[error]\x1b[1m::\xe2\x80", true, 3)
	f.Add("\x1b[31;1m\x1b[::\x1b\n##vso\x1b[0m[", true, 1)
	f.Fuzz(func(t *testing.T, s string, colors bool, size int) {
		got := written(t, s+"\n", colors, len(s)+1)
		plaintest.Obeyed(t, s, got, colors)
		if parts := written(t, s+"\n", colors, max(1, size%7)); parts != got {
			t.Errorf("%q in parts: %q, at once %q", s, parts, got)
		}
		if again := written(t, got, colors, len(got)); again != got {
			t.Errorf("%q: %q, then %q", s, got, again)
		}
	})
}

// FuzzJSON states that the result means the same as the value, and that nothing in it
// acts.
func FuzzJSON(f *testing.F) {
	f.Add("a ##[error]\n::x\x7f\u009b\u202e\xff", "\\##vso[", "")
	f.Add("##", "[", "  ")
	f.Fuzz(func(t *testing.T, a, b, indent string) {
		if strings.Contains(a+b+a, "://") {
			return // a login is masked
		}
		in := map[string][]string{a: {a, b, a + b}}
		indent = strings.Repeat(" ", len(indent)%4)
		var out, plainly bytes.Buffer
		if err := JSON(&out, in, indent); err != nil {
			t.Fatal(err)
		}
		plaintest.Obeyed(t, a+b, out.String(), false)
		var got, want map[string][]string
		if err := json.NewEncoder(&plainly).Encode(in); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(plainly.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		one, _ := json.Marshal(got)
		two, _ := json.Marshal(want)
		if !bytes.Equal(one, two) {
			t.Errorf("%s, want %s", one, two)
		}
	})
}
