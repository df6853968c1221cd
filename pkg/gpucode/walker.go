package gpucode

import (
	"encoding/binary"
	"slices"
	"sort"
)

// Limits on what a file can make a walker keep.
const (
	maxContainers = 1 << 18 // cuFFT 12 has 23,983
	maxEntries    = 1 << 22 // of all containers
	maxDistinct   = 128     // different entries of one container
	maxGroups     = 1 << 12 // different sets of entries
	maxArch       = 9999
	maxHeader     = 64 << 10 // bytes of an entry's header; 168 is the longest that was met
)

const (
	magic           = 0x0010_0001_ba55_ed50 // the first 8 bytes of a container, little endian
	containerHeader = 16
	entryHeader     = 64
	word            = 8 // containers begin at multiples of it in the file
	searchStep      = 64 << 10
)

// Area is a part of a file, from offset Off to before End.
type Area struct{ Off, End int64 }

// Walker finds the containers in the areas of a file that streams by. Between headers
// it needs nothing of the file, so that the caller can skip: it asks [Walker.Next] for
// the bytes that are needed next, and gives them to [Walker.Feed], with or without
// others, in pieces of any size. The result does not depend on the pieces.
type Walker struct {
	areas []Area // those that are not searched yet; the first is being searched
	mode  mode
	at    int64  // offset of the header, or of the next place to search
	buf   []byte // bytes from at on, fewer than mode needs

	cur      container
	entries  []Entry // of cur
	payloads []int64 // of cur: the bytes of the payloads of each of entries
	found    []container
	kept     []int64 // payloads of found
	sets     []set
	bySet    map[string]int
	seen     int // entries
	partial  string
}

// mode names the bytes that a walker needs next.
type mode int

// The modes, by the bytes that they need.
const (
	searching mode = word
	inEntry   mode = entryHeader
	atHead    mode = containerHeader + entryHeader
)

// container is a container in a file, and the number of its set of entries.
type container struct {
	off, end int64 // of a found one within its area
	set      int
	payloads int // of a found one: where its payloads begin in kept
}

// set is the entries of containers.
type set struct {
	entries []Entry
	cut     bool
}

// NewWalker returns a walker for areas, which are in the order of their offsets, do not
// overlap and end within the file.
func NewWalker(areas []Area) *Walker {
	w := &Walker{areas: slices.Clone(areas), bySet: map[string]int{}}
	if len(areas) > 0 {
		w.goTo(searching, areas[0].Off)
	}
	return w
}

// unseen is the reason to stop where bytes were passed over.
const unseen = "a part of the file was not seen"

// Next returns the offset of the next byte that the walker needs, and how many bytes it would
// like from there. The offset is -1 if it needs none, or if it needs one before pos, up to which
// the file was read.
func (w *Walker) Next(pos int64) (off int64, n int) {
	if w == nil || len(w.areas) == 0 {
		return -1, 0
	}
	if off = w.at + int64(len(w.buf)); off < pos {
		w.stop(unseen)
		return -1, 0
	}
	n = int(w.mode) - len(w.buf)
	if w.mode == searching {
		n = searchStep
	}
	return off, int(min(int64(n), max(1, w.areas[0].End-off)))
}

// Feed gives the bytes of the file from offset off on. They begin no later than Next's
// offset and follow those of the call before.
func (w *Walker) Feed(off int64, b []byte) {
	if w == nil {
		return
	}
	end := off + int64(len(b))
	for len(w.areas) > 0 {
		have := w.at + int64(len(w.buf))
		if have >= end {
			return
		}
		if have < off {
			w.stop(unseen)
			return
		}
		w.take(b[have-off : min(end, w.areas[0].End)-off])
	}
}

// take takes the bytes behind the held ones, which lie in the current area, or the first of them.
func (w *Walker) take(b []byte) {
	if w.mode == searching && len(w.buf) == 0 && len(b) >= word {
		i := search(b)
		if i < len(b)/word*word {
			w.goTo(atHead, w.at+int64(i))
			return
		}
		w.goTo(searching, w.at+int64(i))
		return
	}
	n := min(len(b), int(w.mode)-len(w.buf))
	if w.buf = append(w.buf, b[:n]...); len(w.buf) < int(w.mode) {
		return
	}
	switch w.mode {
	case searching:
		w.candidate(w.buf)
	case atHead:
		w.head(w.buf)
	case inEntry:
		w.entry(w.buf)
	}
}

