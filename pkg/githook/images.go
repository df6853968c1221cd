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
	Own      bool   // the policy names it, where oci:DIR is no image of a registry
	Uses     []Use  // one at least
}

// Use is a place that names an image, and what may change the image before it runs.
type Use struct {
	Where string // "FROM in docker/Dockerfile:3"
	File  string
	// Does are the instructions that change what a target of a Dockerfile is built
	// on: none where the image runs as it is.
	Does []dockerfile.Instruction
	// Input is a file of the push from which the policy's image is built anew.
	Input string
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

// isPolicy reports whether a file says which images there are, and not what is in them.
func isPolicy(path string) bool { return matchAny([]string{"**/.imgcheck.yaml"}, path) }

// Images are those that changes concern: what the Dockerfiles among them build
// on, what the other files name that they did not name before, and, when any
// file decides what is installed, the repository's own. Each is there once. The
// notices say of what it is not known.
func Images(changes []Change, own []Image) (images []Image, notices []string) {
	f := &found{}
	for _, c := range changes {
		switch {
		case c.Why != "":
			f.notice("%s was not looked at: %s", c.Path, c.Why)
		case matchAny(dockerfiles, c.Path):
			f.dockerfile(c)
			f.input(c.Path)
		case matchAny(inputs, c.Path):
			f.input(c.Path)
		default:
			f.manifest(c)
		}
	}
	if f.concerned {
		for _, im := range own {
			im.Own, im.Uses = true, []Use{{Where: im.Uses[0].Where, File: im.Uses[0].File, Input: f.first}}
			f.add(im)
		}
	}
	return f.images, f.notices
}

// found is what was found in changes.
type found struct {
	images    []Image
	at        map[[3]string]int // where each is, by all but its uses
	notices   []string
	concerned bool   // a file decides what is installed
	first     string // the first such file that does not only say which images there are
}

func (f *found) notice(format string, args ...any) {
	f.notices = append(f.notices, fmt.Sprintf(format, args...))
}

// input notes a file that decides what is installed.
func (f *found) input(path string) {
	f.concerned = true
	if f.first == "" && !isPolicy(path) {
		f.first = path
	}
}

// add keeps an image, or its uses where it is there.
func (f *found) add(im Image) {
	key := [3]string{im.Ref, im.Platform, fmt.Sprint(im.Own)}
	if f.at == nil {
		f.at = map[[3]string]int{}
	}
	if i, ok := f.at[key]; ok {
		f.images[i].Uses = append(f.images[i].Uses, im.Uses...)
		return
	}
	f.at[key] = len(f.images)
	f.images = append(f.images, im)
}

// dockerfile looks at what a Dockerfile builds on.
func (f *found) dockerfile(c Change) {
	bases, err := dockerfile.Bases(bytes.NewReader(c.New))
	if err != nil {
		f.notice("%s was not understood: %v", c.Path, err)
	}
	for _, b := range bases {
		where := fmt.Sprintf("FROM in %s:%d", c.Path, b.Line)
		switch {
		case b.Why != "":
			f.notice("%s is not scanned: %s", where, b.Why)
		case !imagerefs.Valid(b.Ref):
			f.notice("%s is not scanned: %q is not a reference", where, b.Ref)
		default:
			im := Image{Ref: b.Ref, Platform: b.Platform}
			for _, does := range b.Targets {
				im.Uses = append(im.Uses, Use{Where: where, File: c.Path, Does: does})
			}
			f.add(im)
		}
	}
}

// manifest looks at what a file names that it did not name before.
func (f *found) manifest(c Change) {
	refs, err := imagerefs.Of(c.Path, c.New)
	if err != nil {
		f.notice("%s was not understood: %v", c.Path, err)
	}
	before, _ := imagerefs.Of(c.Path, c.Old) // what was not understood then is new now
	for _, r := range refs {
		if slices.ContainsFunc(before, func(o imagerefs.Ref) bool { return o.Image == r.Image && o.Why == r.Why }) {
			continue
		}
		where := fmt.Sprintf("%s:%d", c.Path, r.Line)
		if r.Why != "" {
			f.notice("%s is not scanned: %s", where, r.Why)
		} else {
			f.add(Image{Ref: r.Image, Uses: []Use{{Where: where, File: c.Path}}})
		}
	}
}
