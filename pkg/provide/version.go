package provide

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

// maxVersion bounds a version or specifier set, in bytes. Longer ones do not
// come from people.
const maxVersion = 256

// clauses begin with an operator each (PEP 440, "Version specifiers").
var clauses = regexp.MustCompile(`^\s*([~=!]=|===|[<>]=?)[^,<>=!~]+(,\s*([~=!]=|===|[<>]=?)[^,<>=!~]+)*$`)

// specifiers are sets that must all hold.
type specifiers struct {
	sets []pep440.Specifiers
	text []string
	pin  string
}

func parseSpecifiers(w Want) (specifiers, error) {
	s := specifiers{pin: w.Pin}
	texts := slices.Clone(w.Versions)
	if w.Pin != "" {
		if _, err := parseVersion(w.Pin); err != nil {
			return s, err
		}
		texts = append(texts, "=="+w.Pin+rest(w.Pin))
	}
	for _, t := range texts {
		if strings.TrimSpace(t) == "" {
			continue
		}
		if len(t) > maxVersion {
			return s, fmt.Errorf("%.20q… is too long for a version", t)
		}
		set, err := pep440.NewSpecifiers(t, pep440.WithPreRelease(true))
		if err != nil || !clauses.MatchString(t) {
			return s, fmt.Errorf("%q is no version specifier: write it like ==9.1.0.70 or >=9.1,<10", t)
		}
		s.sets = append(s.sets, set)
		s.text = append(s.text, t)
	}
	return s, nil
}

// rest lets a pinned version of numbers alone be the first of them: 9.1 is any
// 9.1.x.
func rest(pin string) string {
	if strings.Trim(pin, "0123456789.") == "" {
		return ".*"
	}
	return ""
}

func parseVersion(s string) (pep440.Version, error) {
	if len(s) > maxVersion {
		return pep440.Version{}, fmt.Errorf("%.20q… is too long for a version", s)
	}
	v, err := pep440.Parse(s)
	if err != nil {
		return v, fmt.Errorf("%q is no version: write it like 9.1.0.70", s)
	}
	return v, nil
}

func (s specifiers) String() string { return strings.Join(s.text, ", ") }

// allow reports whether a release fits. A pre-release fits only when it is
// pinned.
func (s specifiers) allow(v pep440.Version) bool {
	if v.IsPreRelease() && s.pin == "" {
		return false
	}
	for _, set := range s.sets {
		if !set.Check(v) {
			return false
		}
	}
	return true
}

// allowText is allow for a version that is text.
func (s specifiers) allowText(version string) bool {
	v, err := parseVersion(version)
	return err == nil && s.allow(v)
}

// allowCoarse reports whether a release may fit of which only the first numbers
// are known: cuDNN 9.1.0.70 has files libcudnn.so.9.1.0. Each clause is held
// against as many numbers as there are.
func (s specifiers) allowCoarse(v string) bool {
	have, err := parseVersion(v)
	if err != nil {
		return false
	}
	n := strings.Count(v, ".") + 1
	for _, text := range s.text {
		for _, clause := range strings.Split(text, ",") {
			if !coarse(strings.TrimSpace(clause), have, n) {
				return false
			}
		}
	}
	return true
}

// coarse holds one clause against a version of n numbers.
func coarse(clause string, have pep440.Version, n int) bool {
	i := strings.IndexFunc(clause, func(r rune) bool { return r >= '0' && r <= '9' })
	if i < 0 {
		return false
	}
	op, numbers := strings.TrimSpace(clause[:i]), strings.Split(strings.TrimSuffix(clause[i:], ".*"), ".")
	if len(numbers) > n {
		switch op {
		case "!=":
			return true
		case "<", ">":
			op += "="
		case "~=":
			op = "=="
		}
		clause = op + strings.Join(numbers[:n], ".")
	}
	set, err := pep440.NewSpecifiers(clause, pep440.WithPreRelease(true))
	return err == nil && set.Check(have)
}

// fileVersion is the release that a file name tells: what follows ".so.", when
// it is three numbers or more. A SONAME's one number tells no release.
func fileVersion(name string) string {
	_, v, ok := strings.Cut(name, ".so.")
	if !ok || strings.Count(v, ".") < 2 || len(v) > 64 {
		return ""
	}
	for _, part := range strings.Split(v, ".") {
		if _, err := strconv.ParseUint(part, 10, 32); err != nil {
			return ""
		}
	}
	return v
}

// compareVersions orders versions, the newest last; what is no version comes
// first, by its text.
func compareVersions(a, b string) int {
	va, erra := parseVersion(a)
	vb, errb := parseVersion(b)
	switch {
	case erra == nil && errb == nil && va.Compare(vb) != 0:
		return va.Compare(vb)
	case erra == nil && errb != nil:
		return 1
	case erra != nil && errb == nil:
		return -1
	}
	return strings.Compare(a, b)
}
