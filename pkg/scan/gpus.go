package scan

import (
	"context"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/contract"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// GPUs reads and replays the image that ref names, and returns it with the verdict for every
// known GPU, in the order of their architectures; without any if it has no GPU code.
func GPUs(ctx context.Context, ref string, o Options) (*contract.Image, error) {
	img, err := open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	set, fsys, err := readBoth(ctx, img, o.rules())
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
	return &contract.Image{Ref: ref, Rows: lint.GPURows(evidence, img, set), Compat: compatIn(img.FS)}, nil
}

// compatIn returns the directory of the first compatibility driver, of cuda-compat, or "".
func compatIn(fsys *layers.FS) string {
	for e := range fsys.All() {
		dir := path.Dir("/" + e.Path)
		if e.Type == layers.Regular && path.Base(dir) == "compat" && strings.Contains(dir, "cuda") && strings.HasPrefix(path.Base(e.Path), "libcuda.so") {
			return dir
		}
	}
	return ""
}
