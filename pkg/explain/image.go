package explain

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Found is a finding of an image that confirms an answer.
type Found struct {
	Severity packs.Severity `json:"severity"`
	Message  string         `json:"message"`
	// Files are the files that cause the finding, with the layer that brought each.
	Files []replay.File `json:"files,omitempty"`
	// Fixes are the finding's, which are for this image.
	Fixes []string `json:"fixes,omitempty"`
}

// InImage adds the findings of an image to the answers to a text from it. An answer that
// a finding confirms comes first, and is certain if the finding is an error. A finding
// about the same library or symbol whose rule has no answer becomes one. If the image has one
// of the causes, InImage leaves out the answers that it would show as well and does not have,
// unless files of it were not examined.
func (x *Explainer) InImage(r *Result, image string, findings []lint.Finding) {
	r.Image = image
	for i := range r.Answers {
		a := &r.Answers[i]
		for _, f := range findings {
			if f.Rule == a.Rule && a.Rule != "" && about(a.Captures, f) != unrelated {
				a.InImage = append(a.InImage, found(f))
			}
		}
	}
	if len(r.Answers) > 0 {
		x.addFound(r, findings)
	}
	for i := range r.Answers {
		a := &r.Answers[i]
		switch {
		case len(a.InImage) == 0:
			a.Confidence = Possible
		case a.InImage[0].Severity == packs.Error:
			a.Confidence = Certain
		default:
			a.Confidence = Likely
		}
	}
	slices.SortStableFunc(r.Answers, func(a, b Answer) int { return cmp.Compare(weight(a), weight(b)) })
	r.ruleOut(findings)
	r.Answers = r.Answers[:min(len(r.Answers), maxAnswers)]
	r.Apart = ""
	if len(r.Answers) > 0 && len(r.Answers[0].InImage) == 0 {
		r.Apart = x.apart(r.Answers)
	}
}

// ruleOut leaves out the answers that the image shows not to be the cause: a rule finds them
// in images, and has found nothing in this one. It needs an answer that the image confirms,
// for an error text of other files than the image's is not the image's.
func (r *Result) ruleOut(findings []lint.Finding) {
	partial := slices.ContainsFunc(findings, func(f lint.Finding) bool {
		return f.Rule == "not-examined" || f.Rule == "nothing-examined"
	})
	if partial || len(r.Answers) == 0 || len(r.Answers[0].InImage) == 0 {
		return
	}
	line := r.Answers[0].Line
	r.Answers = slices.DeleteFunc(r.Answers, func(a Answer) bool {
		out := a.Visible == "yes" && a.Rule != "" && len(a.InImage) == 0 && a.Line == line
		if out {
			r.RuledOut = append(r.RuledOut, a.Case)
		}
		return out
	})
}

// addFound adds answers for findings about the library or symbol of the first answer.
func (x *Explainer) addFound(r *Result, findings []lint.Finding) {
	first := r.Answers[0]
	for _, f := range findings {
		if about(first.Captures, f) != same || slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.Rule == f.Rule }) {
			continue
		}
		for _, c := range x.sortedCases() {
			if c.Rule == f.Rule {
				a := x.answer(c, hit{captures: first.Captures}, "", Possible, x.told(lower(first.Text)))
				a.Line, a.Text, a.InImage = first.Line, first.Text, []Found{found(f)}
				r.Answers = append(r.Answers, a)
				break
			}
		}
	}
}

// sortedCases returns the cases by rule. The case with the rule's own ID comes first.
func (x *Explainer) sortedCases() []*packs.Case {
	var list []*packs.Case
	for _, c := range x.cases {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *packs.Case) int {
		own := func(c *packs.Case) int {
			if c.ID == c.Rule {
				return 0
			}
			return 1
		}
		return cmp.Or(own(a)-own(b), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// relation is the relation of a finding to the names in a text.
type relation int

const (
	unrelated relation = iota // the finding is about another library or symbol
	unnamed                   // the text names no library or symbol
	same
)

func about(captures map[string]string, f lint.Finding) relation {
	named := false
	for _, name := range []string{"symbol", "library", "library_2"} {
		if value := captures[name]; value != "" {
			named = true
			if names(&f, value) {
				return same
			}
		}
	}
	if named {
		return unrelated
	}
	return unnamed
}

// names reports whether a finding is about a symbol, or about a library or a file of a
// name: of that name, or of a longer version of it.
func names(f *lint.Finding, name string) bool {
	if name == f.Symbol {
		return true
	}
	files := []string{f.Library, f.Subject}
	of := slices.Concat(f.Present, f.Others)
	if f.BoundTo != nil {
		of = append(of, *f.BoundTo)
	}
	if f.Kind == packs.Symbol || f.Kind == packs.Version { // which name the file that asks
		of = append(of, f.NeededBy...)
	}
	for _, file := range of {
		files = append(files, file.Path)
	}
	name = path.Base(name)
	return slices.ContainsFunc(files, func(file string) bool {
		base := path.Base(file)
		return base == name || strings.HasPrefix(base, name+".")
	})
}

func found(f lint.Finding) Found {
	out := Found{Severity: f.Severity, Message: f.Message, Fixes: f.Fixes}
	if f.BoundTo != nil {
		out.Files = append(out.Files, *f.BoundTo)
	}
	out.Files = append(out.Files, f.NeededBy...)
	out.Files = out.Files[:min(len(out.Files), 3)]
	return out
}

// weight orders answers: those that the image confirms first, then by severity.
func weight(a Answer) int {
	if len(a.InImage) == 0 {
		return len(packs.Severities)
	}
	return slices.Index(packs.Severities, a.InImage[0].Severity)
}
