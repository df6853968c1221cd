package contract

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/imgcheck/imgcheck/pkg/targets"
)

// hostile are texts that an image can bring.
var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "a|b", "`code` [link](https://evil.example)", "](x)", "\x1b[31mred\x1b[0m", "\u202egnp.so",
	"::error::gotcha", "</td></table><style>", "line\nbreak", "|---|", "@team #1", "{{.Ref}}", "\xff\xfe",
}

func hostileImage(text string) *Image {
	return &Image{Ref: text, Compat: text, Rows: []*targets.Row{{
		Arch: "9.0", Products: []string{"H100"}, Verdict: "fails", Driver: "550", Why: text,
		Failures: []targets.Failure{{Path: "/lib/" + text, Error: text, Effects: []string{text}, Texts: []string{text}}},
	}, {
		Arch: "10.0", Products: []string{"B200"}, Verdict: "partly", Driver: "550", Why: text, Partly: []targets.Sparse{{Path: "/" + text, Containers: 1, Of: 2}}, Unsure: []string{"/u" + text},
	}, {
		Arch: "12.0", Products: []string{"RTX 50"}, Verdict: "compiles", Compiles: []string{"/" + text},
	}}}
}

// TestHostileTexts checks that texts of an image stay text in the table, the page and the
// comments of conditions.
func TestHostileTexts(t *testing.T) {
	var plainPage bytes.Buffer
	if err := hostileImage("x").HTML(&plainPage); err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		img := hostileImage(text)
		var page, table bytes.Buffer
		if err := img.HTML(&page); err != nil {
			t.Fatal(err)
		}
		if got, want := elements(t, page.Bytes()), elements(t, plainPage.Bytes()); got != want {
			t.Errorf("%q: the page has other elements:\n%s\n%s", text, got, want)
		}
		if err := img.Markdown(&table); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(table.String()) {
			if bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && bars != 6 {
				t.Errorf("%q: %d bars in %q", text, bars, line)
			}
		}
		for _, bad := range []string{"<script", "<img", "</td", "<style", "](", "\x1b", "\u202e", "\n::error", "@team"} {
			if outside := strings.ReplaceAll(strings.Join(spansRemoved(table.String()), ""), `\]`, ""); strings.Contains(outside, bad) {
				t.Errorf("%q: %q in the table: %s", text, bad, outside)
			}
		}
		for _, kind := range Kinds {
			for line := range bytes.Lines(emitted(t, img, kind)) {
				if bytes.ContainsAny(bytes.TrimSuffix(line, []byte("\n")), "\x1b\r\xff") || bytes.Contains(line, []byte("\u202e")) {
					t.Errorf("%q, %s: %q", text, kind, line)
				}
			}
			if readable := emitted(t, img, kind); kind == "nodeaffinity" && len(readAffinity(t, readable)) == 0 {
				t.Errorf("%q: no terms", text)
			}
		}
	}
}

// elements returns the elements and attributes of a page, without its texts.
func elements(t *testing.T, page []byte) string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			b.WriteString("<" + n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key + "=" + a.Val)
			}
			b.WriteString(">")
		}
	}
	return b.String()
}

// spansRemoved returns the parts of Markdown outside of its code spans.
func spansRemoved(s string) []string {
	var list []string
	for i, part := range strings.Split(s, "`") {
		if i%2 == 0 {
			list = append(list, part)
		}
	}
	return list
}
