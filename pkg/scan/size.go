package scan

import (
	"context"

	"github.com/imgcheck/imgcheck/pkg/size"
	"github.com/imgcheck/imgcheck/rules"
)

// Size returns the bytes of the image that ref names that its containers can do without. It
// judges nothing.
func Size(ctx context.Context, ref string, o Options) (*size.Result, error) {
	classes, err := size.LoadClasses(rules.FS)
	if err != nil {
		return nil, err
	}
	img, err := open(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	defer img.Close()
	o.begin(Reading)
	read, fsys, err := img.IndexLayers(ctx)
	if err != nil {
		return nil, err
	}
	return size.Find(read, fsys, classes), nil
}
