package layers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

var (
	magicGzip  = []byte{0x1f, 0x8b}
	magicZstd  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicBzip2 = []byte("BZh")
	magicXz    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// maxZstdWindow bounds the window of a zstd frame, in bytes.
const maxZstdWindow = 128 << 20

// skipReader is a reader that discards bytes without copying them, as [bufio.Reader]
// does.
type skipReader interface {
	io.Reader
	Peek(n int) ([]byte, error)
	Discard(n int) (int, error)
}

// decompress returns the unpacked bytes of r. It looks at the first bytes, not at a media
// type: docker archives do not have one, and some registries' are wrong. done frees the
// decoder. igzip, unless nil, returns a program that unpacks gzip, or "".
func (t *tools) decompress(r skipReader, igzip func() string) (plain skipReader, done func(), err error) {
	nothing := func() {}
	head, _ := r.Peek(6)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		if program := programOf(igzip); program != "" {
			c, err := outside(program, r)
			if err != nil {
				return nil, nothing, err
			}
			return c, c.stop, nil
		}
		if t.crew != nil {
			z := inflate.NewParallel(r, t.crew)
			c := pull(z)
			return c, func() { c.stop(); z.Close() }, nil
		}
		z, err := inflate.NewGzip(r)
		if err != nil {
			return nil, nothing, fmt.Errorf("decompressing gzip: %w", err)
		}
		c := pull(z)
		return c, c.stop, nil
	case bytes.HasPrefix(head, magicZstd), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		if c, ok := r.(*chunks); ok && c.past != nil && t.file {
			c.sip = true // the decoder reads the head of a block, then the block
		}
		if err := t.resetZstd(r); err != nil {
			return nil, nothing, fmt.Errorf("decompressing zstd: %w", err)
		}
		c := pull(t.zstd)
		var first zstd.Header // of the first frame, which decides alone
		if head, _ := r.Peek(zstd.HeaderMaxSize); first.Decode(head) == nil {
			c.begin(func(b []byte) { hugePages(b, min(first.WindowSize, maxZstdWindow)) })
		}
		return c, func() { c.stop(); t.zstd.Reset(nil) }, nil
	case bytes.HasPrefix(head, magicBzip2), bytes.HasPrefix(head, magicXz):
		return nil, nothing, errors.New("is compressed with bzip2 or xz, which imgcheck does not read; store it as gzip or zstd")
	}
	return r, nothing, nil
}

// Unpack returns the bytes of r unpacked, if it begins like gzip or zstd, else as they
// are. The caller closes the result; r stays open.
func Unpack(r io.Reader) (io.ReadCloser, error) {
	unpacked, done, err := new(tools).decompress(bufio.NewReaderSize(r, 256<<10), nil)
	if err != nil {
		return nil, err
	}
	return &unpacking{unpacked, done}, nil
}

// unpacking is a stream that is unpacked.
type unpacking struct {
	io.Reader
	done func()
}

// Close implements [io.Closer].
func (u *unpacking) Close() error {
	u.done()
	return nil
}

// resetZstd sets the decoder to a stream. The decoder has no goroutine and need not be
// closed.
func (t *tools) resetZstd(r io.Reader) (err error) {
	if t.zstd != nil {
		return t.zstd.Reset(r)
	}
	t.zstd, err = zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
	return err
}

// chunks is a stream that comes in parts.
type chunks struct {
	part []byte                 // the rest of the current part
	next func() ([]byte, error) // returns the next part
	stop func()                 // after it no goroutine reads the underlying stream
	// past, unless nil, reads between two parts directly into the caller's memory.
	past io.Reader
	// sip is set for a caller that reads few bytes and many by turns: parts are short,
	// so that most bytes go past them.
	sip bool
}

// Sizes for a stream with past, in bytes.
const (
	sipSize  = 256     // of a part, with sip
	pastSize = 4 << 10 // a read of so many bytes goes past
)

// more gets the next part if the current one is empty.
func (c *chunks) more() (err error) {
	for len(c.part) == 0 && err == nil {
		c.part, err = c.next()
	}
	return err
}

// begin calls look with the first part when it comes.
func (c *chunks) begin(look func([]byte)) {
	next := c.next
	c.next = func() ([]byte, error) {
		c.next = next
		b, err := next()
		look(b)
		return b, err
	}
}

