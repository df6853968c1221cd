package dockerlint

import (
	"slices"
	"strings"
	"testing"
)

// FuzzConfigIndexes states: each index is a word of the text that names it, the ends of lines
// and comments change nothing, and a setting before the text is read first, whatever follows.
func FuzzConfigIndexes(f *testing.F) {
	f.Add([]byte("[global]\nindex-url = https://a/simple\nextra-index-url =\n  https://b/simple\n  https://c/simple\n"), false)
	f.Add([]byte("[global]\r\nextra_index_url: https://b\r\n\r\n; a comment\r\n\thttps://c\r\ntimeout=3\r\n  https://no\r\n"), false)
	f.Add([]byte("index-url\n = https://a\n"), false)
	f.Add([]byte("[[index]]\nname = \"a\"\nurl = \"https://a/simple\"\n"), true)
	f.Add([]byte("compile-bytecode = true\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, uv bool) {
		got := configIndexes(text, uv, 7)
		for _, n := range got {
			if n.line != 7 || n.url == "" || len(strings.Fields(n.url)) != 1 {
				t.Errorf("%+v", n)
			}
			if !uv && !strings.Contains(string(text), n.url) {
				t.Errorf("%q is not in the text", n.url)
			}
		}
		if uv {
			if more := configIndexes(append(slices.Clone(text), "\nindex-url = \"https://a\"\n"...), uv, 7); len(more) == 0 {
				t.Error("the index of the last line is not read")
			}
			return
		}
		if crlf := strings.ReplaceAll(string(text), "\n", "\r\n"); !slices.Equal(got, configIndexes([]byte(crlf), uv, 7)) {
			t.Error("the ends of lines change the indexes")
		}
		if commented := strings.ReplaceAll(string(text), "\n", "\n# index-url = https://no\n"); !slices.Equal(got, configIndexes([]byte(commented), uv, 7)) {
			t.Error("a comment changes the indexes")
		}
		before := configIndexes(append([]byte("[global]\nindex-url = https://first/simple\n"), text...), uv, 7)
		if len(before) == 0 || before[0] != (named{"https://first/simple", true, false, 7}) {
			t.Errorf("the first setting is not read first: %+v", before)
		}
	})
}
