// Package images holds the test images, each a readable text: what the image
// is, and in its `want` section what must be found in it.
//
// internal/imagetest says what the texts mean.
package images

import "embed"

// FS holds the texts, *.txtar, those of what libraries are taken from,
// from/*.txtar, and images rebuilt from reports that came after the packs, with
// those that must give no alarm, fresh/*.txtar.
//
//go:embed *.txtar from/*.txtar fresh/*.txtar
var FS embed.FS
