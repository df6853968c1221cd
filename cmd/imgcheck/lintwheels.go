package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/predict"
	"github.com/imgcheck/imgcheck/pkg/pyindex"
)

// toldFetched is the number of bytes of wheels above which a lint says what it has read.
const toldFetched = 1e6

// readWheels lets a lint read at most most bytes of each wheel.
func (l *linting) readWheels(most int64, set *packs.Packs) {
	l.fetched = map[string]int64{}
	l.wheels = predict.Options{Indexes: l.indexesOfWheels, Most: most, Packs: set, Fetched: func(wheel string, bytes int64) { l.fetched[wheel] += bytes }}
	l.wheels.Cache = memory{} // several targets install the same wheel
	if l.scan.Layers.Cache != nil {
		l.wheels.Cache = l.scan.Layers.Cache
	}
}

// indexesOfWheels returns the indexes that are asked for wheels, and keeps that they were.
func (l *linting) indexesOfWheels(from dockerlint.Indexes) (pyindex.Several, string) {
	s, why := l.indexes(from)
	if why == "" {
		l.note("", from)
	}
	return s, why
}

// memory keeps documents for one lint.
type memory map[string][]byte

func (m memory) Document(key string) ([]byte, bool) {
	doc, ok := m[key]
	return doc, ok
}

func (m memory) PutDocument(key string, doc []byte) error {
	m[key] = doc
	return nil
}

// predict judges a target by the files of its packages.
func (l *linting) predict(ctx context.Context, p dockerlint.Prospect) ([]dockerlint.Predicted, []bool, []dockerlint.NotPredicted) {
	b := l.base(ctx, p.Ref, p.Platform)
	if b.files.FS == nil {
		return nil, make([]bool, len(p.Packages)), nil // the lint says elsewhere why it is not known
	}
	out := predict.Image(ctx, b.files, p, l.wheels)
	return out.Findings, out.Judged, out.Unknown
}

// tellAsked says which package indexes were asked for metadata, and for how many packages.
func (l *linting) tellAsked(w io.Writer) {
	if len(l.asked) == 0 {
		return
	}
	packages := map[string]bool{}
	for _, names := range l.asked {
		maps.Copy(packages, names)
	}
	what := fmt.Sprintf("%d packages", len(packages))
	switch {
	case l.wheels.Most > 0: // and for those that they require
		what = "packages"
	case len(packages) == 1:
		what = "1 package"
	}
	fmt.Fprintf(w, "imgcheck: asked %s for the metadata of %s (not with --index none)\n", strings.Join(slices.Sorted(maps.Keys(l.asked)), ", "), what)
}

// tellFetched says how much was read of wheels, if that is more than metadata.
func (l *linting) tellFetched(w io.Writer) {
	var all int64
	for _, n := range l.fetched {
		all += n
	}
	if all > toldFetched {
		fmt.Fprintf(w, "imgcheck: %s of %d wheels were read (--wheels)\n", size.Text(all), len(l.fetched))
	}
}
