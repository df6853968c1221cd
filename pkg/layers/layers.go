// Package layers turns an image into a file system that can be queried, without
// unpacking anything.
//
// [Image.Index] reads each layer of an image that [source] has found once, as a
// stream, into a [Layer]: names, links, modes, the [elfdeps] object of each ELF file,
// and the bytes of the few small files that the caller keeps. [Merge] lays the layers
// over one another as overlayfs does, into an [FS].
//
// A layer is indexed alone: its index depends on its bytes only, so that it can be
// cached by digest. A part that could not be read is kept with the reason, and is never
// reported as absent.
//
// The package does not know where blobs come from, nor loaders, frameworks or rules.
// Everything that comes from an image is hostile: each size is bounded before it is
// allocated.
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

// Options say how an image is found and read. It has 14 fields because they are those of the
// source, of the choice of files, of what layers share, and three callbacks.
type Options struct {
	// Platform is os/arch[/variant], for an index; nil means linux/amd64, or
	// the only platform there is.
	Platform *v1.Platform
	// Insecure allows plain HTTP and unverified TLS to the registry.
	Insecure bool
	// Keep reports whether a file's bytes are kept, by its path without a leading
	// slash and its size in bytes. The files that loaders read are kept anyway, and with
	// Keep also the scripts, files that begin with `#!`, of at most 256 KiB.
	Keep func(name string, size int64) bool
	// Extract, when set, returns a function that reads a kept file and returns what
	// is kept in place of its bytes, or nil for a file that is kept whole. The
	// function bounds its own memory. Its error is one of the reader.
	Extract func(name string, size int64) func(io.Reader) ([]byte, error)
	// KeepID identifies Keep and Extract: other functions must have another KeepID. If
	// Keep is set and KeepID is empty, the cache is not used.
	KeepID string
	// Cache, when set, stores the index of each layer whose digest was verified. A
	// layer that it has is not read again.
	Cache *Cache
	// Shared, when set, has the layers that other images of this run have read. It has no
	// effect on layers that the cache could not have.
	Shared *Shared
	// Indexes, when set, have indexes of layers that somebody else has read.
	Indexes *Indexes
	// Stall is as in [source.Options].
	Stall time.Duration
	// Note, when set, is called with a line on how a layer is read: that the cache
	// has it, or which program unpacks it. layer is its number from 0, or -1 for the
	// whole image. It is called from many goroutines.
	Note func(layer int, text string)
	// Begin, when set, is called with the layers before the first is read, unless
	// they are known only afterwards (a daemon's, a compressed archive's).
	Begin func([]source.Layer)
	// Progress, when set, is called with the bytes that were read: the layer's number
	// from 0, and how many bytes of its compressed stream. It is called from many
	// goroutines.
	Progress func(layer int, n int)

	// Env is as in [source.Options].
	Env []string

	sleep func(context.Context, time.Duration) error // in tests
}

// Image is an image to index: a [source.Image] with the options of reading it, which
// another reader of the same image may choose otherwise.
type Image struct {
	*source.Image
	opts     Options
	borrowed atomic.Bool // an index of Indexes was used
}

// Open finds the image that ref names, as [source.Open] does.
func Open(ctx context.Context, ref string, o Options) (*Image, error) {
	img, err := source.Open(ctx, ref, source.Options{Platform: o.Platform, Insecure: o.Insecure, Stall: o.Stall, Env: o.Env, Sleep: o.sleep})
	if err != nil {
		return nil, err
	}
	return From(img, o), nil
}

// From returns an image that was found already. The options of finding are ignored.
func From(img *source.Image, o Options) *Image { return &Image{Image: img, opts: o} }

// Index reads every layer and merges them. It reads as many at a time as there are
// processors, at most four.
func (img *Image) Index(ctx context.Context) (*FS, error) {
	_, f, err := img.IndexLayers(ctx)
	return f, err
}

// IndexLayers does the same as Index, and also returns the index of each layer, the lowest
// first, which a file system forgets. They must not be changed.
func (img *Image) IndexLayers(ctx context.Context) ([]*Layer, *FS, error) {
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
		return nil, nil, fmt.Errorf("indexing %s: %w", img.Ref, err)
	}
	f := Merge(read...)
	f.Layers = img.Layers
	return read, f, nil
}

