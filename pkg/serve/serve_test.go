package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// saved returns the JSON report of an image that misses a library.
func saved(t *testing.T, ref string) string {
	t.Helper()
	d := &report.Document{Schema: report.Schema, Image: report.Image{Ref: ref}, Findings: []lint.Finding{{Rule: "missing-library", Message: "libcudnn.so.9 is missing", Severity: packs.Error}}}
	var b bytes.Buffer
	if err := report.JSON(&b, d, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ask returns the status and the body of an answer.
func ask(s *Server, method, host, path string) (int, string, http.Header) {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

// get returns the page at a path.
func get(t *testing.T, s *Server, path string) string {
	t.Helper()
	code, body, _ := ask(s, "GET", "127.0.0.1:8080", path)
	if code != http.StatusOK {
		t.Fatalf("GET %s: status %d: %s", path, code, body)
	}
	return body
}

func open(t *testing.T, names ...string) *Server {
	t.Helper()
	s, err := New(names, report.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The overview of a directory has all reports in it and below it, the cause that they share,
// and a reason for each file that is not one.
func TestOverview(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	write(t, dir, "job 7/b#?%2f<x>.json", saved(t, "example.com/b:1"))
	write(t, dir, "saved.html", "<html><title>imgcheck: example.com/&lt;c&gt;:1</title>")
	write(t, dir, "foreign.html", "<title>mine</title><script>secret</script>")
	write(t, dir, "package.json", "{}")
	write(t, dir, ".hidden/c.json", saved(t, "example.com/unlisted:1"))
	write(t, dir, "notes.txt", "x")
	s := open(t, dir)
	page := get(t, s, "/")
	for _, want := range []string{
		"<title>imgcheck: 2 reports</title>",
		`<a href="1/a.json">example.com/a:1</a>`, `<a href="1/job%207/b%23%3F%252f%3Cx%3E.json">example.com/b:1</a>`,
		"2 images: 2 with errors", "Causes in several images", "in 2 of 2 images",
		`<a class="path" href="1/saved.html">saved.html</a>: imgcheck: example.com/&lt;c&gt;:1`,
		"foreign.html</span>: not a page of imgcheck", "package.json</span>: not a JSON report of imgcheck",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview has no %q:\n%s", want, page)
		}
	}
	for _, not := range []string{"unlisted", "notes.txt", "secret"} {
		if strings.Contains(page, not) {
			t.Errorf("the overview has %q", not)
		}
	}
	if page := get(t, s, "/1/job%207/b%23%3F%252f%3Cx%3E.json"); !strings.Contains(page, "<title>imgcheck: example.com/b:1</title>") {
		t.Errorf("the page of b: %s", page)
	}
}

// The page of a report is the one that convert writes.
func TestPage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	s := open(t, filepath.Join(dir, "a.json"))
	if got, want := s.URL(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}), "http://127.0.0.1:80/"+s.key+"/1/a.json"; got != want {
		t.Errorf("one report starts at %q, want %q", got, want)
	}
	if code, _, h := ask(s, "GET", "localhost:1", "/"); code != http.StatusFound || h.Get("Location") != "1/a.json" {
		t.Errorf("/ of one report: status %d, to %q", code, h.Get("Location"))
	}
	d, err := report.Read(strings.NewReader(saved(t, "example.com/a:1")))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := report.HTML(&want, d, report.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "/1/a.json"); got != want.String() {
		t.Errorf("got %s\nwant %s", got, want.String())
	}
}

// A report of several images has a row for each, which leads to its part of the page.
func TestSet(t *testing.T) {
	dir := t.TempDir()
	d, err := report.Read(strings.NewReader(saved(t, "example.com/a:1")))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.SetJSON(&b, report.NewSet("", []report.Scanned{{Ref: "example.com/a:1", Report: d}, {Ref: "example.com/gone:1", Error: "there is no such image"}}), report.Options{}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "all.json", b.String())
	s := open(t, dir)
	page := get(t, s, "/")
	for _, want := range []string{`<a href="1/all.json#image-1">example.com/a:1</a>`, `<a href="1/all.json#image-2">example.com/gone:1</a>`, "there is no such image"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview has no %q:\n%s", want, page)
		}
	}
	if page := get(t, s, "/1/all.json"); !strings.Contains(page, `id="image-2"`) {
		t.Errorf("the page has no second image: %s", page)
	}
}

// Each answer reads the files anew: changed, new, removed, broken ones.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	s := open(t, dir)
	get(t, s, "/")
	write(t, dir, "a.json", saved(t, "example.com/a:2"))
	write(t, dir, "b.json", saved(t, "example.com/b:1"))
	if page := get(t, s, "/"); !strings.Contains(page, "example.com/a:2") || !strings.Contains(page, "example.com/b:1") || strings.Contains(page, "example.com/a:1") {
		t.Errorf("after a change: %s", page)
	}
	write(t, dir, "a.json", "{")
	if page := get(t, s, "/"); !strings.Contains(page, "a.json</span>: not a JSON report of imgcheck") {
		t.Errorf("with a broken file: %s", page)
	}
	if code, body, _ := ask(s, "GET", "127.0.0.1", "/1/a.json"); code != http.StatusInternalServerError || !strings.HasPrefix(body, "a.json: not a JSON report") {
		t.Errorf("a broken report: status %d: %s", code, body)
	}
	if err := os.Remove(filepath.Join(dir, "b.json")); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := ask(s, "GET", "127.0.0.1", "/1/b.json"); code != http.StatusNotFound {
		t.Errorf("a removed report: status %d", code)
	}
}

