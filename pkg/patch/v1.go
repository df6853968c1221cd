package patch

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// v1 is the image as go-containerregistry has it.
func (img *Image) v1(ctx context.Context) (v1.Image, error) {
	return partial.CompressedToImage(&core{ctx, img})
}

// core is an image as what partial asks for.
type core struct {
	ctx context.Context
	img *Image
}

func (c *core) RawManifest() ([]byte, error)        { return c.img.raw, nil }
func (c *core) MediaType() (types.MediaType, error) { return c.img.mt, nil }
func (c *core) RawConfigFile() ([]byte, error)      { return c.img.rawConfig, nil }
func (c *core) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range c.img.manifest.Layers {
		if d.Digest == h {
			return &stored{c.ctx, c.img.src, d}, nil
		}
	}
	return nil, fmt.Errorf("the manifest has no layer %s", h)
}

// stored is a layer that lies in a source.
type stored struct {
	ctx context.Context
	src source
	d   v1.Descriptor
}

func (l *stored) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *stored) Size() (int64, error)                { return l.d.Size, nil }
func (l *stored) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *stored) Compressed() (io.ReadCloser, error)  { return l.src.blob(l.ctx, l.d) }

// guarded is a layer of the base that is to be at a target. Its content can be
// read only when that is allowed, so that nothing sends it by mistake.
type guarded struct {
	ctx   context.Context
	src   source
	d     v1.Descriptor
	allow bool
	why   string // why the content is needed, if it is
}

func (g *guarded) Digest() (v1.Hash, error)            { return g.d.Digest, nil }
func (g *guarded) Size() (int64, error)                { return g.d.Size, nil }
func (g *guarded) MediaType() (types.MediaType, error) { return g.d.MediaType, nil }

// DiffID is not known, and nobody who sends a blob asks.
func (g *guarded) DiffID() (v1.Hash, error) { return v1.Hash{}, g.refusal() }

// Uncompressed refuses: only the stored bytes are ever sent.
func (g *guarded) Uncompressed() (io.ReadCloser, error) { return nil, g.refusal() }

func (g *guarded) refusal() error { return &CopyError{g.d.Digest.String(), g.d.Size, g.why} }

// Compressed gives the content when that is allowed, and else a [CopyError].
func (g *guarded) Compressed() (io.ReadCloser, error) {
	if !g.allow {
		return nil, g.refusal()
	}
	rc, err := g.src.blob(g.ctx, g.d)
	if err != nil {
		return nil, err
	}
	return verified(rc, g.d), nil
}
