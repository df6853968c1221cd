package packs

import (
	"fmt"
	"path"
	"strings"
)

// Plugin lists files that a library opens by itself when it is loaded, without a miss if
// they are not there or cannot be opened.
type Plugin struct {
	ID string `yaml:"id"`
	// By are patterns of the opener's SONAME, or, with a slash, of the end of its path.
	By []string `yaml:"by"`
	// Files are patterns of paths relative to the directory of the opener's real file.
	Files []string `yaml:"files"`
	// Names are names that it opens as they stand, which the loader searches.
	Names []string `yaml:"names"`
	// Calls are functions: the library opens the files when one of them is called, which an
	// extension module that takes one does in its init function. Empty: its constructor does.
	Calls []string `yaml:"calls"`
	// Flags are now, lazy and global; none means now.
	Flags   []string `yaml:"flags"`
	Sources []string `yaml:"sources"`
}

// Opens reports whether a library of a SONAME, which may be "", and a path is the opener.
func (p *Plugin) Opens(soname, file string) bool {
	for _, by := range p.By {
		name := soname
		if n := strings.Count(by, "/"); n > 0 {
			parts := strings.Split(file, "/")
			name = strings.Join(parts[max(0, len(parts)-n-1):], "/")
		}
		if MatchAny([]string{by}, name) {
			return true
		}
	}
	return false
}

func (p *Plugin) validate() error {
	if p.ID == "" || len(p.By) == 0 || len(p.Files)+len(p.Names) == 0 || len(p.Sources) == 0 {
		return fmt.Errorf("plugins %q: needs an id, the library that opens (by), files or names, and sources", p.ID)
	}
	for _, f := range p.Files {
		if path.IsAbs(f) {
			return fmt.Errorf("plugins %q: %q is not relative to the directory of the library", p.ID, f)
		}
	}
	if err := checkFlags(p.Flags); err != nil {
		return fmt.Errorf("plugins %q: %w", p.ID, err)
	}
	return checkPatterns("plugins "+p.ID, append(p.By[:len(p.By):len(p.By)], p.Files...))
}
