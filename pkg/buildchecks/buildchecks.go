// Package buildchecks runs the checks of `docker build --check` on a Dockerfile: BuildKit's
// own parser, conversion and linter, in this process. [History] says which history the
// image of a build has.
//
// It is a package of its own because the conversion needs more of BuildKit than its parser.
// It asks no daemon and no registry: the caller says what it knows of base images. Without
// a base's environment a variable that seems undefined may be set there, and without a
// build context no .dockerignore is read; [Run] leaves such warnings out.
package buildchecks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/subrequests/lint"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// Warning is a warning of BuildKit, or the error with which the build would end.
type Warning struct {
	Rule    string // "UndefinedVar"; "" for the error
	Message string
	URL     string // of the rule's page, or ""
	Line    int    // 0 if it is about no line
	EndLine int
}

// Base is the part of an image's config that a build inherits.
type Base struct {
	Env      []string
	Dir      string   // the working directory
	Shell    []string // of RUN; nil for the usual one
	Platform ocispec.Platform
}

// Run returns the warnings about a Dockerfile, in their order, and the error of a build.
// base returns an image that a FROM names, or nil if it is not known. An error is returned
// for a text beyond the limits of [dockerfile.Parse]: BuildKit has none.
func Run(ctx context.Context, text []byte, platform ocispec.Platform, base func(ref string) *Base) ([]Warning, error) {
	images := &images{base: base}
	f, err := dockerfile.Read(bytes.NewReader(text))
	text = dockerfile.Characters(text)
	switch {
	case errors.As(err, new(*dockerfile.LimitError)):
		return nil, err
	case err != nil: // BuildKit has the same parser, and reports it with its line
		f = new(dockerfile.File)
	default:
		if err := images.within(text, f); err != nil {
			return nil, err
		}
	}
	// A SourceMap needs a definition, because the results copy it.
	opt := dockerfile2llb.ConvertOpt{SourceMap: &llb.SourceMap{Definition: new(llb.Definition), Data: text}, MetaResolver: images, TargetPlatform: &platform}
	opt.BuildArgs, opt.BuildPlatforms = map[string]string{}, []ocispec.Platform{platform}
	caps := pb.Caps.CapSet(pb.Caps.All()) // of a buildkitd that can do all: some instructions ask
	opt.LLBCaps = &caps
	for _, name := range f.Required { // whoever builds gives it
		opt.BuildArgs[name] = "unknown"
	}
	results, err := linted(ctx, text, opt)
	if err != nil {
		return nil, err
	}
	var list []Warning
	for _, w := range results.Warnings {
		if images.unknown && w.RuleName == linter.RuleUndefinedVar.Name || w.RuleName == linter.RuleCopyIgnoredFile.Name {
			continue
		}
		v := Warning{Rule: w.RuleName, Message: w.Detail, URL: w.URL}
		for _, r := range w.Location.GetRanges() {
			v.at(int(r.GetStart().GetLine()), int(r.GetEnd().GetLine()))
		}
		list = append(list, v)
	}
	if e := results.Error; e != nil {
		v := Warning{Message: place.ReplaceAllString(e.Message, "")}
		for _, r := range e.Location.GetRanges() {
			v.at(int(r.GetStart().GetLine()), int(r.GetEnd().GetLine()))
		}
		list = append(list, v)
	}
	slices.SortStableFunc(list, func(a, b Warning) int { return a.Line - b.Line })
	return list, nil
}

// linted calls BuildKit. A panic there is an error: its code expects a daemon's answers in
// places that no test of ours may know.
func linted(ctx context.Context, text []byte, opt dockerfile2llb.ConvertOpt) (results *lint.LintResults, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("BuildKit's checks ended early: %v", r)
		}
	}()
	return dockerfile2llb.DockerfileLint(ctx, text, opt)
}

// place matches the line in an error, which a warning has as a number.
var place = regexp.MustCompile(`^dockerfile parse error on line \d+: `)

// at widens the lines of a warning.
func (w *Warning) at(start, end int) {
	if w.Line == 0 || start < w.Line {
		w.Line = start
	}
	w.EndLine = max(w.EndLine, end, start)
}

// images answers BuildKit's questions about images.
type images struct {
	base    func(ref string) *Base
	unknown bool // a base is not known
}

// within checks the limits with the environments of all bases, and finds out whether all
// are known.
func (m *images) within(text []byte, f *dockerfile.File) error {
	var env []string
	for _, s := range f.Stages {
		if s.On >= 0 || s.Ref == "scratch" {
			continue
		}
		if b := m.base(s.Ref); s.Ref != "" && b != nil {
			env = append(env, b.Env...)
		} else {
			m.unknown = true
		}
	}
	return dockerfile.Within(text, env)
}

// ResolveImageConfig returns the config of an image: of one that is not known, an empty
// one of the platform that the build asks for.
func (m *images) ResolveImageConfig(_ context.Context, ref string, o sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	var img struct {
		ocispec.Image
		Config struct {
			ocispec.ImageConfig
			Shell []string `json:"Shell,omitempty"` // Docker's own
		} `json:"config"`
	}
	img.Image = ocispec.Image{Platform: *o.ImageOpt.Platform, RootFS: ocispec.RootFS{Type: "layers"}, History: []ocispec.History{{}}}
	if b := m.base(ref); b != nil {
		img.Config.Env, img.Config.WorkingDir, img.Config.Shell = b.Env, b.Dir, b.Shell
		if b.Platform.OS != "" && b.Platform.Architecture != "" {
			img.Platform = b.Platform
		}
	}
	config, err := json.Marshal(img)
	return ref, "", config, err
}
