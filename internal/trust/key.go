package trust

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Key makes and checks the codes (HMAC-SHA256) at the end of files. It is not stored beside
// them, so that a user who writes the files, or restores them from elsewhere, cannot make a
// code.
type Key []byte

// CodeSize is the number of bytes of a code.
const CodeSize = sha256.Size

// KeyVariable is the variable that may hold the key: any text, the same for all jobs that
// share files.
const KeyVariable = "IMGCHECK_CACHE_KEY"

// UserKey returns the key of KeyVariable, else that of the file imgcheck/cache.key in the
// user's directory of settings ([os.UserConfigDir]), which it makes if there is none.
func UserKey() (Key, error) {
	if text := os.Getenv(KeyVariable); text != "" {
		sum := sha256.Sum256([]byte(text))
		return sum[:], nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "imgcheck")
	name := filepath.Join(dir, "cache.key")
	k, err := readKey(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := MakeDir(dir); err != nil {
		return nil, err
	}
	if err := writeKey(name); err != nil {
		return nil, err
	}
	return readKey(name)
}

func readKey(name string) (Key, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := secret(st); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	k, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(k) != sha256.Size {
		return nil, fmt.Errorf("%s is no key: remove it", name)
	}
	return k, nil
}

// writeKey makes a key, unless another process has made one meanwhile.
func writeKey(name string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".cache.key-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, hex.EncodeToString(NewKey()))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return os.Rename(f.Name(), name) // a file system without links
	}
	return nil
}

// NewKey returns a new secret key.
func NewKey() Key {
	k := make(Key, sha256.Size)
	rand.Read(k) // never fails
	return k
}

// Writer writes a file and the code of its bytes.
type Writer struct {
	w   io.Writer
	mac hash.Hash
}

// NewWriter returns a Writer on w.
func (k Key) NewWriter(w io.Writer) *Writer { return &Writer{w, hmac.New(sha256.New, k)} }

// Write implements [io.Writer].
func (w *Writer) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.mac.Write(b[:n])
	return n, err
}

// Close writes the code.
func (w *Writer) Close() error {
	_, err := w.w.Write(w.mac.Sum(nil))
	return err
}

// Verified returns the bytes of a file before its code. ok is false if the code is not the
// key's, or the file has more than most bytes.
func (k Key) Verified(f *os.File, most int64) (r io.Reader, ok bool) {
	st, err := f.Stat()
	if err != nil || st.Size() < CodeSize || st.Size() > most {
		return nil, false
	}
	mac := hmac.New(sha256.New, k)
	if _, err := io.CopyN(mac, f, st.Size()-CodeSize); err != nil {
		return nil, false
	}
	code := make([]byte, CodeSize)
	if _, err := io.ReadFull(f, code); err != nil || !hmac.Equal(code, mac.Sum(nil)) {
		return nil, false
	}
	return io.NewSectionReader(f, 0, st.Size()-CodeSize), true
}
