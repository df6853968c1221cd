package patch

import (
	"context"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/imgcheck/imgcheck/pkg/source"
)

// guarded is a layer of the base that a target needs. Its content can be read only if that
// is allowed, so that it is not sent by mistake.
type guarded struct {
	ctx   context.Context
	src   source.Store
	d     v1.Descriptor
	allow bool
	why   string // why the content would be needed
}

func (g *guarded) Digest() (v1.Hash, error)            { return g.d.Digest, nil }
func (g *guarded) Size() (int64, error)                { return g.d.Size, nil }
func (g *guarded) MediaType() (types.MediaType, error) { return g.d.MediaType, nil }

// DiffID returns an error: it is not known, and not needed to send a blob.
func (g *guarded) DiffID() (v1.Hash, error) { return v1.Hash{}, g.refusal() }

// Uncompressed returns an error: only the stored bytes are sent.
func (g *guarded) Uncompressed() (io.ReadCloser, error) { return nil, g.refusal() }

func (g *guarded) refusal() error { return &CopyError{g.d.Digest.String(), g.d.Size, g.why} }

// Compressed returns the content if that is allowed, else a [CopyError].
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

// stored reads a blob of the base while it is copied. It returns errors as readErrors.
type stored struct{ io.ReadCloser }

func (s *stored) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// readError is an error of a blob's source, rather than of its target.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }
