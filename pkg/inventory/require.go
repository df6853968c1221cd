package inventory

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

// Requirement is a Requires-Dist line, taken apart (PEP 508).
type Requirement struct {
	Name       string // normalised
	Specifiers string // "==9.1.0.70", ">=2,<3"; empty for any
	Marker     string // `platform_system == "Linux"`; empty for always
}

var requirementForm = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(?:\(([^)]*)\)|([^;@]*))\s*(?:;\s*(.*))?$`)

// ParseRequirement takes a Requires-Dist line apart. One that names a URL is an
// error: it says nothing of versions.
func ParseRequirement(line string) (Requirement, error) {
	if len(line) > maxText {
		return Requirement{}, errors.New("the requirement is too long")
	}
	m := requirementForm.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return Requirement{}, fmt.Errorf("%q is no requirement with versions", line)
	}
	return Requirement{Normalize(m[1]), strings.TrimSpace(m[2] + m[3]), strings.TrimSpace(m[4])}, nil
}

// maxDigits keeps versions where the arithmetic of their parts is exact.
const maxDigits = 15

// Compare orders two versions by PEP 440: below, at or above 0.
func Compare(a, b string) (int, error) {
	va, err := parseVersion(a)
	if err != nil {
		return 0, err
	}
	vb, err := parseVersion(b)
	if err != nil {
		return 0, err
	}
	return va.Compare(vb), nil
}

var longNumber = regexp.MustCompile(fmt.Sprintf(`\d{%d}`, maxDigits+1))

func parseVersion(s string) (pep440.Version, error) {
	if len(s) > 256 || longNumber.MatchString(s) {
		return pep440.Version{}, errors.New("the version is too long")
	}
	v, err := pep440.Parse(s)
	if err != nil {
		return v, fmt.Errorf("%q is no version: %w", s, err)
	}
	return v, nil
}

var specifierForm = regexp.MustCompile(`^(===|==|!=|~=|>=|<=|>|<)\s*(\S+)$`)

// Satisfies reports whether a version meets specifiers such as "==9.1.0.70" or
// ">=2.0,!=2.1.*,<3" (PEP 440). Where a specifier names no local version, that of
// the version does not count: 2.6.0+cu124 is ==2.6.0.
func Satisfies(version, specifiers string) (bool, error) {
	v, err := parseVersion(version)
	if err != nil {
		return false, err
	}
	for one := range strings.SplitSeq(specifiers, ",") {
		one = strings.TrimSpace(one)
		if one == "" {
			continue
		}
		m := specifierForm.FindStringSubmatch(one)
		if m == nil {
			return false, fmt.Errorf("%q is no version specifier", one)
		}
		ok, err := satisfies(v, m[1], m[2])
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func satisfies(v pep440.Version, operator, want string) (bool, error) {
	if operator == "===" {
		return strings.EqualFold(v.Original(), want), nil
	}
	prefix, wild := strings.CutSuffix(want, ".*")
	w, err := parseVersion(prefix)
	if err != nil {
		return false, err
	}
	if wild && operator != "==" && operator != "!=" {
		return false, fmt.Errorf("%q may not stand with %s", want, operator)
	}
	public := v
	if w.Local() == "" {
		if public, err = parseVersion(v.Public()); err != nil {
			return false, err
		}
	}
	order := public.Compare(w)
	switch operator {
	case "==":
		if wild {
			return hasPrefix(public, w.BaseVersion()), nil
		}
		return order == 0, nil
	case "!=":
		if wild {
			return !hasPrefix(public, w.BaseVersion()), nil
		}
		return order != 0, nil
	case "~=":
		i := strings.LastIndexByte(w.BaseVersion(), '.')
		if i < 0 {
			return false, fmt.Errorf("%q needs two numbers with ~=", want)
		}
		return order >= 0 && hasPrefix(public, w.BaseVersion()[:i]), nil
	case ">=":
		return order >= 0, nil
	case "<=":
		return order <= 0, nil
	case ">": // not a post release of the version itself
		return order > 0 && (w.IsPostRelease() || !public.IsPostRelease() || !sameBase(public, w)), nil
	default: // "<": not a pre-release of the version itself
		return order < 0 && (w.IsPreRelease() || !public.IsPreRelease() || !sameBase(public, w)), nil
	}
}

// hasPrefix reports whether a version's numbers begin with those of prefix; those
// that it lacks are 0.
func hasPrefix(v pep440.Version, prefix string) bool {
	epoch, numbers := splitEpoch(v.BaseVersion())
	wantEpoch, want := splitEpoch(prefix)
	if epoch != wantEpoch {
		return false
	}
	for i, n := range want {
		have := "0"
		if i < len(numbers) {
			have = numbers[i]
		}
		if have != n {
			return false
		}
	}
	return true
}

// sameBase reports whether two versions have the same numbers.
func sameBase(a, b pep440.Version) bool {
	return hasPrefix(a, b.BaseVersion()) && hasPrefix(b, a.BaseVersion())
}

func splitEpoch(base string) (string, []string) {
	epoch, rest, ok := strings.Cut(base, "!")
	if !ok {
		return "0", strings.Split(base, ".")
	}
	return epoch, strings.Split(rest, ".")
}

// MarkerEnv is where a marker is looked at: python_version, platform_machine and
// the like (PEP 508), with their values. A variable that it lacks is not known.
type MarkerEnv map[string]string

// Applies reports whether a marker holds, and whether that can be told. An extra
// was not asked for, as far as the metadata tells.
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

// truth is one of three values.
type truth int

const (
	no truth = iota
	unknown
	yes
)

var markerWords = regexp.MustCompile(`\(|\)|'[^']*'|"[^"]*"|===|==|!=|~=|>=|<=|>|<|[A-Za-z_.]+|\S`)

// markerParser goes through a marker once.
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
	case leftName == "extra" || rightName == "extra":
		return no
	case !leftKnown || !rightKnown:
		return unknown
	}
	return compareMarker(left, operator, right)
}

// value is a string, or a variable's name and value.
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
	if ok, err := Satisfies(left, operator+right); err == nil {
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
