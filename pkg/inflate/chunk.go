package inflate

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync/atomic"
)

// A chunk is decoded before the bytes that precede it are known. Its output then begins as
// symbols of two bytes: below 256 a byte, from firstMark on a mark, which stands for a byte
// of the unknown window. Once a whole window has no marks, the output goes on as bytes. The
// design is that of pugz (Kerbiriou and Chikhi, 2019) and rapidgzip (Knespel and Brunst,
// 2023).
const (
	firstMark = 256        // the mark of the window's first byte
	marked    = 2 * window // bytes of a window of symbols
	inPad     = inSlack + 8
	maxTries  = 8 // places from which a chunk is decoded before it is given up
)

// place is the start of a block or a gzip member, in bits from that of the stream.
type place struct {
	bit    int64
	member bool
}

// part is some of the output of a chunk, within one gzip member.
type part struct {
	from, to  int    // offsets in the buffer; of symbols, once they are bytes
	sum       uint32 // of the bytes
	ends      bool   // the member ends here
	crc, size uint32 // then its checksum and length as they are written
}

// chunk is a part of the compressed stream, and its output.
type chunk struct {
	base  int64  // where in begins in the stream, in bytes
	in    []byte // the chunk's bytes, the first ones of the next chunks, and inPad more
	n     int    // bytes of in without the last
	own   int    // bytes of in before the next chunk
	whole bool   // the stream ends with the n bytes
	extra bool   // it is not one of the stream's own

	done     chan struct{} // closed once it is decoded
	ready    chan struct{} // closed once its output is bytes
	dropped  atomic.Bool   // its output is not needed
	refs     atomic.Int32  // its users: the goroutine that joins, the one that writes
	tried    bool          // it was decoded
	used     bool          // its output is the stream's
	resolved bool          // its symbols are bytes

	z     Reader
	buf   []byte        // a window of symbols, the symbols, and then bytes
	lut   [1 << 16]byte // the byte for each symbol
	start place
	parts []part
	clean int // no mark is in the buffer from here to the end of the symbols
	progress
	last progress // at the last boundary between blocks
}

// progress says how far a chunk was decoded. If a block has no end, the chunk returns to the
// boundary before it.
type progress struct {
	end     place
	wr      int  // the end of the symbols in the buffer
	plain   bool // bytes are written, behind the symbols
	origin  int  // where z.out begins in the buffer, with plain
	written int  // bytes of z.out at a boundary, with plain
	open    int  // where the last part begins
	closed  int  // parts before it
}

// decode decodes from the first place on that leads to the end of the chunk.
func (c *chunk) decode() {
	c.tried, c.start, c.end = true, place{}, place{}
	from, ok := place{member: true}, true
	for tries := 0; tries < maxTries; tries++ {
		if c.base > 0 {
			at := 0
			if tries > 0 {
				at = c.relative(from) + 1
			}
			if from, ok = c.find(at, 8*c.own); !ok {
				return
			}
		}
		c.start, c.end = from, from
		if c.run() || c.base == 0 || c.dropped.Load() {
			return
		}
	}
}

// joins reports whether the chunk was decoded from a place on.
func (c *chunk) joins(at place) bool { return c.tried && c.start == at && c.end != at }

// relative returns a place in bits from the start of the chunk.
func (c *chunk) relative(p place) int { return int(p.bit - 8*c.base) }

// at returns the place of the reader. The place before a stored block is the last one
// from which it can be read, because there may be several.
func (c *chunk) at(member bool) place {
	p := 8*c.z.pos - int(c.z.nbits)
	if !member {
		p = c.normal(p)
	}
	return place{8*c.base + int64(p), member}
}

// normal returns bit p, or, for a stored block that is not the last, the third bit before
// the byte at which its length begins.
func (c *chunk) normal(p int) int {
	if aligned := (p+3+7)&^7 - 3; p>>3 < c.n && c.word(p)&(1<<(aligned+3-p)-1) == 0 {
		return aligned
	}
	return p
}