// search returns the offset of the first word of b that begins a container, or the
// number of bytes in whole words.
func search(b []byte) int {
	le := binary.LittleEndian
	n := len(b) / word * word
	i := 0
	for ; i+4*word <= n; i += 4 * word {
		c := b[i : i+4*word : i+4*word]
		if le.Uint64(c) == magic || le.Uint64(c[8:]) == magic || le.Uint64(c[16:]) == magic || le.Uint64(c[24:]) == magic {
			break
		}
	}
	for ; i < n && le.Uint64(b[i:]) != magic; i += word {
	}
	return i
}

// goTo looks for mode at an offset. Where the area has not enough bytes for that, the
// container is cut off, and the next area follows.
func (w *Walker) goTo(m mode, at int64) {
	w.mode, w.at, w.buf = m, aligned(at), w.buf[:0]
	if m == inEntry && w.cur.end-w.at < entryHeader {
		w.keep(true)
		w.mode, w.at = searching, w.cur.end
	}
	for len(w.areas) > 0 && w.areas[0].End-w.at < int64(w.mode) {
		switch w.mode {
		case inEntry:
			w.keep(true)
		case atHead:
			w.partial = "it ends within the header of a container"
		}
		if len(w.areas) > 0 {
			w.areas = w.areas[1:]
		}
		if w.mode = searching; len(w.areas) > 0 {
			w.at = max(w.at, aligned(w.areas[0].Off))
		}
	}
}

// aligned returns the first offset from off on at which a container may begin.
func aligned(off int64) int64 { return (off + word - 1) / word * word }

// candidate looks at a word that was fed in parts.
func (w *Walker) candidate(b []byte) {
	if search(b) == 0 {
		rest := slices.Clone(b)
		w.goTo(atHead, w.at)
		if w.mode == atHead {
			w.buf = append(w.buf, rest...)
		}
		return
	}
	w.goTo(searching, w.at+word)
}

// head reads the header of a container and of its first entry. Bytes that only look like
// a container have no entry that makes sense, and the search goes on behind them.
func (w *Walker) head(b []byte) {
	size := binary.LittleEndian.Uint64(b[8:])
	e, header, payload, ok := parseEntry(b[containerHeader:])
	next := header + payload
	if size < entryHeader || size%word != 0 || size > 1<<40 || !ok || next > size || !slices.Contains(knownKinds, e.Kind) {
		w.again(b)
		return
	}
	if len(w.found) == maxContainers {
		w.stop("it has more containers than are read")
		return
	}
	w.cur = container{off: w.at, end: w.at + containerHeader + int64(size)}
	w.entries, w.payloads = w.entries[:0], w.payloads[:0]
	w.at += containerHeader
	w.add(e, int64(header), int64(payload))
}

// again goes on with the search behind the first word of b, which begins at at.
func (w *Walker) again(b []byte) {
	b = slices.Clone(b[word:])
	at := w.at + word
	i := search(b)
	if i == len(b) {
		w.goTo(searching, at+int64(i))
		return
	}
	if w.goTo(atHead, at+int64(i)); w.mode == atHead {
		w.buf = append(w.buf, b[i:]...)
	}
}

// entry reads the header of an entry of the current container.
func (w *Walker) entry(b []byte) {
	e, header, payload, ok := parseEntry(b)
	if !ok || header+payload > uint64(w.cur.end-w.at) {
		w.keep(true)
		w.goTo(searching, w.cur.end)
		return
	}
	w.add(e, int64(header), int64(payload))
}

// add adds an entry of a header and a payload of some bytes, behind which the next begins.
func (w *Walker) add(e Entry, header, payload int64) {
	next := w.at + header + payload
	if w.seen++; w.seen > maxEntries || !w.count(e, max(0, min(next, w.areas[0].End)-w.at-header)) {
		w.keep(true)
		w.stop("it has more entries than are read")
		return
	}
	switch {
	case next > w.areas[0].End:
		w.keep(true)
		w.goTo(searching, next)
	case next == w.cur.end:
		w.keep(false)
		w.goTo(searching, next)
	default:
		w.goTo(inEntry, next)
	}
}

// count counts an entry, of whose payload the area has some bytes. It reports whether there
// is room for it.
func (w *Walker) count(e Entry, payload int64) bool {
	for i, old := range w.entries {
		if e.Count = old.Count; e == old {
			w.entries[i].Count++
			w.payloads[i] += payload
			return true
		}
	}
	e.Count = 1
	w.entries, w.payloads = append(w.entries, e), append(w.payloads, payload)
	return len(w.entries) <= maxDistinct
}

