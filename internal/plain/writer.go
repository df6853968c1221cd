package plain

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer makes lines safe on their way to another writer: there is no control
// character in them but the line breaks, and where colours are on sequences that
// choose one, and no CI system takes one of them for a command, though lines are
// broken and texts put together after [Text]. Whoever writes has put each text that is
// not its own through [Text] nonetheless: a Writer cannot know whose line breaks are.
//
// Any number of goroutines may write.
type Writer struct {
	w      io.Writer
	colors bool

	mu   sync.Mutex
	line line
	held []byte // the beginning of a character or sequence that is not whole yet
}

// NewWriter returns a Writer to w; colors says that colours are on.
func NewWriter(w io.Writer, colors bool) *Writer { return &Writer{w: w, colors: colors} }

// Write writes what is whole of p, and holds back the beginning of a character or
// of a colour's sequence until the rest comes.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := append(w.held, p...)
	out := make([]byte, 0, len(in)+8)
	begins := w.line == (line{})
	for len(in) > 0 {
		if begins {
			begins = false
			if i := bytes.IndexByte(in, '\n'); i >= 0 && ordinary(in[:i]) {
				out, in, begins = append(out, in[:i+1]...), in[i+1:], true
				continue
			}
		}
		if w.colors && in[0] == '\x1b' {
			n, whole := color(in)
			if !whole {
				break
			}
			if n > 0 { // it shows nothing
				out, in = append(out, in[:n]...), in[n:]
				continue
			}
		}
		if !utf8.FullRune(in) {
			break
		}
		r, n := utf8.DecodeRune(in)
		in = in[n:]
		if r != '\n' {
			r = shown(r)
		}
		if w.line.commands(r) {
			out = append(out, ' ')
		}
		out = utf8.AppendRune(out, r)
		begins = r == '\n'
	}
	w.held = append([]byte(nil), in...)
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// longestColor bounds the sequence of a colour, in bytes.
const longestColor = 16

// color returns the length of the sequence that chooses a colour at the beginning of
// b, ESC [ 1;31 m, and 0 for anything else. whole is false for what may become one.
func color(b []byte) (n int, whole bool) {
	for i, c := range b[:min(len(b), longestColor)] {
		switch {
		case i == 0:
		case i == 1 && c != '[':
			return 0, true
		case i == 1:
		case c == 'm':
			return i + 1, true
		case c != ';' && (c < '0' || c > '9'):
			return 0, true
		}
	}
	return 0, len(b) >= longestColor
}
