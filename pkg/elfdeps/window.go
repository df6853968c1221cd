package elfdeps

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// Sizes of the parts of a file that are held while it streams by. In 2,614 ELF files
// of a CUDA 13 machine (13.1 GB, the largest 542 MB) every string table lay within the
// first 16 MiB, or after its dynamic section, or less than 4 MiB before it. patchelf
// and auditwheel move the tables to the end, where the tail holds them. A file whose first
// segment has no code, and so holds the tables, gets a head as long as that segment, up to
// maxHead: libopenvdb's string table has 22 MB.
const (
	headSize = 16 << 20
	maxHead  = 48 << 20
	tailSize = 4 << 20
	skipStep = 256 << 10
	passSize = 64 << 10
)

var (
	errPassed = errors.New("lies in a part of the file that had streamed by before its place was known")
	errBeyond = errors.New("lies beyond the end of the file")
)

// discarder is a reader that can skip bytes without copying them, as [bufio.Reader]
// does.
type discarder interface {
	Discard(n int) (int, error)
}

// window reads a stream at offsets: forward without limit, backward within the
// head and the last tailSize bytes.
type window struct {
	r    io.Reader
	size int64 // of the whole file
	pos  int64 // bytes taken from r
	head []byte
	room int64  // bytes that the head may hold: headSize, or more
	tail []byte // ring of the last bytes after the head; index = offset % tailSize
	err  error  // of the first failed read, which later calls return
	// watch is called with the bytes behind the head as they are read, unless nil.
	watch func(off int64, b []byte)
	named *named          // is fed with them as well, unless nil
	gpu   *gpucode.Walker // is fed with all bytes that it needs, unless nil
	names *nameSearch     // is fed once the gpu walker has found code, unless nil
	fresh int64           // the tail has no bytes before this offset
	pass  []byte          // a buffer for bytes that are looked at and not held
	// held are the bytes from offset heldOff that are kept however far the reading goes; it
	// grows to its capacity.
	held    []byte
	heldOff int64
	least   int64 // room at the start; 0 is headSize. Tests set it, since files are smaller there
}

// reset prepares w for another file and keeps its buffers.
func (w *window) reset(r io.Reader, size int64) {
	w.r, w.size, w.pos, w.err, w.watch, w.named, w.gpu, w.names, w.fresh = r, size, 0, nil, nil, nil, nil, nil, 0
	w.head, w.held, w.room = w.head[:0], nil, cmp.Or(w.least, headSize)
	if cap(w.head) > headSize {
		w.head = nil // most files need less
	}
}

// widen makes room in the head for the file's first end bytes, if that is possible.
func (w *window) widen(end int64) {
	if end > w.room && end <= maxHead && w.pos <= w.room {
		w.room = end
	}
}

// hold keeps n bytes from an offset that lies behind the head and was not read yet.
func (w *window) hold(off, n int64) { w.heldOff, w.held = off, make([]byte, 0, n) }

// holds returns the offset of the next byte to hold, and how many from there.
func (w *window) holds() (off int64, n int) {
	return w.heldOff + int64(len(w.held)), cap(w.held) - len(w.held)
}

