package elfdeps

import (
	"bytes"
	"compress/bzip2"
	"compress/zlib"
	"encoding/binary"
	"io"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// Cython 3.2 and later keep all strings of a module as one text without separators, which is
// compressed where that makes it smaller, and their lengths as an array of 32-bit numbers
// (generate_pystring_constants in Cython/Compiler/Code.py). The text is compressed by zlib, bz2
// or zstd, or from Cython 3.3 on by an LZSS of its own (__pyx_lzss_decompress in
// Cython/Utility/StringTools.c), which has no mark, and neither says where it begins nor how
// long it is.

// Bounds of the search for Cython's strings in one file.
const (
	maxCythonText   = 1 << 20  // bytes of the text
	maxCythonWork   = 16 << 20 // bytes that are tried as the text, in all
	maxCythonString = 1<<16 - 1
	maxCythonRun    = 1 << 16 // numbers of the array
	maxCythonParts  = 1 << 21 // places that are tried, and strings that are split off there, in all
	maxCythonSplits = 64      // texts with the anchors for which an array is looked for
	failedUnpacking = 1 << 18 // bytes that the try to unpack other data counts as; 4 KiB for zlib
)

// cythonAnchors are names that each module of Cython has among its strings.
var cythonAnchors = [][]byte{[]byte("__name__"), []byte("__main__"), []byte("__test__")}

// lzssMark is the message of a module whose strings are compressed by LZSS.
var lzssMark = []byte("LZSS string data decompression failed")

// packedMarks begin texts that are compressed by zlib, at its levels, bz2 and zstd.
var packedMarks = [][]byte{{0x78, 0xda}, {0x78, 0x9c}, {0x78, 0x5e}, {0x78, 0x01}, []byte("BZh9"), {0x28, 0xb5, 0x2f, 0xfd}}

// cythonStrings returns the strings that a module of Cython 3.2 or later keeps as one text in
// its read-only data, or nil if there is no such text. The areas begin at multiples of four
// bytes in memory as in the file.
func cythonStrings(areas [][]byte) [][]byte {
	s := cythonSearch{areas: areas, left: maxCythonWork}
	for _, a := range areas {
		if list := s.plain(a); list != nil {
			return list
		}
		for _, mark := range packedMarks {
			if list := s.packed(a, mark); list != nil {
				return list
			}
		}
	}
	if !slices.ContainsFunc(areas, func(a []byte) bool { return bytes.Contains(a, lzssMark) }) {
		return nil
	}
	for _, a := range areas {
		if list := s.unmarked(a); list != nil {
			return list
		}
	}
	return nil
}

type cythonSearch struct {
	areas [][]byte
	left  int // bytes that may be tried as the text
	split int // texts that were split
	parts int // places that were tried, and strings that were split off there
}

// plain tries the texts that are not compressed.
func (s *cythonSearch) plain(area []byte) [][]byte {
	anchor := cythonAnchors[0]
	for at := 0; s.left > 0; at++ {
		i := bytes.Index(area[at:], anchor)
		if i < 0 {
			return nil
		}
		at += i
		from, after := bytes.LastIndexByte(area[:at], 0)+1, at+len(anchor)
		if from == at && after < len(area) && area[after] == 0 {
			continue // a string by itself
		}
		text := area[from:min(len(area), from+maxCythonText)]
		s.left -= len(text)
		if list := s.strings(text); list != nil {
			return list
		}
	}
	return nil
}

// packed tries the texts that begin with a mark of a compression.
func (s *cythonSearch) packed(area, mark []byte) [][]byte {
	for at := 0; s.left > 0; at++ {
		i := bytes.Index(area[at:], mark)
		if i < 0 {
			return nil
		}
		at += i
		text := s.unpack(area[at:])
		if list := s.strings(text); list != nil {
			return list
		}
	}
	return nil
}

// unpack returns what a compressed text at the beginning of src holds, as far as it is sound.
func (s *cythonSearch) unpack(src []byte) []byte {
	var r io.Reader
	var err error
	switch src[0] {
	case 'B':
		r = bzip2.NewReader(bytes.NewReader(src))
	case 0x78:
		r, err = zlib.NewReader(bytes.NewReader(src))
	default:
		var d *zstd.Decoder
		d, err = zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxCythonText))
		if err == nil {
			defer d.Close()
			r = d
		}
	}
	least := failedUnpacking
	if src[0] == 0x78 {
		least >>= 6
	}
	var text []byte
	if err == nil {
		text, _ = io.ReadAll(io.LimitReader(r, int64(min(s.left, maxCythonText)))) // other data may follow it
	}
	s.left -= max(len(text), least)
	return text
}

