package inflate

import "math/bits"

// The entry of a table has all that the decoder needs of a code:
//
//	bits 0-5    number of bits of the code and its extra bits
//	bits 8-11   number of bits of the code alone; in a literal, the number of literals
//	bits 16-    two literals, or the base of a length or a distance
//
// A link leads to the second table: bits 0-3 are the number of index bits there, and bits
// 16- the offset of its part.
const (
	isLiteral  = 1 << 12
	isLink     = 1 << 13
	isSpecial  = 1 << 14 // the end of a block, or not a code
	isBlockEnd = 1 << 15 // with isSpecial

	litBits    = 11
	litMask    = 1<<litBits - 1
	litSecond  = 2048 // 342 are enough for 288 symbols (zlib's enough.c: 2342 in all); a power of two
	distBits   = 9
	distMask   = 1<<distBits - 1
	distSecond = 1024 // enough for 30 symbols: 402 in all

	maxCode = 15 // bits (RFC 1951, 3.2.7)
)

type (
	litTable struct {
		code
		first  [1 << litBits]uint32
		second [litSecond]uint32
	}
	distTable struct {
		code
		first  [1 << distBits]uint32
		second [distSecond]uint32
	}
	preTable [1 << 7]uint8 // symbol<<3 | bits; 0: no code
)

// code is a canonical Huffman code (RFC 1951, 3.2.2): the number of codes of each length,
// and their symbols in the order of the codes.
type code struct {
	count   [maxCode + 1]uint16
	symbols [288]uint16
	entries *[288]uint32 // by symbol, without the bits of the code
}

// read sets the code from the lengths of its symbols. It returns false for an incomplete
// code, unless the code is empty or has a single symbol of one bit (as in zlib).
func (c *code) read(lengths []uint8) bool {
	c.count = [maxCode + 1]uint16{}
	for _, l := range lengths {
		c.count[l&maxCode]++
	}
	c.count[0] = 0
	var next [maxCode + 1]uint16
	used, left := 0, 1
	for l := 1; l <= maxCode; l++ {
		next[l] = uint16(used)
		used += int(c.count[l])
		left = left<<1 - int(c.count[l])
		if left < 0 {
			return false
		}
	}
	for s, l := range lengths {
		if l != 0 {
			c.symbols[next[l]] = uint16(s)
			next[l]++
		}
	}
	return left == 0 || used == 0 || used == 1 && c.count[1] == 1
}

// one decodes one symbol, a bit at a time. It returns isSpecial if there is no such code.
func (c *code) one(in uint64) uint32 {
	value, first, index := 0, 0, 0
	for l := 1; l <= maxCode; l++ {
		value |= int(in & 1)
		in >>= 1
		n := int(c.count[l])
		if value-first < n {
			return withCode(c.entries[c.symbols[index+value-first]], uint32(l))
		}
		index += n
		first = (first + n) << 1
		value <<= 1
	}
	return isSpecial
}

// withCode adds the number of bits of the code to an entry.
func withCode(e, n uint32) uint32 {
	if e&isLiteral == 0 {
		e += n << 8
	}
	return e + n
}

// fill writes the tables of a code. Codes up to the width of the first table are in it;
// longer ones are in the second, behind a link.
func (c *code) fill(first, second []uint32, width int) {
	for i := range first {
		first[i] = isSpecial
	}
	value, index := 0, 0
	for l := 1; l <= width; l++ {
		for range c.count[l] {
			e := withCode(c.entries[c.symbols[index]], uint32(l))
			index++
			for i := reverse(value, l); i < len(first); i += 1 << l {
				first[i] = e
			}
			value++
		}
		value <<= 1
	}
	free := 0
	var base, size int
	prefix := -1
	for l := width + 1; l <= maxCode; l++ {
		for n := range int(c.count[l]) {
			e := withCode(c.entries[c.symbols[index]], uint32(l))
			index++
			r := reverse(value, l)
			if p := r & (1<<width - 1); p != prefix {
				// The part is wide enough for the longest code with this prefix.
				prefix, base, size = p, free, l-width
				room := 1<<size - (int(c.count[l]) - n)
				for room > 0 && size+width < maxCode {
					size++
					room = room<<1 - int(c.count[size+width])
				}
				free += 1 << size
				if free > len(second) {
					return // not reached with a complete code
				}
				for i := range 1 << size {
					second[base+i] = isSpecial
				}
				first[p] = isLink | uint32(size) | uint32(base)<<16
			}
			for i := r >> width; i < 1<<size; i += 1 << (l - width) {
				second[base+i] = e
			}
			value++
		}
		value <<= 1
	}
}

func reverse(v, n int) int { return int(bits.Reverse16(uint16(v)) >> (16 - n)) }

// pair joins an entry of the first table with the literal that follows it, so that one
// lookup decodes both.
func (t *litTable) pair() {
	for i := len(t.first) - 1; i >= 0; i-- {
		e := t.first[i]
		if e&isLiteral == 0 {
			continue
		}
		n := e & 63
		// f is the entry that follows, as far as the index has its bits; the missing ones
		// are 0. It is not paired yet, because its index is lower, except for index 0.
		f := t.first[i>>n]
		if f&isLiteral != 0 && n+f&63 <= litBits {
			t.first[i] = isLiteral | 2<<8 | (n + f&63) | e&0xff0000 | f>>16&0xff<<24
		}
	}
}

