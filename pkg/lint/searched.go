package lint

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Searched lists the places of one source of a loader's search path.
type Searched struct {
	Source string  `json:"source"`
	Places []Place `json:"places"`
}

// Place is a directory, or the cache, in which a loader looked for a library. Its text is
// the directory, with the result in brackets.
type Place struct {
	Dir string
	// Result says which file the loader found there and why it skipped it. It is empty if
	// there was none.
	Result string
}

// String returns the place as text.
func (p Place) String() string {
	if p.Result == "" {
		return p.Dir
	}
	return p.Dir + " (" + p.Result + ")"
}

// MarshalText returns the place as text.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets the directory to the whole text, since a directory's name may have
// brackets.
func (p *Place) UnmarshalText(text []byte) error {
	*p = Place{Dir: string(text)}
	return nil
}

// searched returns the directories of a loader's search, by source. It leaves out the
// directories for hardware capabilities, which the loader tries below every directory.
func searched(pass *Pass, steps []elfdeps.Step) []Searched {
	var list []Searched
	for _, s := range steps {
		out := Searched{Source: s.Source}
		for _, t := range s.Tried {
			place := Place{placeOf(pass, t.Path), t.Result}
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

// placeOf returns the directory of a path that a loader tried, or the cache.
func placeOf(pass *Pass, candidate string) string {
	switch {
	case candidate == replay.LDCache:
		return candidate
	case strings.HasSuffix(candidate, "/"):
		return strings.TrimSuffix(candidate, "/")
	case !strings.Contains(candidate, "/"):
		return pass.Packs.Phrase("working-directory", nil)
	}
	return path.Dir(candidate)
}

// isHwcap reports whether a directory is for a hardware capability.
func isHwcap(dir string) bool {
	if strings.HasPrefix(path.Base(dir), "x86-64-v") && path.Base(path.Dir(dir)) == "glibc-hwcaps" {
		return true
	}
	base := path.Base(dir)
	return base == "tls" || base == "x86_64" || base == "aarch64" || base == "atomics"
}