// unmarked tries each byte as the beginning of a text that is compressed by LZSS. Other data than
// such a text soon refers to bytes before its beginning.
func (s *cythonSearch) unmarked(area []byte) [][]byte {
	text := make([]byte, 0, maxCythonText)
	for at := 0; at < len(area) && s.left > 0; at++ {
		text = unpackLZSS(area[at:], text[:0], min(s.left, maxCythonText))
		s.left -= len(text)
		if list := s.strings(text); list != nil {
			return list
		}
	}
	return nil
}

// unpackLZSS appends to out what src holds: bits that say whether a byte, or a reference to
// bytes before, follows. It ends where a reference is before the beginning of out, at most bytes,
// or at the end of src.
func unpackLZSS(src, out []byte, most int) []byte {
	for len(src) > 0 {
		flags := uint(src[0]) | 0x100
		for src = src[1:]; flags > 1; flags >>= 1 {
			if flags&1 != 0 {
				if len(src) == 0 || len(out) == most {
					return out
				}
				out, src = append(out, src[0]), src[1:]
				continue
			}
			if len(src) < 3 {
				return out
			}
			lo, hi := int(src[0]), int(src[1])
			back, n, used := lo, hi, 2
			switch {
			case lo&0x80 == 0:
			case hi&0x80 == 0:
				back, n = 0x80+(hi<<2&0x180|lo&0x7f), hi&0x1f
			default:
				back, n, used = 0x80+(hi&0x7f<<7|lo&0x7f), int(src[2]), 3
			}
			n += 3
			from := len(out) - back - n
			if from < 0 || len(out)+n > most {
				return out
			}
			out, src = append(out, out[from:from+n]...), src[used:]
		}
	}
	return out
}

// strings returns the strings of a text, by an array in the areas whose numbers are the lengths of
// strings among which the anchors are. Bytes objects follow the strings in the text, and are left
// out from the first on that is not UTF-8.
func (s *cythonSearch) strings(text []byte) [][]byte {
	var at []int // of the first anchor
	for _, anchor := range cythonAnchors {
		if !bytes.Contains(text, anchor) {
			return nil
		}
	}
	if s.split++; s.split > maxCythonSplits {
		return nil
	}
	for from := 0; len(at) < 8; {
		i := bytes.Index(text[from:], cythonAnchors[0])
		if i < 0 {
			break
		}
		at = append(at, from+i)
		from += i + 1
	}
	for _, a := range s.areas {
		for i := 0; i+4 <= len(a); {
			sums := lengthRun(a[i:])
			if list := s.splitBy(text, sums, at); list != nil {
				return list
			}
			i += 4 * len(sums)
		}
	}
	return nil
}

// lengthRun returns the sums of the 32-bit numbers at the beginning of b that may be lengths of
// strings: 0, that of the first, that of the first two, and so on.
func lengthRun(b []byte) []int {
	sums := []int{0}
	for sum := 0; len(b) >= 4 && len(sums) <= maxCythonRun; b = b[4:] {
		n := binary.LittleEndian.Uint32(b)
		if n > maxCythonString {
			break
		}
		sum += int(n)
		sums = append(sums, sum)
	}
	return sums
}

// splitBy splits a text by the numbers of a run from one of them on, so that an anchor is at one
// of the places.
func (s *cythonSearch) splitBy(text []byte, sums, at []int) [][]byte {
	if len(sums) <= len(cythonAnchors) {
		return nil
	}
	for j := 1; j < len(sums); j++ {
		if sums[j]-sums[j-1] != len(cythonAnchors[0]) {
			continue
		}
		for _, p := range at {
			if s.parts++; s.parts > maxCythonParts {
				return nil
			}
			i := sort.SearchInts(sums[:j], sums[j-1]-p)
			if i == j || sums[i] != sums[j-1]-p {
				continue
			}
			if list := s.cut(text, sums[i:]); list != nil {
				return list
			}
		}
	}
	return nil
}

// cut returns the parts of a text between the sums of lengths, or nil if an anchor is not one of
// them.
func (s *cythonSearch) cut(text []byte, sums []int) [][]byte {
	var list [][]byte
	found := 0
	for i := 1; i < len(sums) && s.parts < maxCythonParts; i++ {
		s.parts++
		from, to := sums[i-1]-sums[0], sums[i]-sums[0]
		if to > len(text) || !utf8.Valid(text[from:to]) {
			break
		}
		part := text[from:to]
		if slices.ContainsFunc(cythonAnchors, func(a []byte) bool { return bytes.Equal(a, part) }) {
			found++
		}
		list = append(list, part)
	}
	if found < len(cythonAnchors) {
		return nil
	}
	return list
}
