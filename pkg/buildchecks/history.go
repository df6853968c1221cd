package buildchecks

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/solver/pb"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// Build says how a Dockerfile is built.
type Build struct {
	Platform ocispec.Platform
	Args     map[string]string // build arguments
	Base     Base              // of each image that a FROM names
}

// History returns the texts that a build adds to the history of an image, one for each
// instruction of the last stage and of the stages that it builds on: those of the base and
// ONBUILD's come before them.
func History(ctx context.Context, text []byte, b Build) ([]string, error) {
	f, err := dockerfile.Read(bytes.NewReader(text))
	text = dockerfile.Characters(text)
	if err != nil {
		return nil, err
	}
	images := &images{base: func(string) *Base { return &b.Base }}
	env := slices.Clone(b.Base.Env)
	for name, value := range b.Args {
		env = append(env, name+"="+value)
	}
	if err := dockerfile.Within(text, env); err != nil {
		return nil, err
	}
	opt := dockerfile2llb.ConvertOpt{SourceMap: &llb.SourceMap{Definition: new(llb.Definition), Data: text}, MetaResolver: images, TargetPlatform: &b.Platform}
	opt.BuildArgs, opt.BuildPlatforms = map[string]string{}, []ocispec.Platform{b.Platform}
	caps := pb.Caps.CapSet(pb.Caps.All())
	opt.LLBCaps = &caps
	for _, name := range f.Required {
		opt.BuildArgs[name] = "unknown"
	}
	for name, value := range b.Args {
		opt.BuildArgs[name] = value
	}
	history, err := converted(ctx, text, opt)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, h := range history {
		if h.CreatedBy != "" { // that of [images] is empty
			list = append(list, h.CreatedBy)
		}
	}
	return list, nil
}

// converted calls BuildKit, with a panic as an error like [linted].
func converted(ctx context.Context, text []byte, opt dockerfile2llb.ConvertOpt) (history []ocispec.History, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("BuildKit's conversion ended early: %v", r)
		}
	}()
	res, err := dockerfile2llb.Dockerfile2LLB(ctx, text, opt)
	if err != nil {
		return nil, err
	}
	return res.Image.History, nil
}
