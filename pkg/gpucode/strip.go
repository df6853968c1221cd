package gpucode

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
	"sync"

	"github.com/imgcheck/imgcheck/internal/hand"
)

// Stripped is added to the architecture of an entry whose code was overwritten with zeros. A
// driver then takes no such entry: with 205 in the place of 75, an H200 with driver 580
// says of a container without other code `no kernel image is available for execution on the device`
// (209), and uses PTX where that is left, as if the entry was not there. With the old
// architecture and zeros it says `device kernel image is invalid` (200), or 999 for a
// compressed entry; with 3075 it refuses the whole container (999). cuobjdump does not list
// such entries. The sum stays below 256, and keeps the order and the major numbers apart.
const Stripped = 130

// maxStripped is the first architecture that Stripped is not added to: 121 is the highest
// that is sold.
const maxStripped = Stripped

// maxHeld bounds the containers that are stripped, in bytes: each is held in memory. The
// largest that was met has 32 MB (PyTorch 2.6 for CUDA 12.4). A larger one stays as it is.
const maxHeld = 48 << 20

// IsStripped reports whether the code of the entry was overwritten with zeros.
func (e Entry) IsStripped() bool {
	return (e.Kind == SASS || e.Kind == PTX) && e.Arch >= Stripped && e.Arch < Stripped+maxStripped
}

// Was returns a stripped entry as it was, without its code, and another as it is.
func (e Entry) Was() Entry {
	if e.IsStripped() {
		e.Arch -= Stripped
	}
	return e
}

// Strippable reports whether the entry can be stripped: it is machine code or PTX, and was not.
func (e Entry) Strippable() bool {
	return (e.Kind == SASS || e.Kind == PTX) && e.Arch < maxStripped
}

// Spare returns the number of bytes that [Strip] overwrites in a whole file with this code, which
// may be nil. A loose cubin has one entry, and stays. Containers are known by their groups: those of
// a group whose mean is larger than is held in memory count as nothing.
func (c *Code) Spare(keep func(entries []Entry) []bool) (bytes int64) {
	if c == nil || c.Form == Cubin {
		return 0
	}
	for _, g := range c.Groups {
		if g.Cut || g.Bytes > maxHeld*int64(g.Containers) {
			continue
		}
		for i, kept := range keep(g.Entries) {
			if !kept && g.Entries[i].Strippable() {
				bytes += g.Payloads[i]
			}
		}
	}
	return bytes
}

// Strip copies a file from r to w. In the containers of areas, it overwrites the code of the
// entries that keep does not keep with zeros, and marks the entries as [Stripped]; all else,
// and so all offsets, stay as they are. keep is called with the entries of a container in
// their order, and returns as many answers; only those about [Entry.Strippable] ones count. A
// container stays as it is if it is cut off, damaged or larger than is held in memory. Strip
// returns the number of bytes that it has overwritten, and errors of r and w.
func Strip(w io.Writer, r io.Reader, areas []Area, keep func(entries []Entry) []bool) (int64, error) {
	s := &stripper{w: w, r: bufio.NewReaderSize(r, 2*searchStep), keep: keep}
	if held, ok := held.Get().(*[]byte); ok {
		s.buf = *held
	}
	defer func() { held.Put(&s.buf) }()
	for _, a := range areas {
		if err := s.area(a); err != nil {
			return s.zeros, ended(err)
		}
	}
	_, err := io.Copy(w, s.r)
	return s.zeros, err
}

// ended returns nil for io.EOF: a file may be shorter than its areas.
func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

type stripper struct {
	w     io.Writer
	r     *bufio.Reader
	keep  func([]Entry) []bool
	pos   int64
	zeros int64
	buf   []byte
}

// held has the memory for containers from one file to the next.
var held sync.Pool

// hold makes room for a container of n bytes. It grows by powers of two, and lets go of the old
// memory first: there are hundreds of sizes.
func (s *stripper) hold(n int) {
	if n > cap(s.buf) {
		s.buf = nil
		s.buf = make([]byte, min(max(1<<bits.Len(uint(n-1)), searchStep), maxHeld))
	}
	s.buf = s.buf[:n]
}

// copy copies bytes up to an offset. The error at the end of the file is io.EOF.
func (s *stripper) copy(to int64) error {
	if to <= s.pos {
		return nil
	}
	n, err := hand.On(s.w, s.r, to-s.pos)
	s.pos += n
	return err
}

// area strips the containers of an area, as [Walker] finds them.
func (s *stripper) area(a Area) error {
	if err := s.copy(aligned(max(a.Off, s.pos))); err != nil {
		return err
	}
	for a.End-s.pos >= word {
		b, err := s.r.Peek(int(min(searchStep, a.End-s.pos)))
		if len(b) < word {
			if err == nil || err == io.EOF || err == bufio.ErrBufferFull {
				return s.copy(a.End)
			}
			return err
		}
		i := search(b)
		if err := s.copy(s.pos + int64(i)); err != nil {
			return err
		}
		if i >= len(b)/word*word {
			continue
		}
		if err := s.container(a); err != nil {
			return err
		}
	}
	return nil
}

// container strips the container at pos, if there is one; else it copies a word.
func (s *stripper) container(a Area) error {
	const first = containerHeader + entryHeader
	b, err := s.r.Peek(int(min(first, a.End-s.pos)))
	if len(b) < first {
		if err == nil || err == io.EOF {
			return s.copy(s.pos + word)
		}
		return err
	}
	size := binary.LittleEndian.Uint64(b[8:])
	e, header, payload, ok := parseEntry(b[containerHeader:])
	if size < entryHeader || size%word != 0 || size > 1<<40 || !ok || header+payload > size || !slices.Contains(knownKinds, e.Kind) {
		return s.copy(s.pos + word)
	}
	end := s.pos + containerHeader + int64(size)
	if end > a.End || end-s.pos > maxHeld {
		return s.copy(min(end, a.End))
	}
	s.hold(int(end - s.pos))
	n, err := io.ReadFull(s.r, s.buf)
	if err == nil {
		s.zeros += strip(s.buf, s.keep)
	}
	if _, werr := s.w.Write(s.buf[:n]); werr != nil {
		return werr
	}
	s.pos += int64(n)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return err
}

// strip strips a whole container, and returns the number of the bytes that are zeros now.
func strip(b []byte, keep func([]Entry) []bool) (zeros int64) {
	var entries []Entry
	var at []int
	pos := containerHeader
	for pos < len(b) {
		if len(b)-pos < entryHeader || len(entries) == maxEntries {
			return 0
		}
		e, header, payload, ok := parseEntry(b[pos:])
		if !ok || header+payload > uint64(len(b)-pos) {
			return 0
		}
		e.Count = 1
		entries, at = append(entries, e), append(at, pos)
		pos += int(header + payload)
	}
	le := binary.LittleEndian
	for i, kept := range keep(entries) {
		if kept || !entries[i].Strippable() {
			continue
		}
		header := b[at[i]:]
		payload := header[le.Uint32(header[4:]):][:le.Uint64(header[8:])]
		clear(payload)
		le.PutUint32(header[28:], entries[i].Arch+Stripped)
		zeros += int64(len(payload))
	}
	return zeros
}
