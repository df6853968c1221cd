package packs

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
)

// Carrier lists the packages, files and variables by which an image has the library of a
// family, and which show its version.
type Carrier struct {
	Family  string   `yaml:"family"`
	Library string   `yaml:"library"` // its name without the version: libcudnn.so
	Wheels  []string `yaml:"wheels"`  // patterns of wheels
	Plain   string   `yaml:"plain"`   // the first major of CUDA whose wheels have no -cuN in their names
	Conda   []string `yaml:"conda"`   // patterns of conda packages
	System  []string `yaml:"system"`  // patterns of deb and rpm packages
	Except  []string `yaml:"except"`  // patterns of packages in System without the library
	// Files are patterns of names of libraries with the major version after ".so.".
	Files []string `yaml:"files"`
	// Own is a pattern below a framework's directory, of the copy that the framework brings
	// and finds first.
	Own string `yaml:"own"`
	// Variables are set in images that have the library and in images made from them. The
	// value of the first is the library's version.
	Variables []string `yaml:"variables"`
	Sources   []string `yaml:"sources"`
}

// Variable returns the name of the variable that has the version, or "".
func (c *Carrier) Variable() string {
	if len(c.Variables) == 0 {
		return ""
	}
	return c.Variables[0]
}

// wheelEnding returns the ending of the names of wheels for a major version of CUDA: -cu12,
// or "" from c.Plain on.
func (c *Carrier) wheelEnding(cuda string) string {
	major, plain := ParseRelease(cuda), ParseRelease(c.Plain)
	if major != nil && plain != nil && !major.Before(plain) {
		return ""
	}
	return WheelCUDA + cuda
}

// Carrier returns the carrier of a family, or an empty one if the packs have none.
func (p *Packs) Carrier(family string) *Carrier {
	for _, c := range p.Carriers {
		if c.Family == family {
			return c
		}
	}
	return &Carrier{}
}

func (c *Carrier) validate() error {
	if c.Family == "" || c.Library == "" || len(c.Sources) == 0 {
		return fmt.Errorf("carrier %q: needs a family, a library and sources", c.Family)
	}
	return checkPatterns("carrier "+c.Family, slices.Concat(c.Wheels, c.Conda, c.System, c.Except, c.Files, []string{c.Own}))
}

// Stack names the CUDA libraries that releases of a framework need.
type Stack struct {
	Package  string `yaml:"package"`
	Versions string `yaml:"versions"` // PEP 440 specifiers
	// Build limits the row to frameworks that name this version of CUDA as that of their
	// build; empty: all.
	Build string `yaml:"build"`
	CUDA  string `yaml:"cuda"`  // the major version; empty if the replay finds it out
	CUDNN string `yaml:"cudnn"` // the least version of its major; empty: none
	// Effect is what a user meets, and Error what the framework prints, if the framework
	// does not find the libraries.
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
	// Incidental marks frameworks that are often installed for their CPU side only.
	Incidental bool     `yaml:"incidental"`
	Sources    []string `yaml:"sources"`
}

func (s *Stack) validate() error {
	if s.Package == "" || s.Versions == "" || s.CUDA+s.CUDNN == "" || len(s.Sources) == 0 {
		return fmt.Errorf("stack %q: needs a package, versions, cuda or cudnn, and sources", s.Package)
	}
	if _, err := version.Satisfies("1", s.Versions); err != nil {
		return fmt.Errorf("stack %s: %w", s.Package, err)
	}
	if _, err := version.Parse(s.CUDNN + ".0"); s.CUDNN != "" && err != nil {
		return fmt.Errorf("stack %s: %w", s.Package, err)
	}
	return nil
}