// keep keeps the current container.
func (w *Walker) keep(cut bool) {
	if cut && w.partial == "" {
		w.partial = "a container is cut off or damaged"
	}
	sort.Sort(byEntry{w.entries, w.payloads})
	key := make([]byte, 0, 256)
	for _, e := range w.entries {
		key = binary.LittleEndian.AppendUint16(key, uint16(e.Kind))
		key = binary.LittleEndian.AppendUint32(key, e.Arch)
		key = append(key, byte(e.Flags))
		key = binary.LittleEndian.AppendUint16(key, uint16(e.ISA))
		key = binary.LittleEndian.AppendUint32(key, e.Count)
	}
	if cut {
		key = append(key, 1)
	}
	i, ok := w.bySet[string(key)]
	if !ok {
		if len(w.sets) == maxGroups {
			w.stop("it has more kinds of containers than are kept")
			return
		}
		i = len(w.sets)
		w.bySet[string(key)] = i
		w.sets = append(w.sets, set{slices.Clone(w.entries), cut})
	}
	w.found = append(w.found, container{w.cur.off, min(w.cur.end, w.areas[0].End), i, len(w.kept)})
	w.kept = append(w.kept, w.payloads...)
}

// byEntry sorts entries, and their payloads with them.
type byEntry struct {
	entries  []Entry
	payloads []int64
}

func (s byEntry) Len() int           { return len(s.entries) }
func (s byEntry) Less(i, j int) bool { return compareEntries(s.entries[i], s.entries[j]) < 0 }
func (s byEntry) Swap(i, j int) {
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
	s.payloads[i], s.payloads[j] = s.payloads[j], s.payloads[i]
}

// stop ends the walk for a reason.
func (w *Walker) stop(why string) {
	w.partial, w.areas, w.mode = why, nil, searching
}

// Found reports whether a container was found.
func (w *Walker) Found() bool { return w != nil && len(w.found) > 0 }

// Code returns the code that was found, or nil if there is none. section returns the
// name of the section that has the byte at an offset of the file, or "".
func (w *Walker) Code(section func(off int64) string) *Code {
	if w == nil {
		return nil
	}
	switch {
	case len(w.areas) > 0 && w.mode == inEntry:
		w.keep(true)
		w.stop(w.partial)
	case len(w.areas) > 0 && w.mode == atHead:
		w.stop("it ends within the header of a container")
	}
	if len(w.found) == 0 && w.partial == "" {
		return nil
	}
	c := &Code{Partial: w.partial}
	type place struct {
		section string
		set     int
	}
	at := map[place]int{}
	for _, f := range w.found {
		p := place{section(f.off), f.set}
		i, ok := at[p]
		if !ok {
			i = len(c.Groups)
			at[p] = i
			s := w.sets[f.set]
			c.Groups = append(c.Groups, Group{Section: p.section, Cut: s.cut, Entries: s.entries, Payloads: make([]int64, len(s.entries))})
		}
		c.Groups[i].Containers++
		c.Groups[i].Bytes += f.end - f.off
		for j := range c.Groups[i].Payloads {
			c.Groups[i].Payloads[j] += w.kept[f.payloads+j]
		}
	}
	sortGroups(c.Groups)
	return c
}

// parseEntry reads the header of an entry. header and payload are their bytes, behind which
// the next entry begins; ok is unset if the header makes no sense.
func parseEntry(b []byte) (e Entry, header, payload uint64, ok bool) {
	le := binary.LittleEndian
	header, payload = uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
	e.Kind, e.Arch = Kind(le.Uint16(b)), le.Uint32(b[28:])
	if le.Uint16(b[2:]) != 0x0101 || header < entryHeader || header > maxHeader || header%word != 0 || payload%word != 0 || payload > 1<<40 || e.Arch > maxArch {
		return e, 0, 0, false
	}
	flags := le.Uint64(b[40:])
	for _, f := range []struct {
		bit  uint64
		flag Flags
	}{{0x2000, LZ4}, {0x8000, Zstd}, {0x100000, Specific}, {0x200000, Family}, {0x1000000, Mercury}} {
		if flags&f.bit != 0 {
			e.Flags |= f.flag
		}
	}
	if minor, major := le.Uint16(b[24:]), le.Uint16(b[26:]); e.Kind == PTX && minor < 256 && major < 256 {
		e.ISA = ISA(major<<8 | minor)
	}
	return e, header, payload, true
}
