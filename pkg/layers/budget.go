package layers

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Bounds of what an image unpacks to. A layer of two megabytes can have 64 GiB, and a
// sparse file any size, which is read hole by hole. Images of machine learning have 40 GiB at
// most, and unpack to three times their size. Variables, so that tests can reach them.
var (
	freeUnpacked = int64(8 << 30)  // bytes that an image may unpack to, however small it is
	maxRatio     = int64(256)      // of more: unpacked bytes for each compressed byte
	maxSparse    = int64(16 << 30) // bytes of the sparse files of a layer that are read
	maxHoles     = int64(64 << 30) // bytes of the sparse files of an image that are read
)

// budget counts what an image unpacks to. A nil budget does not count. Any number of
// goroutines may use it.
type budget struct{ packed, unpacked, sparse atomic.Int64 }

// errUnpacked is the error of an image that exceeds its budget.
var errUnpacked = errors.New("the image unpacks to far more than it is long")

// unpack counts n unpacked bytes.
func (b *budget) unpack(n int64) error {
	if b == nil {
		return nil
	}
	if all, most := b.unpacked.Add(n), freeUnpacked+maxRatio*b.packed.Load(); all > most {
		return fmt.Errorf("%w: more than %d GiB and %d times its size, which no program needs: it is not read further", errUnpacked, freeUnpacked>>30, maxRatio)
	}
	return nil
}

// holes counts the n bytes of a sparse file that is read.
func (b *budget) holes(n int64) error {
	if b != nil && b.sparse.Add(n) > maxHoles {
		return fmt.Errorf("%w: its sparse files have more than %d GiB", errUnpacked, maxHoles>>30)
	}
	return nil
}

// compressed returns r with its bytes counted as compressed ones.
func (b *budget) compressed(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		b.packed.Add(int64(n))
		return n, err
	})
}

// plain returns r with its bytes counted as unpacked ones.
func (b *budget) plain(r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		if over := b.unpack(int64(n)); over != nil {
			return n, over
		}
		return n, err
	})
}
