package packs

import (
	"slices"
)

// Severity is how sure it is that something fails.
type Severity string

// An error fails whenever that code path runs; a warning fails on some hosts or
// call paths; a note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities in the order of their weight, the heaviest first.
var Severities = []Severity{Error, Warning, Note}

// AtLeast reports whether s weighs as much as t or more.
func (s Severity) AtLeast(t Severity) bool {
	return slices.Index(Severities, s) <= slices.Index(Severities, t)
}

// AtMost is s, or t where s weighs more.
func (s Severity) AtMost(t Severity) Severity {
	if s.AtLeast(t) {
		return t
	}
	return s
}

// Kind is what is wrong, in a word.
type Kind string

// Kinds of findings.
const (
	Missing    Kind = "missing"    // a file that is asked for is not found
	Unusable   Kind = "unusable"   // a file is found and cannot be used
	Version    Kind = "version"    // a library lacks a version that is asked for
	Symbol     Kind = "symbol"     // a library lacks a symbol that is asked for
	Mixture    Kind = "mixture"    // a process gets libraries that do not go together
	Setting    Kind = "setting"    // a variable, a search path or the config
	Package    Kind = "package"    // installed packages that do not fit together, or the image
	Program    Kind = "program"    // a program that cannot be started
	Unexamined Kind = "unexamined" // it could not be looked at
)

// Kinds are all kinds of findings.
var Kinds = []Kind{Missing, Unusable, Version, Symbol, Mixture, Setting, Package, Program, Unexamined}

// Effect is what follows from a finding for a user of the image.
type Effect struct {
	Name  string `json:"name,omitempty"`  // for programs, as NotStarted; empty for most
	Text  string `json:"text"`            // "`import torch` fails"
	Error string `json:"error,omitempty"` // the text that the user will read
}
