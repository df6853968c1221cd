package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/buildkit"
	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/patch"
)

// parseEmit parses --emit: a form and, for dockerfile=DIR, a directory where a build
// context can be made.
func parseEmit(s string) (form, dir string, err error) {
	form, dir, to := strings.Cut(s, "=")
	switch {
	case to && form == "dockerfile" && dir != "":
		if err := buildkit.CheckPlace(dir); err != nil {
			return "", "", fmt.Errorf("--emit %s: %w", s, err)
		}
	case to || s != "" && s != "dockerfile" && s != "llb":
		return "", "", fmt.Errorf("--emit %q: say dockerfile=DIR, dockerfile or llb", s)
	}
	return form, dir, nil
}

// newRef returns the name of the patched image in a command that builds it.
func (p *patching) newRef() string {
	if len(p.targets) > 0 {
		return p.targets[0]
	}
	return "NEWREF"
}

// emitted writes a patched image in the form of --emit, and prints how to build it. done has
// no image of a work that is emitted in the lines of its plan.
func (p *patching) emitted(ctx context.Context, works []*work, done []*patch.Patched) error {
	if len(works) > 1 {
		return fmt.Errorf("%s has images for several platforms: choose one with --platform", p.ref)
	}
	if p.emit == "llb" {
		return p.emitLLB(ctx, done[0])
	}
	build, err := p.context(works[0], done)
	if err == nil {
		err = p.emitDockerfile(ctx, build)
	}
	if err != nil {
		return fmt.Errorf("--emit dockerfile: %w", err)
	}
	return nil
}

// inLines reports whether a Dockerfile is to have the lines of the plan, in place of the files
// of a layer: it stands alone, or a library has to come from another image, or a file has to
// be removed, which COPY cannot do.
func (p *patching) inLines(plan *fix.Plan) bool {
	if p.emit != "dockerfile" || plan.Snippet == nil || len(p.from) > 0 && len(plan.Snippet.Left) > 0 {
		return false
	}
	removes := func(s fix.Step) bool { return s.Kind == "remove" }
	return p.emitDir == "" || plan.StandIn() || !plan.Better() || slices.ContainsFunc(plan.Steps, removes)
}

// emitLLB writes a patched image as LLB, and prints how to solve it.
func (p *patching) emitLLB(ctx context.Context, done *patch.Patched) error {
	def, err := buildkit.Definition(ctx, done, p.ref, p.patch.Insecure)
	if err != nil {
		return err
	}
	line, err := buildkit.Command(done, p.newRef(), "FILE")
	if err != nil {
		return err
	}
	p.say("to solve it: " + line)
	_, err = p.out.Write(def)
	return err
}

// context returns the build context of a work.
func (p *patching) context(w *work, done []*patch.Patched) (*buildkit.Context, error) {
	notes := w.plan.Published()
	if p.inLines(w.plan) {
		s := w.plan.Snippet
		for _, l := range s.Left {
			p.say(oneLine(fmt.Sprintf("left out: %s: %s", l.Step, l.Why)))
			notes = slices.DeleteFunc(notes, func(n string) bool { return n == l.Step })
		}
		return buildkit.WithLines(w.Base, p.ref, p.patch.Insecure, s.Stages, s.Lines, append(notes, terms(w.plan)...))
	}
	var copies []buildkit.Copy
	for _, c := range w.plan.Copies() {
		copies = append(copies, buildkit.Copy{Path: c.Path, Image: c.Ref, Digest: c.Digest, From: c.From})
	}
	return buildkit.NewContext(done[0], p.ref, p.patch.Insecure, copies, notes)
}

// terms returns a line for each licence of the libraries that a plan adds.
func terms(plan *fix.Plan) []string {
	var list []string
	for _, s := range plan.Steps {
		if line := fmt.Sprintf("%s comes under the %s, %s", s.Library, s.License, s.LicenseURL); s.License != "" && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list
}

// emitDockerfile writes a build context or, if that needs no other files, a Dockerfile on
// the standard output.
func (p *patching) emitDockerfile(ctx context.Context, built *buildkit.Context) error {
	build := "docker build -t " + fix.Shell(p.newRef())
	if p.emitDir != "" {
		if err := built.Write(ctx, p.emitDir); err != nil {
			return err
		}
		p.say("to build it: " + build + " " + fix.Shell(p.emitDir))
		return nil
	}
	if !built.Alone() {
		return errors.New("the fix adds files, which have to lie beside the Dockerfile: say --emit dockerfile=DIR for a directory with both")
	}
	text, err := built.Dockerfile()
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if plain.Text(line) != line {
			return fmt.Errorf("a CI system or a terminal would obey %q: say --emit dockerfile=DIR", line)
		}
	}
	p.say("to build it: " + build + " - < FILE")
	_, err = io.WriteString(p.out, text)
	return err
}

// settable returns an environment that a Dockerfile can set: no instruction unsets a
// variable.
func settable(list []patch.EnvEdit) []patch.EnvEdit {
	var out []patch.EnvEdit
	for _, e := range list {
		out = append(out, patch.EnvEdit{Name: e.Name, Value: e.Value})
	}
	return out
}
