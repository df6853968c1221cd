package elfdeps

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math"
	"strings"
)

// Cache is a parsed /etc/ld.so.cache (sysdeps/generic/dl-cache.h).
type Cache struct {
	entries []cacheEntry
	table   []byte   // the entries' offsets count from its start
	hwcaps  []string // names of glibc-hwcaps subdirectories, by index
}

type cacheEntry struct {
	flags      int32
	key, value uint32 // offsets in the table
	osversion  uint32 // the kernel's release that .note.ABI-tag of the file needs
	hwcap      uint64
}

// key returns the name of entry i. bad is set for a name outside the file: a lookup
// that reads it fails (search_cache).
func (c *Cache) key(i int) (s string, bad bool) { return tableString(c.table, c.entries[i].key) }

const (
	cacheMagicNew = "glibc-ld.so.cache1.1"
	cacheMagicOld = "ld.so-1.7.0"
	cacheExtMagic = 0xEAA42174
	maxHwcaps     = 1024     // subdirectories; glibc has three
	maxCacheText  = 64 << 20 // bytes of all entries' strings
)

// ParseCache reads a cache in the new or the old format. It returns nil for a cache
// that the loader would ignore (_dl_load_cache_lookup).
func ParseCache(b []byte) *Cache {
	if bytes.HasPrefix(b, []byte(cacheMagicNew)) {
		return parseNew(b, b)
	}
	if !bytes.HasPrefix(b, []byte(cacheMagicOld)) || len(b) < 16 {
		return nil
	}
	n := uint64(binary.LittleEndian.Uint32(b[12:]))
	end := 16 + n*12
	if end > uint64(len(b)) {
		return nil
	}
	if at := (end + 7) &^ 7; at < uint64(len(b)) && bytes.HasPrefix(b[at:], []byte(cacheMagicNew)) {
		return parseNew(b[at:], b) // the compat format: only its new part counts
	}
	c := &Cache{table: b[end:]}
	for i := range n {
		e := b[16+i*12:]
		c.entries = append(c.entries, cacheEntry{flags: int32(binary.LittleEndian.Uint32(e)), key: binary.LittleEndian.Uint32(e[4:]), value: binary.LittleEndian.Uint32(e[8:])})
	}
	return c
}

// parseNew reads the new format at the start of b. Offsets of strings count from there,
// those of the extension from the start of the file.
func parseNew(b, file []byte) *Cache {
	if len(b) < 48 {
		return nil
	}
	u32 := binary.LittleEndian.Uint32
	n, strs := uint64(u32(b[20:])), uint64(u32(b[24:]))
	if endian := b[28] & 3; endian != 0 && endian != 2 {
		return nil
	}
	if 48+n*24+strs > uint64(len(b)) {
		return nil
	}
	c := &Cache{table: b, hwcaps: cacheHwcaps(file, u32(b[32:]))}
	for i := range n {
		e := b[48+i*24:]
		c.entries = append(c.entries, cacheEntry{int32(u32(e)), u32(e[4:]), u32(e[8:]), u32(e[12:]), binary.LittleEndian.Uint64(e[16:])})
	}
	return c
}

// Entries returns the cache's entries in their order, for [WriteCache]. It leaves out
// entries whose strings lie outside the file, and those of the older hardware
// subdirectories, which WriteCache does not write. It returns nil if they have more
// than 64 MiB of text, since entries may share one long string.
func (c *Cache) Entries() []CacheEntry {
	var list []CacheEntry
	text := 0
	for i, e := range c.entries {
		name, bad := c.key(i)
		file, badFile := tableString(c.table, e.value)
		if text += len(name) + len(file); text > maxCacheText {
			return nil
		}
		entry := CacheEntry{Name: name, Path: file, Flags: e.flags}
		if e.hwcap>>62 == 1 {
			n := e.hwcap & math.MaxUint32
			if n >= uint64(len(c.hwcaps)) {
				continue
			}
			entry.Subdir, entry.ISA = c.hwcaps[n], int(e.hwcap>>32&1023)
		}
		if !bad && !badFile && (e.hwcap == 0 || entry.Subdir != "") {
			list = append(list, entry)
		}
	}
	return list
}

// tableString returns the string at off in table; bad is set for an off outside it.
func tableString(table []byte, off uint32) (s string, bad bool) {
	if uint64(off) >= uint64(len(table)) {
		return "", true
	}
	return cstring(table[off:min(uint64(len(table)), uint64(off)+maxName)]), false
}

// cacheHwcaps reads the names of subdirectories in the extension.
func cacheHwcaps(file []byte, at uint32) []string {
	u32 := binary.LittleEndian.Uint32
	if at == 0 || at%4 != 0 || uint64(at)+8 > uint64(len(file)) || u32(file[at:]) != cacheExtMagic {
		return nil
	}
	count := uint64(u32(file[at+4:]))
	if uint64(at)+8+count*16 > uint64(len(file)) {
		return nil
	}
	for i := range count {
		s := file[uint64(at)+8+i*16:]
		off, size := uint64(u32(s[8:])), uint64(u32(s[12:]))
		if u32(s) != 1 || off+size > uint64(len(file)) || size%4 != 0 {
			continue
		}
		var names []string
		for j := uint64(0); j < min(size, 4*maxHwcaps); j += 4 {
			name, _ := tableString(file, u32(file[off+j:]))
			names = append(names, name)
		}
		return names
	}
	return nil
}

