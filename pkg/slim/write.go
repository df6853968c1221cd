package slim

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Write writes a layer of img, the image that the plan was made for, as it will be: an
// uncompressed tar. It reads the old layer as a stream, and the new one as it goes by: its
// error says if the new one's files are not those that the plan foretells. The old layer's digest
// is verified at its end, so that what was written counts only if there is no error.
func (p *Plan) Write(ctx context.Context, img *source.Image, layer int, w io.Writer) error {
	blob, err := img.Blob(ctx, layer, nil)
	if err != nil {
		return err
	}
	defer blob.Close()
	unpacked, err := layers.Unpack(blob)
	if err != nil {
		return err
	}
	defer unpacked.Close()
	if err := p.rewrite(layer, w, unpacked); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, blob) // at whose end its digest is verified
	return err
}

// rewrite copies the tar of a layer without the files that go, and checks the headers of the
// copy. Contents are copied as they are, but for those of changed files, which check themselves.
func (p *Plan) rewrite(layer int, w io.Writer, r io.Reader) error {
	indexed, feed := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		l, err := layers.ReadHeaders(indexed)
		if err == nil {
			err = differs(p.foretold(layer), l, p.gone[layer])
		}
		indexed.CloseWithError(err)
		return err
	})
	err := Rewrite(io.MultiWriter(w, feed), r, p.edit(layer))
	feed.CloseWithError(err) // nil is the end
	if checked := g.Wait(); err == nil {
		err = checked
	}
	return err
}

// edit returns what becomes of the members of a layer's tar. It knows a file by the name in the
// tar: one that leads through a link of the layer stays, and is found by the check.
func (p *Plan) edit(layer int) func(Member) (Edit, error) {
	gone, changed := p.gone[layer], p.changed[layer]
	return func(m Member) (Edit, error) {
		name := path.Clean("/" + m.Name)[1:]
		e := Edit{Drop: gone[name] && (m.Typeflag != tar.TypeDir || p.emptied[layer][name])}
		switch c := changed[name]; {
		case c == nil || m.Typeflag != tar.TypeReg && !m.Sparse: // a hard link has the bytes of another member
		case m.Sparse:
			return e, fmt.Errorf("/%s is stored without its holes: such a file cannot be changed", plain.Name(name))
		case c.strip != nil:
			e.Content = func(w io.Writer, old io.Reader) error { return c.strip.write(w, old, c.entry.Size) }
		default:
			e.Text = c.content
		}
		return e, nil
	}
}

// errForetold begins the errors of a layer that was written and is not the foretold one.
var errForetold = errors.New("the new layer is not as foretold")

// differs returns an error unless an index is the foretold one. A layer may have a marker beside the
// file that it removes from the layers below: without the file, the marker hides them in its place.
func differs(want, got *layers.Layer, gone map[string]bool) error {
	hides := slices.DeleteFunc(slices.Clone(got.Whiteouts), func(w string) bool { return gone[w] })
	if !slices.Equal(want.Whiteouts, hides) || !slices.Equal(want.Opaque, got.Opaque) {
		return fmt.Errorf("%w: it hides other files", errForetold)
	}
	for i, e := range want.Entries {
		if i == len(got.Entries) || !sameHeader(e, got.Entries[i]) {
			return fmt.Errorf("%w: it differs at /%s", errForetold, e.Path)
		}
	}
	if n := len(want.Entries); len(got.Entries) > n {
		return fmt.Errorf("%w: it has /%s", errForetold, got.Entries[n].Path)
	}
	return nil
}
