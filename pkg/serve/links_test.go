//go:build unix

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/report"
)

// Links and FIFOs in a directory are listed with the reason, and never opened; a link that a
// user names is followed, a FIFO is not.
func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, dir, "a.json", saved(t, "example.com/a:1"))
	write(t, outside, "secret.json", saved(t, "example.com/secret:1"))
	for _, l := range [][2]string{{"secret.json", "link.json"}, {"", "sub"}, {"secret.json", "link.html"}} {
		if err := os.Symlink(filepath.Join(outside, l[0]), filepath.Join(dir, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	fifo := filepath.Join(dir, "fifo.json")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	page := get(t, s, "/")
	for _, want := range []string{"link.json</span>: not shown: it is a link", "link.html</span>: not shown: it is a link", "fifo.json</span>: not a regular file"} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview has no %q:\n%s", want, page)
		}
	}
	for _, path := range []string{"/1/link.json", "/1/fifo.json", "/1/sub/secret.json"} {
		if code, body, _ := ask(s, "GET", "127.0.0.1", path); code == 200 || strings.Contains(body, "secret:1") {
			t.Errorf("%s: status %d: %s", path, code, body)
		}
	}
	// one that becomes a link or a FIFO after it was listed
	for _, rel := range []string{"link.json", "fifo.json"} {
		f := file{place: place{dir, true}, rel: rel}
		if _, _, err := f.open(); err == nil {
			t.Errorf("%s is opened", rel)
		}
	}
	if page := get(t, open(t, filepath.Join(dir, "link.json")), "/1/link.json"); !strings.Contains(page, "secret:1") {
		t.Errorf("a link that a user names: %s", page)
	}
	if _, err := New([]string{fifo}, report.Options{}); err == nil || !strings.HasSuffix(err.Error(), "not a regular file") {
		t.Errorf("a FIFO: %v", err)
	}
}

// TestDeepDirectories checks that directories in one another are not read without end: each is
// opened through all above it, for each request.
func TestDeepDirectories(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat("d/", maxDepth+1)
	if err := os.MkdirAll(filepath.Join(dir, deep, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	list := place{dir, true}.files(0)
	if len(list) != 1 || list[0].rel+"/" != deep || list[0].wrong != errDeep {
		t.Errorf("it lists %+v", list)
	}
}
