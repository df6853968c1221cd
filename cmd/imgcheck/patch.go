package main

import (
	"strings"

	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// patchCommandFor is the command that carries a plan out on what was scanned;
// empty where nothing can: a directory is no image.
func patchCommandFor(ref string, o layers.Options, p *fix.Plan) string {
	scheme, _, _ := strings.Cut(ref, ":")
	if len(p.Steps) == 0 || scheme == "dir" || scheme == "oci-archive" {
		return ""
	}
	words := []string{"imgcheck patch", ref, "-t NEWREF"}
	if o.Platform != nil {
		words = append(words, "--platform", o.Platform.String())
	}
	if o.Insecure {
		words = append(words, "--insecure")
	}
	if p.StandIn() {
		words = append(words, "--from pypi: --accept-nvidia-license")
	}
	return strings.Join(words, " ")
}
