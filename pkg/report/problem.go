package report

import (
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Problem is a group of findings with one root cause, which one change resolves: all libraries
// of a CUDA runtime that the image lacks, say.
type Problem struct {
	// Findings are indexes into the document's findings, the gravest first.
	Findings []int `json:"findings"`
	// Severity is that of the gravest finding.
	Severity packs.Severity `json:"severity"`
	// Headline says what a user of the image meets.
	Headline string `json:"headline"`
}

// problems groups the findings that are a warning or more. A finding belongs to the first
// problem with which it shares a root cause.
func problems(findings []lint.Finding) []Problem {
	u := union{}
	first := map[string]int{} // by key
	for i := range findings {
		u = append(u, i)
		if findings[i].Severity == packs.Note {
			continue
		}
		for _, k := range rootKeys(&findings[i]) {
			if j, ok := first[k]; ok {
				u.join(i, j)
			} else {
				first[k] = i
			}
		}
	}
	var list []Problem
	at := map[int]int{} // index in list, by the first finding
	for i := range findings {
		f := &findings[i]
		if f.Severity == packs.Note {
			continue
		}
		root := u.root(i)
		k, ok := at[root]
		if !ok {
			k, at[root] = len(list), len(list)
			list = append(list, Problem{Severity: f.Severity})
		}
		list[k].Findings = append(list[k].Findings, i)
	}
	for i := range list {
		list[i].Headline = headline(findings, list[i].Findings)
	}
	return list
}

// headline returns what the finding that a problem shows leads to, else its message. That the
// image's program does not start comes before its other effects.
func headline(findings []lint.Finding, of []int) string {
	f := lead(findings, of)
	e := mainEffect(f)
	if e == nil {
		return f.Message
	}
	what, way := cutWay(e.Text)
	switch {
	case e.Name != lint.NotStarted && isWay(way):
		return what
	case e.Name != lint.NotStarted, way == "":
		return e.Text
	}
	for _, o := range f.Effects {
		if o.Name != lint.NotStarted {
			more, _ := cutWay(o.Text)
			return what + ": " + more
		}
	}
	return what
}

// cutWay cuts the text of an effect that says in which way it comes about.
func cutWay(text string) (what, way string) {
	what, way, _ = strings.Cut(text, ": ")
	return what, way
}

// isWay reports whether a text has the steps of a program, one leading to the next.
func isWay(text string) bool { return strings.Contains(text, " → ") }

// mainEffect returns the effect of a finding that its headline says, or nil.
func mainEffect(f *lint.Finding) *packs.Effect {
	if e := f.NotStarted(); e != nil {
		return e
	}
	if len(f.Effects) > 0 {
		return &f.Effects[0]
	}
	return nil
}

// lead returns the finding that a problem shows: of the gravest, the first because of which the
// image's program does not start, else the first that has an effect, else the first.
func lead(findings []lint.Finding, of []int) *lint.Finding {
	top := &findings[of[0]]
	for _, i := range of {
		if f := &findings[i]; f.Severity == top.Severity && f.NotStarted() != nil {
			return f
		}
	}
	for _, i := range of {
		if f := &findings[i]; f.Severity == top.Severity && len(f.Effects) > 0 {
			return f
		}
	}
	return top
}

// maxKeys limits the needing files that are compared.
const maxKeys = 64

// rootKeys returns texts of which two findings of one problem share one.
func rootKeys(f *lint.Finding) []string {
	var keys []string
	if f.Cause != "" {
		keys = append(keys, "cause\x00"+f.Cause)
	}
	if len(f.Fixes) > 0 {
		keys = append(keys, "fix\x00"+f.Rule+"\x00"+f.Fixes[0])
	}
	if f.Kind != packs.Missing {
		return keys
	}
	class := f.Rule
	if f.Family != "" && len(f.Present) == 0 {
		class = "absent" // missing-library, missing-sublibrary
	}
	for _, e := range f.Effects {
		keys = append(keys, "effect\x00"+class+"\x00"+e.Text)
	}
	for _, n := range f.NeededBy[:min(len(f.NeededBy), maxKeys)] {
		keys = append(keys, "needer\x00"+class+"\x00"+n.Path)
		if m := inPackage.FindStringSubmatch(n.Path); m != nil {
			keys = append(keys, "package\x00"+class+"\x00"+m[1])
		}
	}
	return keys
}

// inPackage matches a file of a Python package; the libraries of a wheel lie in NAME.libs.
var inPackage = regexp.MustCompile(`^(.*/(?:site|dist)-packages/[^/]+?)(?:\.libs)?/`)

// union joins numbers to sets: an element is the number of another one of its set, or its own.
type union []int

func (u union) root(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

// join makes one set of two, with the smaller root.
func (u union) join(i, j int) {
	a, b := u.root(i), u.root(j)
	u[max(a, b)] = min(a, b)
}
