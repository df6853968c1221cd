package packs

import (
	"slices"
)

// Severity says how sure it is that something fails.
type Severity string

// An error fails whenever that code path runs; a warning fails on some hosts or call paths;
// a note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities are all severities, the heaviest first.
var Severities = []Severity{Error, Warning, Note}

func (s Severity) known() bool { return slices.Contains(Severities, s) }

// AtLeast reports whether s is as heavy as t or heavier.
func (s Severity) AtLeast(t Severity) bool {
	return slices.Index(Severities, s) <= slices.Index(Severities, t)
}

// AtMost returns the lighter of s and t.
func (s Severity) AtMost(t Severity) Severity {
	if s.AtLeast(t) {
		return t
	}
	return s
}
