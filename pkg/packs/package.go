package packs

import (
	"fmt"
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// Exclusive is a group of distributions that install the same files.
type Exclusive struct {
	ID      string   `yaml:"id"`
	Members []string `yaml:"members"`
	Keep    string   `yaml:"keep"`   // the one to keep in a GPU image
	Effect  string   `yaml:"effect"` // when another one has overwritten it
	Alike   bool     `yaml:"alike"`  // any of the members does, if the image has its files as it installed them
	Sources []string `yaml:"sources"`
}

func (e *Exclusive) validate() error {
	if e.ID == "" || len(e.Members) < 2 || !slices.Contains(e.Members, e.Keep) || len(e.Sources) == 0 {
		return fmt.Errorf("exclusive %q: needs an id, two members, which of them to keep, and sources", e.ID)
	}
	return nil
}

// CPUBuild is a package without GPU code, with the fix for images that are to use a GPU.
type CPUBuild struct {
	Package string `yaml:"package"`
	// Local is the local part of the version of the build without GPU code; empty if that
	// build has a name of its own.
	Local string `yaml:"local"`
	// GPULocal are patterns of the local part of the version of builds with GPU code that
	// have the same name.
	GPULocal []string `yaml:"gpu_local"`
	Unless   []string `yaml:"unless"` // patterns of packages that bring its GPU side
	Beside   []string `yaml:"beside"` // patterns of packages that may be what the GPU is for
	// Lacks are patterns of libraries that only the build with GPU code has. Files that
	// need one do not load.
	Lacks    []string `yaml:"lacks"`
	Severity Severity `yaml:"severity"`
	Effect   string   `yaml:"effect"`
	Fix      string   `yaml:"fix"`
	// Builds are the local parts of the versions of the builds with GPU code, ascending, by the
	// release: major and minor. BuildFix is the fix if one of them is for the image's CUDA: with
	// {release}, {build} and {index}, the URL of the index that has it. Pip is that fix as data.
	Builds   map[string][]string `yaml:"builds"`
	Index    string              `yaml:"index"`
	BuildFix string              `yaml:"build_fix"`
	Pip      *Pip                `yaml:"pip"`
	Sources  []string            `yaml:"sources"`
}

// BuildFor returns the local part of the version of a release's build with GPU code for a CUDA: the
// newest that is not newer than it, else the oldest of its major version. It returns "" if there is
// none. cuda is a version, or a major version alone, of which the newest build is taken.
func (c *CPUBuild) BuildFor(release, cuda string) string {
	want := ParseRelease(cuda)
	if len(want) == 0 {
		return ""
	}
	best := ""
	for _, build := range c.Builds[Numbers(release, 2)] {
		has := ParseRelease(CudaOfBuild("0+" + build))
		if len(has) < 2 || has[0] != want[0] {
			continue
		}
		if best == "" || len(want) < 2 || has[1] <= want[1] {
			best = build
		}
	}
	return best
}

func (c *CPUBuild) validate() error {
	if c.Package == "" || c.Effect == "" || c.Fix == "" || !c.Severity.known() || len(c.Sources) == 0 {
		return fmt.Errorf("cpu build %q: needs a package, an effect, a fix, a severity and sources", c.Package)
	}
	if (len(c.Builds) == 0) != (c.Index == "" && c.BuildFix == "" && c.Pip == nil) || len(c.Builds) > 0 && (c.Index == "" || c.BuildFix == "") {
		return fmt.Errorf("cpu build %s: builds go with an index and a build_fix", c.Package)
	}
	return checkPatterns("cpu build "+c.Package, slices.Concat(c.GPULocal, c.Unless, c.Beside, c.Lacks))
}

// Pinned are packages whose requirements on other packages are checked.
type Pinned struct {
	Packages []string `yaml:"packages"` // patterns of names
	Requires []string `yaml:"requires"` // patterns of the required packages
	Severity Severity `yaml:"severity"`
	Why      string   `yaml:"why"`
	Sources  []string `yaml:"sources"`
}

func (p *Pinned) validate() error {
	if len(p.Packages) == 0 || len(p.Requires) == 0 || p.Why == "" || !p.Severity.known() || len(p.Sources) == 0 {
		return fmt.Errorf("pinned %q: needs packages, what they require, a why, a severity and sources", p.Packages)
	}
	return checkPatterns("pinned", slices.Concat(p.Packages, p.Requires))
}

// ExtensionBuild says how pip gets the build of packages for the release of a framework that is
// installed: from a page with links, or from the setup of the package, which looks at the framework.
type ExtensionBuild struct {
	Packages []string `yaml:"packages"` // names, as PEP 503 writes them
	For      string   `yaml:"for"`      // the framework
	Versions string   `yaml:"versions"` // its releases, as PEP 440 specifiers
	// Page is the address of the page; {release} is the framework's, X.Y.0, and {build} the local part
	// of its version. It is empty for packages whose setup finds the build.
	Page    string   `yaml:"page"`
	Sources []string `yaml:"sources"`
}

func (b *ExtensionBuild) validate() error {
	if len(b.Packages) == 0 || b.For == "" || b.Versions == "" || len(b.Sources) == 0 {
		return fmt.Errorf("extension builds of %q: needs packages, what they are for, its versions and sources", b.Packages)
	}
	if _, err := version.Satisfies("1", b.Versions); err != nil {
		return fmt.Errorf("extension builds of %q: versions: %w", b.Packages, err)
	}
	return nil
}

// MadeFor is a requirement of a package's releases on another package that their metadata
// does not have.
type MadeFor struct {
	Package  string   `yaml:"package"`  // a pattern
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	Needs    string   `yaml:"needs"`    // a requirement; {version} is the package's own, three numbers
	Severity Severity `yaml:"severity"`
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"`
	Sources  []string `yaml:"sources"`
}

func (n *MadeFor) validate() error {
	if n.Package == "" || n.Effect == "" || !n.Severity.known() || len(n.Sources) == 0 {
		return fmt.Errorf("made for: %q: needs a package, an effect, a severity and sources", n.Package)
	}
	if _, err := version.Satisfies("1", n.Versions); err != nil {
		return fmt.Errorf("made for: %s: %w", n.Package, err)
	}
	if r, err := inventory.ParseRequirement(n.Of("1")); err != nil || r.Specifiers == "" {
		return fmt.Errorf("made for: %s: %q is no requirement of a version", n.Package, n.Needs)
	}
	return checkPatterns("made for", []string{n.Package})
}

// Of returns the requirement of the package's release with a version.
func (n *MadeFor) Of(version string) string { return Expand(n.Needs, "{version}", Numbers(version, 3)) }

// Dist is the Python distribution that has a library.
type Dist struct {
	Match   string   `yaml:"match"` // pattern of the library's names
	Dist    string   `yaml:"dist"`  // its name without -cu12 and the like
	Sources []string `yaml:"sources"`
}

func (d *Dist) validate() error {
	if d.Match == "" || d.Dist == "" || len(d.Sources) == 0 {
		return fmt.Errorf("library dist %q: needs a match, a dist and sources", d.Match)
	}
	return checkPatterns("library dist", []string{d.Match})
}

// Known is a pattern of directories, files or packages with a property, which its table
// names (directories to which something is mounted, wheels for GPUs alone), and why they
// have it.
type Known struct {
	Match   string   `yaml:"match"`
	Why     string   `yaml:"why"`
	Sources []string `yaml:"sources"`
}

// KnownList is a section of patterns with one property.
type KnownList []*Known

// Has reports whether a name matches one of the patterns.
func (list KnownList) Has(name string) bool {
	return slices.ContainsFunc(list, func(k *Known) bool { return Match(k.Match, name) })
}

func (k *Known) validate() error {
	if k.Match == "" || k.Why == "" || len(k.Sources) == 0 {
		return fmt.Errorf("match %q: needs a match, a why and sources", k.Match)
	}
	return checkPatterns("match", []string{k.Match})
}
