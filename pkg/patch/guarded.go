package patch

import (
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// guarded is a layer of the base that is to be at a target. Its content can be
// read only when that is allowed, so that nothing sends it by mistake.
type guarded struct {
	ctx   context.Context
	src   source.Store
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
	rc, err := g.src.Blob(g.ctx, g.d, nil)
	if err != nil {
		return nil, &readError{err}
	}
	return &stored{verified(rc, g.d)}, nil
}

// stored is a blob of the base that is read.
type stored struct{ io.ReadCloser }

func (s *stored) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// readError is an error of a blob where it comes from, rather than where it goes.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }
