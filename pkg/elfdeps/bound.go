package elfdeps

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// What binding an object comes to hangs on the objects of its scopes and little
// else, and an image that is judged again and again, each time with another small
// change, makes the same processes each time. So where nothing goes wrong, an object
// remembers for which scopes.

// relocations are the scopes in which all that an object refers to was found.
type relocations struct {
	mu sync.Mutex
	m  map[bindKey]*relocation
	// weight is about how many bytes that takes. It has its own life, to be counted
	// when the object is gone.
	weight *atomic.Int64
}

// remembered is the weight of all that objects remember, which maxRemembered bounds, in
// bytes.
var remembered atomic.Int64

const maxRemembered = 16 << 20

// bindKey is the digest of all that binding hangs on but what [relocation] tells.
type bindKey [sha256.Size]byte

// relocation is what binding an object has done to the process, and what it hangs on
// beside the scopes: the objects of the process that are bound before it.
type relocation struct {
	ready  []int // places in the scopes of those whose IFUNC resolvers it calls
	unique []uniqueUse
	other  bool // it has done, or hangs on, more than this: it is not remembered
}

// uniqueUse is a reference to a unique symbol, and where it was found.
type uniqueUse struct {
	name string
	at   int // in the scopes
	r    record
}

// number tells symbols apart as long as the program runs.
func (s *Symbols) number() uint64 {
	if s == nil {
		return 0
	}
	if s.id.Load() == 0 {
		s.id.CompareAndSwap(0, lastSymbols.Add(1))
	}
	return s.id.Load()
}

var lastSymbols atomic.Uint64

// bindKey is what binding m in scopes hangs on. It reports false where that is the
// names of the objects as well (up to glibc 2.29, see find).
func (p *Process) bindKey(m *Module, scopes []*scope, lazy bool) (k bindKey, ok bool) {
	if p.Loader.release <= 229 {
		return k, false
	}
	b := make([]byte, 0, 1024)
	b = binary.AppendUvarint(b, uint64(p.Loader.release))
	b = append(b, byte(flags(lazy, p.dlopening)))
	for _, s := range scopes {
		b = binary.AppendUvarint(b, uint64(len(s.list)))
		for _, o := range s.list {
			b = binary.AppendUvarint(b, o.Object.Symbols.number()<<2|flags(o.Main, o == m))
			if o.Object.Symbols == nil && o.File != nil && o.File.MayDefine != nil {
				b = binary.AppendUvarint(b, o.File.ID)
			}
		}
	}
	return sha256.Sum256(b), true
}

// known is what binding the object came to, nil when that is not known.
func (s *Symbols) known(k bindKey) *relocation {
	held := s.relocations.Load()
	if held == nil {
		return nil
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.m[k]
}

// remember keeps what binding the object came to.
func (s *Symbols) remember(k bindKey, b *relocation) {
	weight := int64(200 + 8*len(b.ready))
	for _, u := range b.unique {
		weight += 48 + int64(len(u.name))
	}
	if b.other {
		return
	}
	if remembered.Add(weight) > maxRemembered {
		remembered.Add(-weight)
		return
	}
	if fresh := (&relocations{m: map[bindKey]*relocation{}, weight: new(atomic.Int64)}); s.relocations.CompareAndSwap(nil, fresh) {
		runtime.AddCleanup(fresh, func(weight *atomic.Int64) { remembered.Add(-weight.Load()) }, fresh.weight)
	}
	held := s.relocations.Load()
	held.mu.Lock()
	defer held.mu.Unlock()
	held.m[k] = b
	held.weight.Add(weight)
}

// repeat does to the process what binding did, and reports whether it may: it
// changes nothing else.
func (b *relocation) repeat(p *Process, scopes []*scope) bool {
	var at []*Module
	for _, s := range scopes {
		at = append(at, s.list...)
	}
	for _, i := range b.ready {
		if !at[i].link.bound {
			return false
		}
	}
	for _, u := range b.unique {
		if first := p.unique[u.name]; first != nil && first.r.typ() == elf.STT_GNU_IFUNC {
			return false
		}
	}
	for _, u := range b.unique {
		p.useUnique(u.name, at[u.at], u.r)
	}
	return true
}

// place is where a module stands in the scopes, the first time; -1 where it does not.
func place(scopes []*scope, m *Module) int {
	n := 0
	for _, s := range scopes {
		for _, o := range s.list {
			if o == m {
				return n
			}
			n++
		}
	}
	return -1
}

// noteUnique notes that a unique symbol was found in m, and taken from first.
func (b *relocation) noteUnique(q *query, scopes []*scope, m *Module, r record, first *definition) {
	if b == nil || b.other {
		return
	}
	if q.kind == refTLS || r.typ() == elf.STT_GNU_IFUNC || first.r.typ() == elf.STT_GNU_IFUNC {
		b.other = true
		return
	}
	b.unique = append(b.unique, uniqueUse{string(q.name), place(scopes, m), r})
}

// noteReady notes that the resolver of an IFUNC symbol of m was called.
func (b *relocation) noteReady(scopes []*scope, m *Module) {
	if b == nil || b.other {
		return
	}
	i := place(scopes, m)
	if i < 0 {
		b.other = true
		return
	}
	if !slices.Contains(b.ready, i) {
		b.ready = append(b.ready, i)
	}
}

// noteOther notes that binding has done more than is remembered.
func (b *relocation) noteOther() {
	if b != nil {
		b.other = true
	}
}