// indexBlobs reads the layers, the largest first so that no long one is left for the
// end. A blob that occurs twice is read once.
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
	var left atomic.Int64 // layers still to be read
	left.Store(int64(len(order)))
	spare := func() bool { return min(int(left.Load()), workers()) < runtime.GOMAXPROCS(0) }
	var packed atomic.Int64 // their bytes
	for _, i := range order {
		packed.Add(max(0, img.Layers[i].Size))
	}
	var all ledger
	var unpacked budget
	free := make(chan *tools, workers()) // reused from layer to layer
	for range cap(free) {
		free <- &tools{spare: spare, left: &packed, all: &all, budget: &unpacked}
	}
	g.SetLimit(cap(free))
	for _, i := range order {
		g.Go(func() error {
			t := <-free
			defer func() {
				left.Add(-1)
				packed.Add(-max(0, img.Layers[i].Size))
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

// maxImage bounds the indexes of all layers of an image together, in bytes: each has a
// bound of its own, and there may be thousands. A CUDA 13 machine takes 0.2 GB. A
// variable, so that tests can reach it.
var maxImage = int64(1 << 30)

// ledger counts the bytes that the layers of an image hold together: those that were
// read, and those that are being read as they grow. A nil ledger does not count.
type ledger struct{ n, reading atomic.Int64 }

// entryWeight is about the size of an entry without its texts, in bytes.
const entryWeight = 256

// hold counts bytes of a layer that is being read. Its error is about the image.
func (h *ledger) hold(n int64) error {
	if h != nil && h.n.Load()+h.reading.Add(n) > maxImage {
		return errImage()
	}
	return nil
}

// release takes back bytes that hold has counted.
func (h *ledger) release(n int64) {
	if h != nil {
		h.reading.Add(-n)
	}
}

// holding is the share of one layer in a ledger.
type holding struct {
	all  *ledger
	told int64
}

// now sets how much the layer holds by now. The ledger counts it in steps.
func (h *holding) now(n int64) error {
	const step = 1 << 20
	if h.all == nil || n-h.told < step {
		return nil
	}
	more := n - h.told
	h.told = n
	return h.all.hold(more)
}

// end takes the share back: a layer that was read is counted by add, as a whole.
func (h *holding) end() {
	h.all.release(h.told)
	h.told = 0
}

func errImage() error {
	return fmt.Errorf("the image's layers hold more than the %d MiB of names, tables and small files that are kept of an image: it has too many files to be scanned", maxImage>>20)
}

// add counts a layer that was read. Its error is about the image.
func (h *ledger) add(l *Layer) error {
	if h.n.Add(l.weight()) > maxImage {
		return errImage()
	}
	return nil
}

// weight returns about how many bytes the index of a layer takes.
func (l *Layer) weight() int64 {
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
	return n
}

// workers returns how many layers are read at a time. Each has the window of a
// decompressor and of a reader of ELF files, 30 MB in all.
func workers() int { return min(4, runtime.GOMAXPROCS(0)) }

func (img *Image) indexBlob(ctx context.Context, i int, t *tools) (*Layer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	digest := img.Verified(i)
	if img.opts.Shared == nil {
		return img.readOrCached(ctx, i, digest, t)
	}
	read := func() (*Layer, error) { return img.readOrCached(ctx, i, digest, t) }
	if !img.opts.namesChoice(digest) {
		return img.opts.Shared.place(ctx, read)
	}
	by := img.opts.Indexes.by(img.Image)
	l, before, err := img.opts.Shared.layer(ctx, layerName(digest, img.opts.KeepID)+by, read)
	if before {
		img.note(i, "was read for another image")
		if by != "" { // perhaps from an index
			img.borrowed.Store(true)
		}
	}
	return l, err
}

// readOrCached returns the index of a layer from the cache, that of somebody else who is
// believed, or that of the layer, which it reads.
func (img *Image) readOrCached(ctx context.Context, i int, digest string, t *tools) (*Layer, error) {
	cached := img.opts.cacheable(digest)
	if cached {
		if l, ok := img.opts.Cache.layer(digest, img.opts.KeepID, t.all); ok {
			img.note(i, "is in the cache")
			img.compare(ctx, i, digest, l, t)
			return l, nil
		}
	}
	if l := img.borrow(ctx, i, digest, t); l != nil {
		return l, nil
	}
	var igzip func() string
	t.crew = nil
	size := max(0, img.Layers[i].Size)
	all := max(reading.Add(size), t.left.Load())
	defer reading.Add(-size)
	if several(size, all, runtime.GOMAXPROCS(0)) {
		t.crew = crew()
	} else if size >= minIgzip {
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
	img.compare(ctx, i, digest, l, t)
	return l, nil
}

// readBlob fetches and reads a layer.
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
	img.note(i, "read, "+decodedBy(head.b, program, t.crew != nil))
	return l, nil
}

// headReader keeps the first bytes of a blob.
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

// decodedBy returns what decompresses a blob that begins with head, for a note.
func decodedBy(head []byte, igzip string, several bool) string {
	switch {
	case bytes.HasPrefix(head, magicGzip) && several:
		return "gzip by imgcheck's inflate on several processors"
	case bytes.HasPrefix(head, magicGzip) && igzip != "":
		return "gzip by " + igzip
	case bytes.HasPrefix(head, magicGzip):
		return "gzip by imgcheck's inflate"
	case bytes.HasPrefix(head, magicZstd):
		return "zstd by klauspost/compress"
	}
	return "not compressed"
}

// cacheable reports whether the index of a layer may come from the cache and go there.
// verified is the digest that its stored bytes are verified to have.
func (o *Options) cacheable(verified string) bool {
	return o.Cache != nil && o.namesChoice(verified)
}

// namesChoice reports whether a layer's digest and KeepID say everything that its index
// depends on.
func (o *Options) namesChoice(verified string) bool {
	return verified != "" && (o.Keep == nil || o.KeepID != "")
}

// note calls Note.
func (img *Image) note(layer int, text string) {
	if img.opts.Note != nil {
		img.opts.Note(layer, text)
	}
}

// meter returns r with its reads reported to Progress.
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

// keep reports whether a file's bytes are kept: because a loader reads it, or the caller
// wants it.
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

// ErrNotKept is the error of reading a file whose bytes were not kept.
var ErrNotKept = errors.New("its bytes were not kept")

var _ fs.FS = (*FS)(nil)
