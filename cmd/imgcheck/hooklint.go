package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// lint lints the Dockerfiles of a push. It prints their errors and warnings, and reports
// whether one of them stops the push. A file that is no Dockerfile, such as a template,
// does not: the hook says elsewhere that it was not understood. The build context is not
// read, because the working directory may differ from the pushed commit.
func (r *pushScan) lint(ctx context.Context, changes []githook.Change) (stops bool, err error) {
	l := &linting{scan: r.options, bases: map[[2]string]lintBase{}, pushed: true, decided: r.decided, nearest: r.nearest}
	var files []*dockerlint.File
	for _, c := range changes {
		if c.Why != "" || len(c.New) == 0 || !dockerfile.Named(c.Path) {
			continue
		}
		if l.known == nil {
			set, err := r.decided.rules.Packs()
			if err != nil {
				return false, err
			}
			if l.known, err = dockerlint.Load(set); err != nil {
				return false, err
			}
		}
		file := l.one(ctx, lintJob{path: c.Path, text: c.New})
		if ctx.Err() != nil {
			fmt.Fprintf(r.stderr, "imgcheck: %s was not linted: the time is over\n", oneLine(c.Path))
			return false, nil
		}
		if !slices.ContainsFunc(file.Findings, func(f dockerlint.Finding) bool { return f.Rule == dockerlint.BuildError }) && file.Error == "" {
			file.Unknown = nil
			files = append(files, file)
		}
	}
	if l.known != nil {
		tell(r.stderr, l.weigh(files))
	}
	doc := report.NewDockerfiles(files, nil)
	if doc.Summary.Errors+doc.Summary.Warnings == 0 {
		return false, nil
	}
	r.progress.pause()
	for _, file := range files {
		failOn, err := r.failOnFor(l.decidedFor(file.Path))
		if err != nil {
			return false, err
		}
		stops = stops || slices.ContainsFunc(file.Findings, func(f dockerlint.Finding) bool {
			return failOn != "" && f.Severity.AtLeast(failOn) && f.Severity != packs.Note
		})
	}
	return stops, report.DockerfilesFormats["text"](r.stdout, doc, report.Options{})
}
