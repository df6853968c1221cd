package imagetest

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
)

// cacheFlags holds the flags of a machine's 64-bit libraries (glibc sysdeps/generic/ldconfig.h).
var cacheFlags = map[elf.Machine]uint32{elf.EM_X86_64: 0x0303, elf.EM_AARCH64: 0x0a03}

// ldcache makes the file an ld.so.cache of glibc's new format (sysdeps/generic/dl-cache.h). The loader uses binary search: if
// the lines are not in ldconfig's order, it fails to find entries that the cache has.
func (f *File) ldcache(machine, text string) error {
	m, err := parseMachine(machine)
	if err != nil {
		return err
	}
	flags, ok := cacheFlags[m]
	if !ok {
		return fmt.Errorf("no flags are known for %s", m)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	base := uint32(48 + 24*len(lines))
	var rows, table []byte
	add := func(s string) uint32 {
		at := base + uint32(len(table))
		table = append(append(table, s...), 0)
		return at
	}
	u32 := binary.LittleEndian.AppendUint32
	for _, line := range lines {
		name, path, ok := strings.Cut(line, " => ")
		if !ok {
			return fmt.Errorf("%q: want NAME => PATH", line)
		}
		rows = u32(u32(u32(rows, flags), add(strings.TrimSpace(name))), add(path))
		rows = append(rows, make([]byte, 12)...) // osversion and hwcap
	}
	head := u32(u32([]byte("glibc-ld.so.cache1.1"), uint32(len(lines))), uint32(len(table)))
	head = append(append(head, 2), make([]byte, 19)...) // little endian, no extensions
	f.setData(string(head) + string(rows) + string(table))
	return nil
}
