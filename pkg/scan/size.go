package scan

import (
	"context"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
)

// Size reads and replays the image that ref names, and returns the bytes that its containers
// can do without. GPU code counts if the options name machines, each with a GPU. Layers have the
// lines of the Dockerfile that made them, as far as Image finds them; the second result says why none has.
func Size(ctx context.Context, ref string, o Options) (*size.Result, string, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, "", err
	}
	defer img.Close()
	o.begin(Reading)
	set, read, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, "", err
	}
	o.begin(Judging)
	evidence, err := replay.Run(ctx, &replay.Image{FS: fsys, Config: img.Config}, set)
	if err != nil {
		return nil, "", err
	}
	r, err := sized(ctx, img, read, fsys, evidence, set, o.Machines)
	if err != nil {
		return nil, "", err
	}
	b, unknown := buildOf(ctx, img.Image, o.Dockerfiles)
	if unknown != nil {
		return r, unknown.Error(), nil
	}
	for i := range b.lines {
		if i < len(r.Layers) {
			r.Layers[i].Dockerfile = b.lines[i]
		}
	}
	return r, "", nil
}

// sized returns the bytes that an image which was replayed can do without, if it is for machines. Files
// of img, unless it is nil, are read again where they may name others.
func sized(ctx context.Context, img *layers.Image, read []*layers.Layer, fsys *layers.FS, evidence *replay.Evidence, set *packs.Packs, machines []targets.Machine) (*size.Result, error) {
	classes, err := size.LoadClasses(rules.FS)
	if err != nil {
		return nil, err
	}
	sized := size.Image{Layers: read, FS: fsys, Evidence: evidence, Packs: set}
	if img != nil && !img.IsStream() {
		sized.Read = img.ReadFiles
	}
	for _, m := range machines {
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
