package scan

import (
	"bytes"
	"context"
	"errors"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// locate gives each layer the line of the Dockerfile that made it, if the image's provenance
// has it, or the image's history is that of the Dockerfile of the options. No error of
// either is one of the scan. It reports whether the next scan of the image finds the same: an
// attestation that could not be fetched may be there then.
func (j *Judged) locate(ctx context.Context, img *source.Image) (sure bool) {
	var lines []*dockerline.Line
	proven, err := provenance(ctx, img)
	sure = err == nil || !errors.As(err, new(*fetchError))
	if proven != nil {
		lines, j.about.End, j.follow = proven.Lines, proven.End, proven.Follow
	}
	if d := j.opts.Dockerfile; lines == nil && d != nil && img.RawConfig != nil {
		var cfg *v1.ConfigFile // img.Config lacks the build arguments
		if cfg, err = v1.ParseConfigFile(bytes.NewReader(img.RawConfig)); err == nil {
			lines, j.about.End, err = dockerline.FromHistory(ctx, d.Name, d.Text, cfg)
		}
	}
	if err != nil {
		j.about.NoDockerfile = err.Error()
		return sure
	}
	for i := range lines {
		if i < len(j.about.Layers) {
			j.about.Layers[i].Dockerfile = lines[i]
		}
	}
	return sure
}

// fetchError is the error of provenance that could not be read.
type fetchError struct{ error }

// provenance returns what the image's provenance says of its build; nil if there is none.
func provenance(ctx context.Context, img *source.Image) (*dockerline.Provenance, error) {
	if img.Attested() == "" {
		return nil, nil
	}
	statement, err := img.Provenance(ctx)
	switch {
	case errors.Is(err, source.ErrNoProvenance):
		return nil, nil
	case err != nil:
		return nil, &fetchError{err}
	}
	return dockerline.FromProvenance(statement, img.Layers)
}
