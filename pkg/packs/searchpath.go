package packs

import (
	"github.com/imgcheck/imgcheck/internal/envline"
)

// SearchPathLine returns the instruction of a Dockerfile that sets LD_LIBRARY_PATH to a
// value, or, for a value that a Dockerfile cannot state, words that say so.
func SearchPathLine(value string) string {
	line, err := envline.Of("LD_LIBRARY_PATH", value)
	if err != nil {
		return "correct LD_LIBRARY_PATH: its value is one that no Dockerfile can say"
	}
	return line
}
