package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"
)

// longTables returns a library whose relocations reach beyond the window's head, with the
// dynamic section behind them. cut shortens the tables in the dynamic section, shift moves
// them.
func longTables(entries int, cut, shift uint64) []byte {
	const syms, strs, hash, rela = 0x1000, 0x1080, 0x10c0, 0x1100
	end := uint64(rela + 24*(entries+3))
	rw := (end + 0xfff) &^ 0xfff
	b := make([]byte, rw+0x200)
	le := binary.LittleEndian
	words := func(at uint64, list ...uint64) {
		for i, v := range list {
			le.PutUint64(b[at+uint64(i)*8:], v)
		}
	}
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], uint16(elf.ET_DYN))
	le.PutUint16(b[18:], uint16(elf.EM_X86_64))
	le.PutUint32(b[20:], 1)
	words(32, 64)
	le.PutUint16(b[54:], 56)
	le.PutUint16(b[56:], 3)
	load, dynamic := uint64(elf.PT_LOAD), uint64(elf.PT_DYNAMIC)
	words(64, load|uint64(elf.PF_R)<<32, 0, 0, 0, end, end, 0x1000)
	words(64+56, load|uint64(elf.PF_R|elf.PF_W)<<32, rw, rw, rw, 0x200, 0x200, 0x1000)
	words(64+112, dynamic|uint64(elf.PF_R)<<32, rw, rw, rw, 0x200, 0x200, 8)
	for i, name := range []uint32{1, 3, 5} {
		le.PutUint32(b[syms+24*(i+1):], name)
		b[syms+24*(i+1)+4] = elf.ST_INFO(elf.STB_GLOBAL, elf.STT_NOTYPE)
	}
	copy(b[strs:], "\x00a\x00b\x00c\x00")
	le.PutUint32(b[hash:], 1)
	le.PutUint32(b[hash+4:], 4)
	for i := range entries {
		words(rela+24*uint64(i), rw+0x100, uint64(elf.R_X86_64_RELATIVE), uint64(i))
	}
	words(rela+24*100, rw+0x100, 2<<32|uint64(elf.R_X86_64_64), 0) // in the head
	words(rela+24*uint64(entries), rw+0x100, 1<<32|uint64(elf.R_X86_64_GLOB_DAT), 0)
	words(rela+24*uint64(entries+1), rw+0x100, 2<<32|uint64(elf.R_X86_64_64), 0)
	words(rela+24*uint64(entries+2), rw+0x100, 3<<32|uint64(elf.R_X86_64_JMP_SLOT), 0)
	words(rw,
		uint64(elf.DT_SYMTAB), syms, uint64(elf.DT_STRTAB), strs, uint64(elf.DT_STRSZ), 7, uint64(elf.DT_HASH), hash,
		uint64(elf.DT_RELA), rela+shift, uint64(elf.DT_RELASZ), 24*uint64(entries+2)-cut,
		uint64(elf.DT_JMPREL), rela+shift+24*uint64(entries+2)-cut, uint64(elf.DT_PLTRELSZ), 24, uint64(elf.DT_PLTREL), uint64(elf.DT_RELA))
	return b
}

// withCode makes the first segment one that has code, so that the head is not widened to it.
func withCode(b []byte) []byte {
	b[64+4] |= byte(elf.PF_X)
	return b
}

// TestWidened: long tables in a first segment without code are read wherever they are in it,
// unless the segment is longer than the head may be.
func TestWidened(t *testing.T) {
	const fits, tooLong = 800_000, maxHead / 24
	for entries, partial := range map[int]bool{fits: false, tooLong: true} {
		b := longTables(entries, 24, 0)
		o, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
		if err != nil || o.Symbols.Partial != partial {
			t.Errorf("%d relocations: %v, %+v", entries, err, o)
		}
	}
}

// TestGuess: tables that stream by before their place is known are read, unless the dynamic
// section names other places than those that were guessed.
func TestGuess(t *testing.T) {
	const entries = 800_000 // 19 MB
	for skew := range 3 {   // the head ends within an entry, and between two
		b := withCode(longTables(entries+skew, 0, 0))
		o, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(o.Unread) > 0 || o.Symbols.Partial {
			t.Fatalf("%v, %+v", err, o)
		}
		var got []string
		o.Symbols.References(func(i int, lazy bool) {
			name := o.Symbols.At(i).Name
			if lazy {
				name += " lazy"
			}
			got = append(got, name)
		})
		if want := []string{"b", "a", "c lazy"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for name, b := range map[string][]byte{"shorter": longTables(entries, 24, 0), "elsewhere": longTables(entries, 0, 8)} {
		b = withCode(b)
		o, err := ReadSymbols(bytes.NewReader(b), int64(len(b)))
		if err != nil || len(o.Unread) != 1 || !o.Symbols.Partial {
			t.Errorf("%s: %v, %+v", name, err, o)
		}
	}
}
