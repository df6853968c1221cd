// Package inflate decompresses DEFLATE (RFC 1951) and gzip (RFC 1952) streams faster than
// other readers written in Go.
//
// Its design follows libdeflate (https://github.com/ebiggers/libdeflate) and Intel's
// ISA-L: it holds 64 bits of input, decodes two literals at a time with wide tables,
// copies matches in words, and uses its output window as the reader's buffer. It
// allocates about 400 KB, whatever the input is.
//
// [Parallel] decodes one gzip stream on several cores, as pugz and rapidgzip do: the stream is
// split into chunks, each is decoded from a place where a block seems to begin, with
// marks for the bytes before it, which are not known yet; then the chunks are joined in
// their order. A chunk counts only if the one before it ends at the bit at which it begins. A [Crew]
// bounds the cores and the memory.
//
// It knows nothing of the unpacked data, does not compress, and takes no preset
// dictionary. It accepts the streams that compress/flate accepts, and returns the same
// bytes; the fuzz targets test both, and that Parallel returns what Gzip returns.
package inflate

import (
	"encoding/binary"
	"errors"
	"io"
)

// ErrCorrupt means that the input is not a DEFLATE stream, or is damaged.
var ErrCorrupt = errors.New("inflate: the stream is damaged")

const (
	window  = 32 << 10 // how far back a match reaches (RFC 1951, 2)
	maxCopy = 258      // the longest match

	inSize  = 128 << 10
	outSize = window + 192<<10
	// slack is how far the fast loop may write past its limit: some literals, a match,
	// and the rest of the last word.
	slack = maxCopy + 64
	// inSlack is how far the fast loop reads ahead in one round: two refills.
	inSlack = 24
)

// Reader decompresses one raw DEFLATE stream. It reads ahead, and may block for a few
// bytes more than the next symbol needs if its source is not at the end.
type Reader struct {
	src      io.Reader
	in       []byte
	pos, end int   // the unread part of in
	srcErr   error // the error that ended the source

	// bits holds the next nbits bits of the input. The bits above are 0 or the bits that
	// follow in the input, so that filling up again changes nothing.
	bits  uint64
	nbits uint

	out    []byte
	most   int // no symbol is decoded once as many bytes are written
	rd, wr int // the part of out that the caller has not taken
	err    error

	state  state
	last   bool // the current block is the last of the stream
	stored int  // bytes left of a stored block

	lengths [286 + 32 + maxCopy]uint8
	lit     litTable
	dist    distTable
	pre     preTable
}

type state uint8

const (
	atBlock state = iota
	inStored
	inHuffman
	atEnd
)

// NewReader returns a Reader that decompresses r.
func NewReader(r io.Reader) *Reader {
	z := &Reader{in: make([]byte, inSize), out: make([]byte, outSize+slack), most: outSize}
	z.Reset(r)
	return z
}

// Reset prepares z for another stream.
func (z *Reader) Reset(r io.Reader) {
	z.src, z.pos, z.end, z.srcErr = r, 0, 0, nil
	z.start()
}

// start begins a stream where the last one ended.
func (z *Reader) start() {
	z.bits, z.nbits = 0, 0
	z.rd, z.wr, z.err = 0, 0, nil
	z.state, z.last, z.stored = atBlock, false, 0
}

// Read implements [io.Reader].
func (z *Reader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	buf, err := z.next()
	if err != nil {
		return 0, err
	}
	n := copy(b, buf)
	z.rd += n
	return n, nil
}

// WriteTo implements [io.WriterTo] without an extra copy.
func (z *Reader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for {
		buf, err := z.next()
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		n, err := w.Write(buf)
		z.rd += n
		total += int64(n)
		if err != nil {
			return total, err
		}
		if n < len(buf) {
			return total, io.ErrShortWrite
		}
	}
}

// next returns decompressed bytes that the caller has not taken yet, at least one.
func (z *Reader) next() ([]byte, error) {
	for z.rd == z.wr {
		if z.err != nil {
			return nil, z.err
		}
		z.slide()
		z.err = z.step()
	}
	return z.out[z.rd:z.wr], nil
}

// slide makes room if the window is full. All of it must have been taken.
func (z *Reader) slide() {
	if z.wr >= z.most {
		copy(z.out, z.out[z.wr-window:z.wr])
		z.rd, z.wr = window, window
	}
}

// step decompresses until the window is full, the input pauses or the stream ends.
func (z *Reader) step() error {
	switch z.state {
	case atBlock:
		if z.last {
			z.alignByte()
			z.state = atEnd
			return nil
		}
		return z.header()
	case inStored:
		return z.copyStored()
	case inHuffman:
		return z.huffman()
	}
	return io.EOF
}

