package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// emitted writes a patched image in the form of --emit, and prints how to build it.
func (p *patching) emitted(ctx context.Context, done []*patch.Patched, plans []*fix.Plan) error {
	if len(done) > 1 {
		return fmt.Errorf("%s has images for several platforms: choose one with --platform", p.ref)
	}
	if p.emit == "llb" {
		return p.emitLLB(ctx, done[0])
	}
	return p.emitDockerfile(ctx, done[0], plans[0])
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

// emitDockerfile writes a patched image as a build context or, if that needs no other
// files, as a Dockerfile on the standard output.
func (p *patching) emitDockerfile(ctx context.Context, done *patch.Patched, plan *fix.Plan) error {
	var copies []buildkit.Copy
	for _, c := range plan.Copies() {
		copies = append(copies, buildkit.Copy{Path: c.Path, Image: c.Ref, Digest: c.Digest, From: c.From})
	}
	built, err := buildkit.NewContext(done, p.ref, p.patch.Insecure, copies, plan.Published())
	if err != nil {
		return fmt.Errorf("--emit dockerfile: %w", err)
	}
	build := "docker build -t " + fix.Shell(p.newRef())
	if p.emitDir != "" {
		if err := built.Write(ctx, p.emitDir); err != nil {
			return fmt.Errorf("--emit dockerfile: %w", err)
		}
		p.say("to build it: " + build + " " + fix.Shell(p.emitDir))
		return nil
	}
	if !built.Alone() {
		return errors.New("--emit dockerfile: the fix adds files, which have to lie beside the Dockerfile: say --emit dockerfile=DIR for a directory with both")
	}
	text, err := built.Dockerfile()
	if err != nil {
		return fmt.Errorf("--emit dockerfile: %w", err)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if plain.Text(line) != line {
			return fmt.Errorf("--emit dockerfile: a CI system or a terminal would obey %q: say --emit dockerfile=DIR", line)
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
