package layers

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// indexStream indexes an image whose layers come as one stream: a daemon's, or one of a
// compressed archive. They come before the document that names them, so that each file
// that looks like a layer is indexed.
func (img *Image) indexStream(ctx context.Context) ([]*Layer, error) {
	rc, err := img.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	var whole budget
	unpacked, err := Unpack(whole.compressed(img.meter(rc, 0)))
	if err != nil {
		return nil, err
	}
	defer unpacked.Close()
	s := streamed{opts: &img.opts, layers: map[int]streamedLayer{}}
	s.tools.budget = new(budget)
	saved, err := img.ReadStream(ctx, whole.plain(unpacked), func(f source.TarFile, r io.Reader) error { return s.take(ctx, f, r) })
	if err != nil {
		return nil, err
	}
	return s.list(img.Layers, saved)
}

// list returns the layers of the image that was chosen.
func (s *streamed) list(infos []source.Layer, saved *source.Saved) ([]*Layer, error) {
	var list []*Layer
	for i, f := range saved.Layers {
		l, ok := s.layers[f.Entry]
		if !ok {
			l.err = fmt.Errorf("%s is not a layer: it is neither a tar nor compressed", plain.Name(f.Name))
		}
		if l.err != nil {
			return nil, fmt.Errorf("layer %d%s: %w", i+1, infos[i].Instruction(), l.err)
		}
		list = append(list, l.Layer)
	}
	return list, nil
}

// streamed are the layers of a stream, by the numbers of their entries.
type streamed struct {
	opts   *Options
	layers map[int]streamedLayer
	held   ledger
	tools  tools
}

// streamedLayer is a layer, or why it could not be read. It may be another image's.
type streamedLayer struct {
	*Layer
	err error
}

func (s *streamed) take(ctx context.Context, f source.TarFile, r io.Reader) error {
	if !f.IsLayer {
		return nil
	}
	l, err := s.tools.readBlob(ctx, r, nil, s.opts)
	var broken sourceError
	if errors.As(err, &broken) {
		return broken.error
	}
	if errors.Is(err, errUnpacked) {
		return err
	}
	if l != nil {
		if err := s.held.add(l); err != nil {
			return err
		}
	}
	s.layers[f.Entry] = streamedLayer{l, err}
	return nil
}