// dynamic reads the codes of a block.
func (z *Reader) dynamic() error {
	lits, dists, err := z.codeLengths()
	if err != nil {
		return err
	}
	if !z.lit.build(lits) || !z.dist.build(dists) {
		return ErrCorrupt
	}
	return nil
}

// codeLengths reads the lengths of the codes of a block (RFC 1951, 3.2.7): of literals and
// lengths, and of distances. They are valid until the next call.
func (z *Reader) codeLengths() (forLits, forDists []uint8, err error) {
	if err := z.need(14); err != nil {
		return nil, nil, err
	}
	lits, dists, pres := int(z.take(5))+257, int(z.take(5))+1, int(z.take(4))+4
	if lits > 286 || dists > 30 {
		return nil, nil, ErrCorrupt
	}
	var pre [19]uint8
	for _, s := range preOrder[:pres] {
		if err := z.need(3); err != nil {
			return nil, nil, err
		}
		pre[s] = uint8(z.take(3))
	}
	if !z.pre.read(pre[:]) {
		return nil, nil, ErrCorrupt
	}
	n := lits + dists
	lengths := z.lengths[:n]
	for i := 0; i < n; {
		s, err := z.preSymbol()
		if err != nil {
			return nil, nil, err
		}
		if s < 16 {
			lengths[i] = s
			i++
			continue
		}
		var value uint8
		var extra uint
		repeat := 3
		switch s {
		case 16:
			if i == 0 {
				return nil, nil, ErrCorrupt
			}
			value, extra = lengths[i-1], 2
		case 17:
			extra = 3
		default:
			extra, repeat = 7, 11
		}
		if err := z.need(extra); err != nil {
			return nil, nil, err
		}
		repeat += int(z.take(extra))
		if repeat > n-i {
			return nil, nil, ErrCorrupt
		}
		for range repeat {
			lengths[i] = value
			i++
		}
	}
	return lengths[:lits], lengths[lits:], nil
}

var preOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// read makes the table of the code that encodes the lengths.
func (t *preTable) read(lengths []uint8) bool {
	var c code
	if !c.read(lengths) {
		return false
	}
	*t = preTable{}
	value, index := 0, 0
	for l := 1; l <= 7; l++ {
		for range c.count[l] {
			for i := reverse(value, l); i < len(t); i += 1 << l {
				t[i] = uint8(c.symbols[index]<<3) | uint8(l)
			}
			index++
			value++
		}
		value <<= 1
	}
	return true
}

// preSymbol decodes one symbol of that code. It may be in the last bits of the stream.
func (z *Reader) preSymbol() (uint8, error) {
	for {
		e := z.pre[z.bits&(1<<min(z.nbits, 7)-1)]
		if n := uint(e & 7); n != 0 && n <= z.nbits {
			z.take(n)
			return e >> 3, nil
		}
		if z.nbits >= 7 {
			return 0, ErrCorrupt
		}
		if err := z.need(z.nbits + 1); err != nil {
			return 0, err
		}
	}
}

func (t *litTable) build(lengths []uint8) bool {
	t.entries = &litEntries
	if !t.read(lengths) {
		return false
	}
	t.fill(t.first[:], t.second[:], litBits)
	t.pair()
	return true
}

func (t *distTable) build(lengths []uint8) bool {
	t.entries = &distEntries
	if !t.read(lengths) {
		return false
	}
	t.fill(t.first[:], t.second[:], distBits)
	return true
}

// fixed sets the codes that need no header (RFC 1951, 3.2.6).
func (z *Reader) fixed() {
	var l [288]uint8
	for i := range l {
		switch {
		case i < 144:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 8
		}
	}
	z.lit.build(l[:])
	for i := range 32 {
		l[i] = 5
	}
	z.dist.build(l[:32])
}

// The entries of symbols (RFC 1951, 3.2.5).
var (
	litEntries  [288]uint32
	distEntries [288]uint32
)

func init() {
	for s := range 256 {
		litEntries[s] = isLiteral | 1<<8 | uint32(s)<<16
	}
	litEntries[256] = isSpecial | isBlockEnd
	base := uint32(3)
	for s := 257; s < 285; s++ {
		extra := uint32(0)
		if s >= 265 {
			extra = uint32(s-261) / 4
		}
		litEntries[s] = base<<16 | extra
		base += 1 << extra
	}
	litEntries[285] = 258 << 16
	litEntries[286], litEntries[287] = isSpecial, isSpecial
	base = 1
	for s := range distEntries {
		extra := uint32(0)
		if s >= 4 {
			extra = uint32(s-2) / 2
		}
		if s >= 30 {
			distEntries[s] = isSpecial
			continue
		}
		distEntries[s] = base<<16 | extra
		base += 1 << extra
	}
}
