// Package images holds the test images, each a readable text: what the image
// is, and in its `want` section what must be found in it.
//
// internal/imagetest says what the texts mean.
package images

import "embed"

// FS holds the texts, *.txtar.
//
//go:embed *.txtar
var FS embed.FS
