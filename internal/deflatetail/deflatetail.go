// Package deflatetail decodes the end of a DEFLATE stream (RFC 1951) whose beginning is not at
// hand: it looks for a place where a block may begin, and decodes from there. Bytes that repeat
// some from before that place are not known.
//
// A place is right if all that follows is valid and the last block ends with the last byte:
// the headers of blocks have codes that must be complete, so that a wrong place fails soon.
// The package does not know what the bytes mean.
package deflatetail

import "errors"

// Unknown stands for a byte that is not known.
const Unknown = -1

// Limits: the bits at which a block is looked for, and the bytes that a part may decode to.
const (
	maxPlaces = 1 << 21
	maxOut    = 24 << 20
)

const window = 32 << 10

var errBad = errors.New("it is no such stream")

// Decode returns the last bytes of a stream, each from 0 to 255 or [Unknown], of which part are
// the last bytes as they are stored. It returns nil if no block begins in part.
func Decode(part []byte) []int16 {
	for at := 0; at < min(8*len(part), maxPlaces); at++ {
		d := &decoder{in: part, bit: at}
		if !d.mayBegin() {
			continue
		}
		if out, err := d.all(); err == nil {
			return out
		}
	}
	return nil
}

type decoder struct {
	in  []byte
	bit int
	out []int16
}

// bits returns the next n bits, n at most 16, the first the lowest.
func (d *decoder) bits(n int) (int, error) {
	if d.bit+n > 8*len(d.in) {
		return 0, errBad
	}
	v := 0
	for i := 0; i < n; {
		take := min(8-(d.bit+i)&7, n-i)
		v |= int(d.in[(d.bit+i)>>3]) >> ((d.bit + i) & 7) & (1<<take - 1) << i
		i += take
	}
	d.bit += n
	return v, nil
}

// mayBegin reports whether a block with codes of its own, or a stored one, may begin here.
func (d *decoder) mayBegin() bool {
	at := d.bit
	defer func() { d.bit = at }()
	head, err := d.bits(3)
	if err != nil {
		return false
	}
	switch head >> 1 {
	case 0:
		_, err := d.storedLength()
		return err == nil
	case 2:
		_, _, err := d.codes()
		return err == nil
	}
	return false
}

// all decodes the blocks up to the last.
func (d *decoder) all() ([]int16, error) {
	for {
		head, err := d.bits(3)
		if err != nil {
			return nil, err
		}
		switch head >> 1 {
		case 0:
			err = d.stored()
		case 1:
			err = d.compressed(fixedLiterals, fixedDistances)
		case 2:
			var literals, distances *code
			if literals, distances, err = d.codes(); err == nil {
				err = d.compressed(literals, distances)
			}
		default:
			err = errBad
		}
		switch {
		case err != nil:
			return nil, err
		case head&1 == 0:
			continue
		case (d.bit+7)/8 != len(d.in):
			return nil, errBad
		}
		return d.out, nil
	}
}

// storedLength reads the header of a stored block.
func (d *decoder) storedLength() (int, error) {
	if pad, err := d.bits((8 - d.bit&7) & 7); err != nil || pad != 0 {
		return 0, errBad
	}
	n, _ := d.bits(16)
	not, err := d.bits(16)
	if err != nil || n^not != 0xffff {
		return 0, errBad
	}
	return n, nil
}

func (d *decoder) stored() error {
	n, err := d.storedLength()
	if err != nil || d.bit/8+n > len(d.in) || len(d.out)+n > maxOut {
		return errBad
	}
	for _, b := range d.in[d.bit/8 : d.bit/8+n] {
		d.out = append(d.out, int16(b))
	}
	d.bit += 8 * n
	return nil
}

// code is a canonical Huffman code.
type code struct {
	count  [16]int // codes by their lengths
	symbol []int   // in the order of the codes
}

