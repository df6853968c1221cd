package explain

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
)

// Found is a finding in an image that is what an answer says.
type Found struct {
	Severity lint.Severity `json:"severity"`
	Message  string        `json:"message"`
	// Files are the ones that are to blame, with the layer that brought each.
	Files []lint.File `json:"files,omitempty"`
}

// InImage puts the findings of an image beside the answers to a text of its: an
// answer that the image shows comes first, and is certain where the finding is an
// error. A finding about the same library or symbol whose rule is not among the
// answers becomes one.
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
		case a.InImage[0].Severity == lint.Error:
			a.Confidence = Certain
		default:
			a.Confidence = Likely
		}
	}
	slices.SortStableFunc(r.Answers, func(a, b Answer) int { return cmp.Compare(weight(a), weight(b)) })
	r.Answers = r.Answers[:min(len(r.Answers), maxAnswers)]
}

// addFound makes answers of findings about what the first answer's text names.
func (x *Explainer) addFound(r *Result, findings []lint.Finding) {
	first := r.Answers[0]
	for _, f := range findings {
		if about(first.Captures, f) != same || slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.Rule == f.Rule }) {
			continue
		}
		for _, c := range x.sortedCases() {
			if c.Rule == f.Rule {
				a := x.answer(c, hit{captures: first.Captures}, "", Possible)
				a.Line, a.Text, a.InImage = first.Line, first.Text, []Found{found(f)}
				r.Answers = append(r.Answers, a)
				break
			}
		}
	}
}

// sortedCases are the cases, that of a rule's own name before others of the rule.
func (x *Explainer) sortedCases() []*lint.Case {
	var list []*lint.Case
	for _, c := range x.cases {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *lint.Case) int {
		own := func(c *lint.Case) int {
			if c.ID == c.Rule {
				return 0
			}
			return 1
		}
		return cmp.Or(own(a)-own(b), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// relation is how a finding stands to what a text names.
type relation int

const (
	unrelated relation = iota // it is about another library or symbol
	unnamed                   // the text names none
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
	if f.Kind == lint.Symbol || f.Kind == lint.Version { // which name the file that asks
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
	out := Found{Severity: f.Severity, Message: f.Message}
	if f.BoundTo != nil {
		out.Files = append(out.Files, *f.BoundTo)
	}
	out.Files = append(out.Files, f.NeededBy...)
	out.Files = out.Files[:min(len(out.Files), 3)]
	return out
}

// weight sorts answers: what the image shows before what it does not, graver
// before less grave.
func weight(a Answer) int {
	if len(a.InImage) == 0 {
		return len(lint.Severities)
	}
	return slices.Index(lint.Severities, a.InImage[0].Severity)
}
