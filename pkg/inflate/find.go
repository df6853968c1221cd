package inflate

import (
	"encoding/binary"
	"io"
	"math/bits"
)

// find returns the first place from bit p on, before the bit end, at which a block or a
// gzip member seems to begin: a block with codes of its own, or a stored one, that is not
// the last of its member. Most of the blocks have codes of their own, which chance
// hardly ever makes. Blocks with fixed codes have no signs by which to find them.
func (c *chunk) find(p, end int) (place, bool) {
	// 48 bits at a time, whose signs are within 64.
	for b := p >> 3; 8*b < end; b += 6 {
		w := binary.LittleEndian.Uint64(c.in[b:])
		// The bits 0, 0 and 1 (not the last, own codes), and no more codes than there are:
		// the number of either kind has 5 bits, of which the upper 4 are not all set.
		lits := w >> 4 & (w >> 5) & (w >> 6) & (w >> 7)
		dists := w >> 9 & (w >> 10) & (w >> 11) & (w >> 12)
		blocks := ^w & ^(w >> 1) & (w >> 2) & ^lits & ^dists & (1<<48 - 1)
		members := uint64(0)
		for i := range 7 {
			v := binary.LittleEndian.Uint32(c.in[b+i:])
			if i > 0 && uint16(v) == ^uint16(v>>16) {
				blocks |= 1 << (8*i - 3)
			}
			if i < 6 && v&0xffffff == magic {
				members |= 1 << (8 * i)
			}
		}
		for both := blocks | members; both != 0; both &= both - 1 {
			i := bits.TrailingZeros64(both)
			at := 8*b + i
			if at >= end {
				break
			}
			if at < p {
				continue
			}
			for _, member := range []bool{false, true} {
				found := place{8*c.base + int64(at), member}
				if c.begins(found) {
					return found, true
				}
			}
		}
	}
	return place{}, false
}

// magic begins a gzip member, with the one method of compression (RFC 1952, 2.3.1).
const magic = 0x088b1f

// begins reports whether find would stop here.
func (c *chunk) begins(at place) bool {
	p := c.relative(at)
	if p>>3 >= c.n {
		return false
	}
	w := c.word(p)
	switch {
	case at.member:
		// Three flags have no meaning yet; the last byte is a number of an operating system.
		b := c.in[p>>3:]
		return w&0xffffff == magic && b[3]&0xe0 == 0 && (b[9] <= 13 || b[9] == 255)
	case w&7 == 4:
		return c.codes(p)
	case w&7 == 0:
		return p&7 == 5 && uint16(w>>3) == ^uint16(w>>19)
	}
	return false
}

// codes reports whether a block with complete codes seems to begin at a bit.
func (c *chunk) codes(p int) bool {
	w := c.word(p)
	n := int(w>>13&15) + 4
	lengths := c.word(p+17) & (1<<(3*n) - 1)
	sum := 0
	for ; lengths != 0; lengths >>= 12 {
		sum += int(fours[lengths&(1<<12-1)])
	}
	if sum != 1<<7 {
		return false
	}
	z := &c.z
	pos, held, nheld, end := z.pos, z.bits, z.nbits, z.end
	in, srcErr := z.in, z.srcErr
	defer func() { z.pos, z.bits, z.nbits, z.end, z.in, z.srcErr = pos, held, nheld, end, in, srcErr }()
	z.in, z.pos, z.end, z.bits, z.nbits, z.srcErr = c.in, (p+3)>>3, c.n, 0, 0, io.EOF
	if z.need(8) != nil {
		return false
	}
	z.take(uint((p + 3) & 7))
	lits, dists, err := z.codeLengths()
	if err != nil || lits[256] == 0 || used(lits) != 1<<maxCode {
		return false
	}
	all := used(dists)
	return all == 1<<maxCode || all == 1<<(maxCode-1) || all == 0
}

// used returns the share of all codes that codes of these lengths take, of 1<<maxCode.
func used(lengths []uint8) (n int) {
	for _, l := range lengths {
		if l > 0 {
			n += 1 << (maxCode - l)
		}
	}
	return n
}

// fours has the sum of the shares of four codes, of 1<<7, whose lengths have three bits
// each.
var fours = func() (t [1 << 12]uint16) {
	for i := range t {
		for v := i; v != 0; v >>= 3 {
			if v&7 != 0 {
				t[i] += 1 << (7 - v&7)
			}
		}
	}
	return t
}()
