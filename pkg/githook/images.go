package githook

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/imgcheck/imgcheck/pkg/builds"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/imagerefs"
)

// Image is an image that a push concerns: its reference, with the places that name it.
type Image struct {
	Ref      string
	Platform string // empty: the scan's default
	Own      bool   // the policy names it; only there oci:DIR is an OCI layout
	Uses     []Use  // at least one
}

// Use is a place that names an image, and what may change the image before it runs.
type Use struct {
	Where string // "FROM in docker/Dockerfile:3"
	File  string
	// Does are the instructions that change what a target of a Dockerfile is built on;
	// empty if the image runs as it is.
	Does []dockerfile.Instruction
	// Input is a file of the push that the policy's image will be built from again.
	Input string
}

// Base reports whether a Dockerfile builds on the image.
func (im *Image) Base() bool {
	return slices.ContainsFunc(im.Uses, func(u Use) bool { return strings.HasPrefix(u.Where, "FROM ") })
}

// inputs are patterns for files that decide what is installed in an image: a change of
// one concerns the images of the policy.
var inputs = []string{
	"**/.imgcheck.{yaml,yml}", "**/requirements*.{txt,in}", "**/constraints*.txt", "**/pyproject.toml", "**/setup.{py,cfg}", "**/{poetry,uv,pdm,pixi,Pipfile}.lock", "**/Pipfile",
	"**/environment*.{yaml,yml}", "**/conda-lock.yml", "**/pixi.toml",
}

// Wanted reports whether a changed file may concern an image.
func Wanted(path string) bool {
	return dockerfile.Named(path) || matchAny(inputs, path) || matchAny(imagerefs.Names, strings.ToLower(path))
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, path) })
}

// isPolicy reports whether a file names the images and does not decide what is in them.
func isPolicy(path string) bool { return matchAny([]string{"**/.imgcheck.{yaml,yml}"}, path) }

// Images returns the images that changes concern, each once: the base images of
// Dockerfiles, the images that other files newly name, and, if a file decides what is
// installed, the repository's own. The notices name what could not be read.
func Images(changes []Change, own []Image) (images []Image, notices []string) {
	f := &found{}
	for _, c := range changes {
		switch {
		case c.Why != "" && !dockerfile.Named(c.Path) && !matchAny(inputs, c.Path) && !imagerefs.Certain(c.Path):
			f.unread = append(f.unread, c)
		case c.Why != "":
			f.notice("%s was not read: %s", c.Path, c.Why)
		case dockerfile.Named(c.Path):
			f.dockerfile(c, c.New, 1)
			f.input(c.Path)
		case matchAny(inputs, c.Path):
			f.input(c.Path)
		default:
			f.manifest(c)
			f.inline(c)
			f.built(c)
		}
	}
	if n := len(f.unread); n > 0 {
		f.notice("%d files that may name images were not read: %s, %s", n, f.unread[0].Path, f.unread[0].Why)
	}
	if f.concerned {
		for _, im := range own {
			im.Own, im.Uses = true, []Use{{Where: im.Uses[0].Where, File: im.Uses[0].File, Input: f.first}}
			f.add(im)
		}
	}
	return f.images, f.notices
}

// found collects images.
type found struct {
	images    []Image
	at        map[[3]string]int // index in images, by all fields except Uses
	notices   []string
	unread    []Change // files that few name images in
	concerned bool     // a file decides what is installed
	first     string   // the first such file other than the policy
}

func (f *found) notice(format string, args ...any) {
	f.notices = append(f.notices, fmt.Sprintf(format, args...))
}

// input records a file that decides what is installed.
func (f *found) input(file string) {
	f.concerned = true
	if f.first == "" && !isPolicy(file) {
		f.first = file
	}
}

// add adds an image, or its uses to the same image.
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

