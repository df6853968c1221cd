package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// surroundings are those of the packs, and which of them a text tells.
type surroundings struct {
	all  []*packs.Surrounding
	told map[string]bool // by ID
	kind map[string]bool // kinds of which the text tells one
	low  string          // the text in lower case
}

// told returns what a text in lower case tells of the place that it comes from.
func (x *Explainer) told(low string) surroundings {
	w := surroundings{all: x.packs.Surroundings, told: map[string]bool{}, kind: map[string]bool{}, low: low}
	for _, s := range w.all {
		if low != "" && hasWords(low, s.Words) && !hasWord(low, s.Unless) {
			w.told[s.ID], w.kind[s.Kind] = true, true
		}
	}
	return w
}

// fixes returns a case's fixes for the surroundings of a text, and those for surroundings that the
// text leaves open, both with their labels.
func (w surroundings) fixes(c *packs.Case) (told, open []string) {
	for _, s := range w.all {
		for _, f := range s.Fixes {
			switch fix := s.Label + ": " + f.Fix; {
			case !slices.Contains(f.Of, c.ID):
			case w.told[s.ID]:
				told = append(told, fix)
			case !w.kind[s.Kind]:
				open = append(open, fix)
			}
		}
	}
	return told, open
}

// sharedFixes returns the fixes that a case shares with others: those for words of a text, and those
// for any text.
func (x *Explainer) sharedFixes(c *packs.Case, low string) (named, shared []string) {
	for _, r := range x.packs.SharedFixes {
		switch {
		case !slices.Contains(r.Of, c.ID):
		case len(r.Words) == 0 || low == "":
			shared = append(shared, r.Fix)
		case hasWords(low, r.Words):
			named = append(named, r.Fix)
		}
	}
	return named, shared
}

// rank orders cases: the likeliest of a surrounding of the text come first, those that are possible
// only in another one last.
func (w surroundings) rank(id string) int {
	rank := 1
	for _, s := range w.all {
		switch {
		case w.told[s.ID] && slices.Contains(s.First, id):
			return 0
		case w.kind[s.Kind] && !w.told[s.ID] && (slices.Contains(s.Only, id) || slices.Contains(s.First, id)):
			rank = 2
		}
	}
	return rank
}

// inSurroundings puts the twins of the surroundings of a text in place of a hit's cases, and then
// orders them.
func (x *Explainer) inSurroundings(h *hit, w surroundings) {
	if len(w.told) == 0 || h.tier == benignTier {
		return
	}
	var list []string
	for _, id := range h.cases {
		for _, s := range w.all {
			if w.told[s.ID] {
				id = cmp.Or(s.Twins[id], id)
			}
		}
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	rest := list
	if h.moved { // by a context, which knows more of the text
		rest = list[1:]
	}
	slices.SortStableFunc(rest, func(a, b string) int { return w.rank(a) - w.rank(b) })
	if list[0] != h.cases[0] {
		h.moved = true
	}
	h.cases = list
}

// checkSurroundings reports the first case of a surrounding or a shared fix that the packs do not have.
func (x *Explainer) checkSurroundings() error {
	for _, s := range x.packs.Surroundings {
		ids := slices.Concat(s.Only, s.First, slices.Sorted(maps.Keys(s.Twins)), slices.Sorted(maps.Values(s.Twins)))
		for _, f := range s.Fixes {
			ids = append(ids, f.Of...)
		}
		for _, id := range ids {
			if x.cases[id] == nil {
				return fmt.Errorf("surrounding %q: there is no case %q", s.ID, id)
			}
		}
	}
	for _, r := range x.packs.SharedFixes {
		for _, id := range r.Of {
			if x.cases[id] == nil {
				return fmt.Errorf("shared fix %q: there is no case %q", r.Fix, id)
			}
		}
	}
	return nil
}

// frame matches a path of a Python package's file, as a traceback has it.
var frame = regexp.MustCompile(`(?:site|dist)-packages/([A-Za-z0-9_]+)[/.]`)

// installers are packages whose frames say nothing of the package that failed.
var installers = []string{"pip", "setuptools", "_distutils_hack", "pkg_resources", "wheel", "conda", "importlib_metadata"}

// owner returns the requirement of the package to which the last frame belongs, up to the line at a
// place, or "".
func (x *Explainer) owner(s string, at int) string {
	if i := strings.IndexAny(s[at:], "\n\v"); i >= 0 {
		s = s[:at+i]
	}
	list := frame.FindAllStringSubmatch(s[max(0, at-maxFrames):], -1)
	for _, m := range slices.Backward(list) {
		if !slices.Contains(installers, m[1]) {
			return cmp.Or(packs.RequirementOf(x.packs.Modules, m[1]), m[1])
		}
	}
	return ""
}

// maxFrames limits the text before a line in which frames are searched.
const maxFrames = 8 << 10
