package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/imgcheck/imgcheck/internal/plain/plaintest"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// allowed are the elements of a page and their attributes.
var allowed = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "title": "", "style": "", "script": "", "body": "",
	"header": "", "main": "", "footer": "", "section": "id class aria-label aria-labelledby", "article": "class", "h1": "", "h2": "id", "h3": "",
	"p": "class", "span": "class aria-hidden", "a": "href class rel", "div": "class tabindex role aria-label", "pre": "", "button": "type class hidden",
	"ul": "class", "li": "class", "dl": "", "dt": "", "dd": "class", "details": "open", "summary": "",
	"code": "", "strong": "", "table": "class", "thead": "", "tbody": "", "tr": "class", "th": "scope class", "td": "class data-is",
	"svg": "class role aria-label width height viewbox preserveaspectratio viewBox preserveAspectRatio", "g": "class", "rect": "x y width height rx class", "text": "x y dx", "path": "class d",
}

// ours matches the values of attributes that a text of an image must not reach.
var ours = map[string]*regexp.Regexp{
	"href":  regexp.MustCompile(`^(#image-[0-9]+|https://github\.com/imgcheck/imgcheck/blob/main/docs/rules/[a-z0-9-]+\.md)$`),
	"class": regexp.MustCompile(`^[a-z -]+$`),
	"id":    regexp.MustCompile(`^(image-[0-9]+|overview|causes)$`),
	"d":     regexp.MustCompile(`^M[0-9 C]+$`),
}

// htmlTexts returns the texts of a page, and checks that its elements and their attributes are
// its own.
func htmlTexts(t *testing.T, out string) (list []string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(out))
	inside, policy, digests := "", "", []string{}
	words := "" // a text with its parts in code, which stand within a line
	end := func(element string) {
		if element == "code" && inside != "pre" {
			words += "`"
			return
		}
		list, words = append(list, words), ""
	}
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.CommentToken:
			t.Errorf("html: a comment: %q", token.Data)
		case html.TextToken:
			if inside == "style" || inside == "script" {
				sum := sha256.Sum256([]byte(token.Data))
				digests = append(digests, inside+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
				continue
			}
			words += token.Data
		case html.EndTagToken:
			inside = ""
			end(token.Data)
		case html.StartTagToken, html.SelfClosingTagToken:
			end(token.Data)
			inside = token.Data
			attributes, ok := allowed[token.Data]
			if !ok {
				t.Fatalf("html: the element %q", token.String())
			}
			for _, a := range token.Attr {
				if !slices.Contains(strings.Fields(attributes), a.Key) || ours[a.Key] != nil && !ours[a.Key].MatchString(a.Val) {
					t.Fatalf("html: the attribute %s of %q", a.Key, token.String())
				}
				if a.Key == "content" && strings.HasPrefix(a.Val, "default-src 'none'; ") {
					policy = a.Val
				}
				list = append(list, a.Val)
			}
		}
	}
	if len(digests) != 2 {
		t.Fatalf("html: styles and scripts: %q", digests)
	}
	for _, d := range digests {
		if !strings.Contains(policy, d) {
			t.Fatalf("html: the policy %q lacks %s", policy, d)
		}
	}
	return list
}

// FuzzHTML puts texts into every field of the reports of a page. It states that no text makes an
// element or an attribute of the page, or an address, or a command of a CI system, and that the
// page's policy allows its own style and script alone.
func FuzzHTML(f *testing.F) {
	for _, s := range plaintest.Poison {
		f.Add(s, s)
	}
	for _, s := range []string{
		"</title><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "' onmouseover='alert(1)", "</style><style>*{display:none}", "</pre><iframe>",
		"javascript:alert(1)", "{{.CSS}}", "<!--", "]]>", "</script><svg/onload=alert(1)>", "&lt;b&gt;", "\u2028", "<plaintext>", "/x\" href=\"//evil",
	} {
		f.Add(s, "b")
		f.Add("a", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !plaintest.May(a) || !plaintest.May(b) {
			return
		}
		d := poisoned(a, b)
		again := *d
		set := report.NewSet(a+b, []report.Scanned{{Ref: a, Report: d}, {Ref: a, Platform: b, Report: &again}, {Ref: a + b, Platform: b, Error: a + b}})
		var out bytes.Buffer
		if err := report.SetHTML(&out, set, report.Options{Version: a}); err != nil {
			t.Fatal(err)
		}
		plaintest.Lawful(t, "html", out.String(), false)
		for _, s := range htmlTexts(t, out.String()) {
			plaintest.Lawful(t, "html, decoded", s, false)
		}
	})
}

// TestHTMLIsBounded: an image with very many findings, files and libraries has a page that people
// can open; what is folded is counted.
func TestHTMLIsBounded(t *testing.T) {
	d := crowded(10_000)
	var out bytes.Buffer
	if err := report.HTML(&out, d, report.Options{}); err != nil {
		t.Fatal(err)
	}
	htmlTexts(t, out.String())
	if out.Len() > 4<<20 {
		t.Errorf("%d bytes", out.Len())
	}
	for _, want := range []string{"… 9,992 more", "… and 9,900 more, which the JSON report has", "… and 9,000 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(out.String(), "<g class="); n > 125 {
		t.Errorf("a graph of %d nodes", n)
	}
}

// crowded returns a document in which n files miss one library, and a process loads n.
func crowded(n int) *report.Document {
	d := report.New(report.Image{Ref: "crowd"}, &lint.Result{})
	f := lint.Finding{Rule: "missing-library", Kind: packs.Missing, Severity: packs.Error, Library: "libx.so.1", Cause: "missing libx.so.1", Message: "libx.so.1: cannot open"}
	copies, mapped := lint.Copies{Family: "x", Library: "liby.so"}, []string{}
	for i := range n {
		file := lint.Copy{}
		file.Path, file.UsedBy = fmt.Sprintf("/opt/y/%05d.so", i), []lint.User{{Process: "p"}}
		copies.Files, mapped = append(copies.Files, file), append(mapped, file.Path)
		f.NeededBy = append(f.NeededBy, file.File)
	}
	d.Copies, d.Processes = []lint.Copies{copies}, []lint.Process{{Title: "p", Program: "/p", Mapped: mapped}}
	return d.With([]lint.Finding{f})
}

// TestHTMLShowsAll: what the page folds is in it, so that a search in the page finds it.
func TestHTMLShowsAll(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range docs {
		if name == "hostile" || name == "much" {
			continue
		}
		text := strings.Join(htmlTexts(t, string(render(t, "html", d, report.Options{}))), "\n")
		for i := range d.Findings {
			f := &d.Findings[i]
			if !strings.Contains(text, f.Message) {
				t.Errorf("%s: %s is not in the page", name, f.Message)
			}
			for _, s := range f.Searched {
				for _, p := range s.Places {
					if !strings.Contains(text, p.String()) {
						t.Errorf("%s: %s is not in the page", name, p)
					}
				}
			}
		}
	}
}