// Requests by other names than those of this machine, and those that change something, are
// refused; the answers may not be framed, guessed at or kept.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	write(t, dir, "b.html", "<title>imgcheck: b</title><script>x()</script>")
	s := open(t, dir)
	for host, want := range map[string]int{
		"127.0.0.1:80": 200, "localhost:9": 200, "LOCALHOST": 200, "[::1]:5": 200, "127.0.0.1": 200,
		"evil.example:80": 403, "127.0.0.1.evil.example": 403, "localhost.evil.example": 403, "192.168.1.2:80": 403, "0.0.0.0:80": 403, "": 403, "a@127.0.0.1": 403, "evil.example#@localhost": 403,
	} {
		for _, path := range []string{"/", "/1/a.json", "/1/b.html"} {
			if code, body, h := ask(s, "GET", host, path); code != want || code != 200 && strings.Contains(body, "example.com/a") || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%q %s: status %d, want %d: %s", host, path, code, want, body)
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		if code, _, _ := ask(s, method, "127.0.0.1", "/1/a.json"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", method, code)
		}
	}
	for _, path := range []string{"/2/a.json", "/1/", "/1", "/a.json", "/1/../a.json", "/1/./a.json", "//1/a.json", "/1//a.json", "/01/a.json", "/1/%2e%2e/a.json", "/1/..%2f..%2fetc/passwd", "/etc/passwd", "/favicon.ico"} {
		if code, body, _ := ask(s, "GET", "127.0.0.1", path); code != http.StatusNotFound {
			t.Errorf("%s: status %d: %s", path, code, body)
		}
	}
	for path, policy := range map[string]string{"/": report.PagePolicy(), "/1/a.json": report.PagePolicy(), "/1/b.html": "sandbox; default-src 'none'; "} {
		_, _, h := ask(s, "GET", "127.0.0.1", path)
		if got := h.Get("Content-Security-Policy"); !strings.HasPrefix(got, policy) || !strings.HasSuffix(got, "frame-ancestors 'none'") {
			t.Errorf("%s: the policy %q", path, got)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s %q", path, name, got)
			}
		}
	}
}

// Names and texts of others are texts.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	const attack = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	write(t, dir, "a.json", saved(t, attack))
	write(t, dir, `"><img src=x onerror=alert(1)>.json`, "{}")
	write(t, dir, `javascript:alert(1).json`, saved(t, "example.com/"+attack))
	write(t, dir, "b.html", "<title>imgcheck: "+attack+"</title>")
	s := open(t, dir)
	for _, path := range []string{"/", "/1/a.json"} {
		page := get(t, s, path)
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") || strings.Count(page, "<script>") != 1 || strings.Contains(page, `href="javascript`) {
			t.Errorf("%s has a text as an element: %s", path, page)
		}
	}
}

// A report that is larger than the rest of what an overview reads is linked, and said.
func TestTooMuch(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	write(t, dir, "large.json", "")
	if err := os.Truncate(filepath.Join(dir, "large.json"), maxRead); err != nil { // sparse
		t.Fatal(err)
	}
	write(t, dir, "large.html", "")
	if err := os.Truncate(filepath.Join(dir, "large.html"), maxPage+1); err != nil {
		t.Fatal(err)
	}
	page := get(t, open(t, dir), "/")
	for _, want := range []string{"example.com/a:1", `href="1/large.json">large.json</a>: not in the table`, "the page is larger than 64 MiB"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview has no %q:\n%s", want, page)
		}
	}
}

// A directory of very many files ends with a remark.
func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	for i := range maxFiles {
		write(t, dir, fmt.Sprintf("b%04d.json", i), "{}")
	}
	page := get(t, open(t, dir), "/")
	if !strings.Contains(page, "not shown whole") || !strings.Contains(page, "example.com/a:1") {
		t.Errorf("the overview does not say that it is cut")
	}
	if got := len(place{dir, true}.files(0)); got != maxFiles+1 {
		t.Errorf("%d files", got)
	}
}

// A directory whose first files are large and no reports is shown without reading all of them.
func TestManyLargeFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "none.json", "")
	if _, err := New([]string{dir}, report.Options{}); err == nil {
		t.Fatal("a directory without a report is shown")
	}
	for i := range 100 {
		name := fmt.Sprintf("a%d.json", i)
		write(t, dir, name, "")
		if err := os.Truncate(filepath.Join(dir, name), maxRead/4); err != nil { // sparse
			t.Fatal(err)
		}
	}
	if page := get(t, open(t, dir), "/"); !strings.Contains(page, `href="1/a99.json">a99.json</a>: not in the table`) {
		t.Errorf("the overview does not link what it has not read: %s", page)
	}
}

// A client that does not read its answer keeps no other from theirs.
func TestSlowClient(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.html", "<title>imgcheck: a</title>")
	if err := os.Truncate(filepath.Join(dir, "a.html"), maxPage); err != nil { // more than sockets hold
		t.Fatal(err)
	}
	s := open(t, dir)
	server := httptest.NewServer(s)
	defer server.Close()
	slow, err := http.Get(server.URL + "/1/a.html")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Body.Close()
	r, err := http.Get(server.URL + "/") // would wait
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || len(b) == 0 {
		t.Errorf("%v: %d bytes", err, len(b))
	}
}

// A server ends with its context, also while a connection is open.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	s := open(t, dir)
	go func() { done <- s.Run(ctx, l) }()
	for _, path := range []string{"/", "/1/a.json", "/" + s.key, "//" + s.key + "/", "/" + strings.ToLower(s.key) + "/", "/" + open(t, dir).key + "/"} {
		r, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusNotFound {
			t.Errorf("%s without the key: status %d", path, r.StatusCode)
		}
	}
	r, err := http.Get(s.URL(l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Contains(b, []byte("example.com/a:1")) {
		t.Errorf("%v: %s", err, b)
	}
	stop() // r.Body is not closed
	if err := <-done; err != nil {
		t.Error(err)
	}
}