// word returns the next 57 bits or more, from bit p on.
func (c *chunk) word(p int) uint64 {
	return binary.LittleEndian.Uint64(c.in[p>>3:]) >> (p & 7)
}

// run decodes from start to the first place behind the chunk's own bytes at which find
// would stop, or as far as it can. It returns false if the bytes are no DEFLATE.
func (c *chunk) run() (valid bool) {
	z := &c.z
	z.in, z.pos, z.end, z.srcErr = c.in, 0, c.n+inPad, io.EOF
	z.start()
	p := c.relative(c.start)
	z.pos = p >> 3
	if z.need(8) != nil {
		return false
	}
	z.take(uint(p & 7))
	c.parts, c.clean = c.parts[:0], marked
	c.progress = progress{end: c.start}
	c.last = c.progress
	member := c.start.member
	if !member {
		c.wr = marked
		for i := range window {
			binary.LittleEndian.PutUint16(c.buf[2*i:], uint16(firstMark+i))
		}
	}
	defer c.back()
	for !c.dropped.Load() {
		if !member {
			c.settle()
		}
		c.end = c.at(member)
		c.written, c.closed = z.wr, len(c.parts)
		c.last = c.progress
		if c.end != c.start && !c.whole && c.relative(c.end) >= 8*c.own && c.begins(c.end) {
			return true
		}
		if member {
			if c.whole && z.pos-int(z.nbits>>3) >= c.n {
				return true // the end of the stream
			}
			if !c.begin() {
				return c.short()
			}
			member = false
			continue
		}
		if ok, end := c.block(); !ok {
			return end
		}
		if z.last {
			if !c.endMember() {
				return c.short()
			}
			member = true
		}
	}
	return true
}

// begin reads the header of a member, before which nothing is known that it refers to.
func (c *chunk) begin() bool {
	filled := c.filled()
	c.z.alignByte()
	if (&Gzip{z: &c.z}).header() != nil || c.past() {
		return false
	}
	c.origin, c.open, c.plain = filled, filled, true
	c.useBuf(0)
	return true
}

// endMember reads the end of a member.
func (c *chunk) endMember() bool {
	c.z.alignByte()
	crc, size, err := (&Gzip{z: &c.z}).sums()
	if err != nil || c.past() {
		return false
	}
	c.close()
	p := &c.parts[len(c.parts)-1]
	p.ends, p.crc, p.size = true, crc, size
	c.z.last = false
	return true
}

// past reports whether more was read than there is.
func (c *chunk) past() bool { return 8*c.z.pos-int(c.z.nbits) > 8*c.n }

// short reports whether the input has ended, so that what follows may be valid.
func (c *chunk) short() bool { return c.z.end-c.z.pos <= inPad }

// filled returns the end of the output in the buffer.
func (c *chunk) filled() int {
	if c.plain {
		return c.origin + c.z.wr
	}
	return c.wr
}

// useBuf lets the reader write bytes from origin on, where there are n already.
func (c *chunk) useBuf(n int) {
	c.z.out = c.buf[c.origin:]
	c.z.rd, c.z.wr = 0, n
	c.z.most = len(c.z.out) - slack
}

// close ends the open part.
func (c *chunk) close() {
	if c.plain {
		c.parts = append(c.parts, part{from: c.open, to: c.origin + c.z.wr})
	} else {
		c.parts = append(c.parts, part{to: (c.wr - marked) / 2})
	}
}

// back returns to the last boundary and ends the last part.
func (c *chunk) back() {
	c.progress = c.last
	c.z.wr = c.written
	c.parts = c.parts[:c.closed]
	if !c.end.member {
		c.close()
	}
}

// symbols returns the number of symbols of the output.
func (c *chunk) symbols() int {
	if len(c.parts) == 0 || c.start.member {
		return 0
	}
	return c.parts[0].to
}

