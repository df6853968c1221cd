package scan

import (
	"context"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/contract"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// GPUs reads and replays the image that ref names, and returns it with the verdict for every
// known GPU, in the order of their architectures; without any if it has no GPU code.
func GPUs(ctx context.Context, ref string, o Options) (*contract.Image, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	set, _, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, err
	}
	c, err := contracted(ctx, ref, &replay.Image{FS: fsys, Config: img.Config}, set)
	if err != nil {
		return nil, err
	}
	if digest, err := v1.NewHash(img.Digest); err == nil {
		c.Subject = v1.Descriptor{MediaType: img.MediaType, Digest: digest, Size: int64(len(img.Manifest))}
	}
	return c, nil
}

// contracted replays an image and returns it with its verdicts.
func contracted(ctx context.Context, ref string, img *replay.Image, set *packs.Packs) (*contract.Image, error) {
	evidence, err := replay.Run(ctx, img, set)
	if err != nil {
		return nil, err
	}
	c := &contract.Image{Ref: ref, Rows: lint.GPURows(evidence, img, set)}
	if driver := lint.CompatDriver(img.FS); driver != "" {
		c.Compat = path.Dir(driver)
	}
	return c, nil
}
