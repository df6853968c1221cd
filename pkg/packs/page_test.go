package packs

import (
	"strings"
	"testing"
)

// TestPage checks the parts of a rule's page that depend on severities and clauses.
func TestPage(t *testing.T) {
	r := &Rule{
		ID: "a", Severity: Error, Usual: Warning, Title: "T", Doc: "D\n", Patterns: []string{"p"}, Fix: []string{"f"}, Sources: []string{"s"},
		Clauses: map[string]*Clause{
			"m": {Message: "m"},
			"n": {Message: "n", Severity: Note}, // without a reason
			"d": {Severity: Note, Because: "b"},
			"c": {Severity: Note, Because: "b", Sources: []string{"s", "of c"}},
			"b": {Severity: Note, Because: "{why}"},
			"a": {Severity: Warning, Because: "{x} is y"},
			"e": {Severity: Error, Because: "as heavy as the rule"},
		},
	}
	want := `# a

**error, usually warning**: T

D

## How it reads

    p

## Reasons for a lower severity

- warning: {x} is y
- note: b
- note: for a reason that the finding names

## How to fix it

- f

## Sources

- s
- of c
`
	if got := r.Page(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r = &Rule{ID: "a", Severity: Note, Usual: Note, Title: "T", Doc: "D"}
	if got := r.Page(); !strings.HasPrefix(got, "# a\n\n**note**: T\n") || strings.Contains(got, "##") {
		t.Errorf("a rule without clauses has the page\n%s", got)
	}
}
