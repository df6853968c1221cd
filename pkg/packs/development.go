package packs

import "fmt"

// Development says how to install what a compiler or CMake needs of a library to build with it.
type Development struct {
	// Match is a pattern on the name that a message has: of a header as the program includes it
	// (opencv2/core.hpp), or of CMake's package.
	Match string `yaml:"match"`
	Fix   string `yaml:"fix"` // with {python}: python3.12, or python3 if the release is not known
	// Sources are where the package has the file.
	Sources []string `yaml:"sources"`
}

func (d *Development) validate() error {
	if d.Match == "" || d.Fix == "" || len(d.Sources) == 0 {
		return fmt.Errorf("development %q: needs a match, a fix and sources", d.Match)
	}
	return checkPatterns("development", []string{d.Match})
}
