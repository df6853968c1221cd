package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/explain"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// TestImagesAreExplained explains the error texts that the text images fail with: the
// answers must include the rule that found the failure.
func TestImagesAreExplained(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	x, err := explain.New(set)
	if err != nil {
		t.Fatal(err)
	}
	names := texts(t)
	asked := 0
	for _, name := range names {
		for _, f := range scanOf(t, name, true).Findings {
			if f.Severity == packs.Note || len(set.Rule(f.Rule).Patterns) == 0 {
				continue
			}
			var texts []string
			if len(x.Explain(f.Message).Answers) > 0 && !isAnybodys(f.Message) { // else it is not an error text
				texts = append(texts, f.Message)
			}
			for _, e := range f.Effects {
				if e.Error != "" && !isAnybodys(e.Error) {
					texts = append(texts, e.Error)
				}
			}
			if len(texts) == 0 {
				continue
			}
			asked++
			if !slices.ContainsFunc(texts, func(text string) bool { return isExplainedBy(x, text, f.Rule) }) {
				t.Errorf("%s: %s says %q, which is explained otherwise", name, f.Rule, texts)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d findings were asked about", asked)
	}
}

// isAnybodys reports whether a text tells of a module, a name or an attribute that is missing, which
// may be anybody's: explain has no answer for most, and for NumPy's that the releases do not fit.
func isAnybodys(text string) bool {
	for _, begin := range []string{"ModuleNotFoundError: No module named ", "ImportError: cannot import name ", "AttributeError: "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

func isExplainedBy(x *explain.Explainer, text, rule string) bool {
	return slices.ContainsFunc(x.Explain(text).Answers, func(a explain.Answer) bool { return a.Rule == rule })
}