// block decodes a block. If it returns false, end reports whether it ran out of input or
// room, so that what there is may be valid.
func (c *chunk) block() (ok, end bool) {
	z := &c.z
	if z.header() != nil || c.past() {
		return false, c.short()
	}
	if z.state == inStored {
		return c.stored()
	}
	if z.state == inHuffman {
		var err error
		if c.plain {
			_, err = z.fast()
		} else {
			err = c.fast()
		}
		if err != nil {
			return false, c.past()
		}
		// The block has ended, or the input or the room has.
		return z.state == atBlock && !c.past(), true
	}
	return true, true
}

// room returns how many bytes can be written.
func (c *chunk) room() int {
	if c.plain {
		return c.z.most - c.z.wr
	}
	return len(c.buf) - 2*slack - c.wr
}

// stored copies a stored block; it returns as block does.
func (c *chunk) stored() (ok, end bool) {
	z := &c.z
	n := z.stored
	if n > c.n-z.pos {
		return false, true
	}
	from := z.in[z.pos : z.pos+n]
	if c.plain {
		if n > c.room() {
			return false, true
		}
		z.wr += copy(z.out[z.wr:], from)
	} else {
		if 2*n > c.room() {
			return false, true
		}
		for i, b := range from {
			binary.LittleEndian.PutUint16(c.buf[c.wr+2*i:], uint16(b))
		}
		c.wr += 2 * n
	}
	z.pos += n
	z.state = atBlock
	return true, true
}

// settle goes on with bytes if the last window has no marks.
func (c *chunk) settle() {
	if c.plain {
		return
	}
	const marks = 0xff00ff00ff00ff00
	from := max(c.clean, c.wr-marked)
	for i := c.wr - 8; i > from-8; i -= 8 {
		if binary.LittleEndian.Uint64(c.buf[i:])&marks != 0 {
			c.clean = i + 8
			return
		}
	}
	if c.wr-c.clean < marked || c.room() < window {
		return
	}
	c.close()
	c.origin = c.wr
	for i := range window {
		c.buf[c.origin+i] = c.buf[c.wr-marked+2*i]
	}
	c.plain, c.open = true, c.origin+window
	c.useBuf(window)
}

