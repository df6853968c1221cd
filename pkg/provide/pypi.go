package provide

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
)

const (
	defaultIndex = "https://pypi.org/simple"
	acceptSimple = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
	maxLinks     = 1 << 18 // of an index page; the longest of PyPI has 30,000
)

// maxFetched bounds the wheels or archives that are fetched for one library: some that fit
// may not have the name.
const maxFetched = 3

// indexSource is a Python package index (PEP 503, 691).
type indexSource struct {
	*env
	url *url.URL
}

func (e *env) openIndex(rest string) (provider, error) {
	if rest == "" {
		rest = defaultIndex
	}
	u, err := e.parseURL(rest)
	if err != nil {
		return nil, err
	}
	return &indexSource{e, u}, nil
}

func (s *indexSource) close() error { return nil }

func (s *indexSource) find(ctx context.Context, r *request) (*Found, error) {
	switch {
	case r.lib == nil || len(r.lib.Wheels) == 0:
		return nil, absent("no Python package is known that has it")
	case r.CUDA == "" && r.lib.perCUDA():
		return nil, absent("its packages are made for one CUDA each, and which one is not known")
	}
	var why []string
	for _, dist := range r.lib.WheelNames(r.CUDA) {
		f, err := s.dist(ctx, r, dist)
		var none *absentError
		if !errors.As(err, &none) {
			return f, err
		}
		why = append(why, err.Error())
	}
	return nil, absent("%s", strings.Join(why, ", "))
}

// dist looks for a library in one distribution.
func (s *indexSource) dist(ctx context.Context, r *request, dist string) (*Found, error) {
	a, err := s.page(ctx, s.url.JoinPath(dist, "/"), acceptSimple)
	if gone(err) {
		return nil, absent("has no %s", dist)
	}
	if err != nil {
		return nil, err
	}
	links, err := parseSimple(a)
	if err != nil {
		return nil, fmt.Errorf("its page of %s: %w", dist, err)
	}
	list, why := r.candidates(dist, links)
	for _, c := range list[:min(len(list), maxFetched)] {
		f, err := s.wheel(ctx, r, c)
		var none *absentError
		if !errors.As(err, &none) {
			return f, err
		}
		why = fmt.Sprintf("%s: %v", c.link.name, err)
	}
	return nil, absent("%s", why)
}

// wheel takes a library out of a wheel. It fetches the whole wheel, since the index has a
// hash of the whole only.
func (s *indexSource) wheel(ctx context.Context, r *request, c candidate) (*Found, error) {
	u := c.link.url
	if u.User == nil && u.Host == s.url.Host && u.Scheme == s.url.Scheme {
		u.User = s.url.User
	}
	fetch := func() (string, error) {
		return s.download(ctx, &artifact{url: u, name: c.link.name, sum: c.link.sum, size: c.link.size})
	}
	f, err := s.found(ctx, r, fetch, c.link.sum, c.wheel.version, c.link.name)
	switch {
	case f == nil:
	case s.url.User != nil:
		f.Archive = nil // others would need the login
	case f.at(u):
		if f.Archive.Wheel = c.wheel.name; s.url.String() != defaultIndex {
			f.Archive.Index = s.url.String()
		}
	}
	return f, err
}

// link is a file that an index page names.
type link struct {
	name   string
	url    *url.URL // absolute
	sum    string   // sha256 in hex, empty if the page has none
	size   int64    // 0 if the page has none
	yanked bool
}

// parseSimple parses an index page, in either of its forms. It leaves out files without a
// name or a web address.
func parseSimple(a answer) ([]*link, error) {
	switch a.kind {
	case "application/vnd.pypi.simple.v1+json", "application/json":
		return parseSimpleJSON(a)
	case "application/vnd.pypi.simple.v1+html", "text/html", "":
		return parseSimpleHTML(a)
	}
	return nil, fmt.Errorf("is %q, no package index", a.kind)
}

func parseSimpleJSON(a answer) ([]*link, error) {
	var page struct {
		Meta struct {
			Version string `json:"api-version"`
		} `json:"meta"`
		Files []struct {
			Name   string            `json:"filename"`
			URL    string            `json:"url"`
			Hashes map[string]string `json:"hashes"`
			Size   int64             `json:"size"`
			Yanked any               `json:"yanked"` // true, or the reason
		} `json:"files"`
	}
	if err := checkElements(a.body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if v := page.Meta.Version; v != "" && !strings.HasPrefix(v, "1.") { // PEP 629
		return nil, fmt.Errorf("has the format %q of package indexes, which is not known", v)
	}
	if len(page.Files) > maxLinks {
		return nil, fmt.Errorf("names more than %d files", maxLinks)
	}
	var list []*link
	for _, f := range page.Files {
		l := newLink(a.from, f.URL)
		if l == nil || !goodName(f.Name) {
			continue
		}
		l.name, l.size = f.Name, max(f.Size, 0)
		if sum := strings.ToLower(f.Hashes["sha256"]); isSum(sum) {
			l.sum = sum
		}
		reason, isText := f.Yanked.(string)
		l.yanked = f.Yanked == true || isText && reason != ""
		list = append(list, l)
	}
	return list, nil
}

func parseSimpleHTML(a answer) ([]*link, error) {
	base := a.from
	var list []*link
	var open *link
	// Bytes that are no UTF-8 are U+FFFD, as in a browser
	// (https://encoding.spec.whatwg.org/#utf-8-decoder) and in a page of JSON.
	z := html.NewTokenizer(bytes.NewReader(bytes.ToValidUTF8(a.body, []byte("\uFFFD"))))
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			if err := z.Err(); err != io.EOF {
				return nil, fmt.Errorf("reading HTML: %w", err)
			}
			return list, nil
		case html.TextToken:
			if open != nil && open.name == "" {
				open.name = strings.TrimSpace(string(z.Text()))
			}
			continue
		case html.StartTagToken, html.SelfClosingTagToken:
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "a" && open != nil {
				if goodName(open.name) {
					list = append(list, open)
				}
				open = nil
			}
			continue
		default:
			continue
		}
		t := z.Token()
		switch t.Data {
		case "base":
			if u, err := a.from.Parse(attr(t, "href")); err == nil && webURL(u) {
				base = u
			}
		case "a":
			open = anchor(base, t)
			if len(list) >= maxLinks {
				return nil, fmt.Errorf("names more than %d files", maxLinks)
			}
		}
	}
}

// anchor returns the link of an <a>, before its text is read. The hash is in the fragment
// (PEP 503); the attribute is PEP 592's.
func anchor(base *url.URL, t html.Token) *link {
	l := newLink(base, attr(t, "href"))
	if l == nil {
		return nil
	}
	for _, a := range t.Attr {
		l.yanked = l.yanked || a.Key == "data-yanked"
	}
	return l
}

func attr(t html.Token, key string) string {
	for _, a := range t.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// newLink returns a link to a web address, with the hash from the fragment; nil for
// another link.
func newLink(base *url.URL, ref string) *link {
	u, err := base.Parse(ref)
	if err != nil || ref == "" || !webURL(u) {
		return nil
	}
	l := &link{url: u}
	if sum, ok := strings.CutPrefix(u.Fragment, "sha256="); ok {
		if sum, _, _ = strings.Cut(strings.ToLower(sum), "&"); isSum(sum) {
			l.sum = sum
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return l
}

func webURL(u *url.URL) bool { return (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" }

// base returns the file name at the end of a URL.
func base(u *url.URL) string { return path.Base(u.Path) }
