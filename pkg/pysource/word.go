package pysource

import (
	"encoding/binary"
	"math/bits"
)

// nameEnd returns the index after the name that begins at i. Most names have less than
// eight bytes, which it looks at together.
func nameEnd(src []byte, i int) int {
	for i+8 <= len(src) {
		if others := notParts(binary.LittleEndian.Uint64(src[i:])); others != 0 {
			return i + bits.TrailingZeros64(others)>>3
		}
		i += 8
	}
	for i < len(src) && parts[src[i]] {
		i++
	}
	return i
}

// notParts returns the high bits of those of eight bytes that do not go on with a name, as
// isNamePart says.
func notParts(x uint64) uint64 {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	low := x &^ high
	lower := low | 0x20*each
	letter := (lower + (0x80-'a')*each) &^ (lower + (0x80-'z'-1)*each)
	digit := (low + (0x80-'0')*each) &^ (low + (0x80-'9'-1)*each)
	underscore := high - (low ^ '_'*each)
	return ^(x | letter | digit | underscore) & high
}

// wordSet is a set of words. Its tables tell most other words from them by the first byte,
// the last and the length.
type wordSet struct {
	words       map[string]bool
	first, last [256]uint32 // a bit for each length
}

// keywordSet is keywords as a wordSet.
var keywordSet = newWordSet(keywordList)

func newWordSet(list string) *wordSet {
	s := &wordSet{words: words(list)}
	for w := range s.words {
		s.first[w[0]] |= lengthBit(len(w))
		s.last[w[len(w)-1]] |= lengthBit(len(w))
	}
	return s
}

// lengthBit is the bit of a length in the tables of a wordSet.
func lengthBit(n int) uint32 { return 1 << min(n, 31) }

// has reports whether a word is in the set. The word is not empty.
func (s *wordSet) has(word []byte) bool {
	return s.first[word[0]]&s.last[word[len(word)-1]]&lengthBit(len(word)) != 0 && s.words[string(word)]
}
