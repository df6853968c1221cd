// Package images holds the test images, each a readable text: what the image
// is, and in its `want` section what must be found in it.
//
// internal/imagetest says what the texts mean.
package images

import "embed"

// FS holds the texts, *.txtar, and those of what libraries are taken from,
// from/*.txtar.
//
//go:embed *.txtar from/*.txtar
var FS embed.FS
