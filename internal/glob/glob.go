// Package glob checks patterns for names and paths from files that others wrote.
package glob

import (
	"errors"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxPattern = 1024 // in bytes
	maxWays    = 256  // combinations of alternatives
)

var (
	errPattern = errors.New("is not a pattern")
	errWays    = errors.New("has too many {alternatives,}: split it into several patterns")
)

// Check returns an error that says what is wrong with a doublestar pattern, or nil. The
// matcher tries all combinations of alternatives: thirty times `{a,a}` would take it an
// hour for one name.
func Check(pattern string) error {
	if len(pattern) > maxPattern || !doublestar.ValidatePattern(pattern) {
		return errPattern
	}
	if ways(pattern) > maxWays {
		return errWays
	}
	return nil
}

// ways returns the number of combinations of the alternatives of a valid pattern. A comma
// in brackets counts as another alternative. Large numbers are capped.
func ways(pattern string) int {
	const most = 1 << 20
	type group struct{ sum, outside int }
	var open []group
	n := 1
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			open = append(open, group{0, n})
			n = 1
		case ',':
			if len(open) > 0 {
				open[len(open)-1].sum += n
				n = 1
			}
		case '}':
			if len(open) > 0 {
				last := open[len(open)-1]
				open = open[:len(open)-1]
				n = min(most, last.outside*min(most, last.sum+n))
			}
		}
	}
	return n
}