// at returns n bytes from offset off. The slice may be part of w's buffers: it is
// valid until the next reset and must not be changed.
func (w *window) at(off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || off > w.size || n > w.size-off {
		return nil, errBeyond
	}
	if off+n <= w.room {
		if err := w.fillHead(off + n); err != nil {
			return nil, err
		}
		return w.head[off : off+n], nil
	}
	if off > w.pos {
		if err := w.skip(off); err != nil {
			return nil, err
		}
	}
	if off < w.oldest() {
		if off >= w.heldOff && off+n <= w.heldOff+int64(len(w.held)) {
			return w.held[off-w.heldOff : off-w.heldOff+n], nil
		}
		return nil, errPassed
	}
	b := make([]byte, n)
	got := int64(0)
	for got < n {
		at := off + got
		switch {
		case at < int64(len(w.head)):
			got += int64(copy(b[got:], w.head[at:]))
		case at < w.pos: // in the ring
			i := at % tailSize
			end := min(tailSize, i+w.pos-at)
			got += int64(copy(b[got:], w.tail[i:end]))
		default:
			if err := w.skip(min(off+n, w.pos+skipStep)); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// oldest returns the lowest offset from which all bytes up to pos are still held.
func (w *window) oldest() int64 {
	if oldest := max(w.pos-tailSize, w.fresh); oldest > int64(len(w.head)) {
		return oldest
	}
	return 0
}

// skip reads until pos is at least to, and holds the last tailSize bytes before it.
func (w *window) skip(to int64) error {
	if err := w.fillHead(min(to, w.room)); err != nil {
		return err
	}
	if to > w.pos && w.tail == nil {
		w.tail = make([]byte, tailSize)
	}
	if w.watch == nil {
		if err := w.hop(to - tailSize); err != nil {
			return err
		}
	}
	for w.pos < to {
		i := w.pos % tailSize
		n := min(tailSize-i, skipStep, to-w.pos)
		at := w.pos
		if err := w.read(w.tail[i : i+n]); err != nil {
			return err
		}
		if w.watch != nil {
			w.watch(at, w.tail[i:i+n])
		}
		w.show(at, w.tail[i:i+n])
	}
	return nil
}

// show gives bytes to those who look for something.
func (w *window) show(off int64, b []byte) {
	if next, n := w.holds(); off <= next && next < off+int64(len(b)) {
		b := b[next-off:]
		w.held = append(w.held, b[:min(n, len(b))]...)
	}
	w.named.feed(w, off, b)
	w.gpu.Feed(off, b)
	if w.names != nil && w.gpu.Found() {
		w.names.feed(off, b)
	}
}

// hop reads until pos is at least to, without holding what it reads. It discards them
// if the reader can.
func (w *window) hop(to int64) error {
	d, ok := w.r.(discarder)
	if !ok || to <= w.pos {
		return nil
	}
	for w.pos < to && w.err == nil {
		next, n := w.needed()
		if next = min(next, to); next > w.pos {
			n, err := d.Discard(int(min(next-w.pos, 1<<30)))
			w.pos += int64(n)
			w.fresh = w.pos
			if err != nil {
				return w.failed(err)
			}
			continue
		}
		at, n := w.pos, int(min(int64(n), to-w.pos))
		if w.pass == nil {
			w.pass = make([]byte, passSize)
		}
		b := w.pass[:min(n, passSize)]
		if err := w.read(b); err != nil {
			return err
		}
		w.fresh = w.pos
		w.show(at, b)
	}
	return w.err
}

// needed returns the offset of the next byte that someone looks at, and how many from
// there.
func (w *window) needed() (off int64, n int) {
	off, n = w.gpu.Next(w.pos)
	if off < 0 {
		off, n = math.MaxInt64, 0
	}
	if next, count := w.holds(); count > 0 && next >= w.pos && next <= off {
		off, n = next, count
	}
	if next := w.named.next(w.pos); next >= 0 && next <= off {
		off, n = next, passSize
	}
	if w.names != nil && w.gpu.Found() {
		if next := w.names.next(w.pos); next >= 0 && next < off {
			off, n = next, passSize
		}
	}
	return off, n
}

// sweep reads what the search for GPU code still needs.
func (w *window) sweep() error {
	for w.err == nil {
		next, n := w.gpu.Next(w.pos)
		if next < 0 {
			break
		}
		to := next + int64(n)
		if to <= w.room {
			if err := w.fillHead(to); err != nil {
				return err
			}
			continue
		}
		if err := w.fillHead(w.room); err != nil {
			return err
		}
		if _, ok := w.r.(discarder); !ok {
			if err := w.skip(to); err != nil {
				return err
			}
			continue
		}
		if err := w.hop(to); err != nil {
			return err
		}
	}
	return w.err
}

// fillHead reads until the head holds n bytes; n is at most room.
func (w *window) fillHead(n int64) error {
	have := int64(len(w.head))
	if n <= have {
		return nil
	}
	if n > int64(cap(w.head)) {
		grown := make([]byte, have, min(w.room, max(n, 2*int64(cap(w.head)), 64<<10)))
		copy(grown, w.head)
		w.head = grown
	}
	if err := w.read(w.head[have:n]); err != nil {
		return err
	}
	w.head = w.head[:n]
	w.gpu.Feed(have, w.head[have:])
	return nil
}

func (w *window) read(b []byte) error {
	if w.err != nil {
		return w.err
	}
	n, err := io.ReadFull(w.r, b)
	w.pos += int64(n)
	if err != nil {
		return w.failed(err)
	}
	return nil
}

func (w *window) failed(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	w.err = fmt.Errorf("reading at offset %d: %w", w.pos, err)
	return w.err
}
