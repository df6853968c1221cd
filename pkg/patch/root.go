package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// openRoot opens an unpacked root file system as a base. It has no manifest, and a config
// with the given variables only, so that it can be published as a layer only.
func (b *Base) openRoot(ctx context.Context, o Options) error {
	root, err := source.Open(ctx, b.Ref, source.Options{Env: o.Env})
	if err != nil {
		return errors.Unwrap(err) // OpenBase adds the reference
	}
	img := &Image{Image: root}
	if img.Config == nil {
		img.Config = &v1.ConfigFile{}
	}
	if img.RawConfig, err = json.Marshal(img.Config); err != nil {
		return err
	}
	b.root, b.Images = true, []*Image{img}
	return nil
}

// publishLayer writes the new layer alone into a file, as an uncompressed tar. The layer of
// a change without files is empty.
func publishLayer(ctx context.Context, patched []*Patched, to string) (string, error) {
	file := strings.TrimPrefix(to, layerScheme)
	if len(patched) != 1 {
		return "", fmt.Errorf("holds one layer, and %d images were patched: choose one with --platform", len(patched))
	}
	p := patched[0]
	l := p.layer
	if l == nil {
		var err error
		if l, err = makeLayer(ctx, &layers.FS{}, Change{}, layerType(p.Base)); err != nil {
			return "", err
		}
	}
	err := writeFile(file, func(w io.Writer) error {
		rc, err := l.Uncompressed()
		if err != nil {
			return err
		}
		defer rc.Close()
		_, err = io.Copy(w, &until{ctx, rc})
		return err
	})
	return to + "@" + l.diffID.String(), err
}

// layerScheme is the prefix of a target that is a layer alone.
const layerScheme = "layer:"

// IsLayer reports whether a target is a layer alone, which cannot hold variables.
func IsLayer(to string) bool { return strings.HasPrefix(to, layerScheme) }
