package provide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// maxSpecifiers limits a set of version specifiers, in bytes.
const maxSpecifiers = 256

// specifiers are the versions that a want allows.
type specifiers struct {
	all  version.Specifiers
	text []string
	pin  string
}

func parseSpecifiers(w Want) (specifiers, error) {
	s := specifiers{pin: w.Pin}
	texts := slices.Clone(w.Versions)
	if w.Pin != "" {
		if _, err := version.Parse(w.Pin); err != nil {
			return s, err
		}
		texts = append(texts, "=="+w.Pin+rest(w.Pin))
	}
	for _, t := range texts {
		if strings.TrimSpace(t) == "" {
			continue
		}
		if len(t) > maxSpecifiers {
			return s, fmt.Errorf("%.20q… is too long for a version", t)
		}
		set, err := version.ParseSpecifiers(t)
		if err != nil {
			return s, err
		}
		s.all = append(s.all, set...)
		s.text = append(s.text, t)
	}
	return s, nil
}

// rest returns the suffix with which a pinned version allows all releases that begin with
// it: 9.1 allows any 9.1.x. It is ".*" for a version of numbers alone, else "".
func rest(pin string) string {
	if strings.Trim(pin, "0123456789.") == "" {
		return ".*"
	}
	return ""
}

func (s specifiers) String() string { return strings.Join(s.text, ", ") }

// allow reports whether a release fits. A pre-release fits only if it is pinned.
func (s specifiers) allow(v version.Version) bool {
	return (s.pin != "" || !v.IsPreRelease()) && s.all.Allow(v)
}

// allowText reports whether the release in text fits, as allow does.
func (s specifiers) allowText(text string) bool {
	v, err := version.Parse(text)
	return err == nil && s.allow(v)
}

// allowCoarse reports whether a release may fit whose first numbers are known.
func (s specifiers) allowCoarse(text string) bool {
	v, err := version.Parse(text)
	return err == nil && s.all.MayAllow(v)
}

// fileVersion returns the release in a file's name, if it has three numbers or more. A
// SONAME's one number is no release.
func fileVersion(name string) string {
	if r := version.OfFile(name); len(r) > 2 {
		return r.String()
	}
	return ""
}
