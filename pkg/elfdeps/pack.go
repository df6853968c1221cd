package elfdeps

import (
	"bytes"
	"errors"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// Most objects of an image are loaded but never bound. So their symbols are held in the
// stored, compressed form; a process decodes them when it binds and then drops them.

var (
	packers = sync.Pool{New: func() any {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // contradictory options
		}
		return z
	}}
	// unpacker may be used concurrently.
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(packWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		return z
	})
)

const packWindow = 1 << 20

// packed has the tables of Symbols in the stored form.
type packed struct {
	zstd   []byte
	weight int64 // of the unpacked symbols

	mu   sync.Mutex
	read weak.Pointer[Symbols]
}

// Weight returns about the size in bytes of the symbols when they are not packed.
func (s *Symbols) Weight() int64 {
	if s == nil {
		return 0
	}
	if s.packed != nil {
		return s.packed.weight
	}
	n := len(s.Names) + len(s.Table) + len(s.Refs) + len(s.Calls)
	for _, v := range s.Versions {
		n += 40 + len(v.Name) + len(v.File)
	}
	return int64(n)
}

// Pack returns the same symbols with compressed tables. Only the flags among its fields
// are set; its methods return the same values.
func (s *Symbols) Pack() *Symbols {
	if s == nil || s.packed != nil {
		return s
	}
	z := packers.Get().(*zstd.Encoder)
	defer packers.Put(z)
	var b bytes.Buffer
	z.Reset(&b)
	e := encoder{w: z}
	e.symbols(s)
	z.Write(e.b)
	z.Close() // a bytes.Buffer has no errors
	z.Reset(nil)
	return s.with(&packed{zstd: bytes.Clone(b.Bytes()), weight: s.Weight()})
}

// with returns the flags of s with the tables p.
func (s *Symbols) with(p *packed) *Symbols {
	return &Symbols{Partial: s.Partial, SysV: s.SysV, BindNow: s.BindNow, Symbolic: s.Symbolic, StaticTLS: s.StaticTLS, packed: p}
}

// unpack returns the symbols with their tables, or nil, as for an object without known
// symbols, if the stored form is invalid. Callers share the result with others that
// still hold it.
func (s *Symbols) unpack() *Symbols {
	if s == nil || s.packed == nil {
		return s
	}
	p := s.packed
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := p.read.Value(); got != nil {
		return got
	}
	// A table's 12 bytes are stored as 14 at most and mostly as 7, a reference's 4
	// as 5 and mostly as 1.
	u := unpackings.Get().(*unpacking)
	defer unpackings.Put(u)
	b, err := unpacker().DecodeAll(p.zstd, u.room(p.weight+64))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		b, err = unpacker().DecodeAll(p.zstd, u.room(2*p.weight+64))
	}
	if err != nil {
		return nil
	}
	d := decoder{b: b, records: u.records}
	defer func() { u.records = d.records[:0] }()
	got := s.with(nil)
	d.symbols(got)
	if d.failed || len(d.b) > 0 || got.Weight() != p.weight {
		return nil
	}
	p.read = weak.Make(got)
	return got
}

// unpacking is memory for the time in which symbols are unpacked: a process of PyTorch unpacks 60 MB, and what it leaves
// behind counts until it is collected.
type unpacking struct {
	b       []byte
	records []record
}

var unpackings = sync.Pool{New: func() any { return new(unpacking) }}

// room returns an empty slice with room for n bytes and no more.
func (u *unpacking) room(n int64) []byte {
	if int64(cap(u.b)) < n {
		u.b = make([]byte, 0, n)
	}
	return u.b[:0:n]
}

// symbols returns the unpacked symbols of the module's object, and holds them.
func (m *Module) symbols() *Symbols {
	if m.syms == nil {
		m.syms = m.Object.Symbols.unpack()
	}
	return m.syms
}

// Rest drops the unpacked symbols of the process. The process may go on: it unpacks
// them again when it needs them.
func (p *Process) Rest() {
	for _, m := range p.Objects {
		m.syms = nil
	}
}
