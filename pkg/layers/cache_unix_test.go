//go:build unix

package layers

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestCacheOfOthers: a file that somebody else has put into the cache is absent, whether it
// was written with another key, copied under another name, or is a link or a FIFO. Another
// user's directory is refused.
func TestCacheOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files to another user: run it as root")
	}
	const key, doc = "the verdict on an image", "all is well"
	dir := filepath.Join(t.TempDir(), "cache")
	put := func(secret string) *Cache {
		t.Helper()
		t.Setenv("IMGCHECK_CACHE_KEY", secret)
		c, err := OpenCache(dir, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.PutDocument(key, []byte(doc)); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Document(key); !ok {
			t.Fatal("a document is not found by the user who stored it")
		}
		return c
	}
	mine := put("mine")
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the cache has the mode %v (%v)", st.Mode(), err)
	}
	name := mine.file(key, documentFile)
	absent := func(what string) {
		t.Helper()
		if got, ok := mine.Document(key); ok {
			t.Errorf("%s: found %q", what, got)
		}
	}
	put("theirs")
	absent("another key")
	put("mine")
	if err := os.Rename(name, mine.file("another", documentFile)); err != nil {
		t.Fatal(err)
	}
	if got, ok := mine.Document("another"); ok {
		t.Errorf("a document under another name: %q", got)
	}
	put("mine")
	if err := os.Chown(name, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	absent("another user's file")
	put("mine")
	if err := os.Rename(name, name+".real"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name+".real", name); err != nil {
		t.Fatal(err)
	}
	absent("a link")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	absent("a FIFO")
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCache(dir, 1<<20); err == nil {
		t.Error("the cache of another user is used")
	}
}
