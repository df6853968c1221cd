package scan

import (
	"context"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/rules"
)

// Size reads and replays the image that ref names, and returns the bytes that its containers
// can do without. GPU code counts if the options name machines, each with a GPU.
func Size(ctx context.Context, ref string, o Options) (*size.Result, error) {
	classes, err := size.LoadClasses(rules.FS)
	if err != nil {
		return nil, err
	}
	set, err := o.rules().Packs()
	if err != nil {
		return nil, err
	}
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	o.begin(Reading)
	read, fsys, err := img.IndexLayers(ctx)
	if err != nil {
		return nil, err
	}
	o.begin(Judging)
	evidence, err := replay.Run(ctx, &replay.Image{FS: fsys, Config: img.Config}, set)
	if err != nil {
		return nil, err
	}
	sized := size.Image{Layers: read, FS: fsys, Evidence: evidence, Packs: set}
	for _, m := range o.Machines {
		if m.Arch == 0 {
			sized.GPUs = nil // any GPU: all code counts
			break
		}
		if !slices.Contains(sized.GPUs, m.Arch) {
			sized.GPUs = append(sized.GPUs, m.Arch)
		}
	}
	return size.Find(ctx, sized, classes)
}
