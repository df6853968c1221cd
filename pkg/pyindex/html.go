package pyindex

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
)

// maxAnchors limits the files of a page of HTML, and maxCommas the commas of one of JSON.
const (
	maxAnchors = 200_000
	maxCommas  = 2_097_152
)

// The forms of a page: https://packaging.python.org/en/latest/specifications/simple-repository-api/
const (
	simpleJSON = "application/vnd.pypi.simple.v1+json"
	simpleHTML = "application/vnd.pypi.simple.v1+html"
	accepted   = simpleJSON + ", " + simpleHTML + ";q=0.2, text/html;q=0.01"
)

// htmlFiles reads the files of a page of HTML (PEP 503), with the attributes of PEP 503, 592, 658
// and 714, and the address that their addresses are relative to. It does not say sizes.
func htmlFiles(body []byte, from *url.URL) (files []file, base *url.URL, err error) {
	base = from
	z := html.NewTokenizer(bytes.NewReader(body))
	z.SetMaxBuf(1 << 20)
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if errors.Is(z.Err(), html.ErrBufferExceeded) {
				return nil, nil, errors.New("the page has a tag of more than 1 MiB")
			}
			return files, base, nil
		case html.StartTagToken, html.SelfClosingTagToken:
			switch t := z.Token(); t.Data {
			case "base":
				if u, err := from.Parse(attribute(t, "href")); err == nil && base == from {
					base = u
				}
			case "a":
				if len(files) >= maxAnchors {
					return nil, nil, fmt.Errorf("the page names more than %d files", maxAnchors)
				}
				if f, ok := anchor(t); ok {
					files = append(files, f)
				}
			}
		}
	}
}

// anchor reads the file of an <a>.
func anchor(t html.Token) (f file, ok bool) {
	u, err := url.Parse(attribute(t, "href"))
	if err != nil || u.Path == "" {
		return f, false
	}
	f = file{Name: path.Base(u.Path), URL: u.String(), Python: attribute(t, "data-requires-python")}
	if algorithm, sum, ok := strings.Cut(u.Fragment, "="); ok {
		f.Hashes = map[string]string{algorithm: sum}
	}
	for _, a := range t.Attr {
		switch a.Key {
		case "data-yanked": // also without a reason
			f.Yanked = true
		case "data-core-metadata":
			f.Core = beside(a.Val)
		case "data-dist-info-metadata":
			f.Old = beside(a.Val)
		}
	}
	return f, true
}

// beside returns the value of data-core-metadata as it is in JSON.
func beside(text string) any {
	if algorithm, sum, ok := strings.Cut(text, "="); ok {
		return map[string]any{algorithm: sum}
	}
	return text == "true"
}

func attribute(t html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return strings.TrimSpace(a.Val)
		}
	}
	return ""
}
