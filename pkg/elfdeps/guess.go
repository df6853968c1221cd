package elfdeps

import "debug/elf"

// guess reads a relocation table that streams by before its place is known. The
// dynamic section, which tells it, comes far behind in a library whose tables
// are longer than what is held of its start: libtorch_cpu.so has 17 MB of them.
//
// Where the held start ends within what looks like a table of Elf64_Rela, the
// table is read on until an entry that cannot be one. What was gathered counts
// only if the dynamic section then names tables that end exactly there.
type guess struct {
	p          *reader
	types      relocs
	begin, end int64  // of what was read, once it is known to be a table
	rest       []byte // of the entry that is not complete
	done       bool
	sym        symbolReader
}

const (
	relaSize = 24
	// sureEntries have to look like relocations before what follows is taken
	// for some.
	sureEntries = 64
)

// startGuess is called when the program headers are known.
func (p *reader) startGuess() {
	types, known := relocTypes[p.obj.Machine]
	if !p.wantsSymbols || !p.wide || !known || p.w.size <= headSize {
		return
	}
	p.guess = &guess{p: p, types: types}
	p.w.watch = p.guess.feed
}

// feed takes the bytes behind the held start as they come.
func (g *guess) feed(off int64, b []byte) {
	if g.done {
		return
	}
	if g.begin == 0 {
		if g.begin = g.find(); off != headSize || g.begin == 0 {
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

// find is the start of the last entry that is not whole in the held start, when
// the end of that looks like a table; else 0.
func (g *guess) find() int64 {
	head := g.p.w.head
	if len(head) != headSize {
		return 0
	}
	for skew := range int64(relaSize / 8) {
		begin := int64(headSize) - skew*8
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

// plausible reports whether b can be an entry: of a place that is written to, of a
// known type.
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

// entries takes in whole entries up to the first that cannot be one.
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

// covers reports whether the part of a table behind the held start was read: the
// table has its entries where the guess has them, and ends no later.
func (g *guess) covers(off, size, entry uint64) bool {
	return g != nil && g.done && g.end > 0 && entry == relaSize && int64(off+size) > g.begin &&
		(g.begin-int64(off))%relaSize == 0 && int64(off+size) <= g.end
}

// take adds what was read behind the held start to what was read of it, if it is
// all that the tables have there and no more.
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
