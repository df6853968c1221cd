package scan

import (
	"context"
	"errors"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// locate gives each layer the line of the Dockerfile that made it, if the image's provenance
// has it. No error of the provenance is one of the scan. It reports whether the
// next scan of the image finds the same: an attestation that could not be fetched may be
// there then.
func (j *Judged) locate(ctx context.Context, img *source.Image) (sure bool) {
	if img.Attested() == "" {
		return true
	}
	statement, err := img.Provenance(ctx)
	switch {
	case errors.Is(err, source.ErrNoProvenance):
		return true
	case err != nil:
		j.about.NoDockerfile = err.Error()
		return false
	}
	lines, err := dockerline.FromProvenance(statement, img.Layers)
	j.setLines(lines, err)
	return true
}

// setLines takes the lines of the layers, or the reason why there are none.
func (j *Judged) setLines(lines []*dockerline.Line, err error) {
	if err != nil {
		j.about.NoDockerfile = err.Error()
		return
	}
	for i := range lines {
		j.about.Layers[i].Dockerfile = lines[i]
	}
}
