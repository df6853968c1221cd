package targets

import (
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Line is a row as a table in a page shows it. Its texts are safe for a terminal, each on one line.
type Line struct {
	Arch, GPUs string
	Verdict    string // of the row; empty for a word that is none
	Says       string // the verdict in words
	Driver     string // empty if the row fails
	Why        string // the fact behind the driver
	Because    []Reason
}

// Reason is a file behind a verdict.
type Reason struct{ Path, Says string }

// words are the verdicts in words.
var words = map[string]string{
	string(Fits): "runs", string(FitsByJIT): "runs, compiles PTX at first use", rowPartly: "runs in part",
	string(Unsure): "perhaps runs", rowFails: "fails",
}

// Lines returns the rows as a page shows them.
func Lines(rows []*Row) []Line {
	var list []Line
	for _, r := range rows {
		if r == nil { // of a document that somebody else wrote
			continue
		}
		l := Line{
			Arch: plain.Line(r.Arch), GPUs: plain.Line(strings.Join(r.Products, ", ")),
			Verdict: r.Verdict, Says: words[r.Verdict], Because: r.reasons(),
		}
		if l.Says == "" {
			l.Verdict, l.Says = "", "not known"
		}
		if r.Verdict != rowFails {
			l.Driver, l.Why = plain.Line(r.Driver), plain.Line(r.Why)
		}
		list = append(list, l)
	}
	return list
}

// reasons returns the files behind a verdict, and the effects that a process meets.
func (r *Row) reasons() []Reason {
	var list []Reason
	add := func(path, says string) { list = append(list, Reason{plain.Name(path), plain.Line(says)}) }
	for _, f := range r.Failures {
		says := f.Error
		if len(f.Effects) > 0 && len(f.Texts) > 0 { // the others are those of further processes
			says = f.Effects[0] + ": " + f.Texts[0]
		}
		add(f.Path, says)
	}
	for _, s := range r.Partly {
		add(s.Path, fmt.Sprintf("%d of %d containers have no code for this GPU", s.Containers, s.Of))
	}
	for _, name := range r.Unsure {
		add(name, "code that perhaps runs")
	}
	if r.Verdict == string(FitsByJIT) {
		for _, name := range r.Compiles {
			add(name, "PTX, which the driver compiles")
		}
	}
	return list
}
