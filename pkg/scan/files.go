package scan

import (
	"context"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Files returns the files and the config of the image that ref names, and judges nothing.
// With a cache, only layers that are not in it are read; a later scan finds them there.
func Files(ctx context.Context, ref string, o Options) (*layers.FS, *v1.ConfigFile, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, nil, err
	}
	defer img.Close()
	o.begin(Reading)
	fsys, err := img.Index(ctx)
	if err != nil {
		return nil, nil, err
	}
	return fsys, img.Config, nil
}
