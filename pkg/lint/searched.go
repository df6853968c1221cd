package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Searched is one source of directories that a loader went through.
type Searched struct {
	Source string  `json:"source"`
	Places []Place `json:"places"`
}

// Place is a directory, or the cache, in which a loader looked for a library. As text it
// is the directory with the result in brackets.
type Place struct {
	Dir string
	// Result says what was there and why it was passed over; empty for nothing.
	Result string
}

func (p Place) String() string {
	if p.Result == "" {
		return p.Dir
	}
	return p.Dir + " (" + p.Result + ")"
}

// MarshalText returns the place as text.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes the whole text for the directory: brackets may be part of its name.
func (p *Place) UnmarshalText(text []byte) error {
	*p = Place{Dir: string(text)}
	return nil
}

// searched makes a loader's steps short: directories instead of files, and what
// stood in the way. Hardware directories are left out, they come with each.
func searched(steps []elfdeps.Step) []Searched {
	var list []Searched
	for _, s := range steps {
		out := Searched{Source: s.Source}
		for _, t := range s.Tried {
			place := Place{placeOf(t.Path), t.Result}
			if isHwcap(place.Dir) {
				continue
			}
			if !slices.Contains(out.Places, place) {
				out.Places = append(out.Places, place)
			}
		}
		if len(out.Places) > 0 {
			list = append(list, out)
		}
	}
	return list
}

// placeOf is the directory of a candidate, or the cache.
func placeOf(candidate string) string {
	switch {
	case candidate == "/etc/ld.so.cache":
		return candidate
	case strings.HasSuffix(candidate, "/"):
		return strings.TrimSuffix(candidate, "/")
	case !strings.Contains(candidate, "/"):
		return "the working directory (an empty element)"
	}
	return path.Dir(candidate)
}

// isHwcap reports whether a directory is one of those that are tried in each.
func isHwcap(dir string) bool {
	if strings.HasPrefix(path.Base(dir), "x86-64-v") && path.Base(path.Dir(dir)) == "glibc-hwcaps" {
		return true
	}
	base := path.Base(dir)
	return base == "tls" || base == "x86_64" || base == "aarch64" || base == "atomics"
}
