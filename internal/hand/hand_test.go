package hand_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/imgcheck/imgcheck/internal/hand"
)

// TestOn copies as io.CopyN does, from readers of each kind, and then the rest.
func TestOn(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 10)
	broken := errors.New("broken")
	for name, reader := range map[string]func() io.Reader{
		"whole":  func() io.Reader { return bytes.NewReader(text) },
		"single": func() io.Reader { return iotest.OneByteReader(bytes.NewReader(text)) },
		"broken": func() io.Reader { return io.MultiReader(bytes.NewReader(text[:50]), iotest.ErrReader(broken)) },
	} {
		for _, n := range []int64{0, 1, 16, 17, 50, 99, 100, 101} {
			var got, want, rest, left bytes.Buffer
			a, b := bufio.NewReaderSize(reader(), 16), reader()
			m, err := hand.On(&got, a, n)
			k, wantErr := io.CopyN(&want, b, n)
			if m != k || err != wantErr || !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s, %d bytes: %d copied, %v; io.CopyN: %d, %v", name, n, m, err, k, wantErr)
			}
			_, err = io.Copy(&rest, a)
			_, wantErr = io.Copy(&left, b)
			if err != wantErr || !bytes.Equal(rest.Bytes(), left.Bytes()) {
				t.Errorf("%s, %d bytes: then %q, %v, not %q, %v", name, n, rest.Bytes(), err, left.Bytes(), wantErr)
			}
		}
	}
	r := bufio.NewReaderSize(bytes.NewReader(text), 16)
	if m, err := hand.On(iotest.TruncateWriter(failing{broken}, 0), r, 20); err != nil || m != 20 {
		t.Errorf("%d, %v", m, err)
	}
	if m, err := hand.On(failing{broken}, r, 20); err != broken || m != 3 {
		t.Errorf("a writer that fails: %d, %v", m, err)
	}
	if b, _ := r.Peek(1); string(b) != "3" {
		t.Errorf("the next byte is %q", b)
	}
}

// failing takes three bytes.
type failing struct{ err error }

func (f failing) Write(b []byte) (int, error) { return min(3, len(b)), f.err }
