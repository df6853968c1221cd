package githook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Verdict says what the findings of an image mean for a push.
type Verdict struct {
	// Use is a place where the image would fail; nil if there is none.
	Use *Use
	// Fixed names what may fix all that would fail, "RUN in Dockerfile:3"; empty if the
	// push must be stopped.
	Fixed string
}

// Judge judges an image by its uses and by its findings of failOn and above, "" for
// none. rules are those of the packs. A finding does not stop the push if an instruction
// after the FROM may fix it: the image that is built from it does not exist yet.
func Judge(im Image, findings []lint.Finding, rules []*packs.Rule, failOn packs.Severity) (v Verdict) {
	for i := range findings {
		f := &findings[i]
		if failOn == "" || !f.Severity.AtLeast(failOn) {
			continue
		}
		words := wordsOf(f, ruleOf(rules, f.Rule))
		for k := range im.Uses {
			fixed := fixedBy(im, im.Uses[k], f, words)
			if fixed == "" {
				return Verdict{Use: &im.Uses[k]}
			}
			if v.Use == nil {
				v = Verdict{&im.Uses[k], fixed}
			}
		}
	}
	return v
}

func ruleOf(rules []*packs.Rule, id string) *packs.Rule {
	if i := slices.IndexFunc(rules, func(r *packs.Rule) bool { return r.ID == id }); i >= 0 {
		return rules[i]
	}
	return new(packs.Rule)
}

// fixedBy returns what may fix a finding where an image is used, or "".
func fixedBy(im Image, u Use, f *lint.Finding, words map[string]bool) string {
	if im.Own && u.Input != "" && inRegistry(im.Ref) {
		return u.Input + ", from which it is built anew," // the registry still has the build from before the push
	}
	for _, in := range u.Does {
		if mayFix(in, f, words) {
			return fmt.Sprintf("%s in %s:%d", in.Name, u.File, in.Line)
		}
	}
	return ""
}

func inRegistry(ref string) bool {
	return source.InRegistry(ref) == ref || strings.HasPrefix(ref, "registry:") || strings.HasPrefix(ref, "docker://")
}

// mayFix reports whether an instruction may fix a finding. RUN, COPY and ADD may change
// any file. ENV may fix a finding whose texts (words) name its variable and, with a
// variable of the loader, a finding about a library. CMD and ENTRYPOINT may fix a
// finding whose only effect is that the image's program does not start.
func mayFix(in dockerfile.Instruction, f *lint.Finding, words map[string]bool) bool {
	switch in.Name {
	case "RUN", "COPY", "ADD":
		return true
	case "ENV":
		return slices.ContainsFunc(in.Variables, func(v string) bool {
			return words[v] || strings.HasPrefix(v, "LD_") && (f.Library != "" || f.Symbol != "")
		})
	case "CMD", "ENTRYPOINT":
		runtime := f.Kind == packs.Setting // it is about what the image asks of the container runtime
		return !runtime && len(f.Effects) > 0 && !slices.ContainsFunc(f.Effects, func(e packs.Effect) bool { return e.Name != lint.NotStarted })
	}
	return false
}

// wordsOf returns the words in the texts of a finding and its rule.
func wordsOf(f *lint.Finding, rule *packs.Rule) map[string]bool {
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
