package lint

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Tables is what packs know of packages that belong together.
type Tables struct {
	Pairs        []*Pair       `yaml:"pairs"`
	Stacks       []*Stack      `yaml:"stacks"`
	Carriers     []*Carrier    `yaml:"carriers"`
	Exclusive    []*Exclusive  `yaml:"exclusive"`
	CPUBuilds    []*CPUBuild   `yaml:"cpu_builds"`
	Pinned       []*Pinned     `yaml:"pinned"`
	Capabilities []*Capability `yaml:"capabilities"`
	Mounts       []*Known      `yaml:"mounts"`
	DriverExempt []*Known      `yaml:"driver_exempt"`
	GPUWheels    []*Known      `yaml:"gpu_wheels"`
	// ExtensionHosts are packages with which extensions are compiled against the
	// system's CUDA.
	ExtensionHosts []*Known      `yaml:"extension_hosts"`
	LibraryDists   []*Dist       `yaml:"library_dists"`
	MadeFor        []*MadeFor    `yaml:"made_for"`
	System         []*VersionFix `yaml:"system"`
}

// Pair tells which release of a package is built for which release of another,
// both by major and minor number.
type Pair struct {
	Package  string            `yaml:"package"`
	For      string            `yaml:"for"`
	Versions map[string]string `yaml:"versions"` // of For → of Package
	Error    string            `yaml:"error"`    // how it reads when they do not fit
	// CUDA is how far the CUDA versions of their builds must agree, "major" or
	// "minor", and CUDAError how it reads when they do not.
	CUDA      string `yaml:"cuda"`
	CUDAError string `yaml:"cuda_error"`
	// Index is the URL of the index that has the builds of For which PyPI does not have:
	// those whose version has one of Builds, patterns, for its local part, {build}.
	Index   string   `yaml:"index"`
	Builds  []string `yaml:"builds"`
	Sources []string `yaml:"sources"`
}

// Carrier says by what an image has the library of a family whose version frameworks ask
// for, and where that version stands.
type Carrier struct {
	Family  string   `yaml:"family"`
	Library string   `yaml:"library"` // its name without the version: libcudnn.so
	Wheels  []string `yaml:"wheels"`  // patterns of wheels
	Conda   []string `yaml:"conda"`   // patterns of conda packages
	System  []string `yaml:"system"`  // patterns of deb and rpm packages,
	Except  []string `yaml:"except"`  // and of those among them that do not have it
	// Files are patterns of names of libraries; the number after .so. is the major version.
	Files []string `yaml:"files"`
	// Own is a pattern below a framework's directory: the copy that it brings and finds
	// first.
	Own string `yaml:"own"`
	// Variables show, where one is set, that the image is made from one that has the
	// library; the first is its version.
	Variables []string `yaml:"variables"`
	Sources   []string `yaml:"sources"`
}

// variable returns the name of the variable that has the version, or "".
func (c *Carrier) variable() string {
	if len(c.Variables) == 0 {
		return ""
	}
	return c.Variables[0]
}

func (c *Carrier) validate() error {
	if c.Family == "" || c.Library == "" || len(c.Sources) == 0 {
		return fmt.Errorf("carrier %q: needs a family, a library and sources", c.Family)
	}
	return patterns("carrier "+c.Family, slices.Concat(c.Wheels, c.Conda, c.System, c.Except, c.Files, []string{c.Own}))
}

// carrier returns the carrier of a family; where the packs have none, one that nothing
// matches.
func (t *Tables) carrier(family string) *Carrier {
	for _, c := range t.Carriers {
		if c.Family == family {
			return c
		}
	}
	return &Carrier{}
}

// Stack is what releases of a framework want of the CUDA libraries.
type Stack struct {
	Package  string `yaml:"package"`
	Versions string `yaml:"versions"` // PEP 440 specifiers
	// Build, when set, is the version of CUDA that the framework must say it is
	// built for.
	Build string `yaml:"build"`
	CUDA  string `yaml:"cuda"`  // the major version; empty where the loader tells
	CUDNN string `yaml:"cudnn"` // the least version of that major; empty for none
	// Effect is what follows where the framework does not find them.
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
	// Incidental marks what is often there for its CPU side only.
	Incidental bool     `yaml:"incidental"`
	Sources    []string `yaml:"sources"`
}

