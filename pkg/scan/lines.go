package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// locate gives each layer the line of the Dockerfile that made it, if the image's provenance
// has it, or the image's history is that of a Dockerfile of the options. No error of
// either is one of the scan. It reports whether the next scan of the image finds the same: an
// attestation that could not be fetched may be there then.
func (j *Judged) locate(ctx context.Context, img *source.Image) (sure bool) {
	var lines []*dockerline.Line
	proven, err := provenance(ctx, img)
	sure = err == nil || !errors.As(err, new(*fetchError))
	if proven != nil {
		lines, j.about.End, j.follow = proven.Lines, proven.End, proven.Follow
	}
	if lines == nil && len(j.opts.Dockerfiles) > 0 && img.RawConfig != nil {
		lines, j.about.End, err = linesOf(ctx, img.RawConfig, j.opts.Dockerfiles)
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

// linesOf returns the lines by the only one of some Dockerfiles that an image's history fits.
func linesOf(ctx context.Context, config []byte, files []Dockerfile) (lines []*dockerline.Line, end *dockerline.End, err error) {
	cfg, err := v1.ParseConfigFile(bytes.NewReader(config)) // that of the image lacks the build arguments
	if err != nil {
		return nil, nil, err
	}
	var fits []string
	for _, d := range files {
		l, e, wrong := dockerline.FromHistory(ctx, d.Name, d.Text, cfg)
		if wrong != nil {
			err = wrong
			continue
		}
		lines, end, fits = l, e, append(fits, d.Name)
	}
	switch {
	case len(fits) > 1:
		return nil, nil, fmt.Errorf("%s and %s are both how the image may have been built", fits[0], fits[1])
	case len(fits) == 1:
		return lines, end, nil
	case len(files) > 1:
		return nil, nil, fmt.Errorf("none of %d Dockerfiles is how the image was built", len(files))
	}
	return nil, nil, err
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
