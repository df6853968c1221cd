package report

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// troubleOf returns the file that shows the layer in which the trouble is, with that layer. Its
// Layer is nil if there is none, and its path is empty if the layer has deleted the file.
func troubleOf(f *lint.Finding) replay.File {
	switch {
	case len(f.Removed) > 0 && f.Removed[0].By != nil && len(f.Present) == 0:
		return replay.File{Layer: f.Removed[0].By}
	case len(f.NeededBy) > 0 && f.NeededBy[0].Layer != nil:
		return f.NeededBy[0]
	case f.BoundTo != nil && f.BoundTo.Layer != nil:
		return *f.BoundTo
	case len(f.Present) > 0 && f.Present[0].Layer != nil:
		return f.Present[0]
	}
	return replay.File{}
}

// layerOf returns the layer in which the trouble is, or nil.
func layerOf(f *lint.Finding) *replay.LayerRef { return troubleOf(f).Layer }

// maxCopied bounds the files that are followed into other stages.
const maxCopied = 1000

// Follow sets Copied to the files of the findings that were copied from another stage. way
// returns the stages that a file of a layer, from 0, was copied through, the nearest first.
func (d *Document) Follow(way func(layer int, path string) []dockerline.Source) {
	d.Copied = nil
	seen := map[string]bool{}
	for i := range d.Findings {
		at := troubleOf(&d.Findings[i])
		if at.Layer == nil || at.Path == "" || seen[at.Path] || len(d.Copied) == maxCopied {
			continue
		}
		seen[at.Path] = true
		if from := way(at.Layer.Index-1, at.Path); len(from) > 0 {
			d.Copied = append(d.Copied, Copied{at.Path, at.Layer.Index, from})
		}
	}
}

// copiedFrom returns the stages that the file of a finding was copied through, the nearest
// first, or nil.
func (d *Document) copiedFrom(f *lint.Finding) []dockerline.Source {
	at := troubleOf(f)
	for _, c := range d.Copied {
		if at.Layer != nil && c.Path == at.Path && c.Layer == at.Layer.Index && at.Path != "" {
			return c.From
		}
	}
	return nil
}

// sourceText names a stage that a file was copied from, and the instructions of it that may
// have made the file.
func sourceText(s dockerline.Source) string {
	text := "copied from a stage without a name"
	if s.Stage != "" {
		text = "copied from the stage " + clean(s.Stage)
	}
	var lines []string
	for _, l := range slices.Backward(s.Lines) {
		if valid(&l) {
			lines = append(lines, fmt.Sprint(l.Line))
		}
	}
	last := len(lines) - 1
	switch {
	case last < 0:
		return text
	case last == 0 && s.More == 0:
		return text + ": " + lineText(&s.Lines[0])
	case last >= shownLines || s.More > 0:
		return fmt.Sprintf("%s: one of %d instructions of %s, the last in line %s", text, len(lines)+s.More, clean(s.Lines[0].File), lines[last])
	}
	return fmt.Sprintf("%s: line %s or %s of %s", text, strings.Join(lines[:last], ", "), lines[last], clean(s.Lines[0].File))
}

// shownLines is the number of lines that are named where it is not known which of them made
// a file.
const shownLines = 4

// lineOf returns the instruction of the Dockerfile that made the layer of [layerOf], or nil
// if it is not known.
func (d *Document) lineOf(f *lint.Finding) *dockerline.Line {
	l := layerOf(f)
	if l == nil || l.Index < 1 || l.Index > len(d.Image.Layers) {
		return nil
	}
	line := d.Image.Layers[l.Index-1].Dockerfile
	if line == nil || !valid(line) {
		return nil
	}
	return line
}

// valid reports whether an instruction has a place: one of a document that another program
// wrote may have none.
func valid(l *dockerline.Line) bool { return l.File != "" && l.Line >= 1 && l.EndLine >= l.Line }

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
	region := sarifRegion{StartLine: l.Line, StartColumn: 1, EndLine: l.EndLine, EndColumn: l.EndColumn}
	if l.Line == l.EndLine && !strings.HasSuffix(l.Instruction, "…") {
		region.Snippet = &sarifText{Text: clean(l.Instruction)}
	}
	return sarifLocation{Physical: sarifPhysical{sarifArtifact{lineURI(l)}, region}}
}

// sarifFlows returns how the trouble came into the image: the instruction that made the
// layer, the instructions of the stages that the file was copied through, and the file. It
// is empty if the instruction is not known.
func sarifFlows(d *Document, f *lint.Finding) []sarifFlow {
	line, at := d.lineOf(f), troubleOf(f)
	if line == nil {
		return nil
	}
	var steps []sarifStep
	add := func(l sarifLocation, text string) {
		l.Message = &sarifText{Text: text}
		steps = append(steps, sarifStep{l})
	}
	add(sarifLine(line), fmt.Sprintf("makes layer %d", at.Layer.Index))
	for _, s := range d.copiedFrom(f) {
		says := "may have made the file"
		if len(s.Lines) == 1 && s.More == 0 {
			says = "made the file"
		}
		if s.Stage != "" {
			says += ", which is copied from the stage " + clean(s.Stage)
		}
		for _, l := range s.Lines {
			if valid(&l) {
				add(sarifLine(&l), says)
			}
		}
	}
	if at.Path != "" {
		add(sarifAt(d, at.Path), "the file in the image")
	}
	return []sarifFlow{{[]sarifThread{{steps}}}}
}
