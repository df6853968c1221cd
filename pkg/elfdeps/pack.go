package elfdeps

import (
	"bytes"
	"errors"
	"sync"
	"weak"

	"github.com/klauspost/compress/zstd"
)

// Most objects of an image are never bound: what they need is looked for, and
// their symbols are not. So symbols are held as they are stored, compressed, and
// read when a process asks for them; a process holds them as long as it binds.

var (
	packers = sync.Pool{New: func() any {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packWindow), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // options that do not go together
		}
		return z
	}}
	// unpacker serves any number of callers.
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(packWindow), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		return z
	})
)

const packWindow = 1 << 20

// packed are the tables of symbols as they are stored.
type packed struct {
	zstd   []byte
	weight int64 // of the symbols when they are read

	mu   sync.Mutex
	read weak.Pointer[Symbols]
}

// Weight is about how many bytes the symbols hold when they are not packed.
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

// Pack is the same symbols with their tables compressed: of the fields only the
// flags are set, the methods give what they gave.
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
	return s.with(&packed{zstd: bytes.Clone(b.Bytes()), weight: s.Weight()})
}

// with are the flags of s beside tables that are packed.
func (s *Symbols) with(p *packed) *Symbols {
	return &Symbols{Partial: s.Partial, SysV: s.SysV, BindNow: s.BindNow, Symbolic: s.Symbolic, StaticTLS: s.StaticTLS, packed: p}
}

// unpack is the symbols with their tables; nil where what was stored of them is
// none, as for an object whose symbols are not known. Callers that ask while
// another still holds them share them.
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
	b, err := unpacker().DecodeAll(p.zstd, make([]byte, 0, p.weight+64))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		b, err = unpacker().DecodeAll(p.zstd, make([]byte, 0, 2*p.weight+64))
	}
	if err != nil {
		return nil
	}
	d := decoder{b: b}
	got := s.with(nil)
	d.symbols(got)
	if d.failed || len(d.b) > 0 || got.Weight() != p.weight {
		return nil
	}
	p.read = weak.Make(got)
	return got
}

// symbols are those of the module's object, held for the process.
func (m *Module) symbols() *Symbols {
	if m.syms == nil {
		m.syms = m.Object.Symbols.unpack()
	}
	return m.syms
}

// Rest lets go of the symbols that the process holds. It may go on: they are read
// again when they are asked for.
func (p *Process) Rest() {
	for _, m := range p.Objects {
		m.syms = nil
	}
}
