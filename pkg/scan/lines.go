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
	b, err := buildOf(ctx, img, j.opts.Dockerfiles)
	j.about.End = b.end
	if b.proven != nil {
		j.follow = b.proven.Follow
	}
	if err != nil {
		j.about.NoDockerfile = err.Error()
		return b.sure
	}
	for i := range b.lines {
		if i < len(j.about.Layers) {
			j.about.Layers[i].Dockerfile = b.lines[i]
		}
	}
	return b.sure
}

// build says what is known of how an image was built.
type build struct {
	lines  []*dockerline.Line // that made the layers; nil if they are not known
	end    *dockerline.End    // of the image's stage
	proven *dockerline.Provenance
	sure   bool // asking again gives the same
}

// buildOf returns what is known of an image's build: by its provenance, or by the only one of some
// Dockerfiles that its history fits. The error says why there are no lines.
func buildOf(ctx context.Context, img *source.Image, files []Dockerfile) (b build, err error) {
	b.proven, err = provenance(ctx, img)
	b.sure = err == nil || !errors.As(err, new(*fetchError))
	if b.proven != nil {
		b.lines, b.end = b.proven.Lines, b.proven.End
	}
	if b.lines == nil && len(files) > 0 && img.RawConfig != nil {
		b.lines, b.end, err = linesOf(ctx, img.RawConfig, files)
	}
	return b, err
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
