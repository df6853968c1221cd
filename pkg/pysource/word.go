package pysource

import (
	"encoding/binary"
	"hash/maphash"
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

// keywordSet is keywordList as a wordSet.
var keywordSet = newWordSet(keywordList)

// isKeyword reports whether a word is one of keywordList.
func isKeyword(word string) bool {
	s, n := keywordSet, len(word)
	return n > 0 && s.first[word[0]]&s.last[word[n-1]]&lengthBit(n) != 0 && s.words[word]
}

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

// has reports whether a word is in the set.
func (s *wordSet) has(word []byte) bool { return s.mayHave(word) && s.words[string(word)] }

// mayHave reports whether the tables of the set have a word.
func (s *wordSet) mayHave(word []byte) bool {
	return len(word) > 0 && s.first[word[0]]&s.last[word[len(word)-1]]&lengthBit(len(word)) != 0
}

// nameTable numbers the names of a source from 0, one source after the other. It is a hash
// table with open addressing; a slot of an earlier source is free.
type nameTable struct {
	slots []nameSlot // a power of two
	turn  uint32     // of the source
	text  []byte     // of the names
	names []nameText
}

type nameSlot struct {
	turn uint32
	id   int32
}

type nameText struct{ start, end int32 }

// reset removes all names.
func (t *nameTable) reset() {
	t.text, t.names = t.text[:0], t.names[:0]
	if t.turn++; t.turn == 0 || len(t.slots) == 0 {
		t.slots, t.turn = make([]nameSlot, max(len(t.slots), 1024)), 1
	}
}

// find returns the number of a name.
func (t *nameTable) find(name []byte) (id int32, ok bool) {
	s := t.slot(name)
	return s.id, s.turn == t.turn
}

// add returns the number of a name, and whether it had one.
func (t *nameTable) add(name []byte) (id int32, ok bool) {
	s := t.slot(name)
	if s.turn == t.turn {
		return s.id, true
	}
	id = int32(len(t.names))
	start := int32(len(t.text))
	t.text = append(t.text, name...)
	t.names = append(t.names, nameText{start, int32(len(t.text))})
	*s = nameSlot{t.turn, id}
	if 2*len(t.names) > len(t.slots) {
		t.grow()
	}
	return id, false
}

// hashSeed keeps a source from knowing which names have the same hash.
var hashSeed = maphash.MakeSeed()

// slot returns the slot of a name, or the free one for it.
func (t *nameTable) slot(name []byte) *nameSlot {
	for i := uint32(maphash.Bytes(hashSeed, name)); ; i++ {
		s := &t.slots[i&uint32(len(t.slots)-1)]
		if s.turn != t.turn {
			return s
		}
		if n := t.names[s.id]; string(t.text[n.start:n.end]) == string(name) {
			return s
		}
	}
}

// grow doubles the table.
func (t *nameTable) grow() {
	t.slots = make([]nameSlot, 2*len(t.slots))
	for id, n := range t.names {
		*t.slot(t.text[n.start:n.end]) = nameSlot{t.turn, int32(id)}
	}
}
