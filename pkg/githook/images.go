package githook

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/imagerefs"
)

// Image is an image that a push concerns.
type Image struct {
	Ref      string
	Platform string // empty: as scan decides
	From     string // where it is named: "FROM in docker/Dockerfile:3"
	Own      bool   // the policy names it, where oci:DIR is no image of a registry
}

// dockerfiles are the names of files with instructions.
var dockerfiles = []string{"**/{Dockerfile,Containerfile}{,.*}", "**/*.{Dockerfile,dockerfile,Containerfile}"}

// inputs are the names of files that decide what is installed in an image: when
// one of them changes, the images of the policy are concerned.
var inputs = []string{
	"**/.imgcheck.yaml", "**/requirements*.{txt,in}", "**/constraints*.txt", "**/pyproject.toml", "**/setup.{py,cfg}", "**/{poetry,uv,pdm,pixi,Pipfile}.lock", "**/Pipfile",
	"**/environment*.{yaml,yml}", "**/conda-lock.yml", "**/pixi.toml",
}

// Wanted reports whether a changed file may concern an image.
func Wanted(path string) bool {
	return matchAny(dockerfiles, path) || matchAny(inputs, path) || matchAny(imagerefs.Names, path)
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, path) })
}

// Images are those that changes concern: what the Dockerfiles among them build
// on, what the other files name that they did not name before, and, when any
// file decides what is installed, the repository's own. Each is there once. The
// notices say of what it is not known.
func Images(changes []Change, own []Image) (images []Image, notices []string) {
	add := func(im Image) {
		if !slices.ContainsFunc(images, func(o Image) bool { return o.Ref == im.Ref && o.Platform == im.Platform && o.Own == im.Own }) {
			images = append(images, im)
		}
	}
	concerned := false
	for _, c := range changes {
		if c.Why != "" {
			notices = append(notices, fmt.Sprintf("%s was not looked at: %s", c.Path, c.Why))
			continue
		}
		switch {
		case matchAny(dockerfiles, c.Path):
			concerned = true
			bases, err := dockerfile.Bases(bytes.NewReader(c.New))
			if err != nil {
				notices = append(notices, fmt.Sprintf("%s was not understood: %v", c.Path, err))
			}
			for _, b := range bases {
				where := fmt.Sprintf("FROM in %s:%d", c.Path, b.Line)
				switch {
				case b.Why != "":
					notices = append(notices, fmt.Sprintf("%s is not scanned: %s", where, b.Why))
				case !imagerefs.Valid(b.Ref):
					notices = append(notices, fmt.Sprintf("%s is not scanned: %q is no reference", where, b.Ref))
				default:
					add(Image{Ref: b.Ref, Platform: b.Platform, From: where})
				}
			}
		case matchAny(inputs, c.Path):
			concerned = true
		default:
			refs, err := imagerefs.Of(c.Path, c.New)
			if err != nil {
				notices = append(notices, fmt.Sprintf("%s was not understood: %v", c.Path, err))
			}
			before, _ := imagerefs.Of(c.Path, c.Old) // what was not understood then is new now
			for _, r := range refs {
				if slices.ContainsFunc(before, func(o imagerefs.Ref) bool { return o.Image == r.Image && o.Why == r.Why }) {
					continue
				}
				where := fmt.Sprintf("%s:%d", c.Path, r.Line)
				if r.Why != "" {
					notices = append(notices, fmt.Sprintf("%s is not scanned: %s", where, r.Why))
				} else {
					add(Image{Ref: r.Image, From: where})
				}
			}
		}
	}
	if concerned {
		for _, im := range own {
			add(im)
		}
	}
	return images, notices
}
