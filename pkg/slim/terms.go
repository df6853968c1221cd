package slim

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"gopkg.in/yaml.v3"
)

// Terms are terms about changing files that carry GPU code, of rules/slim.
type Terms struct {
	ID      string   `yaml:"id"`     // names the clause for a user who may do what it forbids; empty if none may be named
	Name    string   `yaml:"name"`   // of the licence
	Change  bool     `yaml:"change"` // the files may be changed
	Says    string   `yaml:"says"`   // about the library
	Files   []string `yaml:"files"`  // patterns of base names
	Paths   []string `yaml:"paths"`  // patterns of paths without a leading slash
	Sources []string `yaml:"sources"`
}

// LoadTerms reads and checks slim/terms.yaml of the packs.
func LoadTerms(fsys fs.FS) ([]*Terms, error) {
	b, err := fs.ReadFile(fsys, "slim/terms.yaml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Terms []*Terms `yaml:"terms"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("slim/terms.yaml: %w", err)
	}
	for i, t := range doc.Terms {
		patterns := slices.Concat(t.Files, t.Paths)
		if t.Name == "" || t.Says == "" || len(patterns) == 0 || len(t.Sources) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return !doublestar.ValidatePattern(p) }) {
			return nil, fmt.Errorf("slim/terms.yaml: entry %d (%s) lacks a name, a text, patterns or sources", i+1, t.ID)
		}
	}
	return doc.Terms, nil
}

// Clauses returns the IDs of the terms that have one.
func Clauses(list []*Terms) []string {
	var ids []string
	for _, t := range list {
		if t.ID != "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// Leave returns a function that says why a file must not be changed, by its path with a leading
// slash: "" for one that may be. allowed are the IDs of clauses that the user may act against.
func Leave(list []*Terms, allowed []string) func(path string) string {
	return func(p string) string {
		p = strings.TrimPrefix(p, "/")
		for _, t := range list {
			if !t.has(p) {
				continue
			}
			switch {
			case t.Change || t.ID != "" && slices.Contains(allowed, t.ID):
				return ""
			case t.ID == "":
				return fmt.Sprintf("%s: %s", t.Name, t.Says)
			}
			return fmt.Sprintf("%s: %s (--modify %s)", t.Name, t.Says, t.ID)
		}
		return ""
	}
}

func (t *Terms) has(p string) bool {
	match := func(list []string, s string) bool {
		return slices.ContainsFunc(list, func(pattern string) bool { return doublestar.MatchUnvalidated(pattern, s) })
	}
	return match(t.Files, path.Base(p)) || match(t.Paths, p)
}
