package inventory

import (
	"bytes"
	"hash/maphash"
	"io"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// maxSame limits the reduced texts that an Extractor finds again.
const maxSame = 1 << 16

// Extractor reduces the files of one image. An image often has the same Python file twice,
// in two environments, or in a layer that only changes its owner: it is reduced once, and
// all its entries share the text. The same holds for JavaScript in nested node_modules. Any number of goroutines may use an Extractor. The zero
// value is ready for use.
type Extractor struct {
	mu    sync.Mutex
	texts map[sourceKey][]byte
	block []byte // the free rest of the last one, for texts
}

// sourceKey is the size of a source, and two hashes of its bytes with seeds that no image
// knows.
type sourceKey struct {
	size int
	hash [2]uint64
}

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func keyOf(b []byte) sourceKey {
	return sourceKey{len(b), [2]uint64{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}}
}

// buffers are for the sources that are being reduced.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// python reads a Python file and returns its reduced text.
func (x *Extractor) python(r io.Reader, size int64) ([]byte, error) {
	return x.Once(r, min(size, pysource.MaxSource+1), pysource.Reduce)
}

// metadata reads METADATA or PKG-INFO and returns the fields that [Read] and others take from it.
func (x *Extractor) metadata(r io.Reader, size int64) ([]byte, error) {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	b, err := fill(p, r, size)
	if err != nil {
		return nil, err
	}
	text := reduceMetadata(b)
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.place(text), nil
}

// fill reads size bytes into a buffer.
func fill(p *[]byte, r io.Reader, size int64) ([]byte, error) {
	if int64(cap(*p)) < size {
		*p = make([]byte, size+size/4)
	}
	b := (*p)[:size]
	_, err := io.ReadFull(r, b)
	return b, err
}

// reduceMetadata leaves out the description of METADATA and PKG-INFO, behind the first empty line or in lines that continue a field, and
// all other such lines.
func reduceMetadata(b []byte) []byte {
	out := make([]byte, 0, min(len(b), 4<<10))
	for line := range bytes.Lines(b) {
		switch {
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return out
		case line[0] != ' ' && line[0] != '\t':
			out = append(out, line...)
		}
	}
	return out
}

// Once reads size bytes of a file and returns what reduce makes of them, or what it has made
// of the same bytes before. An Extractor for which Once is called is for one reduce: its
// result depends on the bytes alone and does not share their memory.
func (x *Extractor) Once(r io.Reader, size int64, reduce func([]byte) []byte) ([]byte, error) {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	b, err := fill(p, r, size)
	if err != nil {
		return nil, err
	}
	key := keyOf(b)
	x.mu.Lock()
	text, ok := x.texts[key]
	x.mu.Unlock()
	if ok {
		return text, nil
	}
	return x.keep(key, reduce(b)), nil
}

// Texts of up to maxInBlock bytes share blocks of sizeOfBlock bytes: each by itself would lie among what reducing leaves
// behind, whose memory could not be given back.
const (
	maxInBlock  = 16 << 10
	sizeOfBlock = 256 << 10
)

// keep notes the reduced text of a source, and returns it.
func (x *Extractor) keep(key sourceKey, text []byte) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	text = x.place(text)
	if x.texts == nil {
		x.texts = map[sourceKey][]byte{}
	}
	if len(x.texts) < maxSame {
		x.texts[key] = text
	}
	return text
}

// place copies a short text into a block.
func (x *Extractor) place(text []byte) []byte {
	n := len(text)
	if n == 0 || n > maxInBlock {
		return text
	}
	if len(x.block) < n {
		x.block = make([]byte, sizeOfBlock)
	}
	copy(x.block, text)
	text, x.block = x.block[:n:n], x.block[n:]
	return text
}
