package inflate

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

var (
	// ErrHeader means that the input is not a gzip stream.
	ErrHeader = errors.New("inflate: no gzip header")
	// ErrChecksum means that the decompressed bytes do not match the checksum or the
	// length of their gzip member.
	ErrChecksum = errors.New("inflate: the gzip checksum is wrong")
)

// Gzip decompresses consecutive gzip members (RFC 1952), as gzip -d does. It verifies
// their checksums and lengths.
type Gzip struct {
	z    *Reader
	crc  uint32
	size uint32
	err  error
}

// NewGzip returns a Gzip that reads from r. It reads the header of the first member.
func NewGzip(r io.Reader) (*Gzip, error) {
	g := &Gzip{z: NewReader(r)}
	return g, g.Reset(r)
}

// Reset prepares g for another stream.
func (g *Gzip) Reset(r io.Reader) error {
	g.z.Reset(r)
	g.crc, g.size = 0, 0
	g.err = g.header()
	return g.err
}

// Read implements [io.Reader].
func (g *Gzip) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	buf, err := g.next()
	if err != nil {
		return 0, err
	}
	n := copy(b, buf)
	g.done(buf[:n])
	return n, nil
}

// WriteTo implements [io.WriterTo] without an extra copy.
func (g *Gzip) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		buf, err := g.next()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(buf)
		g.done(buf[:n])
		total += int64(n)
		if err != nil {
			return total, err
		}
		if n < len(buf) {
			return total, io.ErrShortWrite
		}
	}
}

func (g *Gzip) done(b []byte) {
	g.crc = crc32.Update(g.crc, crc32.IEEETable, b)
	g.size += uint32(len(b))
	g.z.rd += len(b)
}

// next returns decompressed bytes that the caller has not taken yet, of this member or
// the next one.
func (g *Gzip) next() ([]byte, error) {
	for g.err == nil {
		buf, err := g.z.next()
		if err == nil {
			return buf, nil
		}
		if g.err = err; err == io.EOF {
			g.err = g.trailer()
		}
	}
	return nil, g.err
}

// trailer checks the end of a member and continues with the next one.
func (g *Gzip) trailer() error {
	crc, size, err := g.sums()
	if err != nil {
		return err
	}
	if crc != g.crc || size != g.size {
		return ErrChecksum
	}
	g.crc, g.size = 0, 0
	if g.z.pos == g.z.end {
		if err := g.z.fill(); err != nil {
			return err // io.EOF after the last member
		}
	}
	return g.header()
}

// sums reads the end of a member: the checksum of its bytes, and their number modulo 1<<32.
func (g *Gzip) sums() (crc, size uint32, err error) {
	var b [8]byte
	err = g.full(b[:])
	return binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[4:]), err
}

// Flags of a member's header (RFC 1952, 2.3.1).
const (
	flagHeaderCRC = 1 << 1
	flagExtra     = 1 << 2
	flagName      = 1 << 3
	flagComment   = 1 << 4

	maxText = 512 // bytes of a name or a comment, the limit of compress/gzip
)

// header reads the header of a member and starts its stream.
func (g *Gzip) header() error {
	var b [10]byte
	if err := g.full(b[:]); err != nil {
		return err
	}
	if b[0] != 0x1f || b[1] != 0x8b || b[2] != 8 {
		return ErrHeader
	}
	sum := crc32.ChecksumIEEE(b[:])
	flags := b[3]
	if flags&flagExtra != 0 {
		var n [2]byte
		if err := g.full(n[:]); err != nil {
			return err
		}
		extra := make([]byte, binary.LittleEndian.Uint16(n[:]))
		if err := g.full(extra); err != nil {
			return err
		}
		sum = crc32.Update(crc32.Update(sum, crc32.IEEETable, n[:]), crc32.IEEETable, extra)
	}
	for _, f := range []byte{flagName, flagComment} {
		if flags&f == 0 {
			continue
		}
		var c [1]byte
		for n := 0; ; n++ {
			if n == maxText {
				return ErrHeader
			}
			if err := g.full(c[:]); err != nil {
				return err
			}
			sum = crc32.Update(sum, crc32.IEEETable, c[:])
			if c[0] == 0 {
				break
			}
		}
	}
	if flags&flagHeaderCRC != 0 {
		var n [2]byte
		if err := g.full(n[:]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint16(n[:]) != uint16(sum) {
			return ErrHeader
		}
	}
	g.z.start()
	return nil
}

// full reads len(b) bytes that are not compressed.
func (g *Gzip) full(b []byte) error {
	for len(b) > 0 {
		if g.z.pos == g.z.end {
			if err := g.z.fill(); err != nil {
				return truncated(err)
			}
		}
		n := copy(b, g.z.in[g.z.pos:g.z.end])
		g.z.pos += n
		b = b[n:]
	}
	return nil
}
