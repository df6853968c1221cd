package plain

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// Writer makes lines safe on their way to another writer: they have no control character
// but line breaks and, if colours are on, sequences that choose a colour; and no CI
// system takes one of them for a command, even where breaking lines or joining texts
// after [Text] made one. Callers still have to pass foreign texts through [Text], because
// a Writer cannot know which line breaks are foreign.
//
// Several goroutines may write at a time.
type Writer struct {
	w      io.Writer
	colors bool

	mu   sync.Mutex
	line line
	held []byte // the beginning of an incomplete character or sequence
}

// NewWriter returns a Writer that writes to w. colors means that colours are on.
func NewWriter(w io.Writer, colors bool) *Writer { return &Writer{w: w, colors: colors} }

// Write writes the complete characters of p. It keeps the beginning of a character or of
// a colour sequence until the rest comes.
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
			if n > 0 { // it has no width
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
		if invisible(r) {
			out = append(out, escape(r)...)
			continue
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

// longestColor limits a colour sequence, in bytes.
const longestColor = 16

// color returns the length of the sequence at the beginning of b that chooses a colour,
// ESC [ 1;31 m, or 0 if there is none. whole is false for the beginning of one.
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
