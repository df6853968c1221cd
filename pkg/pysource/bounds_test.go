package pysource

import (
	"strings"
	"testing"
)

// TestDecoratorsOfNothing checks that decorators which no function follows are read once:
// the work does not grow with their square. Each expression that is read is an allocation.
func TestDecoratorsOfNothing(t *testing.T) {
	allocs := func(n int) float64 {
		text := []byte(strings.Repeat("@a\n", n))
		return testing.AllocsPerRun(1, func() { Parse(text) })
	}
	if few, many := allocs(1000), allocs(8000); many > 12*few {
		t.Errorf("1,000 decorators take %v allocations, 8,000 take %v", few, many)
	}
}
