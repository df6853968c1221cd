package dockerline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/imgcheck/imgcheck/pkg/buildchecks"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// unknown stands in a text for the value of a variable that the base image may set.
const unknown = "imgcheckUnknownValue"

// maxTried bounds the stages that are compared with a history.
const maxTried = 50

// FromHistory returns the instruction of a Dockerfile that made each layer of an image, by
// the history of the image's config: BuildKit's own conversion says which history a build of
// each stage would have, with the build arguments that the image's history shows, and that
// must be how the image's history ends. Exactly one stage must fit. The layers below belong
// to the base image, or to a build that the file no longer describes: they have no line. end
// is the end of the stage. The error says why no layer has one.
func FromHistory(ctx context.Context, name string, data []byte, cfg *v1.ConfigFile) (found []*Line, end *End, err error) {
	f, err := dockerfile.Read(bytes.NewReader(data))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	why := errors.New("it has no stage")
	if len(f.Stages) > maxTried {
		return nil, nil, fmt.Errorf("%s has %d stages, more than the %d that are compared", name, len(f.Stages), maxTried)
	}
	h := &history{text: newText(name, data), data: data, file: f, cfg: cfg}
	for i := range slices.Backward(f.Stages) {
		lines, err := h.stage(ctx, i)
		switch {
		case err != nil && i == len(f.Stages)-1: // the usual target
			why = err
		case err != nil:
		case found != nil && !slices.EqualFunc(found, lines, equal):
			return nil, nil, fmt.Errorf("several stages of %s fit the image's history", name)
		default:
			if found == nil {
				end = h.text.end(i)
			}
			found = lines
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("%s is not how the image was built: %w", name, why)
	}
	return found, end, nil
}

func equal(a, b *Line) bool { return a == b || a != nil && b != nil && *a == *b }

// history compares stages of a Dockerfile with the history of an image.
type history struct {
	text *text
	data []byte
	file *dockerfile.File
	cfg  *v1.ConfigFile
}

// stage returns the lines of the layers if the image's history ends as a build of a stage
// does.
func (h *history) stage(ctx context.Context, target int) ([]*Line, error) {
	chain := h.file.Chain(target)
	var steps []*dockerfile.Step
	for _, i := range chain {
		for k := range h.file.Stages[i].Steps {
			if s := &h.file.Stages[i].Steps[k]; s.Name != "ONBUILD" { // which is not in the history
				steps = append(steps, s)
			}
		}
	}
	below := len(h.cfg.History) - len(steps)
	switch {
	case len(steps) == 0:
		return nil, errors.New("the stage has no instructions")
	case below < 0:
		return nil, errors.New("it has more instructions than the image's history")
	case below > 0 && h.file.Stages[chain[0]].Ref == "scratch":
		return nil, errors.New("it begins with scratch, and the image's history has more than its instructions")
	}
	has := h.cfg.History[below:]
	made, err := buildchecks.History(ctx, h.upTo(target), h.build(steps, has))
	if err != nil {
		return nil, err
	}
	if len(made) != len(steps) {
		return nil, errors.New("a stage runs the ONBUILD of another one")
	}
	for i := len(steps) - 1; i >= 0; i-- {
		if !agrees(steps[i].Name, made[i], has[i].CreatedBy) {
			return nil, fmt.Errorf("line %d is another instruction in the image's history", steps[i].Line)
		}
	}
	return h.lines(steps, below), nil
}

// upTo returns the file up to the end of a stage.
func (h *history) upTo(target int) []byte {
	if target+1 == len(h.file.Stages) {
		return h.data
	}
	at := 0
	for range h.file.Stages[target+1].Line - 1 {
		at += bytes.IndexByte(h.data[at:], '\n') + 1
	}
	return h.data[:at]
}

// lines gives the steps that made layers to these. The first entries of the history are not
// of the file.
func (h *history) lines(steps []*dockerfile.Step, below int) (lines []*Line) {
	for i, entry := range h.cfg.History {
		switch {
		case entry.EmptyLayer:
		case i < below:
			lines = append(lines, nil)
		default:
			s := steps[i-below]
			lines = append(lines, h.text.at(s.Line, s.EndLine))
		}
	}
	return lines
}

// build returns the build whose history the image may have: with the build arguments that
// the history shows, and the base's variables as far as the image shows them.
func (h *history) build(steps []*dockerfile.Step, has []v1.History) buildchecks.Build {
	b := buildchecks.Build{Args: map[string]string{}, Platform: ocispec.Platform{OS: h.cfg.OS, Architecture: h.cfg.Architecture, Variant: h.cfg.Variant}}
	set := map[string]bool{} // by ENV
	for i, s := range steps {
		for _, v := range s.Settings {
			set[v.Name] = set[v.Name] || s.Name == "ENV"
		}
		if s.Name == "ARG" && len(s.Settings) == 1 {
			if value, ok := strings.CutPrefix(has[i].CreatedBy, "ARG "+s.Settings[0].Name+"="); ok {
				b.Args[s.Settings[0].Name] = value
			}
		}
	}
	b.Base.Shell = h.cfg.Config.Shell
	directory := false
	for i, s := range steps {
		if s.Name == "SHELL" { // the image has the file's
			b.Base.Shell = nil
		}
		if s.Name == "WORKDIR" && len(s.Words) == 1 && !directory {
			directory = true
			b.Base.Dir = above(s.Words[0], strings.TrimPrefix(has[i].CreatedBy, "WORKDIR "))
		}
	}
	for _, e := range h.cfg.Config.Env {
		name, _, _ := strings.Cut(e, "=")
		if _, ours := set[name]; !ours {
			b.Base.Env = append(b.Base.Env, e)
		}
	}
	for _, s := range steps {
		for _, v := range s.Settings {
			if s.Name == "ENV" && set[v.Name] && !isArgument(steps, v.Name) {
				b.Base.Env = append(b.Base.Env, v.Name+"="+unknown)
				set[v.Name] = false
			}
		}
	}
	return b
}

// above returns the directory of the base with which a relative WORKDIR makes a path, or "".
func above(relative, made string) string {
	if path.IsAbs(relative) || strings.Contains(relative, "$") {
		return ""
	}
	dir, ok := strings.CutSuffix(made, "/"+path.Clean(relative))
	if !ok || !path.IsAbs(made) {
		return ""
	}
	return path.Join("/", dir)
}

func isArgument(steps []*dockerfile.Step, name string) bool {
	return slices.ContainsFunc(steps, func(s *dockerfile.Step) bool {
		return s.Name == "ARG" && slices.ContainsFunc(s.Settings, func(v dockerfile.Setting) bool { return v.Name == name })
	})
}

// agrees reports whether an entry of a history is that of an instruction. BuildKit's
// releases write some instructions that make no layer in different ways: of those the name
// is enough.
func agrees(name, made, has string) bool {
	switch name {
	case "EXPOSE", "VOLUME", "HEALTHCHECK", "SHELL", "STOPSIGNAL":
		return strings.HasPrefix(has, name+" ")
	}
	parts := strings.Split(made, unknown)
	rest, ok := strings.CutPrefix(has, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for _, p := range parts[1 : len(parts)-1] {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}
