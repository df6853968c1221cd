package report

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// The part of SARIF that has changes of files: sections 3.55 to 3.57 of the standard.
type (
	sarifFix struct {
		Description sarifText         `json:"description"`
		Changes     []sarifFileChange `json:"artifactChanges"`
	}
	sarifFileChange struct {
		Artifact     sarifArtifact      `json:"artifactLocation"`
		Replacements []sarifReplacement `json:"replacements"`
	}
	sarifReplacement struct {
		Deleted  sarifRegion `json:"deletedRegion"`
		Inserted *sarifText  `json:"insertedContent,omitempty"`
	}
)

// sarifFixes returns the changes of the Dockerfile that resolve a finding: the lines of the
// plan behind the last instruction of the image's stage, and another base in the FROM. There
// are none if the file is not known.
func sarifFixes(d *Document, f *lint.Finding) (fixes []sarifFix) {
	if d.Plan == nil || d.Plan.Snippet == nil || !slices.Contains(d.Plan.Snippet.Resolved, f.Cause) {
		return nil
	}
	s := d.Plan.Snippet
	add := func(says, file string, list ...sarifReplacement) {
		artifact := sarifArtifact{lineURI(&dockerline.Line{File: file})}
		fixes = append(fixes, sarifFix{sarifText{Text: says}, []sarifFileChange{{artifact, list}}})
	}
	if e := d.Image.End; e != nil && e.File != "" && e.From >= 1 && e.Line >= e.From && e.Column >= 1 && len(s.Lines) > 0 {
		var list []sarifReplacement
		if len(s.Stages) > 0 {
			list = append(list, inserted(e.From, 1, strings.Join(cleaned(s.Stages), "\n")+"\n"))
		}
		list = append(list, inserted(e.Line, e.Column, "\n"+strings.Join(cleaned(s.Lines), "\n")))
		add("Add the lines at the end of the Dockerfile.", e.File, list...)
	}
	if s.Base != nil {
		if line, text := d.onBase(s.Base.From, s.Base.To); line != nil {
			region := sarifRegion{StartLine: line.Line, StartColumn: 1, EndLine: line.EndLine, EndColumn: line.EndColumn}
			add("Build on another image.", line.File, sarifReplacement{region, &sarifText{Text: clean(text)}})
		}
	}
	return fixes
}

// inserted returns a change that deletes nothing.
func inserted(line, column int, text string) sarifReplacement {
	return sarifReplacement{sarifRegion{StartLine: line, StartColumn: column, EndLine: line, EndColumn: column}, &sarifText{Text: text}}
}

// onBase returns the FROM of the image's base, with its text for another base; nil if that
// is not known, or if the FROM names the base by a variable.
func (d *Document) onBase(from, to string) (*dockerline.Line, string) {
	for _, l := range d.Image.Layers {
		line := l.Dockerfile
		if line == nil || !line.Base || !valid(line) || line.Line != line.EndLine || line.EndColumn == 0 || strings.HasSuffix(line.Instruction, "…") {
			continue
		}
		words := strings.Split(line.Instruction, " ")
		if i := slices.Index(words, from); i >= 0 {
			words[i] = to
			return line, strings.Join(words, " ")
		}
		return nil, ""
	}
	return nil, ""
}
