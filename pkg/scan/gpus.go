package scan

import (
	"context"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// GPUs reads and replays the image that ref names, and returns the verdict on it for every
// known GPU, in the order of their architectures, or nil if it has no GPU code.
func GPUs(ctx context.Context, ref string, o Options) ([]*targets.Row, error) {
	img, err := open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	set, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, err
	}
	image := &replay.Image{FS: fsys, Config: img.Config}
	evidence, err := replay.Run(ctx, image, set)
	if err != nil {
		return nil, err
	}
	return lint.GPURows(evidence, image, set), nil
}
