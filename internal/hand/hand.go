// Package hand copies bytes out of a buffered reader without a buffer of its own: where a stream
// is copied in many small parts, those of [io.CopyN] are most of the garbage.
package hand

import (
	"bufio"
	"io"
)

// On copies n bytes from r to w, as [io.CopyN] does, and returns how many it has copied. The error
// is io.EOF if r ends before.
func On(w io.Writer, r *bufio.Reader, n int64) (copied int64, err error) {
	for copied < n {
		if r.Buffered() == 0 {
			if _, err := r.Peek(1); err != nil {
				return copied, err
			}
		}
		b, _ := r.Peek(int(min(n-copied, int64(r.Buffered()))))
		m, err := w.Write(b)
		_, _ = r.Discard(m) // it has that many
		copied += int64(m)
		if err != nil {
			return copied, err
		}
	}
	return copied, nil
}
