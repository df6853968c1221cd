// Package dockerline finds the instruction of a Dockerfile that made each layer of an
// image.
//
// [FromProvenance] reads it from the provenance that BuildKit stores beside the image with
// `--provenance=mode=max`: that has the Dockerfile, and BuildKit's own map of layers to
// lines, and the steps of all stages: [Provenance.Follow] follows a file that a
// `COPY --from` has brought into its stage. [FromHistory] compares a Dockerfile with the
// history of the image's config.
//
// A layer gets a line only if nothing else fits. The package reads no files and asks no
// registry; it does not know what is in a layer, nor what a command of another stage has
// made there, and therefore names all instructions that may have made a file. Statements and
// Dockerfiles are hostile: each is bounded before it is read.
package dockerline

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/dockerfile"
)

// Line is the instruction that made a layer.
type Line struct {
	// File is the Dockerfile's path, relative to the root of the repository if the build
	// knew it, and else to the build's directory.
	File string `json:"file"`
	// Line and EndLine are the first and the last line of the instruction, from 1.
	Line    int `json:"line"`
	EndLine int `json:"end_line"`
	// EndColumn is the column behind the last character, from 1, as SARIF counts: in units of
	// UTF-16. It is 0 in documents of earlier releases.
	EndColumn int `json:"end_column,omitempty"`
	// Instruction is its text in one line, shortened.
	Instruction string `json:"instruction"`
	// Stage is the name of its stage, or empty if it has none.
	Stage string `json:"stage,omitempty"`
	// Base is set if the layer belongs to the image that the stage is built on: the
	// instruction is the FROM that names the image.
	Base bool `json:"base,omitempty"`
}

// End is the place behind the last instruction of the stage that an image is made of, where
// other instructions may be added.
type End struct {
	File string `json:"file"`
	// From is the line of the stage's FROM, and Line that of the end, from 1.
	From int `json:"from"`
	Line int `json:"line"`
	// Column is that behind the last character, as in [Line].
	Column int `json:"column"`
}

const (
	maxInstruction = 500 // characters of an instruction's text
	maxName        = 500 // bytes of a file's name
)

// text is a Dockerfile whose lines are looked up.
type text struct {
	name  string
	lines []string
	file  *dockerfile.File // nil if it cannot be parsed
	// columns are the results of behind: a line may be long, and the end of very many steps.
	columns map[int]int
}

func newText(name string, data []byte) *text {
	t := &text{name: name, columns: map[int]int{}, lines: strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")}
	if f, err := dockerfile.Read(bytes.NewReader(data)); err == nil {
		t.file = f
	}
	return t
}

// at returns the instruction from line start to end, or nil if the file has no such lines.
func (t *text) at(start, end int) *Line {
	if start < 1 || end < start || end > len(t.lines) {
		return nil
	}
	l := &Line{File: t.name, Line: start, EndLine: end, EndColumn: t.behind(end), Instruction: joined(t.lines[start-1 : end])}
	if i := t.stage(start); i >= 0 {
		l.Stage = t.file.Stages[i].Name
		l.Base = t.file.Stages[i].Line == start && t.file.Stages[i].On < 0 // else it is a layer of its ONBUILD
	}
	return l
}

// behind returns the column behind the last character of a line.
func (t *text) behind(line int) int {
	if _, ok := t.columns[line]; !ok {
		t.columns[line] = len(utf16.Encode([]rune(strings.TrimSuffix(t.lines[line-1], "\r")))) + 1
	}
	return t.columns[line]
}

// end returns the end of a stage, or nil if there is none.
func (t *text) end(stage int) *End {
	if stage < 0 || t.file == nil || stage >= len(t.file.Stages) {
		return nil
	}
	s := &t.file.Stages[stage]
	line := s.Line
	if n := len(s.Steps); n > 0 {
		line = s.Steps[n-1].EndLine
	}
	if line < 1 || line > len(t.lines) {
		return nil
	}
	return &End{File: t.name, From: s.Line, Line: line, Column: t.behind(line)}
}

// stage returns the number of the stage that a line belongs to, or -1.
func (t *text) stage(line int) int {
	if t.file == nil {
		return -1
	}
	at := -1
	for i, s := range t.file.Stages {
		if s.Line <= line {
			at = i
		}
	}
	return at
}

// target returns the number of the stage with a name, or of the last one if the name is
// empty; -1 if there is none.
func (t *text) target(name string) int {
	if t.file == nil {
		return -1
	}
	if name == "" {
		return len(t.file.Stages) - 1
	}
	return slices.IndexFunc(t.file.Stages, func(s dockerfile.Stage) bool { return strings.EqualFold(s.Name, name) })
}

// joined returns the lines of an instruction as one, without logins in URLs.
func joined(lines []string) string {
	var b strings.Builder
	for _, l := range lines[:min(len(lines), maxInstruction)] {
		if b.Len() > 4*maxInstruction {
			break
		}
		l = strings.TrimRight(l[:min(len(l), 4*maxInstruction)], " \t\r")
		l = strings.TrimRight(l, "\\`")
		for _, word := range strings.Fields(l) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
	}
	line := plain.Masked(strings.ToValidUTF8(b.String(), "\uFFFD"))
	if r := []rune(line); len(r) > maxInstruction {
		return string(r[:maxInstruction-1]) + "…"
	}
	return line
}

// inRepository returns a file's path below a directory of a repository. A path that
// leads out of the repository loses its directories.
func inRepository(dir, name string) string {
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\\", "/")
	full := path.Clean(path.Join(strings.ReplaceAll(strings.ToValidUTF8(dir, "\uFFFD"), "\\", "/"), name))
	if path.IsAbs(full) || full == ".." || strings.HasPrefix(full, "../") || path.IsAbs(name) || len(full) > maxName {
		full = path.Base(name)
	}
	if full == "." || full == "/" || full == ".." || len(full) > maxName {
		return "Dockerfile"
	}
	return full
}