// fast decodes symbols of two bytes, as [Reader.fast] decodes bytes. At the end of the block
// it sets the state.
func (c *chunk) fast() (err error) {
	z := &c.z
	in, out := z.in[:z.end], c.buf
	pos, wr := z.pos, c.wr
	bits, nbits := z.bits, z.nbits
	lit, dist := &z.lit, &z.dist
	inEnd, most := len(in)-inSlack, len(out)-2*slack

	for pos <= inEnd && wr < most {
		bits |= binary.LittleEndian.Uint64(in[pos:]) << (nbits & 63)
		pos += int((63 - nbits) >> 3 & 7)
		nbits |= 56

		e := lit.first[bits&litMask]
		if e&isLiteral != 0 {
			binary.LittleEndian.PutUint32(out[wr:], e>>16&0xff|e>>8&0xff0000)
			wr += int(e >> 7 & 6)
			bits >>= e & 63
			nbits -= uint(e & 63)
			e = lit.first[bits&litMask]
			if e&isLiteral != 0 {
				binary.LittleEndian.PutUint32(out[wr:], e>>16&0xff|e>>8&0xff0000)
				wr += int(e >> 7 & 6)
				bits >>= e & 63
				nbits -= uint(e & 63)
				e = lit.first[bits&litMask]
				if e&isLiteral != 0 {
					binary.LittleEndian.PutUint32(out[wr:], e>>16&0xff|e>>8&0xff0000)
					wr += int(e >> 7 & 6)
					bits >>= e & 63
					nbits -= uint(e & 63)
					continue
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
				binary.LittleEndian.PutUint16(out[wr:], uint16(e>>16&0xff))
				wr += 2
				bits >>= e & 63
				nbits -= uint(e & 63)
				continue
			}
		}
		if e&isSpecial != 0 {
			bits >>= e & 63
			nbits -= uint(e & 63)
			if e&isBlockEnd != 0 {
				z.state = atBlock
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
		back := 2 * (int(e>>16) + int(bits&(1<<(e&63)-1)>>(e>>8&15)))
		bits >>= e & 63
		nbits -= uint(e & 63)
		from := wr - back // the window of marks precedes the output
		end := wr + 2*length
		switch {
		case back >= 8:
			binary.LittleEndian.PutUint64(out[wr:], binary.LittleEndian.Uint64(out[from:]))
			binary.LittleEndian.PutUint64(out[wr+8:], binary.LittleEndian.Uint64(out[from+8:]))
			for wr += 16; wr < end; wr += 16 {
				from += 16
				binary.LittleEndian.PutUint64(out[wr:], binary.LittleEndian.Uint64(out[from:]))
				binary.LittleEndian.PutUint64(out[wr+8:], binary.LittleEndian.Uint64(out[from+8:]))
			}
		case back == 2:
			word := uint64(binary.LittleEndian.Uint16(out[from:])) * 0x0001000100010001
			for ; wr < end; wr += 8 {
				binary.LittleEndian.PutUint64(out[wr:], word)
			}
		default:
			for ; wr < end; wr += 2 {
				binary.LittleEndian.PutUint16(out[wr:], binary.LittleEndian.Uint16(out[wr-back:]))
			}
		}
		wr = end
	}
	z.pos, c.wr, z.bits, z.nbits = pos, wr, bits, nbits
	return err
}

// follow is called once the window before the chunk is known: at most 32 KiB, which are
// all that the member has before if they are fewer. It returns the window behind the
// chunk, appended to after, and false if the chunk refers to bytes before the member.
func (c *chunk) follow(before, after []byte) ([]byte, bool) {
	n := c.symbols()
	symbols := c.buf[:marked+2*n]
	if n > 0 {
		for i := range firstMark {
			c.lut[i] = byte(i)
		}
		unknown := window - len(before)
		copy(c.lut[firstMark+unknown:], before)
		for i := marked; unknown > 0 && i < len(symbols); i += 2 {
			if s := int(binary.LittleEndian.Uint16(symbols[i:])); s >= firstMark && s < firstMark+unknown {
				return nil, false
			}
		}
	}
	switch {
	case c.end.member:
	case c.plain:
		out := c.buf[c.origin : c.origin+c.z.wr]
		after = append(after, out[max(0, len(out)-window):]...)
	default:
		have := min(window, len(before)+n)
		for i := len(symbols) - 2*have; i < len(symbols); i += 2 {
			s := int(binary.LittleEndian.Uint16(symbols[i:]))
			if n == 0 {
				after = append(after, before[s-firstMark-(window-len(before))])
			} else {
				after = append(after, c.lut[s])
			}
		}
	}
	return after, true
}

// resolve makes bytes of the symbols, and sums of the parts.
func (c *chunk) resolve() {
	n := c.symbols()
	resolve(c.buf[:n], c.buf[marked:marked+2*n], &c.lut)
	for i := range c.parts {
		p := &c.parts[i]
		p.sum = crc32.ChecksumIEEE(c.buf[p.from:p.to])
	}
}

// resolve writes the byte of each symbol to out, which may begin before the symbols in the
// same memory.
func resolve(out, symbols []byte, lut *[1 << 16]byte) {
	const marks = 0xff00ff00ff00ff00
	i := 0
	for ; i+4 <= len(out); i += 4 {
		v := binary.LittleEndian.Uint64(symbols[2*i:])
		if v&marks == 0 {
			v |= v >> 8
			binary.LittleEndian.PutUint32(out[i:], uint32(v&0xffff|v>>16&0xffff0000))
			continue
		}
		binary.LittleEndian.PutUint32(out[i:], uint32(lut[uint16(v)])|uint32(lut[uint16(v>>16)])<<8|
			uint32(lut[uint16(v>>32)])<<16|uint32(lut[v>>48])<<24)
	}
	for ; i < len(out); i++ {
		out[i] = lut[binary.LittleEndian.Uint16(symbols[2*i:])]
	}
}
