package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Requirement is a parsed Requires-Dist line (PEP 508).
type Requirement struct {
	Name       string // normalised
	Specifiers string // "==9.1.0.70", ">=2,<3"; empty for any
	Marker     string // `platform_system == "Linux"`; empty for always
}

var requirementForm = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?:\(([^)]*)\)|([^;@]*))\s*(?:;\s*(.*))?$`)

// ParseRequirement parses a Requires-Dist line. It fails for a URL, which has no
// versions.
func ParseRequirement(line string) (Requirement, error) {
	if len(line) > maxText {
		return Requirement{}, errors.New("the requirement is too long")
	}
	m := requirementForm.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return Requirement{}, fmt.Errorf("%q is not a requirement with versions", line)
	}
	return Requirement{Normalize(m[1]), strings.TrimSpace(m[2] + m[3]), strings.TrimSpace(m[4])}, nil
}

// MarkerEnv has the values of the variables of markers: python_version, platform_machine
// and so on (PEP 508). A variable that is not in it is not known, but extra, without which
// conditions about extras do not hold.
type MarkerEnv map[string]string

// Applies reports whether the marker of r holds, and whether that is known. Extras count
// as not requested, because the metadata does not record them.
func (r Requirement) Applies(env MarkerEnv) (holds, known bool) {
	if r.Marker == "" {
		return true, true
	}
	p := &markerParser{words: markerWords.FindAllString(r.Marker, 256), env: env}
	t := p.or(0)
	if p.failed || p.at != len(p.words) {
		return false, false
	}
	return t == yes, t != unknown
}

// truth is the result of a marker, in the order that min and max need.
type truth int

const (
	no truth = iota
	unknown
	yes
)

var markerWords = regexp.MustCompile(`\(|\)|'[^']*'|"[^"]*"|===|==|!=|~=|>=|<=|>|<|[A-Za-z_.]+|\S`)

// markerParser parses a marker in one pass.
type markerParser struct {
	words  []string
	at     int
	env    MarkerEnv
	failed bool
}

func (p *markerParser) next() string {
	if p.at >= len(p.words) {
		p.failed = true
		return ""
	}
	p.at++
	return p.words[p.at-1]
}

func (p *markerParser) take(word string) bool {
	if p.at < len(p.words) && p.words[p.at] == word {
		p.at++
		return true
	}
	return false
}

func (p *markerParser) or(depth int) truth {
	t := p.and(depth)
	for p.take("or") {
		t = max(t, p.and(depth))
	}
	return t
}

func (p *markerParser) and(depth int) truth {
	t := p.comparison(depth)
	for p.take("and") {
		t = min(t, p.comparison(depth))
	}
	return t
}

func (p *markerParser) comparison(depth int) truth {
	if depth > 32 {
		p.failed = true
		return unknown
	}
	if p.take("(") {
		t := p.or(depth + 1)
		if !p.take(")") {
			p.failed = true
		}
		return t
	}
	left, leftName, leftKnown := p.value()
	operator := p.next()
	if operator == "not" && p.take("in") {
		operator = "not in"
	}
	right, rightName, rightKnown := p.value()
	switch {
	case (leftName == "extra" || rightName == "extra") && !p.extra():
		return no
	case !leftKnown || !rightKnown:
		return unknown
	}
	return compareMarker(left, operator, right)
}

// extra reports whether the extra is known. Installed requirements are judged without one.
func (p *markerParser) extra() bool {
	_, ok := p.env["extra"]
	return ok
}

// value returns a string, or the name and value of a variable.
func (p *markerParser) value() (value, name string, known bool) {
	word := p.next()
	if strings.HasPrefix(word, "'") || strings.HasPrefix(word, `"`) {
		return strings.Trim(word, word[:1]), "", len(word) > 1
	}
	value, known = p.env[word]
	return value, word, known
}

func compareMarker(left, operator, right string) truth {
	is := func(b bool) truth {
		if b {
			return yes
		}
		return no
	}
	switch operator {
	case "in":
		return is(strings.Contains(right, left))
	case "not in":
		return is(!strings.Contains(right, left))
	}
	if ok, err := version.Satisfies(left, operator+right); err == nil {
		return is(ok)
	}
	switch operator {
	case "==", "===":
		return is(left == right)
	case "!=":
		return is(left != right)
	}
	return unknown
}
