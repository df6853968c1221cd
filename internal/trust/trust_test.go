package trust

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestCode: a file counts if its code is of the same key and of all its bytes.
func TestCode(t *testing.T) {
	k := NewKey()
	var b bytes.Buffer
	w := k.NewWriter(&b)
	io.WriteString(w, "some ")
	io.WriteString(w, "text")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	read := func(k Key, b []byte, most int64) (string, bool) {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, ok := k.Verified(f, most)
		if !ok {
			return "", false
		}
		text, err := io.ReadAll(r)
		return string(text), err == nil
	}
	if got, ok := read(k, good, 1<<10); !ok || got != "some text" {
		t.Errorf("%q, %t", got, ok)
	}
	if _, ok := read(NewKey(), good, 1<<10); ok {
		t.Error("a code of another key counts")
	}
	if _, ok := read(k, good, int64(len(good))-1); ok {
		t.Error("a longer file counts")
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, ok := read(k, bad, 1<<10); ok {
			t.Errorf("a change of byte %d is not seen", i)
		}
		if _, ok := read(k, good[:i], 1<<10); ok {
			t.Errorf("the first %d bytes count", i)
		}
	}
}

// TestUserKey: the key is made once, for the user alone; one that others may have read is
// refused, and the variable wins.
func TestUserKey(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "settings"))
	t.Setenv(KeyVariable, "")
	first, err := UserKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := UserKey()
	if err != nil || !bytes.Equal(first, again) || len(first) != 32 {
		t.Errorf("%x, then %x, %v", first, again, err)
	}
	name := filepath.Join(home, "settings", "imgcheck", "cache.key")
	st, err := os.Stat(name)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if list, _ := os.ReadDir(filepath.Dir(name)); len(list) != 1 {
		t.Errorf("%d files are left", len(list))
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := UserKey(); err == nil {
		t.Error("a key that everybody may read is used")
	}
	t.Setenv(KeyVariable, "secret")
	if k, err := UserKey(); err != nil || bytes.Equal(k, first) || len(k) != 32 {
		t.Errorf("%x, %v", k, err)
	}
}