// Lookup is search_cache: a binary search for name, then for the best of the entries
// with that name. It returns at most one path: the loader tries no other entry.
func (c *Cache) Lookup(name string, id int32, release int, m elf.Machine, env Env) (string, bool) {
	s, ok, _ := c.lookup(name, id, release, m, env)
	return s, ok
}

// lookup does as Lookup, and also returns the number of entries that it compared.
func (c *Cache) lookup(name string, id int32, release int, m elf.Machine, env Env) (s string, ok bool, looked int) {
	if c == nil {
		return "", false, 0
	}
	left, right := 0, len(c.entries)-1
	for left <= right {
		middle := (left + right) / 2
		key, bad := c.key(middle)
		if bad {
			return "", false, 0
		}
		cmp := compareCacheNames(name, key)
		if cmp == 0 {
			return c.best(name, middle, id, release, m, env)
		}
		if cmp < 0 { // names are in descending order
			left = middle + 1
		} else {
			right = middle - 1
		}
	}
	return "", false, 0
}

// best returns the path of the best entry with a name, of which found is any entry.
func (c *Cache) best(name string, found int, id int32, release int, m elf.Machine, env Env) (s string, ok bool, looked int) {
	cpu := env.hwcapLevel()
	same := func(i int) bool {
		key, bad := c.key(i)
		return !bad && compareCacheNames(name, key) == 0
	}
	first := found
	for first > 0 && same(first-1) {
		first--
	}
	best, bestRank := "", 0
	looked = found - first
	for i := first; i < len(c.entries) && (i <= found || same(i)); i++ {
		looked++
		e := c.entries[i]
		value, bad := tableString(c.table, e.value)
		if e.flags != id || bad || release <= 235 && e.osversion > env.osversion() {
			continue
		}
		if ext, rank := c.hwcapRank(e, m, release, cpu); ext {
			if rank > bestRank {
				best, bestRank = value, rank
			}
			continue
		}
		if bestRank > 0 {
			break
		}
		if e.hwcap != 0 && !legacyHwcap(e.hwcap, m, release, env) {
			continue
		}
		return value, true, looked
	}
	return best, best != "", looked
}

// osversion returns the kernel's release in the form of caches; an unknown one counts
// as the newest.
func (e Env) osversion() uint32 {
	if e.Kernel == [3]uint32{} {
		return math.MaxUint32
	}
	return e.Kernel[0]<<16 | e.Kernel[1]<<8 | e.Kernel[2]
}

// hwcapRank reports whether e is an entry of a glibc-hwcaps subdirectory. rank is its
// x86-64 level, 0 if the CPU cannot use it.
func (c *Cache) hwcapRank(e cacheEntry, m elf.Machine, release, cpu int) (ext bool, rank int) {
	if release < 233 || (e.hwcap>>32)&^0x3ff != 0x40000000 {
		return false, 0
	}
	index := uint64(uint32(e.hwcap))
	if m != elf.EM_X86_64 || index >= uint64(len(c.hwcaps)) || int(e.hwcap>>32&0x3ff) >= cpu {
		return true, 0
	}
	for level := 2; level <= cpu; level++ {
		if c.hwcaps[index] == "x86-64-v"+string(rune('0'+level)) {
			return true, level
		}
	}
	return true, 0
}

// legacyHwcap reports whether the loader uses an entry of the older subdirectories:
// "tls" and the names of features that the processor has, up to glibc 2.39
// (HWCAP_IMPORTANT and _DL_FIRST_PLATFORM in each dl-hwcap.h, such as
// sysdeps/x86/dl-hwcap.h). ldconfig adds the bits, so that x86_64/x86_64 reads as
// avx512_1.
func legacyHwcap(hwcap uint64, m elf.Machine, release int, env Env) bool {
	known := uint64(1 << 63) // tls
	switch m {
	case elf.EM_X86_64:
		known |= 1 << 1 // x86_64
		if env.avx512(release) {
			known |= 1 << 2 // avx512_1
		}
		if env.platform(m, release) == "haswell" {
			known |= 1 << 50 // haswell, the third of _dl_x86_platforms
		}
	case elf.EM_AARCH64:
		known |= 1 << 8 // atomics
	}
	return release < 240 && hwcap&^known == 0
}

// compareCacheNames is _dl_cache_libcmp: runs of digits compare as numbers.
func compareCacheNames(a, b string) int {
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	for a != "" {
		switch {
		case isDigit(a[0]):
			if b == "" || !isDigit(b[0]) {
				return 1
			}
			var x, y string
			x, a = digits(a)
			y, b = digits(b)
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
		case b != "" && isDigit(b[0]):
			return -1
		case b == "":
			return int(a[0])
		case a[0] != b[0]:
			return int(a[0]) - int(b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	return -len(b)
}

// digits splits s after its leading digits, whose leading zeros are dropped.
func digits(s string) (number, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return strings.TrimLeft(s[:i], "0"), s[i:]
}
