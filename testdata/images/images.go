// Package images holds the test images, each a readable text: what the image
// is, and in its `want` section what must be found in it.
//
// internal/imagetest says what the texts mean.
package images

import (
	"embed"

	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// FS holds the texts as they are written:
//
//	*.txtar        the images, each with the findings that it must give
//	base/*.txtar   what several images are built on
//	from/*.txtar   directories that patch takes libraries from
//	fresh/*.txtar  images rebuilt from reports that came after the packs, and healthy ones that must give no alarm
//	stacks/*.txtar images of popular stacks, rebuilt from the projects' build files and sources
//
//go:embed *.txtar base/*.txtar from/*.txtar fresh/*.txtar stacks/*.txtar
var FS embed.FS

// Text returns a text of FS with what it is built on written out, as imagetest.Parse reads it.
func Text(name string) ([]byte, error) { return imagetest.Flatten(FS, name) }
