package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/imgcheck/imgcheck/pkg/imports"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Imports reads the image that ref names, and follows its Python programs: those of its
// start or, if modules are given, the import of each by the interpreter at python, which
// may be empty for the one of the image's program. It returns an error if the image has
// no such program, or the interpreter does not start.
func Imports(ctx context.Context, ref string, o Options, python string, modules []string) ([]*replay.Start, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	set, _, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, err
	}
	starts, err := replay.Follow(ctx, &replay.Image{FS: fsys, Config: img.Config}, set, python, modules)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", img.Ref, err)
	case len(starts) == 0 && len(modules) == 0:
		return nil, errors.New(img.Ref + ": its ENTRYPOINT and CMD start no Python program whose source is known: name a module to import")
	case len(starts) == 0:
		return nil, errors.New(img.Ref + ": its Python does not start, or its files are not known: name the path of another interpreter")
	}
	return starts, nil
}

// Why reads the image that ref names, and returns the ways from its start to a target: see
// [imports.Find].
func Why(ctx context.Context, ref string, o Options, target string) (*imports.Answer, error) {
	img, err := Open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	set, _, fsys, err := readBoth(ctx, img, o.rules())
	if err != nil {
		return nil, err
	}
	a, err := imports.Find(ctx, &replay.Image{FS: fsys, Config: img.Config}, set, target)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", img.Ref, err)
	}
	return a, nil
}
