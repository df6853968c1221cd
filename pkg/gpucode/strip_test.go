package gpucode

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// stripped strips b, as one area, of all entries that keep does not keep.
func stripped(t testing.TB, b []byte, areas []Area, keep func(Entry) bool) ([]byte, int64) {
	t.Helper()
	var out bytes.Buffer
	n, err := Strip(&out, bytes.NewReader(b), areas, func(entries []Entry) []bool {
		list := make([]bool, len(entries))
		for i, e := range entries {
			list[i] = keep(e)
		}
		return list
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), n
}

// payload returns an entry whose payload is not zeros.
func payload(kind Kind, arch uint32, n int) []byte {
	b := entryBytes(kind, arch, 0x11, 64, n)
	for i := range b[64:] {
		b[64+i] = 'x'
	}
	return b
}

// TestStrip overwrites the code of dropped entries and nothing else.
func TestStrip(t *testing.T) {
	file := func(dropped byte, plus uint32) []byte {
		drop := func(kind Kind, arch uint32, n int) []byte {
			b := payload(kind, arch+plus, n)
			for i := range b[64:] {
				b[64+i] = dropped
			}
			return b
		}
		return slices.Concat(
			[]byte("before\x00\x00"),
			containerBytes(drop(SASS, 75, 40), payload(SASS, 90, 48), drop(PTX, 120, 8), payload(IR, 75, 16)),
			[]byte("\x50\xed\x55\xba\x01\x00\x10\x00no container at all"), make([]byte, 5),
			containerBytes(payload(Kind(0x40), 75, 24), payload(SASS, 90, 8)),
			containerBytes(drop(SASS, 80, 2*searchStep)),
			containerBytes(payload(SASS, 75, 40))[:80], // it is cut off
		)
	}
	old, want := file('x', 0), file(0, Stripped)
	got, n := stripped(t, old, []Area{{0, int64(len(old))}}, func(e Entry) bool { return e.Kind == SASS && e.Arch == 90 })
	if !bytes.Equal(got, want) || n != 40+8+2*searchStep {
		t.Errorf("%d bytes were overwritten, and the file is the expected one: %v", n, bytes.Equal(got, want))
	}
	if got, n := stripped(t, old, []Area{{0, 4}, {8, 16}}, func(Entry) bool { return false }); !bytes.Equal(got, old) || n != 0 {
		t.Error("a container that ends behind its area has changed")
	}
	e := Entry{Kind: SASS, Arch: 75 + Stripped}
	if !e.IsStripped() || e.Strippable() || e.Was().Arch != 75 {
		t.Errorf("%+v was %+v", e, e.Was())
	}
}

// TestStripLarge leaves a container alone that is larger than is held in memory, and strips the next.
func TestStripLarge(t *testing.T) {
	large := containerBytes(payload(SASS, 75, maxHeld))
	small := containerBytes(payload(SASS, 75, 40))
	got, n := stripped(t, slices.Concat(large, small), []Area{{0, int64(len(large) + len(small))}}, func(Entry) bool { return false })
	if n != 40 || !bytes.Equal(got[:len(large)], large) {
		t.Errorf("%d bytes were overwritten, want 40 behind the large container", n)
	}
}

// FuzzStrip: with all entries kept the bytes are equal; otherwise the length is, a walker finds the
// same containers, with the same entries if the mark is taken off, and a second time nothing
// changes any more. As many bytes become zeros as [Code.Spare] has said.
func FuzzStrip(f *testing.F) {
	f.Add(sample, uint16(0), uint16(500))
	f.Add(slices.Concat(sample, sample), uint16(16), uint16(400))
	f.Fuzz(func(t *testing.T, b []byte, from, to uint16) {
		if from > to || int(to) > len(b) {
			return
		}
		areas := []Area{{int64(from), int64(to)}, {int64(to), int64(len(b))}}
		if same, n := stripped(t, b, areas, func(Entry) bool { return true }); n != 0 || !bytes.Equal(same, b) {
			t.Fatal("all entries are kept, and bytes have changed")
		}
		less, zeros := stripped(t, b, areas, func(Entry) bool { return false })
		old := walk(t, b, areas, 64, true)
		if said := old.Spare(func(entries []Entry) []bool { return make([]bool, len(entries)) }); said != zeros && (old == nil || old.Partial == "") {
			t.Fatalf("%d bytes became zeros, not %d", zeros, said)
		}
		if len(less) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(less))
		}
		if before, after := unmarked(old), unmarked(walk(t, less, areas, 64, true)); before != after {
			t.Fatalf("before %s\nafter  %s", before, after)
		}
		if again, n := stripped(t, less, areas, func(Entry) bool { return false }); n != 0 || !bytes.Equal(again, less) {
			t.Fatal("it changes a second time")
		}
	})
}

// unmarked returns the numbers of containers by their entries without marks.
func unmarked(c *Code) string {
	if c == nil {
		return ""
	}
	count := map[string]uint32{}
	for _, g := range c.Groups {
		var list []string
		for _, e := range g.Entries {
			for range min(e.Count, 100) {
				was := e.Was()
				was.Count = 1
				list = append(list, fmt.Sprint(was))
			}
		}
		slices.Sort(list)
		count[fmt.Sprint(list, g.Cut)] += g.Containers
	}
	return fmt.Sprint(count, c.Partial)
}