// newCode returns the code of lengths. It must be complete; alone says that a code of one symbol,
// or none, may be incomplete.
func newCode(lengths []int, alone bool) (*code, error) {
	c := &code{symbol: make([]int, 0, len(lengths))}
	for _, n := range lengths {
		c.count[n]++
	}
	used := len(lengths) - c.count[0]
	left := 1
	for n := 1; n < 16; n++ {
		if left = 2*left - c.count[n]; left < 0 {
			return nil, errBad
		}
	}
	if left > 0 && (!alone || used > 1) {
		return nil, errBad
	}
	for n := 1; n < 16; n++ {
		for s, l := range lengths {
			if l == n {
				c.symbol = append(c.symbol, s)
			}
		}
	}
	return c, nil
}

// next decodes a symbol.
func (d *decoder) next(c *code) (int, error) {
	value, first, index := 0, 0, 0
	for n := 1; n < 16; n++ {
		if d.bit >= 8*len(d.in) {
			return 0, errBad
		}
		value |= int(d.in[d.bit>>3]) >> (d.bit & 7) & 1
		d.bit++
		if i := value - first; i < c.count[n] {
			return c.symbol[index+i], nil
		}
		index += c.count[n]
		first = (first + c.count[n]) << 1
		value <<= 1
	}
	return 0, errBad
}

// order is that of the lengths of the code for lengths.
var order = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// codes reads the codes of a block.
func (d *decoder) codes() (literals, distances *code, err error) {
	n, err := d.bits(14)
	nl, nd, nc := n&31+257, n>>5&31+1, n>>10+4
	if err != nil || nl > 286 || nd > 30 {
		return nil, nil, errBad
	}
	var short [19]int
	for i := range nc {
		if short[order[i]], err = d.bits(3); err != nil {
			return nil, nil, err
		}
	}
	c, err := newCode(short[:], false)
	if err != nil {
		return nil, nil, err
	}
	lengths := make([]int, 0, nl+nd)
	for len(lengths) < nl+nd {
		s, err := d.next(c)
		if err != nil {
			return nil, nil, err
		}
		value, times := s, 1
		switch s {
		case 16:
			if len(lengths) == 0 {
				return nil, nil, errBad
			}
			value = lengths[len(lengths)-1]
			times, err = d.bits(2)
			times += 3
		case 17:
			value = 0
			times, err = d.bits(3)
			times += 3
		case 18:
			value = 0
			times, err = d.bits(7)
			times += 11
		}
		if err != nil || len(lengths)+times > nl+nd {
			return nil, nil, errBad
		}
		for range times {
			lengths = append(lengths, value)
		}
	}
	if lengths[256] == 0 { // without an end
		return nil, nil, errBad
	}
	if literals, err = newCode(lengths[:nl], true); err != nil {
		return nil, nil, err
	}
	distances, err = newCode(lengths[nl:], true)
	return literals, distances, err
}

var (
	lengthBase   = [29]int{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lengthBits   = [29]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distanceBase = [30]int{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distanceBits = [30]int{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}

	fixedLiterals, fixedDistances = fixed()
)

func fixed() (literals, distances *code) {
	var l [288]int
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
	var e [32]int
	for i := range e {
		e[i] = 5
	}
	literals, _ = newCode(l[:], false)
	distances, _ = newCode(e[:], false)
	return literals, distances
}

// compressed decodes a block.
func (d *decoder) compressed(literals, distances *code) error {
	for {
		s, err := d.next(literals)
		switch {
		case err != nil:
			return err
		case s < 256:
			d.out = append(d.out, int16(s))
		case s == 256:
			return nil
		case s > 285:
			return errBad
		default:
			if err := d.repeat(s-257, distances); err != nil {
				return err
			}
		}
		if len(d.out) > maxOut {
			return errBad
		}
	}
}

// repeat repeats bytes; those from before the place are not known.
func (d *decoder) repeat(s int, distances *code) error {
	more, err := d.bits(lengthBits[s])
	if err != nil {
		return err
	}
	n := lengthBase[s] + more
	if s, err = d.next(distances); err != nil || s > 29 {
		return errBad
	}
	if more, err = d.bits(distanceBits[s]); err != nil {
		return err
	}
	from := len(d.out) - distanceBase[s] - more
	if from < -window {
		return errBad
	}
	for i := from; i < from+n; i++ {
		if i < 0 {
			d.out = append(d.out, Unknown)
		} else {
			d.out = append(d.out, d.out[i])
		}
	}
	return nil
}
