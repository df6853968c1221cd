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
			if len(x.Explain(f.Message).Answers) > 0 && !strings.HasPrefix(f.Message, "ImportError: cannot import name ") { // else it is not an error text
				texts = append(texts, f.Message)
			}
			for _, e := range f.Effects {
				// A missing module or name may be anybody's: explain has no answer for most.
				if e.Error != "" && !strings.HasPrefix(e.Error, "ModuleNotFoundError: No module named ") && !strings.HasPrefix(e.Error, "ImportError: cannot import name ") {
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

func isExplainedBy(x *explain.Explainer, text, rule string) bool {
	return slices.ContainsFunc(x.Explain(text).Answers, func(a explain.Answer) bool { return a.Rule == rule })
}
