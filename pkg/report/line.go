package report

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// layerOf returns the layer in which the trouble is, or nil.
func layerOf(f *lint.Finding) *replay.LayerRef {
	switch {
	case len(f.Removed) > 0 && f.Removed[0].By != nil && len(f.Present) == 0:
		return f.Removed[0].By
	case len(f.NeededBy) > 0 && f.NeededBy[0].Layer != nil:
		return f.NeededBy[0].Layer
	case f.BoundTo != nil && f.BoundTo.Layer != nil:
		return f.BoundTo.Layer
	case len(f.Present) > 0 && f.Present[0].Layer != nil:
		return f.Present[0].Layer
	}
	return nil
}

// lineOf returns the instruction of the Dockerfile that made the layer of [layerOf], or nil
// if it is not known.
func (d *Document) lineOf(f *lint.Finding) *dockerline.Line {
	l := layerOf(f)
	if l == nil || l.Index < 1 || l.Index > len(d.Image.Layers) {
		return nil
	}
	line := d.Image.Layers[l.Index-1].Dockerfile
	if line == nil || line.File == "" || line.Line < 1 || line.EndLine < line.Line { // a document that another program wrote
		return nil
	}
	return line
}

// lineText returns an instruction with its file and line.
func lineText(l *dockerline.Line) string {
	return fmt.Sprintf("%s:%d  %s", clean(l.File), l.Line, clean(l.Instruction))
}

// lineURI returns the path of a Dockerfile as a relative URI.
func lineURI(l *dockerline.Line) string {
	uri := (&url.URL{Path: strings.TrimLeft(clean(l.File), "/")}).EscapedPath()
	if first, _, _ := strings.Cut(uri, "/"); strings.Contains(first, ":") {
		uri = "./" + uri // or the first segment would be a scheme
	}
	return uri
}

// sarifLine returns an instruction as a location, with its text if that is the whole line.
func sarifLine(l *dockerline.Line) sarifLocation {
	region := sarifRegion{StartLine: l.Line, StartColumn: 1, EndLine: l.EndLine}
	if l.Line == l.EndLine && !strings.HasSuffix(l.Instruction, "…") {
		region.Snippet = &sarifText{Text: clean(l.Instruction)}
	}
	return sarifLocation{Physical: sarifPhysical{sarifArtifact{lineURI(l)}, region}}
}