// Exclusive are distributions that install the same files.
type Exclusive struct {
	ID      string   `yaml:"id"`
	Members []string `yaml:"members"`
	Keep    string   `yaml:"keep"`   // the one to keep in a GPU image
	Effect  string   `yaml:"effect"` // when another one has overwritten it
	Sources []string `yaml:"sources"`
}

// CPUBuild is a package that has no GPU code, and what stands in its place when
// a GPU is meant to be used.
type CPUBuild struct {
	Package string `yaml:"package"`
	// Local is the local part of the version of the build that has no GPU code; empty
	// where that build has a name of its own.
	Local  string   `yaml:"local"`
	Unless []string `yaml:"unless"` // patterns of packages that bring its GPU side
	Beside []string `yaml:"beside"` // patterns of packages that may be what the GPU is for
	// Lacks are patterns of libraries that the build with GPU code has: a package
	// that needs one does not load.
	Lacks    []string `yaml:"lacks"`
	Severity Severity `yaml:"severity"`
	Effect   string   `yaml:"effect"`
	Fix      string   `yaml:"fix"`
	Sources  []string `yaml:"sources"`
}

// Pinned are packages whose requirements of others are looked at.
type Pinned struct {
	Packages []string `yaml:"packages"` // patterns of names
	Requires []string `yaml:"requires"` // patterns of what they require
	Severity Severity `yaml:"severity"`
	Why      string   `yaml:"why"`
	Sources  []string `yaml:"sources"`
}

// Capability is a word of NVIDIA_DRIVER_CAPABILITIES, and the driver's libraries
// that it brings.
type Capability struct {
	Name      string   `yaml:"name"`
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	Effect    string   `yaml:"effect"`
	Sources   []string `yaml:"sources"`
}

// MadeFor is what releases of a package want of another where their metadata does not
// say it.
type MadeFor struct {
	Package  string   `yaml:"package"`  // a pattern
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	Needs    string   `yaml:"needs"`    // a requirement; {version} is the package's own, three numbers
	Severity Severity `yaml:"severity"`
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"`
	Sources  []string `yaml:"sources"`
}

// Known is a pattern of directories, files or packages that are known, and why
// that matters: directories to which something is mounted, files that look like
// the driver's, wheels that are there for a GPU only.
type Known struct {
	Match   string   `yaml:"match"`
	Why     string   `yaml:"why"`
	Sources []string `yaml:"sources"`
}

// known reports whether a name is one of those that are known.
func known(list []*Known, name string) bool {
	return slices.ContainsFunc(list, func(k *Known) bool { return match(k.Match, name) })
}

// Dist is the distribution of Python's that brings a library.
type Dist struct {
	Match   string   `yaml:"match"` // pattern of the library's names
	Dist    string   `yaml:"dist"`  // its name, to which -cu12 and the like may be added
	Sources []string `yaml:"sources"`
}

// add joins the tables of another pack.
func (t *Tables) add(o Tables) {
	t.Pairs = append(t.Pairs, o.Pairs...)
	t.Stacks = append(t.Stacks, o.Stacks...)
	t.Carriers = append(t.Carriers, o.Carriers...)
	t.Exclusive = append(t.Exclusive, o.Exclusive...)
	t.CPUBuilds = append(t.CPUBuilds, o.CPUBuilds...)
	t.Pinned = append(t.Pinned, o.Pinned...)
	t.Capabilities = append(t.Capabilities, o.Capabilities...)
	t.Mounts = append(t.Mounts, o.Mounts...)
	t.DriverExempt = append(t.DriverExempt, o.DriverExempt...)
	t.GPUWheels = append(t.GPUWheels, o.GPUWheels...)
	t.ExtensionHosts = append(t.ExtensionHosts, o.ExtensionHosts...)
	t.LibraryDists = append(t.LibraryDists, o.LibraryDists...)
	t.MadeFor = append(t.MadeFor, o.MadeFor...)
	t.System = append(t.System, o.System...)
}

