package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/githook"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/report"
)

// pushVerdict is what the findings of an image mean for a push.
type pushVerdict struct {
	use   *githook.Use // where the image fails; nil when it does not
	mends string       // what may mend all that fails; empty when the push is stopped
}

// judgePush judges an image by how it is used: where what comes after its FROM may
// mend a finding, the finding stops no push. The image that is built is not there yet.
func judgePush(im githook.Image, doc *report.Document, failOn lint.Severity) (v pushVerdict) {
	for i := range doc.Findings {
		f := &doc.Findings[i]
		if failOn == "" || !f.Severity.AtLeast(failOn) {
			continue
		}
		words := wordsOf(f, ruleOf(doc.Rules, f.Rule))
		for k := range im.Uses {
			mends := mendsOf(im, im.Uses[k], f, words)
			if mends == "" {
				return pushVerdict{use: &im.Uses[k]}
			}
			if v.use == nil {
				v = pushVerdict{&im.Uses[k], mends}
			}
		}
	}
	return v
}

func ruleOf(rules []*lint.Rule, id string) *lint.Rule {
	if i := slices.IndexFunc(rules, func(r *lint.Rule) bool { return r.ID == id }); i >= 0 {
		return rules[i]
	}
	return new(lint.Rule)
}

// mendsOf names what may mend a finding where an image is used; empty for nothing.
func mendsOf(im githook.Image, u githook.Use, f *lint.Finding, words map[string]bool) string {
	if im.Own && u.Input != "" && inRegistry(im.Ref) {
		return u.Input + ", from which it is built anew," // a registry has the build from before the push
	}
	for _, in := range u.Does {
		if mayMend(in, f, words) {
			return fmt.Sprintf("%s in %s:%d", in.Name, u.File, in.Line)
		}
	}
	return ""
}

func inRegistry(ref string) bool {
	return layers.InRegistry(ref) == ref || strings.HasPrefix(ref, "registry:") || strings.HasPrefix(ref, "docker://")
}

// mayMend reports whether an instruction may make a finding go away. RUN, COPY and ADD
// can change any file. An ENV can when the finding's texts (words) name the variable, or
// when the loader reads it and the finding is about a library. CMD and ENTRYPOINT can
// when all that follows is that the image's program does not start.
func mayMend(in dockerfile.Instruction, f *lint.Finding, words map[string]bool) bool {
	switch in.Name {
	case "RUN", "COPY", "ADD":
		return true
	case "ENV":
		return slices.ContainsFunc(in.Variables, func(v string) bool {
			return words[v] || strings.HasPrefix(v, "LD_") && (f.Library != "" || f.Symbol != "")
		})
	case "CMD", "ENTRYPOINT":
		program := words["ENTRYPOINT"] || f.Library != "" || f.Symbol != "" // not what the container runtime is asked for
		return program && len(f.Effects) > 0 && !slices.ContainsFunc(f.Effects, func(e lint.Effect) bool { return e.Text != doesNotStart })
	}
	return false
}

// doesNotStart is lint's effect of findings about the image's own program.
const doesNotStart = "the container does not start"

// wordsOf are the words of what a finding and its rule say.
func wordsOf(f *lint.Finding, rule *lint.Rule) map[string]bool {
	texts := slices.Concat([]string{f.Message, rule.Title, rule.Doc}, f.Fixes, rule.Fix)
	for _, s := range f.Searched {
		texts = append(texts, s.Source)
	}
	for _, e := range rule.Edits {
		texts = append(texts, e.Variable)
	}
	words := map[string]bool{}
	for _, t := range texts {
		for _, w := range strings.FieldsFunc(t, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			words[w] = true
		}
	}
	return words
}
