//go:build unix

package provide

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCacheOfOthers: a list that was changed, or written with another key, costs another
// look at the archive, and gives no other members. A link in place of a download is not
// written through.
func TestCacheOfOthers(t *testing.T) {
	w := serve(t)
	p := one(t, w, func(*file) {})
	cache := t.TempDir()
	find := func() *Found {
		t.Helper()
		s, err := Open(t.Context(), []string{"pypi:" + w.URL + "/simple"}, Options{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		f, err := s.Find(t.Context(), cudnn12)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(cache, "partial"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(cache, "partial", sum(w.files[p]))
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	first := find()
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("a link was written through: %q, %v", b, err)
	}
	os.Remove(link)
	lists, err := filepath.Glob(filepath.Join(cache, "lists", "*"))
	if err != nil || len(lists) != 1 {
		t.Fatalf("%d lists, %v", len(lists), err)
	}
	good, err := os.ReadFile(lists[0])
	if err != nil {
		t.Fatal(err)
	}
	evil, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	evil.WriteString("evil")
	evil.Close()
	digest, err := digestOf(opener(evil.Name()))
	if err != nil {
		t.Fatal(err)
	}
	evilSum := strings.TrimPrefix(digest, "sha256:")
	if err := os.Rename(evil.Name(), filepath.Join(cache, "sha256", evilSum)); err != nil {
		t.Fatal(err)
	}
	for _, f := range first.Files {
		good = bytes.ReplaceAll(good, []byte(strings.TrimPrefix(f.Digest, "sha256:")), []byte(evilSum))
	}
	if err := os.WriteFile(lists[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests(first), digests(find())); diff != "" {
		t.Errorf("a changed list was believed:\n%s", diff)
	}
	t.Setenv("IMGCHECK_CACHE_KEY", "another")
	if diff := cmp.Diff(digests(first), digests(find())); diff != "" {
		t.Errorf("with another key:\n%s", diff)
	}
}

func opener(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(name) }
}
