package lint

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// examined is a text image with its findings.
type examined struct {
	name     string // of its file
	image    *replay.Image
	findings []Finding
}

// readTextImages reads all text images and examines them with the packs of the program.
var readTextImages = sync.OnceValues(func() ([]examined, error) {
	set, err := loadPacks()
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(images.FS, "*.txtar")
	fresh, err2 := fs.Glob(images.FS, "fresh/*.txtar")
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	var all []examined
	for _, name := range slices.Concat(names, fresh) {
		text, err := images.Text(name)
		if err != nil {
			return nil, err
		}
		img, err := imageOf(text)
		if err != nil {
			return nil, err
		}
		res, err := Run(context.Background(), img, set)
		if err != nil {
			return nil, err
		}
		all = append(all, examined{name, img, res.Findings})
	}
	return all, nil
})

// textImages returns all text images with their findings. A test must not change them.
func textImages(t *testing.T) []examined {
	t.Helper()
	all, err := readTextImages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 200 {
		t.Fatalf("there are %d text images", len(all))
	}
	return all
}
