package layers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/readahead"

	"github.com/imgcheck/imgcheck/pkg/inflate"
)

var (
	magicGzip  = []byte{0x1f, 0x8b}
	magicZstd  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	magicBzip2 = []byte("BZh")
	magicXz    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
)

// maxZstdWindow is the most that a zstd frame may ask us to hold, in bytes.
const maxZstdWindow = 128 << 20

// decompress looks at the first bytes, not at a media type: docker archives do
// not have one, and some registries' are wrong. The other core unpacks while
// what was unpacked is looked at; done ends that.
func decompress(r *bufio.Reader) (plain io.Reader, done func(), err error) {
	nothing := func() {}
	head, _ := r.Peek(6)
	switch {
	case bytes.HasPrefix(head, magicGzip):
		z, err := inflate.NewGzip(r)
		if err != nil {
			return nil, nothing, fmt.Errorf("decompressing gzip: %w", err)
		}
		a := ahead(z)
		return a, func() { a.Close() }, nil
	case bytes.HasPrefix(head, magicZstd), len(head) >= 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nothing, fmt.Errorf("decompressing zstd: %w", err)
		}
		a := ahead(z)
		return a, func() { a.Close(); z.Close() }, nil
	case bytes.HasPrefix(head, magicBzip2), bytes.HasPrefix(head, magicXz):
		return nil, nothing, errors.New("is compressed with bzip2 or xz, which imgcheck does not read; store it as gzip or zstd")
	}
	return r, nothing, nil
}

// ahead reads r in a goroutine of its own, half a megabyte ahead of who reads it.
// After Close, nobody reads r any more.
//
// Its WriteTo is hidden: at the end it answers io.EOF, which io.Copy takes for a
// failure.
func ahead(r io.Reader) io.ReadCloser {
	a, err := readahead.NewReaderSize(struct{ io.Reader }{r}, 4, 128<<10)
	if err != nil {
		panic(err) // of sizes that are not positive
	}
	return struct {
		io.Reader
		io.Closer
	}{a, a}
}