// Peek returns the next n bytes, or fewer where a part ends.
func (c *chunks) Peek(n int) ([]byte, error) {
	if err := c.more(); err != nil {
		return nil, err
	}
	return c.part[:min(n, len(c.part))], nil
}

// Read implements [io.Reader].
func (c *chunks) Read(b []byte) (int, error) {
	if c.past != nil && len(c.part) == 0 && len(b) >= pastSize {
		return c.past.Read(b)
	}
	if err := c.more(); err != nil {
		return 0, err
	}
	n := copy(b, c.part)
	c.part = c.part[n:]
	return n, nil
}

// Discard skips n bytes without copying them, as bufio's does.
func (c *chunks) Discard(n int) (int, error) {
	left := n
	for left > 0 {
		if err := c.more(); err != nil {
			return n - left, err
		}
		m := min(left, len(c.part))
		c.part = c.part[m:]
		left -= m
	}
	return n, nil
}

// pull returns the bytes that w writes as a stream, in the goroutine of its reader: they
// are not copied, and stay in this core's cache.
func pull(w io.WriterTo) *chunks {
	err := io.EOF
	next, stop := iter.Pull(func(yield func([]byte) bool) {
		_, werr := w.WriteTo(writerFunc(func(b []byte) (int, error) {
			if !yield(b) {
				return 0, io.ErrClosedPipe
			}
			return len(b), nil
		}))
		if werr != nil {
			err = werr
		}
	})
	return &chunks{stop: stop, next: func() ([]byte, error) {
		if b, ok := next(); ok {
			return b, nil
		}
		return nil, err
	}}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// inTurn returns r as a stream that is read on demand, and ahead of demand once spare
// reports that a processor is idle: a layer that moves from core to core costs a fiftieth
// more than one that stays. A nil spare is always true.
func inTurn(r io.Reader, spare func() bool) *chunks {
	t := &turn{r: r, spare: spare}
	t.c = &chunks{next: t.next, stop: func() {}, past: t}
	return t.c
}

// turn is a stream that is read on demand.
type turn struct {
	r     io.Reader
	spare func() bool
	c     *chunks
	buf   []byte
	err   error // r's last
}

// ahead starts reading ahead if a processor is idle, and reports whether it has.
func (t *turn) ahead() bool {
	if t.err != nil || t.spare != nil && !t.spare() {
		return false
	}
	a := ahead(t.r)
	t.c.next, t.c.stop, t.c.past, t.c.sip = a.next, a.stop, nil, false
	return true
}

func (t *turn) next() ([]byte, error) {
	if t.ahead() {
		return t.c.next()
	}
	if t.buf == nil {
		t.buf = make([]byte, aheadSize)
	}
	buf := t.buf
	if t.c.sip {
		buf = buf[:sipSize]
	}
	n, err := 0, t.err
	if err == nil {
		n, t.err = fill(t.r, buf)
		err = t.err
	}
	if n > 0 {
		err = nil
	}
	return buf[:n], err
}

// Read implements [io.Reader].
func (t *turn) Read(b []byte) (n int, err error) {
	if t.ahead() {
		return t.c.Read(b)
	}
	if t.err == nil {
		n, t.err = t.r.Read(b)
	}
	if n == 0 {
		err = t.err
	}
	return n, err
}

// fill reads until b is full or r returns an error, which it returns.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// How far ahead of its reader a stream is read: a number of buffers, of so many bytes.
const (
	aheadBuffers = 4
	aheadSize    = 128 << 10
)

// ahead reads r in a goroutine, half a megabyte ahead of the stream's reader.
func ahead(r io.Reader) *chunks {
	free, full, stop := make(chan []byte, aheadBuffers), make(chan []byte, aheadBuffers), make(chan struct{})
	for range aheadBuffers {
		free <- make([]byte, aheadSize)
	}
	var err error // r's, once full is closed
	go func() {
		defer close(full)
		for err == nil {
			select {
			case buf := <-free:
				var n int
				n, err = fill(r, buf)
				full <- buf[:n]
			case <-stop:
				return
			}
		}
	}()
	var last []byte
	next := func() ([]byte, error) {
		if last != nil {
			free <- last[:aheadSize]
		}
		var ok bool
		if last, ok = <-full; !ok {
			return nil, err
		}
		return last, nil
	}
	return &chunks{next: next, stop: func() {
		close(stop)
		for range full {
		}
	}}
}
