package gpucode

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entryBytes returns an entry of a container, with a payload of n zeros.
func entryBytes(kind Kind, arch uint32, flags uint64, header, n int) []byte {
	b := make([]byte, header+n)
	le := binary.LittleEndian
	le.PutUint16(b, uint16(kind))
	le.PutUint16(b[2:], 0x0101)
	le.PutUint32(b[4:], uint32(header))
	le.PutUint32(b[8:], uint32(n))
	le.PutUint16(b[24:], 4)
	le.PutUint16(b[26:], 8)
	le.PutUint32(b[28:], arch)
	le.PutUint64(b[40:], flags)
	return b
}

func containerBytes(entries ...[]byte) []byte {
	all := slices.Concat(entries...)
	b := binary.LittleEndian.AppendUint64(nil, magic)
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(all))), all...)
}

var sample = slices.Concat(
	[]byte("before\x00\x00"),
	containerBytes(entryBytes(SASS, 75, 0x11, 64, 40), entryBytes(PTX, 90, 0x108011, 80, 16)),
	make([]byte, 24),
	[]byte("\x50\xed\x55\xba\x01\x00\x10\x00no container at all"), make([]byte, 5),
	containerBytes(entryBytes(IR, 75, 0, 168, 0)),
	containerBytes(entryBytes(SASS, 120, 0x1200011, 64, 8)),
)

// walk feeds the areas of b in pieces of n bytes, and skips where the walker allows it.
func walk(t testing.TB, b []byte, areas []Area, n int, skip bool) *Code {
	t.Helper()
	w := NewWalker(areas)
	for pos := int64(0); pos < int64(len(b)); {
		next, want := w.Next(pos)
		if next < 0 {
			break
		}
		if next < pos || want <= 0 {
			t.Fatalf("at %d the walker wants %d bytes at %d", pos, want, next)
		}
		if skip {
			pos = min(next, int64(len(b)))
		}
		end := min(pos+int64(n), int64(len(b)))
		w.Feed(pos, b[pos:end:end])
		pos = end
	}
	if len(w.buf) > int(atHead) || len(w.entries) > maxDistinct+1 || len(w.found) > maxContainers {
		t.Fatalf("the walker keeps %d bytes, %d entries, %d containers", len(w.buf), len(w.entries), len(w.found))
	}
	return w.Code(func(off int64) string { return "" })
}

// FuzzWalker: the result does not depend on the pieces in which a file is fed, nor on
// skipping; no container is longer than its area, and all of them together are not; the
// payloads of entries lie within their containers; an encoded result is the same again; and a file that is cut off within a container is
// partial.
func FuzzWalker(f *testing.F) {
	f.Add(sample, uint16(0), uint16(len(sample)), uint16(100))
	f.Add(sample, uint16(8), uint16(200), uint16(17))
	f.Add(bytes.Repeat(containerBytes(entryBytes(SASS, 80, 0, 64, 0)), 20), uint16(3), uint16(900), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, from, to, cut uint16) {
		var areas []Area
		a, z := int64(min(int(from), len(b))), int64(min(int(to), len(b)))
		if a > 0 {
			areas = append(areas, Area{0, a})
		}
		if a < z {
			areas = append(areas, Area{a, z})
		}
		whole := walk(t, b, areas, max(1, len(b)), false)
		for _, n := range []int{1, 7, 8, 64, 1000} {
			for _, skip := range []bool{false, true} {
				if diff := cmp.Diff(whole, walk(t, b, areas, n, skip)); diff != "" {
					t.Fatalf("in pieces of %d, skip %v: -whole +pieces:\n%s", n, skip, diff)
				}
			}
		}
		if whole == nil {
			return
		}
		sum := int64(0)
		for _, g := range whole.Groups {
			sum += g.Bytes
			payloads := int64(0)
			for _, n := range g.Payloads {
				payloads += n
			}
			if len(g.Payloads) != len(g.Entries) || payloads > g.Bytes {
				t.Fatalf("%d entries have %d payloads of %d bytes in containers of %d", len(g.Entries), len(g.Payloads), payloads, g.Bytes)
			}
			if g.Cut && whole.Partial == "" {
				t.Fatal("a container is cut off, and the code is not partial")
			}
		}
		if sum > int64(len(b)) {
			t.Fatalf("containers of %d bytes in a file of %d", sum, len(b))
		}
		form, _ := whole.AppendBinary(nil)
		var again Code
		if err := again.UnmarshalBinary(form); err != nil || !cmp.Equal(whole, &again) {
			t.Fatalf("decoded: %v\n%s", err, cmp.Diff(whole, &again))
		}
		cutOff(t, b, int(cut))
	})
}

// cutOff reads the first n bytes of a file of containers, and the whole.
func cutOff(t *testing.T, b []byte, n int) {
	all, err := ReadFatbin(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	short, err := ReadFatbin(io.LimitReader(bytes.NewReader(b), int64(n)), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if n < len(b) && all != nil && !cmp.Equal(all, short) && (short == nil || short.Partial == "") {
		t.Fatalf("%d of %d bytes are not partial: -whole +cut:\n%s", n, len(b), cmp.Diff(all, short))
	}
}

// FuzzCode: bytes are no code, or those that the code is encoded as.
func FuzzCode(f *testing.F) {
	c := walk(f, sample, []Area{{0, int64(len(sample))}}, len(sample), false)
	b, _ := c.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Code
		if c.UnmarshalBinary(b) != nil {
			return
		}
		if again, _ := c.AppendBinary(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is decoded, and encoded as %x", b, again)
		}
	})
}

// FuzzClaims: PyTorch's list does not depend on the pieces in which a file is written, and
// stands in the file between two NULs.
func FuzzClaims(f *testing.F) {
	f.Add([]byte("\x00sm_80 sm_90a compute_90\x00\x00sm_7"), uint16(3))
	f.Add([]byte("\x00compute_90\x00sm_80\x00"), uint16(1))
	f.Add(append([]byte("\x00sm_80"), bytes.Repeat([]byte(" sm_80"), 200)...), uint16(100))
	f.Fuzz(func(t *testing.T, b []byte, n uint16) {
		var whole, pieces Claims
		whole.Write(b)
		for piece := range slices.Chunk(b, int(n)+1) {
			pieces.Write(piece)
		}
		list := whole.List()
		if !slices.Equal(list, pieces.List()) {
			t.Fatalf("got %q in pieces, %q at once", pieces.List(), list)
		}
		if list != nil && !bytes.Contains(b, []byte("\x00"+strings.Join(list, " ")+"\x00")) {
			t.Fatalf("the file has no %q", list)
		}
	})
}