// validate refuses rows that say nothing, and versions that are none.
func (t *Tables) validate() error {
	for _, p := range t.Pairs {
		if p.Package == "" || p.For == "" || len(p.Versions) == 0 || len(p.Sources) == 0 {
			return fmt.Errorf("pair %q: needs a package, what it is for, versions and sources", p.Package)
		}
		if p.CUDA != "" && p.CUDA != "major" && p.CUDA != "minor" {
			return fmt.Errorf("pair %s: cuda is major or minor, not %q", p.Package, p.CUDA)
		}
		if err := patterns("pair "+p.Package, p.Builds); err != nil {
			return err
		}
	}
	for _, s := range t.Stacks {
		if s.Package == "" || s.Versions == "" || s.CUDA+s.CUDNN == "" || len(s.Sources) == 0 {
			return fmt.Errorf("stack %q: needs a package, versions, cuda or cudnn, and sources", s.Package)
		}
		if _, err := version.Satisfies("1", s.Versions); err != nil {
			return fmt.Errorf("stack %s: %w", s.Package, err)
		}
		if _, err := version.Parse(s.CUDNN + ".0"); s.CUDNN != "" && err != nil {
			return fmt.Errorf("stack %s: %w", s.Package, err)
		}
	}
	for _, c := range t.Carriers {
		if err := c.validate(); err != nil {
			return err
		}
	}
	for _, e := range t.Exclusive {
		if e.ID == "" || len(e.Members) < 2 || !slices.Contains(e.Members, e.Keep) || len(e.Sources) == 0 {
			return fmt.Errorf("exclusive %q: needs an id, two members, which of them to keep, and sources", e.ID)
		}
	}
	for _, c := range t.CPUBuilds {
		if c.Package == "" || c.Effect == "" || c.Fix == "" || !slices.Contains(Severities, c.Severity) || len(c.Sources) == 0 {
			return fmt.Errorf("cpu build %q: needs a package, an effect, a fix, a severity and sources", c.Package)
		}
		if err := patterns("cpu build "+c.Package, slices.Concat(c.Unless, c.Beside, c.Lacks)); err != nil {
			return err
		}
	}
	for _, p := range t.Pinned {
		if len(p.Packages) == 0 || len(p.Requires) == 0 || p.Why == "" || !slices.Contains(Severities, p.Severity) || len(p.Sources) == 0 {
			return fmt.Errorf("pinned %q: needs packages, what they require, a why, a severity and sources", p.Packages)
		}
		if err := patterns("pinned", slices.Concat(p.Packages, p.Requires)); err != nil {
			return err
		}
	}
	for _, c := range t.Capabilities {
		if c.Name == "" || len(c.Sources) == 0 {
			return fmt.Errorf("capability %q: needs a name and sources", c.Name)
		}
	}
	for _, d := range t.LibraryDists {
		if d.Match == "" || d.Dist == "" || len(d.Sources) == 0 {
			return fmt.Errorf("library dist %q: needs a match, a dist and sources", d.Match)
		}
		if err := patterns("library dist", []string{d.Match}); err != nil {
			return err
		}
	}
	for _, n := range t.MadeFor {
		if n.Package == "" || n.Effect == "" || !slices.Contains(Severities, n.Severity) || len(n.Sources) == 0 {
			return fmt.Errorf("made for: %q: needs a package, an effect, a severity and sources", n.Package)
		}
		if _, err := version.Satisfies("1", n.Versions); err != nil {
			return fmt.Errorf("made for: %s: %w", n.Package, err)
		}
		if r, err := inventory.ParseRequirement(n.of("1")); err != nil || r.Specifiers == "" {
			return fmt.Errorf("made for: %s: %q is no requirement of a version", n.Package, n.Needs)
		}
		if err := patterns("made for", []string{n.Package}); err != nil {
			return err
		}
	}
	for _, s := range t.System {
		if s.Match == "" || s.Fix == "" || len(s.Sources) == 0 {
			return fmt.Errorf("system %q: needs a match, a fix and sources", s.Match)
		}
		if err := patterns("system", []string{s.Match}); err != nil {
			return err
		}
	}
	for _, m := range slices.Concat(t.Mounts, t.DriverExempt, t.GPUWheels, t.ExtensionHosts) {
		if m.Match == "" || m.Why == "" || len(m.Sources) == 0 {
			return fmt.Errorf("match %q: needs a match, a why and sources", m.Match)
		}
		if err := patterns("match", []string{m.Match}); err != nil {
			return err
		}
	}
	return nil
}

// of is the requirement of a package in its version.
func (n *MadeFor) of(version string) string { return expand(n.Needs, "{version}", numbers(version, 3)) }
