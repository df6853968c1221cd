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

// This file remembers bindings without errors. They depend on the objects of the
// scopes and little else, and an image is judged many times, each time with another
// small change: most of its processes are the same each time.

// relocations are the bindings without errors of one object, by their scopes.
type relocations struct {
	mu sync.Mutex
	m  map[bindKey]*relocation
	// weight is about the number of bytes in m. It is allocated by itself, since it is
	// read after the object is freed.
	weight *atomic.Int64
}

// remembered is the weight of the relocations of all objects, in bytes; maxRemembered
// is its limit.
var remembered atomic.Int64

const maxRemembered = 16 << 20

// bindKey is a digest of everything that a binding depends on, except the fields of
// [relocation].
type bindKey [sha256.Size]byte

// relocation has the effects of binding an object on the process, and the objects that
// must be bound before.
type relocation struct {
	ready  []int // objects whose IFUNC resolvers it calls, by their places in the scopes
	unique []uniqueUse
	other  bool // it has other effects or dependencies, and is not remembered
}

// uniqueUse is a reference to a unique symbol, and its definition.
type uniqueUse struct {
	name string
	at   int // place of the object in the scopes
	r    record
}

// number returns an ID of s, unique until imgcheck exits; 0 for nil.
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

// bindKey returns the key for binding m in scopes. It reports false for glibc up to
// 2.29, where the result depends on the names of the objects as well (see find).
func (p glibcBinder) bindKey(m *Module, scopes []*scope, lazy bool) (k bindKey, ok bool) {
	if p.Loader.release <= 229 {
		return k, false
	}
	b := make([]byte, 0, 1024)
	b = binary.AppendUvarint(b, uint64(p.Loader.release))
	b = append(b, byte(flags(lazy, p.dlopening)))
	for _, s := range scopes {
		if !p.work().spend(crowd(len(s.list))) {
			return k, false
		}
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

// known returns the remembered binding for k, or nil.
func (s *Symbols) known(k bindKey) *relocation {
	held := s.relocations.Load()
	if held == nil {
		return nil
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.m[k]
}

// remember keeps the binding b, unless it has other effects or the memory is full.
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

// repeat applies the effects of b to the process if b is valid there, and reports whether
// it is.
func (b *relocation) repeat(p glibcBinder, scopes []*scope) bool {
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

// place returns the first place of m in the scopes, or -1.
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

// noteUnique records that a unique symbol was found in m and bound to first.
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

// noteReady records that the resolver of an IFUNC symbol of m was called.
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

// noteOther records an effect that a relocation cannot repeat.
func (b *relocation) noteOther() {
	if b != nil {
		b.other = true
	}
}
