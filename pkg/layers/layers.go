// Package layers turns an image reference into a file system that can be asked
// questions, without unpacking anything.
//
// [Open] finds the image behind a reference: in a registry, in a Docker or
// Podman daemon, in an OCI layout or archive, in a docker archive, or in a
// directory. [Image.Index] reads each of its layers once, as a stream, into a
// [Layer]: names, links, modes, what [elfdeps] read of each ELF file, and the
// bytes of the few small files that somebody asked to keep. [Merge] lays the
// layers over one another as overlayfs does, into an [FS].
//
// A layer is indexed alone: what comes out depends on its bytes and on nothing
// else, so that it can be kept by digest. What could not be read of it is kept
// with the reason, and is never the same as not being there.
//
// The package does not know loaders, frameworks or rules. Everything that comes
// from an image is hostile: each size is bounded before it is allocated.
package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// Options say how an image is found and read.
type Options struct {
	// Platform is os/arch[/variant], for an index; nil means linux/amd64, or
	// the only platform there is.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// Keep tells the files whose bytes are kept: by path without a leading
	// slash, and size in bytes. What the loaders read is kept anyway.
	Keep func(name string, size int64) bool
	// Extract, when set, makes of some of these files what is kept in place of
	// their bytes: a function that reads the file, nil for one that is kept whole.
	// Its own memory is its own affair. An error is one of the reader.
	Extract func(name string, size int64) func(io.Reader) ([]byte, error)
	// KeepID names what Keep and Extract keep: two that keep other bytes have other
	// names. Where Keep is set and has no name, the cache is not used.
	KeepID string
	// Cache, when set, keeps what was read of each layer whose digest was
	// verified, and a layer that it has is not read again.
	Cache *Cache
	// Stall is how long a registry may send nothing before a request is given
	// up and sent again; 0 means a minute. A download as a whole has no limit.
	Stall time.Duration
	// Note, when set, is told what is worth knowing of how a layer is read: its
	// number from 0, -1 for the image as a whole, and that the cache has it, or
	// by what it is decompressed. It is called from many goroutines.
	Note func(layer int, text string)
	// Begin, when set, is told of the layers before the first is read, unless
	// they are known only afterwards (a daemon's, a compressed archive's).
	Begin func([]source.Layer)
	// Progress, when set, is told of bytes read: the layer's number from 0, and
	// how many bytes of its compressed stream. It is called from many
	// goroutines.
	Progress func(layer int, n int)

	// Env are the variables that programs of a directory run with, each as
	// NAME=VALUE; without them those of this process for /, and none for another.
	// An image has its own.
	Env []string

	sleep func(context.Context, time.Duration) error // in tests
}

// Image is an image that was found and is to be read: what [source.Open] has found,
// with the options of reading it.
type Image struct {
	*source.Image
	opts Options
}

// Open finds the image that ref names, as [source.Open] does.
func Open(ctx context.Context, ref string, o Options) (*Image, error) {
	img, err := source.Open(ctx, ref, source.Options{Platform: o.Platform, Insecure: o.Insecure, Stall: o.Stall, Env: o.Env, Sleep: o.sleep})
	if err != nil {
		return nil, err
	}
	return From(img, o), nil
}

// From returns an image that was found already. Of the options only those of reading
// count.
func From(img *source.Image, o Options) *Image { return &Image{img, o} }

