// Package rules holds what imgcheck knows, as data: rules, GPU libraries, what
// the driver brings, how frameworks load. It is embedded in the program; the
// lint package reads it.
//
// The package has no code to speak of. What a pack may say is told by the types
// that lint decodes it into.
package rules

import "embed"

// FS holds the packs, *.yaml, and in provide/ what the provide package reads.
//
//go:embed *.yaml provide/*.yaml
var FS embed.FS
