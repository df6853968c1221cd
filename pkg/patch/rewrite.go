package patch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/stream"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// Rewrite is an image of a base of which some layers are written anew. Its history and the
// rest of its config stay as they are.
type Rewrite struct {
	Base *Image
	// Layers write new layers as uncompressed tars, by their numbers from 0. An upload that
	// breaks begins again: a function may be called more than once, and must always write
	// the same bytes.
	Layers map[int]func(ctx context.Context, w io.Writer) error
	// Compression of the new layers is gzip or zstd; "" is that of the old layer, and gzip
	// for one that is not compressed.
	Compression string
	// Sizes are the numbers of bytes of the new layers, compressed. [PublishRewritten] sets
	// them.
	Sizes map[int]int64
}

// PublishRewritten publishes images with new layers to a registry or an OCI layout, and
// returns ref@sha256:… as [Publish] does. The layers that stay are referenced, mounted or
// copied as those of a base. New layers are compressed and sent while they are written:
// nothing of them is kept on this machine but in a layout. A failure leaves the name as it
// was. The result has no mark of a patch: [Undo] does not know it.
func PublishRewritten(ctx context.Context, base *Base, list []*Rewrite, to string, o Options) (string, error) {
	ref, err := base.publishRewritten(ctx, list, to, o)
	return ref, named(to, err)
}

func (b *Base) publishRewritten(ctx context.Context, list []*Rewrite, to string, o Options) (string, error) {
	switch scheme, _ := source.Split(to); {
	case b.root || b.archive != nil:
		return "", errors.New("only images of registries and OCI layouts can get new layers")
	case scheme != "registry" && scheme != "oci":
		return "", errors.New("new layers go to a registry or an OCI layout: say NAME:TAG or oci:DIR:TAG")
	}
	t, err := openTarget(to, o)
	if err != nil {
		return "", err
	}
	if r, ok := t.(*repository); ok && r.same(b.src) {
		r.Repository = b.src.(*repository).Repository // it has logged in
	}
	if _, err := t.now(ctx); err != nil {
		return "", err // before gigabytes are sent
	}
	var done []*Patched
	for _, r := range list {
		p, err := r.put(ctx, t, o)
		if err != nil {
			return "", err
		}
		done = append(done, p)
	}
	return b.publish(ctx, done, t, o)
}

