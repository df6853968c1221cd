package size

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Class is a kind of files that can go, of rules/size. How the files of a class without
// patterns are found is code: its ID is a key of kinds.
type Class struct {
	ID      string   `yaml:"id" json:"id"`
	Title   string   `yaml:"title" json:"title"`
	Why     string   `yaml:"why" json:"why"`                   // why no program needs them
	Assumes string   `yaml:"assumes" json:"assumes,omitempty"` // the condition of Why; empty if there is none
	Fix     string   `yaml:"fix" json:"fix"`                   // how a Dockerfile leaves them out
	Source  string   `yaml:"source" json:"source"`             // the page that says so
	Paths   []string `yaml:"paths" json:"-"`                   // doublestar patterns without a leading slash
	Except  []string `yaml:"except" json:"-"`                  // patterns of files that stay
	// Unless are distributions of Python that need the files: an image that has one keeps them.
	Unless []string `yaml:"unless" json:"-"`
	// Users are programs that read the files: an image whose start runs one keeps them.
	Users []User `yaml:"users" json:"-"`
}

// User names what reads the files of a class: programs, modules of Python or libraries. One of them is
// enough.
type User struct {
	Programs  []string `yaml:"programs"`  // patterns of base names
	Commands  []string `yaml:"commands"`  // words of its arguments, one of which there must be; any if there are none
	Without   []string `yaml:"without"`   // words with which it does not read them
	Modules   []string `yaml:"modules"`   // ends of the paths of modules that a program of the start imports
	Libraries []string `yaml:"libraries"` // patterns of SONAMEs of which a process loads one
	Texts     []string `yaml:"texts"`     // in sources of the image's own
	Paths     []string `yaml:"paths"`     // of these files; all of the class if there are none
}

// The classes whose files are not found by patterns.
const (
	Replaced = "replaced" // hidden by a later layer
	Copies   = "copies"   // libraries of which processes get another copy
	// AbandonedCopies are those in directories that nothing of the image leads to.
	AbandonedCopies = "abandoned-copies"
	Bytecode        = "bytecode" // of modules whose source is beside it
	// Installers are packages and archives in temporary directories, found by patterns.
	Installers = "installers"
	GPUCode    = "gpu-code" // parts of files: code for GPUs that the image is not for
	// BuilderResources are files with kernels of TensorRT's builder for such GPUs.
	BuilderResources = "builder-resources"
	// UnusedPackages are distributions of Python that nothing uses, and no text of the image names.
	UnusedPackages = "unused-packages"
)

var kinds = []string{Replaced, AbandonedCopies, Copies, Bytecode, GPUCode, BuilderResources, UnusedPackages}

// LoadClasses reads and checks size/classes.yaml of the packs. The first class is Replaced.
func LoadClasses(fsys fs.FS) ([]*Class, error) {
	b, err := fs.ReadFile(fsys, "size/classes.yaml")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Classes []*Class `yaml:"classes"`
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("size/classes.yaml: %w", err)
	}
	var ids []string
	for i, c := range doc.Classes {
		switch {
		case c.ID == "" || c.Title == "" || c.Why == "" || c.Fix == "" || c.Source == "":
			return nil, fmt.Errorf("size/classes.yaml: class %d (%s) lacks a text", i+1, c.ID)
		case (len(c.Paths) == 0) != slices.Contains(kinds, c.ID):
			return nil, fmt.Errorf("size/classes.yaml: class %d (%s) must have patterns, or be one of %s", i+1, c.ID, strings.Join(kinds, ", "))
		case (i == 0) != (c.ID == Replaced) || slices.Contains(ids, c.ID):
			return nil, fmt.Errorf("size/classes.yaml: %s must be there once, and %s the first", c.ID, Replaced)
		}
		ids = append(ids, c.ID)
		patterns := slices.Concat(c.Paths, c.Except, c.Unless)
		for _, u := range c.Users {
			if len(u.Programs)+len(u.Modules)+len(u.Libraries)+len(u.Texts) == 0 {
				return nil, fmt.Errorf("size/classes.yaml: class %s: a user has no programs, modules, libraries or texts", c.ID)
			}
			patterns = slices.Concat(patterns, u.Programs, u.Libraries, u.Paths)
		}
		for _, p := range patterns {
			if !doublestar.ValidatePattern(p) {
				return nil, fmt.Errorf("size/classes.yaml: class %s: %q is no pattern", c.ID, p)
			}
		}
	}
	return doc.Classes, nil
}

// has reports whether a path matches the patterns of the class.
func (c *Class) has(p string) bool { return packs.MatchAny(c.Paths, p) && !packs.MatchAny(c.Except, p) }

// tree returns the part of a class that a path without a leading slash is in, as a path: an
// entry of the first directory that is in the class as a whole, such as one package of
// conda's cache, or the path itself.
func (c *Class) tree(p string) string {
	parts := strings.Split(p, "/")
	for i := 1; i+1 < len(parts); i++ {
		if c.has(strings.Join(parts[:i], "/")) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return p
}

// isRoot reports whether a path is a directory that the class has as a whole, or one of caches above it, such as
// /root/.cache; for packages in temporary directories, whether it is a directory in one of these.
func (c *Class) isRoot(p string) bool {
	if c.ID == Installers {
		return strings.HasPrefix(p, "tmp/") || strings.HasPrefix(p, "var/tmp/")
	}
	for _, pattern := range c.Paths {
		dir := path.Dir(pattern)
		if strings.Contains(dir, "**") {
			continue
		}
		above := path.Dir(dir)
		if packs.Match(dir, p) || (strings.HasPrefix(path.Base(above), ".") && above != "." || path.Base(above) == "cache") && packs.Match(above, p) {
			return !packs.MatchAny(c.Except, p)
		}
	}
	return false
}