// fill reads more input, and keeps what is left of it. If nothing comes, it returns the
// error of the source.
func (z *Reader) fill() error {
	if z.srcErr != nil {
		return z.srcErr
	}
	// Keep up to 8 bytes: alignByte may give back the bytes that are held as bits.
	if keep := min(z.pos, 8); z.pos > keep {
		z.end = copy(z.in, z.in[z.pos-keep:z.end])
		z.pos = keep
	}
	for range 100 {
		n, err := z.src.Read(z.in[z.end:])
		if n < 0 || n > len(z.in)-z.end {
			panic("inflate: the source read more than it was asked for")
		}
		z.end += n
		z.srcErr = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	z.srcErr = io.ErrNoProgress
	return z.srcErr
}

// need ensures that n bits are available, at most 32.
func (z *Reader) need(n uint) error {
	for z.nbits < n {
		if z.pos == z.end {
			if err := z.fill(); err != nil {
				return truncated(err)
			}
		}
		z.bits |= uint64(z.in[z.pos]) << (z.nbits & 63)
		z.pos++
		z.nbits += 8
	}
	return nil
}

// truncated returns [io.ErrUnexpectedEOF] for the end of the source, else err.
func truncated(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (z *Reader) take(n uint) uint {
	v := uint(z.bits & (1<<(n&63) - 1))
	z.bits >>= n & 63
	z.nbits -= n
	return v
}

// alignByte drops the rest of a byte, and gives whole bytes back.
func (z *Reader) alignByte() {
	z.pos -= int(z.nbits >> 3)
	z.bits, z.nbits = 0, 0
}

// header reads the header of a block (RFC 1951, 3.2.3).
func (z *Reader) header() error {
	if err := z.need(3); err != nil {
		return err
	}
	z.last = z.take(1) == 1
	switch z.take(2) {
	case 0:
		return z.storedHeader()
	case 1:
		z.fixed()
	case 2:
		if err := z.dynamic(); err != nil {
			return err
		}
	default:
		return ErrCorrupt
	}
	z.state = inHuffman
	return nil
}

// storedHeader reads the header of a block without compression (RFC 1951, 3.2.4).
func (z *Reader) storedHeader() error {
	z.alignByte()
	if err := z.need(32); err != nil {
		return err
	}
	n, inverse := z.take(16), z.take(16)
	if n != ^inverse&0xffff {
		return ErrCorrupt
	}
	z.alignByte()
	z.stored, z.state = int(n), inStored
	if n == 0 {
		z.state = atBlock
	}
	return nil
}

func (z *Reader) copyStored() error {
	if z.pos == z.end {
		if err := z.fill(); err != nil {
			return truncated(err)
		}
	}
	n := copy(z.out[z.wr:z.most], z.in[z.pos:min(z.end, z.pos+z.stored)])
	z.pos += n
	z.wr += n
	z.stored -= n
	if z.stored == 0 {
		z.state = atBlock
	}
	return nil
}

// huffman decodes symbols until the block ends or the window is full.
func (z *Reader) huffman() error {
	for z.wr < z.most {
		if z.end-z.pos < inSlack && z.srcErr == nil {
			if err := z.fill(); err != nil && z.srcErr != io.EOF && z.pos == z.end {
				return err
			}
		}
		if z.end-z.pos >= inSlack {
			done, err := z.fast()
			if done || err != nil {
				return err
			}
			continue
		}
		if z.srcErr == nil {
			continue
		}
		done, err := z.slow()
		if done || err != nil {
			return err
		}
	}
	return nil
}

// fast decodes symbols while there is enough input and room for a round, so that it need
// not check within one. It returns done at the end of the block.
func (z *Reader) fast() (done bool, err error) {
	in, out := z.in[:z.end], z.out
	pos, wr := z.pos, z.wr
	bits, nbits := z.bits, z.nbits
	lit, dist := &z.lit, &z.dist
	inEnd, most := len(in)-inSlack, z.most

	for pos <= inEnd && wr < most {
		// Fill up to 56 bits or more. The bits that do not fit are read again.
		bits |= binary.LittleEndian.Uint64(in[pos:]) << (nbits & 63)
		pos += int((63 - nbits) >> 3 & 7)
		nbits |= 56

		e := lit.first[bits&litMask]
		if e&isLiteral != 0 {
			binary.LittleEndian.PutUint16(out[wr:], uint16(e>>16))
			wr += int(e >> 8 & 3)
			bits >>= e & 63
			nbits -= uint(e & 63)
			e = lit.first[bits&litMask]
			if e&isLiteral != 0 {
				binary.LittleEndian.PutUint16(out[wr:], uint16(e>>16))
				wr += int(e >> 8 & 3)
				bits >>= e & 63
				nbits -= uint(e & 63)
				e = lit.first[bits&litMask]
				if e&isLiteral != 0 {
					binary.LittleEndian.PutUint16(out[wr:], uint16(e>>16))
					wr += int(e >> 8 & 3)
					bits >>= e & 63
					nbits -= uint(e & 63)
					e = lit.first[bits&litMask]
					if e&isLiteral != 0 {
						binary.LittleEndian.PutUint16(out[wr:], uint16(e>>16))
						wr += int(e >> 8 & 3)
						bits >>= e & 63
						nbits -= uint(e & 63)
						continue
					}
				}
			}
			// A length and a distance take up to 48 bits.
			bits |= binary.LittleEndian.Uint64(in[pos:]) << (nbits & 63)
			pos += int((63 - nbits) >> 3 & 7)
			nbits |= 56
		}
		if e&isLink != 0 {
			e = lit.second[(e>>16+uint32(bits>>litBits)&(1<<(e&15)-1))&(litSecond-1)]
			if e&isLiteral != 0 {
				out[wr] = byte(e >> 16)
				wr++
				bits >>= e & 63
				nbits -= uint(e & 63)
				continue
			}
		}
		if e&isSpecial != 0 {
			bits >>= e & 63
			nbits -= uint(e & 63)
			if e&isBlockEnd != 0 {
				z.state, done = atBlock, true
			} else {
				err = ErrCorrupt
			}
			break
		}
		length := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		nbits -= uint(e & 63)

		e = dist.first[bits&distMask]
		if e&isLink != 0 {
			e = dist.second[(e>>16+uint32(bits>>distBits)&(1<<(e&15)-1))&(distSecond-1)]
		}
		if e&isSpecial != 0 {
			err = ErrCorrupt
			break
		}
		back := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
		bits >>= e & 63
		nbits -= uint(e & 63)
		from := wr - back
		if from < 0 {
			err = ErrCorrupt
			break
		}
		end := wr + length
		if back >= 8 {
			// Copy words that do not overlap. The last may extend past the match.
			binary.LittleEndian.PutUint64(out[wr:], binary.LittleEndian.Uint64(out[from:]))
			binary.LittleEndian.PutUint64(out[wr+8:], binary.LittleEndian.Uint64(out[from+8:]))
			for wr += 16; wr < end; wr += 16 {
				from += 16
				binary.LittleEndian.PutUint64(out[wr:], binary.LittleEndian.Uint64(out[from:]))
				binary.LittleEndian.PutUint64(out[wr+8:], binary.LittleEndian.Uint64(out[from+8:]))
			}
		} else if back == 1 {
			word := uint64(out[from]) * 0x0101010101010101
			for ; wr < end; wr += 8 {
				binary.LittleEndian.PutUint64(out[wr:], word)
			}
		} else {
			for ; wr < end; wr++ {
				out[wr] = out[wr-back]
			}
		}
		wr = end
	}
	z.pos, z.wr, z.bits, z.nbits = pos, wr, bits, nbits
	return done, err
}

// slow decodes one symbol near the end of the input. It checks for every bit.
func (z *Reader) slow() (done bool, err error) {
	// Take what is left of the input, up to 56 bits. Missing bits read as 0 and are never
	// used.
	for z.nbits <= 48 && (z.pos < z.end || z.fill() == nil) {
		z.bits |= uint64(z.in[z.pos]) << (z.nbits & 63)
		z.pos++
		z.nbits += 8
	}
	z.bits &= 1<<(z.nbits&63) - 1
	if z.srcErr != nil && z.srcErr != io.EOF && z.pos == z.end && z.nbits < 48 {
		return true, z.srcErr
	}
	e := z.lit.one(z.bits)
	if uint(e&63) > z.nbits {
		return true, io.ErrUnexpectedEOF
	}
	switch {
	case e&isLiteral != 0:
		z.take(uint(e & 63))
		z.out[z.wr] = byte(e >> 16)
		z.wr++
		return false, nil
	case e&isBlockEnd != 0:
		z.take(uint(e & 63))
		z.state = atBlock
		return true, nil
	case e&isSpecial != 0:
		return true, ErrCorrupt
	}
	bits, left := z.bits, z.nbits
	length := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
	bits >>= e & 63
	left -= uint(e & 63)
	e = z.dist.one(bits)
	if uint(e&63) > left {
		return true, io.ErrUnexpectedEOF
	}
	if e&isSpecial != 0 {
		return true, ErrCorrupt
	}
	back := int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15))
	z.bits, z.nbits = bits>>(e&63), left-uint(e&63)
	if back > z.wr {
		return true, ErrCorrupt
	}
	for range length {
		z.out[z.wr] = z.out[z.wr-back]
		z.wr++
	}
	return false, nil
}
