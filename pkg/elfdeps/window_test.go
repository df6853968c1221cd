package elfdeps

import (
	"bufio"
	"bytes"
	"io"
	"testing"
)

// TestHeld reads a held part of a file after the tail has gone past it, from a reader that can
// discard bytes and from one that cannot.
func TestHeld(t *testing.T) {
	const off, n, size = headSize + 1000, 500, headSize + 3*tailSize
	file := make([]byte, size)
	for i := range file {
		file[i] = byte(i % 251)
	}
	readers := map[string]io.Reader{
		"plain":   io.MultiReader(bytes.NewReader(file)),
		"discard": bufio.NewReader(bytes.NewReader(file)),
	}
	for name, r := range readers {
		w := &window{}
		w.reset(r, size)
		w.hold(off, n)
		if err := w.skip(size); err != nil {
			t.Fatal(err)
		}
		got, err := w.at(off+10, 100)
		if err != nil || !bytes.Equal(got, file[off+10:off+110]) {
			t.Errorf("%s: the held bytes are not those of the file (%v)", name, err)
		}
		if _, err := w.at(off+10, n); err != errPassed {
			t.Errorf("%s: bytes behind the held ones: error %v", name, err)
		}
	}
}
