package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/fix"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// advises reports whether the run plans as a scan does, with empty libraries in the place of
// those that the image lacks: nothing is published, and no source of libraries is named.
func (p *patching) advises() bool {
	return len(p.from) == 0 && (p.dry || p.emit == "dockerfile")
}

// advised plans as a scan does, and shows the plan; with --dry-run also the lines for the
// Dockerfile and the command that publishes the patched image. It returns nil if there is
// nothing to fix, and an errRefused if patch has no change that helps.
func (p *patching) advised(ctx context.Context, j *scan.JudgedBase) (*work, error) {
	doc, err := j.Advise(ctx, p.pins)
	if err != nil || doc.Plan == nil {
		return nil, err
	}
	plan := doc.Plan
	if decides := p.dry && len(plan.Decisions) > 0; !plan.Better() && plan.Snippet == nil && !decides {
		return nil, hopeless(p.ref, plan)
	}
	if err := p.needed(plan); err != nil {
		return nil, err
	}
	if err := p.show(j.Base, plan); err != nil {
		return nil, err
	}
	if p.dry {
		if err := p.advice(doc); err != nil {
			return nil, err
		}
	}
	if !p.dry && plan.StandIn() && plan.Snippet == nil {
		return nil, fmt.Errorf("--emit dockerfile: no public image is known to have the libraries that the plan adds: %s", namingSources(plan))
	}
	if p.dry && !plan.Better() {
		return nil, refuse("%s: no change of files or variables makes it better, only the packages that the lines above install: build the image with those", p.ref)
	}
	return &work{JudgedBase: j, plan: plan}, nil
}

// namingSources says how to name sources of the libraries that a plan adds.
func namingSources(plan *fix.Plan) string {
	from := sourcesFor(plan)
	if len(from) == 0 {
		return "name their source with --from, and a directory with --emit dockerfile=DIR"
	}
	return "say --emit dockerfile=DIR --from " + strings.Join(from, " --from ") + " --accept-nvidia-license"
}

// advice prints what resolves the problems, as a scan does.
func (p *patching) advice(doc *report.Document) error {
	doc.Plan.Command = patchCommandFor(p.ref, p.scan, doc.Plan)
	if doc.Plan.Command != "" {
		for _, id := range slices.Sorted(maps.Keys(p.pins)) {
			doc.Plan.Command += " --add " + id + "=" + fix.Shell(p.pins[id])
		}
	}
	return report.Fix(p.out, doc, fitted(p.out, report.Options{}))
}

// patchCommandFor returns the command that carries out a plan for the image that was
// scanned, or "" if there is none.
func patchCommandFor(ref string, so scan.Options, p *fix.Plan) string {
	o, target := so.Layers, "NEWREF"
	switch scheme, _, _ := strings.Cut(ref, ":"); scheme {
	case "oci-archive":
		return ""
	case "dir":
		target = "layer:FILE"
	case "docker": // a file of a single layer cannot be read
		if slices.ContainsFunc(p.Steps, func(s fix.Step) bool { return s.Kind == "execstack" }) {
			return ""
		}
		target = "docker:NEWNAME"
	case "docker-archive":
		target = "docker-archive:NEWFILE"
	case "oci":
		target = "oci:NEWDIR"
	}
	if len(p.Steps) == 0 {
		return ""
	}
	words := []string{"imgcheck patch", fix.Shell(ref), "-t", target}
	for _, v := range o.Env {
		words = append(words, "--env", fix.Shell(v))
	}
	for _, m := range so.Machines {
		words = append(words, "--gpu", fix.Shell(m.Text()))
	}
	if o.Platform != nil {
		words = append(words, "--platform", o.Platform.String())
	}
	if o.Insecure {
		words = append(words, "--insecure")
	}
	if p.StandIn() {
		from := sourcesFor(p)
		if len(from) == 0 {
			return ""
		}
		for _, f := range from {
			words = append(words, "--from "+f)
		}
		words = append(words, "--accept-nvidia-license")
	}
	return strings.Join(words, " ")
}

// sourcesFor returns sources that have the libraries of a plan's stand-ins, as --from names
// them, or none if one of the libraries has no known source.
func sourcesFor(p *fix.Plan) []string {
	var list []string
	for _, s := range p.Steps {
		switch {
		case !s.StandIn:
		case len(s.Offers) == 0:
			return nil
		case !slices.ContainsFunc(s.Offers, func(o string) bool { return slices.Contains(list, o) }):
			list = append(list, s.Offers[0])
		}
	}
	return list
}
