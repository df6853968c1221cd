package elfdeps

import "debug/elf"

// guess reads a relocation table that streams by before its place is known. In a
// library whose tables are longer than the window's head (libtorch_cpu.so has 17 MB of
// them), the dynamic section, which has their places, follows far behind.
//
// If the head ends within bytes that look like a table of Elf64_Rela, guess reads on
// until an entry that cannot be one. Its result counts only if the dynamic section then
// names tables that end exactly there.
type guess struct {
	p          *reader
	types      relocs
	begin, end int64  // of the table behind the head; 0 before one is found
	rest       []byte // an incomplete entry
	done       bool
	sym        symbolReader
}

const (
	relaSize = 24
	// sureEntries is the number of entries at the end of the head that must look like
	// relocations.
	sureEntries = 64
)

// startGuess prepares a guess. It is called when the program headers are known.
func (p *reader) startGuess() {
	types, known := relocTypes[p.obj.Machine]
	if !p.wantsSymbols || !p.wide || !known || p.w.size <= p.w.room {
		return
	}
	p.guess = &guess{p: p, types: types}
	p.w.watch = p.guess.feed
}

// feed takes the bytes behind the head as they are read.
func (g *guess) feed(off int64, b []byte) {
	if g.done {
		return
	}
	if g.begin == 0 {
		if g.begin = g.find(); off != g.p.w.room || g.begin == 0 {
			g.stop(0)
			return
		}
		g.rest = append(g.rest, g.p.w.head[g.begin:]...)
		g.end = g.begin
	}
	for len(b) > 0 && !g.done {
		if n := relaSize - len(g.rest); len(g.rest) > 0 || len(b) < relaSize {
			n = min(n, len(b))
			g.rest, b = append(g.rest, b[:n]...), b[n:]
			if len(g.rest) == relaSize {
				g.entries(g.rest)
				g.rest = g.rest[:0]
			}
			continue
		}
		n := len(b) / relaSize * relaSize
		g.entries(b[:n])
		b = b[n:]
	}
}

func (g *guess) stop(end int64) {
	g.done, g.end, g.rest = true, end, nil
	g.p.w.watch = nil
}

// find returns the offset of the entry that the end of the head cuts, or of the end if
// it cuts none. It returns 0 if the head does not end like a table.
func (g *guess) find() int64 {
	head := g.p.w.head
	if int64(len(head)) != g.p.w.room || len(head) < (sureEntries+1)*relaSize {
		return 0
	}
	for skew := range int64(relaSize / 8) {
		begin := int64(len(head)) - skew*8
		sure := true
		for at := begin - sureEntries*relaSize; at < begin && sure; at += relaSize {
			sure = g.plausible(head[at : at+relaSize])
		}
		if sure {
			return begin
		}
	}
	return 0
}

// plausible reports whether b can be an entry: it has a known type and a place in a
// writable segment.
func (g *guess) plausible(b []byte) bool {
	place, info := g.p.order.Uint64(b), g.p.order.Uint64(b[8:])
	typ := uint32(info)
	if info>>32 >= maxSymbols || typ == 0 || typ > 40 && (typ < 257 || typ > 1040) {
		return false
	}
	for _, s := range g.p.loads {
		if s.flags&elf.PF_W != 0 && place >= s.vaddr && place-s.vaddr < s.memsz {
			return true
		}
	}
	return false
}

// entries reads whole entries up to the first that cannot be one.
func (g *guess) entries(b []byte) {
	n := 0
	for n < len(b) && g.plausible(b[n:n+relaSize]) {
		n += relaSize
	}
	g.p.relocsInto(&g.sym, b[:n], relaSize, g.types, &g.sym.calls)
	if g.end += int64(n); n < len(b) {
		g.stop(g.end)
	}
}

// covers reports whether the guess read the part of a table that lies behind the head:
// the table's entries are where the guess has them, and it ends no later.
func (g *guess) covers(off, size, entry uint64) bool {
	return g != nil && g.done && g.end > 0 && entry == relaSize && int64(off+size) > g.begin &&
		(g.begin-int64(off))%relaSize == 0 && int64(off+size) <= g.end
}

// take adds the references behind the head to those in it, if the tables end exactly
// where the guess ended.
func (g *guess) take(s *symbolReader, tables [][2]uint64) {
	last := uint64(0)
	for _, t := range tables {
		last = max(last, t[0]+t[1])
	}
	if s.guessed && int64(last) != g.end {
		s.partial = true
		g.p.unread("relocations", errPassed)
	}
	if !s.guessed || s.partial {
		return
	}
	s.staticTLS = s.staticTLS || g.sym.staticTLS
	g.add(s, g.sym.refs, &s.refs, 0)
	g.add(s, g.sym.calls, &s.calls, 8)
}

func (g *guess) add(s *symbolReader, from []byte, to *[]byte, table uint) {
	for ; len(from) >= 4; from = from[4:] {
		s.keep(leUint32(from), table, to)
	}
}
