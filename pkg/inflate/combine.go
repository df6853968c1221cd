package inflate

import "hash/crc32"

// combine returns the CRC-32 of two texts together, of their CRCs and the length of the second.
// A text of n bits after another multiplies the other's CRC by xⁿ, modulo the polynomial
// (zlib's crc32_combine).
func combine(first, second uint32, n int) uint32 {
	for i := 3; n > 0; n >>= 1 { // x^(1<<3) is a byte
		if n&1 != 0 {
			first = times(powers[i&31], first)
		}
		i++
	}
	return first ^ second
}

// times multiplies polynomials whose highest powers are in the lowest bits.
func times(a, b uint32) (c uint32) {
	for ; a != 0; a <<= 1 {
		if a>>31 != 0 {
			c ^= b
		}
		b = b>>1 ^ crc32.IEEE&-(b&1)
	}
	return c
}

// powers has x^(1<<i). The powers repeat after 32: x^(1<<32) is x.
var powers = func() (t [32]uint32) {
	t[0] = 1 << 30
	for i := 1; i < len(t); i++ {
		t[i] = times(t[i-1], t[i-1])
	}
	return t
}()
