package report

import (
	"slices"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

func TestStatement(t *testing.T) {
	finding := func(rule string, s packs.Severity) lint.Finding {
		return lint.Finding{Rule: rule, Severity: s, Message: "m"}
	}
	image := Image{Ref: "app:1", Digest: "sha256:abc", Platform: "linux/amd64"}
	of := func(findings ...lint.Finding) *Document {
		return New(image, &lint.Result{Findings: findings, Stats: lint.Stats{ELF: 3}})
	}
	for _, c := range []struct {
		doc            *Document
		result         string
		failed, warned []string
		notPassed      string
	}{
		{of(), "PASSED", nil, nil, ""},
		{of(finding("cpu-build", packs.Note)), "PASSED", nil, nil, ""},
		{of(finding("cpu-build", packs.Warning), finding("cpu-build", packs.Note)), "WARNED", nil, []string{"cpu-build"}, "cpu-build"},
		{of(finding("torch-pair", packs.Warning), finding("missing-library", packs.Warning), finding("missing-library", packs.Error)), "FAILED", []string{"missing-library"}, []string{"torch-pair"}, "missing-library"},
	} {
		s, err := NewStatement(c.doc, "example/app", nil)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Predicate
		if p.Result != c.result || !slices.Equal(p.FailedTests, c.failed) || !slices.Equal(p.WarnedTests, c.warned) || len(p.PassedTests) < 20 || slices.Contains(p.PassedTests, c.notPassed) {
			t.Errorf("%+v", p)
		}
		if s.Subject[0].Name != "example/app" || s.Subject[0].Digest["sha256"] != "abc" {
			t.Errorf("%+v", s.Subject)
		}
		if slices.Contains(p.PassedTests, "no-gpu-code") {
			t.Error("a rule about GPUs has passed without a GPU")
		}
	}
	s, err := NewStatement(of(), "a", []targets.Machine{{GPU: "L4", Arch: 89}})
	if err != nil || !slices.Contains(s.Predicate.PassedTests, "no-gpu-code") {
		t.Errorf("%+v, %v", s, err)
	}

	// A finding that a policy ignores or a baseline knows does not fail, and its rule has not passed.
	excepted := of()
	excepted.Ignored, excepted.Known = []Ignored{{Finding: finding("missing-library", packs.Error)}}, []lint.Finding{finding("torch-pair", packs.Error)}
	s, err = NewStatement(excepted, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := s.Predicate
	if p.Result != "PASSED" || slices.Contains(p.PassedTests, "missing-library") || slices.Contains(p.PassedTests, "torch-pair") || p.Configuration[0].Annotations["ignored"] != 1 || p.Configuration[0].Annotations["known"] != 1 {
		t.Errorf("%+v", p)
	}

	// An image of which nothing was judged has passed no rule.
	if s, err := NewStatement(New(image, &lint.Result{}), "a", nil); err != nil || s.Predicate.Result != "PASSED" || len(s.Predicate.PassedTests) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := NewStatement(New(Image{Ref: "dir:/"}, &lint.Result{}), "a", nil); err == nil {
		t.Errorf("a statement about no digest: %+v", s)
	}
}
