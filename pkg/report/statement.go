package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// The types of a statement and of its predicate:
// https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
// https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://in-toto.io/attestation/test-result/v0.1"
)

// Statement is the result of a scan as an in-toto statement, for others to sign.
type Statement struct {
	Type          string       `json:"_type"`
	Subject       []Descriptor `json:"subject"`
	PredicateType string       `json:"predicateType"`
	Predicate     TestResult   `json:"predicate"`
}

// TestResult is the predicate of a statement: a test for each rule.
type TestResult struct {
	// Result is FAILED if there is an error that counts, WARNED if there is a warning, and
	// else PASSED.
	Result        string       `json:"result"`
	Configuration []Descriptor `json:"configuration"`
	// PassedTests are the rules that were applied and have neither an error nor a warning, nor
	// a finding that the policy ignores or a baseline knows. There is none if nothing of the
	// image could be judged.
	PassedTests []string `json:"passedTests"`
	WarnedTests []string `json:"warnedTests"`
	FailedTests []string `json:"failedTests"`
}

// Descriptor describes a thing:
// https://github.com/in-toto/attestation/blob/main/spec/v1/resource_descriptor.md.
type Descriptor struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Annotations map[string]any    `json:"annotations,omitempty"`
}

// Program is the name of imgcheck in statements.
const Program = "https://github.com/imgcheck/imgcheck"

// NewStatement returns the statement of a document about the image with its digest, which name
// names. machines are those that the image was judged for, as far as they are known, and files the
// policy and the like. It is an error if the image has no digest.
func NewStatement(d *Document, name string, machines []targets.Machine, files ...Descriptor) (*Statement, error) {
	algorithm, hex, ok := strings.Cut(d.Image.Digest, ":")
	if !ok || algorithm == "" || hex == "" {
		return nil, errors.New("the image has no digest to sign: only one in a registry or an OCI layout has")
	}
	about := map[string]any{"ignored": len(d.Ignored), "known": len(d.Known)}
	for key, value := range map[string]string{"version": d.Imgcheck, "platform": d.Image.Platform} {
		if value != "" {
			about[key] = value
		}
	}
	var judged []string
	for _, m := range machines {
		judged = append(judged, fmt.Sprint(m))
	}
	if len(judged) > 0 {
		about["machines"] = judged
	}
	r := TestResult{Result: "PASSED", PassedTests: []string{}, WarnedTests: []string{}, FailedTests: []string{}}
	r.Configuration = append([]Descriptor{{Name: "imgcheck", URI: Program, Annotations: about}}, files...)
	worst := map[string]packs.Severity{}
	for _, f := range d.Findings {
		if w, ok := worst[f.Rule]; !ok || f.Severity.AtLeast(w) {
			worst[f.Rule] = f.Severity
		}
	}
	for rule, severity := range worst {
		switch severity {
		case packs.Error:
			r.FailedTests = append(r.FailedTests, rule)
		case packs.Warning:
			r.WarnedTests = append(r.WarnedTests, rule)
		}
	}
	slices.Sort(r.FailedTests)
	slices.Sort(r.WarnedTests)
	excepted := map[string]bool{}
	for _, f := range d.Known {
		excepted[f.Rule] = true
	}
	for _, f := range d.Ignored {
		excepted[f.Finding.Rule] = true
	}
	for _, rule := range lint.Applied(len(machines) > 0) {
		if w, found := worst[rule]; !blind(d) && !excepted[rule] && (!found || w == packs.Note) {
			r.PassedTests = append(r.PassedTests, rule)
		}
	}
	switch {
	case len(r.FailedTests) > 0:
		r.Result = "FAILED"
	case len(r.WarnedTests) > 0:
		r.Result = "WARNED"
	}
	subject := Descriptor{Name: name, Digest: map[string]string{algorithm: hex}}
	return &Statement{Type: StatementType, Subject: []Descriptor{subject}, PredicateType: PredicateType, Predicate: r}, nil
}