// dockerfile adds the base images of a Dockerfile, whose first line is the one of the file
// with that number.
func (f *found) dockerfile(c Change, text []byte, first int) {
	bases, err := dockerfile.Bases(bytes.NewReader(text))
	if err != nil {
		f.notice("%s was not understood: %v", c.Path, err)
	}
	for _, b := range bases {
		where := fmt.Sprintf("FROM in %s:%d", c.Path, b.Line+first-1)
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

// inline adds the base images of the Dockerfiles that a file has in itself: Compose's
// dockerfile_inline.
func (f *found) inline(c Change) {
	if !builds.Named(c.Path) || !bytes.Contains(c.New, []byte("inline")) {
		return
	}
	list, err := builds.OfValues(c.Path, c.New, nil, c.Values)
	if err != nil {
		f.notice("the Dockerfiles in %s were not read: %v", c.Path, err)
	}
	for _, b := range list {
		if b.Inline != "" && b.Why == "" {
			f.dockerfile(c, dockerfile.WithArguments([]byte(b.Inline), b.Args), b.InlineLine)
			f.input(c.Path)
		}
	}
}

// builds returns the builds of a Compose file that have arguments.
func (c *Change) builds(text []byte, values map[string]string) (list []builds.Build) {
	if !isCompose(cmp.Or(c.As, c.Path)) || !bytes.Contains(text, []byte("args")) {
		return nil
	}
	all, _ := builds.OfValues(c.Path, text, nil, values) // a mistake is said where its images are looked for
	for _, b := range all {
		if b.Why == "" && b.Inline == "" && len(b.Args) > 0 {
			list = append(list, b)
		}
	}
	return list
}

// dockerfile returns the path in the repository of the Dockerfile of a build, or "" if it is none.
func (c *Change) dockerfile(b builds.Build) string {
	p := path.Join(path.Dir(c.Path), b.Dockerfile)
	if strings.HasPrefix(p, "../") || path.IsAbs(b.Dockerfile) || strings.ContainsAny(p, "\n:") {
		return ""
	}
	return p
}

// built adds the base images that the arguments of a Compose file's builds newly name.
func (f *found) built(c Change) {
	bases := func(text []byte, values map[string]string) (list []dockerfile.Base, files []string) {
		for _, b := range c.builds(text, values) {
			p := c.dockerfile(b)
			of, err := dockerfile.Bases(bytes.NewReader(dockerfile.WithArguments(c.Builds[p], b.Args)))
			if err != nil || len(c.Builds[p]) == 0 {
				continue
			}
			for _, base := range of {
				list, files = append(list, base), append(files, p)
			}
		}
		return list, files
	}
	before, _ := bases(c.Old, c.Was)
	now, files := bases(c.New, c.Values)
	for i, b := range now {
		if b.Why != "" || !imagerefs.Valid(b.Ref) || slices.ContainsFunc(before, func(o dockerfile.Base) bool { return o.Ref == b.Ref }) {
			continue
		}
		im := Image{Ref: b.Ref, Platform: b.Platform}
		for _, does := range b.Targets {
			im.Uses = append(im.Uses, Use{Where: fmt.Sprintf("FROM in %s:%d with the arguments of %s", files[i], b.Line, c.Path), File: files[i], Does: does})
		}
		f.add(im)
	}
}

// manifest adds the images that a file newly names.
func (f *found) manifest(c Change) {
	name := cmp.Or(c.As, c.Path)
	refs, err := imagerefs.Of(name, c.New, c.Values)
	if err != nil {
		f.notice("%s was not understood: %v", c.Path, err)
	}
	before, _ := imagerefs.Of(name, c.Old, c.Was) // if the old file has an error, all its images are new
	for _, r := range refs {
		if slices.ContainsFunc(before, func(o imagerefs.Ref) bool { return o.Image == r.Image && o.Why == r.Why && o.Platform == r.Platform }) {
			continue
		}
		where := fmt.Sprintf("%s:%d", c.Path, r.Line)
		if r.Why != "" {
			f.notice("%s is not scanned: %s", where, r.Why)
		} else {
			f.add(Image{Ref: r.Image, Platform: r.Platform, Uses: []Use{{Where: where, File: c.Path}}})
		}
	}
}
