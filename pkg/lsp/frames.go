package lsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of a message: bytes, and bytes of a line of its header.
const (
	maxMessage = 16 << 20
	maxHeader  = 4096
)

// frames are messages with a header, as the protocol's base has them. It is a channel of
// jrpc2; its own reserves twice the length that a header says.
type frames struct {
	r *bufio.Reader
	w io.WriteCloser
	// end ends a Recv that waits; nil if nothing can.
	end func() error
}

// newFrames returns the messages of an editor. A goroutine reads the input until it ends, also
// after Close: a read of a standard input cannot be ended.
func newFrames(in io.Reader, out io.WriteCloser) *frames {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	return &frames{bufio.NewReaderSize(r, maxHeader), out, r.Close}
}

// Send writes a message.
func (f *frames) Send(msg []byte) error {
	_, err := f.w.Write(append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(msg)), msg...))
	return err
}

// Recv reads a message.
func (f *frames) Recv() ([]byte, error) {
	size := -1
	for first := true; ; first = false {
		line, err := f.r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, errors.New("the header of a message has a long line")
		case err == io.EOF && (len(line) > 0 || !first):
			return nil, errors.New("the input ends within the header of a message, such as Content-Length: 2")
		case err != nil:
			return nil, err // io.EOF is the end
		}
		text := strings.TrimRight(string(line), "\r\n")
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, errors.New("the header of a message has a line without a name")
		}
		if strings.EqualFold(name, "Content-Length") {
			if size, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || size < 0 || size > maxMessage {
				return nil, fmt.Errorf("a message has the length %.20q: at most %d MiB are read", value, maxMessage>>20)
			}
		}
	}
	if size < 0 {
		return nil, errors.New("the header of a message has no Content-Length")
	}
	msg := make([]byte, size)
	_, err := io.ReadFull(f.r, msg)
	return msg, err
}

// Close closes the writer, and ends a Recv that waits.
func (f *frames) Close() error {
	if f.end != nil {
		f.end()
	}
	return f.w.Close()
}
