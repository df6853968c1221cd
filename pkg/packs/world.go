package packs

import (
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Reads returns a framework's text with an error in it. A file that is cut off kills the
// process, so that only the shell reports it.
func (p *Packs) Reads(text string, e *elfdeps.Error, values ...string) string {
	if e.Kind == elfdeps.CutError {
		return p.Phrase("bus-error", nil)
	}
	return Expand(text, append(values, "{error}", e.Error())...)
}

// Imports reports whether a step's effect is that an import fails, which says enough of a
// file that kills the process, too.
func (s *Step) Imports() bool { return strings.HasPrefix(s.Effect, "`import ") }
