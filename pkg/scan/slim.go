package scan

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/pkg/slim"
	"github.com/imgcheck/imgcheck/rules"
)

// SafeClasses are the classes of package size whose files go if none is named: no container has
// the first, and no program reads the second.
var SafeClasses = []string{"replaced", "package-cache"}

// Slimmed is an image and the files that it can do without, proven by a replay of the image
// without them.
type Slimmed struct {
	Base *patch.Image
	Plan *slim.Plan
	// Size is what the image has, with its classes.
	Size *size.Result
}

// Slim reads and judges base, one of the images that [patch.OpenBase] has found behind ref, and
// plans to drop the files of the classes; none means [SafeClasses]. A file that a replayed
// process maps stays. It returns a [*WorseError] if the image would be worse without the
// files of the plan: if there were a finding more, or one that weighs more, or a process mapped
// other files.
func Slim(ctx context.Context, ref string, base *patch.Image, classes []string, o Options) (*Slimmed, error) {
	known, err := size.LoadClasses(rules.FS)
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		classes = SafeClasses
	}
	for _, c := range classes {
		if !slices.ContainsFunc(known, func(k *size.Class) bool { return k.ID == c }) {
			return nil, fmt.Errorf("there is no class %q: say %s", c, classNames(known))
		}
	}
	img, err := base.Open(ctx, o.reading())
	if err != nil {
		return nil, err
	}
	defer img.Close()
	j, read, err := judgeLayers(ctx, ref, img, o)
	if err != nil {
		return nil, err
	}
	s := &Slimmed{Base: base, Size: size.Find(read, j.Image.FS, known)}
	chosen := slices.DeleteFunc(slices.Clone(s.Size.Groups), func(g size.Group) bool { return !slices.Contains(classes, g.ID) })
	if s.Plan, err = slim.New(read, j.Image.FS, chosen, j.mapped()); err != nil {
		return nil, err
	}
	if s.Plan.Empty() {
		return s, nil
	}
	return s, j.proveSlim(ctx, s.Plan)
}

func classNames(list []*size.Class) string {
	var names []string
	for _, c := range list {
		names = append(names, c.ID)
	}
	return strings.Join(names, ", ")
}

// mapped returns a function that says which process maps a file.
func (j *Judged) mapped() func(path string) string {
	by := map[string]string{}
	for _, p := range j.Result.Processes {
		for _, f := range p.Mapped {
			if by[f] == "" {
				by[f] = p.Title + " loads it"
			}
		}
	}
	return func(path string) string { return by[path] }
}

// proveSlim judges the image without the files of a plan.
func (j *Judged) proveSlim(ctx context.Context, plan *slim.Plan) error {
	fsys, err := plan.After()
	if err != nil {
		return fmt.Errorf("without the files that can go, the image would have others: %w", err)
	}
	now := &replay.Image{FS: fsys, Config: j.Image.Config, Machines: j.Image.Machines}
	res, err := lint.Run(ctx, now, j.Packs)
	if err != nil {
		return err
	}
	if err := fix.NotWorse(j.Result, res, j.Image.FS, j.counts); err != nil {
		return &WorseError{j.about.Ref, err}
	}
	if err := sameMaps(j.Result.Processes, res.Processes); err != nil {
		return &WorseError{j.about.Ref, err}
	}
	return nil
}

// sameMaps returns an error unless the processes are the same and map the same files.
func sameMaps(before, after []lint.Process) error {
	for i, p := range before {
		if i >= len(after) || after[i].Title != p.Title {
			return fmt.Errorf("%s would not run as before", p.Title)
		}
		for _, f := range p.Mapped {
			if !slices.Contains(after[i].Mapped, f) {
				return fmt.Errorf("%s would not load %s", p.Title, f)
			}
		}
		if len(after[i].Mapped) > len(p.Mapped) {
			return fmt.Errorf("%s would load other files", p.Title)
		}
	}
	if len(after) > len(before) {
		return fmt.Errorf("%s would run, which does not now", after[len(before)].Title)
	}
	return nil
}

// WorseError says why an image would be worse with a change.
type WorseError struct {
	Ref    string // of the image
	Reason error
}

func (e *WorseError) Error() string {
	return fmt.Sprintf("%s: without these files the image would not be as it is: %v", e.Ref, e.Reason)
}

func (e *WorseError) Unwrap() error { return e.Reason }

// Rewrite returns the image with its new layers, for [patch.PublishRewritten].
func (s *Slimmed) Rewrite() *patch.Rewrite {
	r := &patch.Rewrite{Base: s.Base, Layers: map[int]func(context.Context, io.Writer) error{}}
	for _, i := range s.Plan.Layers() {
		r.Layers[i] = func(ctx context.Context, w io.Writer) error { return s.Plan.Write(ctx, s.Base.Image, i, w) }
	}
	return r
}

// judgeLayers does as judge, and also returns the indexes of the layers.
func judgeLayers(ctx context.Context, ref string, img *layers.Image, o Options) (*Judged, []*layers.Layer, error) {
	o.begin(Reading)
	set, err := o.rules().Packs()
	if err != nil {
		return nil, nil, err
	}
	read, fsys, err := img.IndexLayers(ctx)
	if err != nil {
		return nil, nil, err
	}
	j, err := judged(ctx, ref, img, o, set, fsys)
	return j, read, err
}