// put puts the layers of an image, the new ones last, and returns the image that has them.
func (r *Rewrite) put(ctx context.Context, t target, o Options) (*Patched, error) {
	img := r.Base
	p := &Patched{Base: img, rewritten: true}
	made := map[int]*streamed{}
	for i, d := range img.manifest.Layers {
		write := r.Layers[i]
		if write == nil {
			p.kept = append(p.kept, d)
			continue
		}
		mt, err := r.mediaType(d.MediaType)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		made[i] = &streamed{ctx: ctx, write: write, mt: mt}
	}
	if len(made) != len(r.Layers) {
		return nil, fmt.Errorf("the image has %d layers, and others are to be written", len(img.manifest.Layers))
	}
	if err := putLayers(ctx, t, img.Store, p.kept, o); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2) // of which each takes a processor and up to 50 MB
	for _, i := range slices.Sorted(maps.Keys(made)) {
		made[i].ctx = ctx
		g.Go(func() error {
			if err := t.stream(ctx, made[i]); err != nil {
				return fmt.Errorf("layer %d: %w", i+1, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return p, r.edit(p, made)
}

// mediaType returns the type of a new layer in the place of one of another type.
func (r *Rewrite) mediaType(old types.MediaType) (types.MediaType, error) {
	oci := annotated(r.Base.MediaType)
	switch {
	case !old.IsDistributable():
		return "", errors.New("may not be distributed, and cannot be changed")
	case r.Compression == "zstd" && !oci:
		return "", errors.New("an image in Docker's format has no zstd: leave out --compress zstd")
	case r.Compression == "zstd", r.Compression == "" && old == types.OCILayerZStd:
		return types.OCILayerZStd, nil
	case oci:
		return types.OCILayer, nil
	}
	return types.DockerLayer, nil
}

// edit sets p's documents.
func (r *Rewrite) edit(p *Patched, made map[int]*streamed) error {
	config, manifest := edits{doc: r.Base.RawConfig}, edits{doc: r.Base.Manifest}
	r.Sizes = map[int]int64{}
	for i, l := range made {
		got, err := l.result()
		if err != nil {
			return err
		}
		r.Sizes[i] = got.size
		config.do(func(doc []byte) ([]byte, error) {
			return setElement(doc, i, quote(got.diffID.String()), "rootfs", "diff_ids")
		})
		manifest.do(func(doc []byte) ([]byte, error) {
			return setElement(doc, i, encode(descriptor(l.mt, got.digest, got.size)), "layers")
		})
	}
	if config.err != nil {
		return fmt.Errorf("editing the config: %w", config.err)
	}
	manifest.set(quote(digestOf(config.doc).String()), "config", "digest")
	manifest.set(fmt.Sprint(len(config.doc)), "config", "size")
	manifest.drop("config", "data") // the old config's bytes
	if manifest.err != nil {
		return fmt.Errorf("editing the manifest: %w", manifest.err)
	}
	p.Config, p.Manifest, p.Digest = config.doc, manifest.doc, digestOf(manifest.doc).String()
	return nil
}

// streamed is a layer that is written while it is read. Its digests are known once it was
// read to its end.
type streamed struct {
	ctx   context.Context
	write func(ctx context.Context, w io.Writer) error
	mt    types.MediaType

	mu   sync.Mutex
	done *written
}

// written has the digests and the compressed size of a layer that was written.
type written struct {
	digest, diffID v1.Hash
	size           int64
}

func (s *streamed) result() (written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		return written{}, stream.ErrNotComputed
	}
	return *s.done, nil
}

// Digest returns the digest, or an error before the layer was read: go-containerregistry sends
// such a layer without asking for its digest first.
func (s *streamed) Digest() (v1.Hash, error) {
	w, err := s.result()
	return w.digest, err
}

// DiffID returns the digest of the tar in the same way.
func (s *streamed) DiffID() (v1.Hash, error) {
	w, err := s.result()
	return w.diffID, err
}

// Size returns the number of compressed bytes in the same way.
func (s *streamed) Size() (int64, error) {
	w, err := s.result()
	return w.size, err
}

// MediaType implements [v1.Layer].
func (s *streamed) MediaType() (types.MediaType, error) { return s.mt, nil }

// Uncompressed returns an error: the compressed bytes are sent.
func (s *streamed) Uncompressed() (io.ReadCloser, error) {
	return nil, errors.New("a layer that is sent is read compressed")
}

// Compressed writes the layer into the reader that it returns.
func (s *streamed) Compressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	go func() {
		err := s.writeTo(w)
		if err != nil {
			err = &readError{err}
		}
		w.CloseWithError(err) // nil is the end
	}()
	return r, nil
}

func (s *streamed) writeTo(w io.Writer) error {
	sum, plain := sha256.New(), sha256.New()
	var n int64
	z, err := compressor(io.MultiWriter(w, sum, (*counter)(&n)), s.mt)
	if err != nil {
		return err
	}
	if err := s.write(s.ctx, &whileWanted{s.ctx, io.MultiWriter(z, plain)}); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = &written{sha(sum), sha(plain), n}
	return nil
}

// stream sends a new layer while it is written.
func (r *repository) stream(ctx context.Context, l *streamed) error { return r.layer(ctx, l) }

// stream writes a new layer. It has a temporary name until its digest is known.
func (l *layout) stream(ctx context.Context, s *streamed) error {
	dir := filepath.Join(l.dir, filepath.Dir(source.BlobPath(v1.Hash{Algorithm: "sha256"})))
	if err := disk.mkdirAll(dir); err != nil {
		return source.PathError(err)
	}
	return replaceFileAs(dir, func(w io.Writer) (name string, err error) {
		if err := s.writeTo(&whileWanted{ctx, w}); err != nil {
			return "", err
		}
		got, err := s.result()
		return got.digest.Hex, err
	})
}