// Index reads every layer, as many at a time as there are processors but no more
// than four, and merges them.
func (img *Image) Index(ctx context.Context) (*FS, error) {
	var read []*Layer
	var err error
	switch {
	case img.Root != "":
		read, err = img.indexDir(ctx)
	case img.IsStream():
		read, err = img.indexStream(ctx)
	default:
		read, err = img.indexBlobs(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("indexing %s: %w", img.Ref, err)
	}
	f := Merge(read...)
	f.Layers = img.Layers
	return f, nil
}

// indexBlobs reads the layers, the largest first so that no long one is left
// for the end; a blob that stands twice is read once.
func (img *Image) indexBlobs(ctx context.Context) ([]*Layer, error) {
	if img.opts.Begin != nil {
		img.opts.Begin(img.Layers)
	}
	out := make([]*Layer, len(img.Layers))
	first := map[string]int{}
	order := make([]int, 0, len(img.Layers))
	for i, l := range img.Layers {
		if _, ok := first[l.Digest]; ok && l.Digest != "" {
			continue
		}
		first[l.Digest] = i
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(min(1, max(-1, img.Layers[b].Size-img.Layers[a].Size))) })
	g, ctx := errgroup.WithContext(ctx)
	var left atomic.Int64 // layers that are not read yet
	left.Store(int64(len(order)))
	spare := func() bool { return min(int(left.Load()), workers()) < runtime.GOMAXPROCS(0) }
	var all ledger
	free := make(chan *tools, workers()) // they go from layer to layer
	for range cap(free) {
		free <- &tools{spare: spare, all: &all}
	}
	g.SetLimit(cap(free))
	for _, i := range order {
		g.Go(func() error {
			t := <-free
			defer func() {
				left.Add(-1)
				free <- t
			}()
			l, err := img.indexBlob(ctx, i, t)
			if err == nil {
				err = all.add(l)
			}
			if err != nil {
				return fmt.Errorf("layer %d%s: %w", i+1, img.Layers[i].Instruction(), err)
			}
			out[i] = l
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, l := range img.Layers {
		if out[i] == nil {
			out[i] = out[first[l.Digest]]
		}
	}
	return out, nil
}

// maxImage bounds what the layers of an image hold together, in bytes: each is
// bounded alone, and there may be thousands. A CUDA 13 machine holds 0.2 GB. A
// variable, so that tests can reach it.
var maxImage = int64(1 << 30)

// ledger counts what the layers of an image hold together: those that were read, and
// those that are being read, by and by. A nil ledger counts nothing.
type ledger struct{ n, reading atomic.Int64 }

// entryWeight is about what an entry takes beside its texts, in bytes.
const entryWeight = 256

// hold counts bytes of a layer that is being read. Its error is one of the image.
func (h *ledger) hold(n int64) error {
	if h != nil && h.n.Load()+h.reading.Add(n) > maxImage {
		return errImage()
	}
	return nil
}

// release takes back what hold has counted of a layer.
func (h *ledger) release(n int64) {
	if h != nil {
		h.reading.Add(-n)
	}
}

// holding is what a ledger has counted of one layer.
type holding struct {
	all  *ledger
	told int64
}

// now says how much the layer holds by now. It is counted in steps.
func (h *holding) now(n int64) error {
	const step = 1 << 20
	if h.all == nil || n-h.told < step {
		return nil
	}
	more := n - h.told
	h.told = n
	return h.all.hold(more)
}

// end takes back what was counted: the layer was read, and is counted as a whole.
func (h *holding) end() {
	h.all.release(h.told)
	h.told = 0
}

func errImage() error {
	return fmt.Errorf("the image's layers hold more than the %d MiB of names, tables and small files that are kept of an image: it has too many files to be looked at", maxImage>>20)
}

// add counts a layer. Its error is one of the image.
func (h *ledger) add(l *Layer) error {
	n := int64(0)
	for _, e := range l.Entries {
		n += entryWeight + int64(len(e.Path)+len(e.Link)+len(e.Content)+len(e.Shebang))
		if e.Object != nil {
			n += weight(e.Object) + e.Object.Symbols.Weight()
		}
	}
	for _, p := range l.Whiteouts {
		n += 64 + int64(len(p))
	}
	if h.n.Add(n) > maxImage {
		return errImage()
	}
	return nil
}

// workers is how many layers are read at a time. Each has a decompressor's window
// and a reader's of an ELF file, 30 MB in all.
func workers() int { return min(4, runtime.GOMAXPROCS(0)) }

func (img *Image) indexBlob(ctx context.Context, i int, t *tools) (*Layer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	digest := img.Verified(i)
	cached := img.opts.cacheable(digest)
	if cached {
		if l, ok := img.opts.Cache.layer(digest, img.opts.KeepID, t.all); ok {
			img.note(i, "is in the cache")
			return l, nil
		}
	}
	var igzip func() string
	if img.Layers[i].Size >= minIgzip {
		igzip = findIgzip
	}
	l, err := img.readBlob(ctx, i, t, igzip)
	var failed *outsideError
	if errors.As(err, &failed) {
		img.note(i, fmt.Sprintf("read again by imgcheck's inflate: by %s, %v", failed.program, failed))
		l, err = img.readBlob(ctx, i, t, nil)
	}
	if err != nil {
		return nil, err
	}
	if cached {
		if err := img.opts.Cache.PutLayer(digest, img.opts.KeepID, l); err != nil {
			img.note(i, err.Error())
		}
	}
	return l, nil
}

// readBlob reads a layer from where it comes from.
func (img *Image) readBlob(ctx context.Context, i int, t *tools, igzip func() string) (*Layer, error) {
	rc, err := img.Blob(ctx, i, func(text string) { img.note(i, text) })
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	t.file = rc.Local
	head := &headReader{r: img.meter(rc, i)}
	l, err := t.readBlob(ctx, head, igzip, &img.opts)
	program := ""
	if bytes.HasPrefix(head.b, magicGzip) {
		program = programOf(igzip)
	}
	var broken sourceError
	switch {
	case errors.As(err, &broken):
		return nil, broken.error
	case err != nil && program != "":
		return nil, &outsideError{program, err}
	case err != nil:
		return nil, err
	}
	img.note(i, "read, "+decodedBy(head.b, program))
	return l, nil
}

// headReader remembers how a blob begins.
type headReader struct {
	r io.Reader
	b []byte
}

func (h *headReader) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if len(h.b) < len(magicZstd) {
		h.b = append(h.b, p[:min(n, len(magicZstd))]...)
	}
	return n, err
}

// decodedBy says by what a blob that begins so is decompressed.
func decodedBy(head []byte, igzip string) string {
	switch {
	case bytes.HasPrefix(head, magicGzip) && igzip != "":
		return "gzip by " + igzip
	case bytes.HasPrefix(head, magicGzip):
		return "gzip by imgcheck's inflate"
	case bytes.HasPrefix(head, magicZstd):
		return "zstd by klauspost/compress"
	}
	return "not compressed"
}

// cacheable reports whether the index of a layer, whose stored bytes are
// verified to have a digest, may come from the cache and go there.
func (o *Options) cacheable(verified string) bool {
	return o.Cache != nil && verified != "" && (o.Keep == nil || o.KeepID != "")
}

// note tells what is worth knowing of a layer.
func (img *Image) note(layer int, text string) {
	if img.opts.Note != nil {
		img.opts.Note(layer, text)
	}
}

// meter reports what is read of r to the progress function.
func (img *Image) meter(r io.Reader, layer int) io.Reader {
	if img.opts.Progress == nil {
		return r
	}
	return readerFunc(func(b []byte) (int, error) {
		n, err := r.Read(b)
		img.opts.Progress(layer, n)
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// keep adds what loaders read to what the caller wants.
func (o *Options) keep(name string, size int64) bool {
	if loaderReads(name) {
		return true
	}
	return o.Keep != nil && o.Keep(name, size)
}

func loaderReads(name string) bool {
	switch name {
	case "etc/ld.so.cache", "etc/ld.so.preload", "etc/ld.so.conf":
		return true
	}
	return strings.HasPrefix(name, "etc/ld.so.conf.d/") ||
		strings.Contains(name, "etc/ld-musl-") && strings.HasSuffix(name, ".path")
}

// ErrNotKept is what reading a file gives whose bytes were not kept.
var ErrNotKept = errors.New("its bytes were not kept")

var _ fs.FS = (*FS)(nil)
