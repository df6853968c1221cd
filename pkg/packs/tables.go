package packs

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// ReleaseFor returns the behaviour of a version of the package, nil if it is not known.
func (c *Choice) ReleaseFor(version string) *ChoiceRelease {
	for i := range c.Releases {
		if fits, known := ParseRelease(version).Within(c.Releases[i].Versions); fits && known {
			return &c.Releases[i]
		}
	}
	return nil
}

func (c *Choice) validate() error {
	if c.ID == "" || len(c.Dist) == 0 || c.Of == "" || !strings.Contains(c.File, "{cuda}") || c.Override == "" || len(c.Releases) == 0 || len(c.Sources) == 0 {
		return errors.New("needs an id, dist, of, a file with {cuda}, an override, releases and sources")
	}
	for _, r := range c.Releases {
		if err := version.CheckRange(r.Versions); err != nil {
			return err
		}
		if r.Effect == "" {
			return errors.New("releases: needs an effect")
		}
	}
	return patterns("", c.Dist)
}

// Checks of the search path and of the variables that the NVIDIA container
// runtime reads.

const LdLibraryPath = "LD_LIBRARY_PATH"

// Capability returns a capability by its name, or nil.
func (p *Packs) Capability(name string) *Capability {
	for _, c := range p.Capabilities {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// StdlibModule is an extension module of Python's own library. A Python that was built
// without the headers that the module needs does not have it.
type StdlibModule struct {
	Module string `yaml:"module"` // _ctypes; a pattern
	// Packages are directories of packages that cannot be imported without the module.
	Packages []string `yaml:"packages"`
	// Tries are directories of packages that try to import the module and do without. A
	// truncated file of the module kills their import as well.
	Tries []string `yaml:"tries"`
	// With are directories of packages that one of Tries imports and that import the
	// module: without them, Tries do not.
	With   []string `yaml:"with"`
	Python string   `yaml:"python"` // the versions of Python that have it; empty: all
	// Debian is the Debian package with the headers that the module is built with.
	Debian  string   `yaml:"debian"`
	Sources []string `yaml:"sources"`
}

func (m *StdlibModule) validate() error {
	if m.Module == "" || len(m.Packages)+len(m.Tries) == 0 || len(m.Sources) == 0 {
		return errors.New("needs a module, packages or tries, and sources")
	}
	if err := version.CheckRange(m.Python); err != nil {
		return err
	}
	return patterns("", []string{m.Module})
}

// Asks reports whether a distribution has the need.
func (n *Need) Asks(p *inventory.Package) bool {
	fits, known := ParseRelease(p.Version).Within(n.Versions)
	return fits && known && MatchAny(n.Dist, Normal(p.Name))
}

func (n *Need) validate() error {
	if n.ID == "" || len(n.Dist) == 0 || len(n.Any) == 0 || n.Message == "" || n.Effect == "" || len(n.Sources) == 0 {
		return errors.New("needs an id, dist, any, a message, an effect and sources")
	}
	if n.Severity != "" && !slices.Contains(Severities, n.Severity) {
		return fmt.Errorf("severity is %q, not error, warning or note", n.Severity)
	}
	if err := version.CheckRange(n.Versions); err != nil {
		return err
	}
	return patterns("", slices.Concat(n.Dist, n.Present, n.Any))
}

// LocalOf returns the local part of a version (cu124, cpu), or "".
func LocalOf(version string) string {
	_, local, _ := strings.Cut(version, "+")
	return local
}

// CudaOf returns the CUDA version in the local part of a version, or "": 12.4 for cu124,
// 11.8 for cu118, 13.0 for cu130.
func CudaOf(local string) string {
	m := cudaLocal.FindStringSubmatch(local)
	if m == nil {
		return ""
	}
	return m[1] + "." + m[2]
}

var cudaLocal = regexp.MustCompile(`^cu(\d{2})(\d)$`)

// IsVersion440 reports whether a text from the image is a version and nothing else. Fixes
// are commands that people copy, so no other text from an image may stand in them.
func IsVersion440(s string) bool {
	_, err := version.Parse(s)
	return err == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}

// CudaNumbers returns how many numbers of the CUDA versions must agree.
func (p *Pair) CudaNumbers() int {
	if p.CUDA == "major" {
		return 1
	}
	return 2
}

// IndexOf returns the URL of the index that has a build of the other package by the local
// part of its version (PyPI has no 2.6.0+cu124), or "".
func (p *Pair) IndexOf(version string) string {
	build := LocalOf(version)
	if !MatchAny(p.Builds, build) {
		return ""
	}
	return Fill(p.Index, Values{"build": build})
}

// Tables are the tables of the packs about installed packages and what they need.
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
	// ExtensionHosts are packages that extensions are compiled against, together with the
	// system's CUDA.
	ExtensionHosts []*Known   `yaml:"extension_hosts"`
	LibraryDists   []*Dist    `yaml:"library_dists"`
	MadeFor        []*MadeFor `yaml:"made_for"`
	// CXXNamespaces are in the order in which a name with parts in several is looked up.
	CXXNamespaces []*CXXNamespaces `yaml:"cxx_namespaces"`
	// WheelDirs are directories below site-packages that hold the libraries of wheels.
	WheelDirs []*Known      `yaml:"wheel_dirs"`
	System    []*VersionFix `yaml:"system"`
}

// Pair maps releases of a package to the releases of another that are built for them, both
// by major and minor number.
type Pair struct {
	Package  string            `yaml:"package"`
	For      string            `yaml:"for"`
	Versions map[string]string `yaml:"versions"` // of For → of Package
	Error    string            `yaml:"error"`    // printed if they do not fit
	// CUDA is how far the CUDA versions of their builds must agree, "major" or "minor".
	// CUDAError is printed if they do not.
	CUDA      string `yaml:"cuda"`
	CUDAError string `yaml:"cuda_error"`
	// Index is the URL of an index with builds of For that PyPI does not have: those whose
	// version has a local part, {build}, that matches one of the patterns Builds.
	Index   string   `yaml:"index"`
	Builds  []string `yaml:"builds"`
	Sources []string `yaml:"sources"`
}

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

// wheelEnding returns how the names of the wheels end that are made for a major version of
// CUDA: -cu12, or "" from c.Plain on.
func (c *Carrier) wheelEnding(cuda string) string {
	major, plain := ParseRelease(cuda), ParseRelease(c.Plain)
	if major != nil && plain != nil && !major.Before(plain) {
		return ""
	}
	return WheelCUDA + cuda
}

// Carrier returns the carrier of a family, or an empty one if the packs have none.
func (t *Tables) Carrier(family string) *Carrier {
	for _, c := range t.Carriers {
		if c.Family == family {
			return c
		}
	}
	return &Carrier{}
}

// Stack is the CUDA libraries that releases of a framework need.
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

// Exclusive is a group of distributions that install the same files.
type Exclusive struct {
	ID      string   `yaml:"id"`
	Members []string `yaml:"members"`
	Keep    string   `yaml:"keep"`   // the one to keep in a GPU image
	Effect  string   `yaml:"effect"` // when another one has overwritten it
	Sources []string `yaml:"sources"`
}

// CPUBuild is a package without GPU code, with the fix for images that are to use a GPU.
type CPUBuild struct {
	Package string `yaml:"package"`
	// Local is the local part of the version of the build without GPU code; empty if that
	// build has a name of its own.
	Local  string   `yaml:"local"`
	Unless []string `yaml:"unless"` // patterns of packages that bring its GPU side
	Beside []string `yaml:"beside"` // patterns of packages that may be what the GPU is for
	// Lacks are patterns of libraries that only the build with GPU code has. Files that
	// need one do not load.
	Lacks    []string `yaml:"lacks"`
	Severity Severity `yaml:"severity"`
	Effect   string   `yaml:"effect"`
	Fix      string   `yaml:"fix"`
	Sources  []string `yaml:"sources"`
}

// Pinned are packages whose requirements on other packages are checked.
type Pinned struct {
	Packages []string `yaml:"packages"` // patterns of names
	Requires []string `yaml:"requires"` // patterns of the required packages
	Severity Severity `yaml:"severity"`
	Why      string   `yaml:"why"`
	Sources  []string `yaml:"sources"`
}

// Capability is a word of NVIDIA_DRIVER_CAPABILITIES, with the driver's libraries that it
// makes the container runtime mount.
type Capability struct {
	Name      string   `yaml:"name"`
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	Effect    string   `yaml:"effect"`
	Sources   []string `yaml:"sources"`
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

// Known is a pattern of directories, files or packages with a property, which its table
// names (directories to which something is mounted, wheels for GPUs alone), and why they
// have it.
type Known struct {
	Match   string   `yaml:"match"`
	Why     string   `yaml:"why"`
	Sources []string `yaml:"sources"`
}

// IsKnown reports whether a table has a name.
func IsKnown(list []*Known, name string) bool {
	return slices.ContainsFunc(list, func(k *Known) bool { return Match(k.Match, name) })
}

// Dist is the Python distribution that has a library.
type Dist struct {
	Match   string   `yaml:"match"` // pattern of the library's names
	Dist    string   `yaml:"dist"`  // its name without -cu12 and the like
	Sources []string `yaml:"sources"`
}

// add appends the tables of another pack.
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
	t.CXXNamespaces = append(t.CXXNamespaces, o.CXXNamespaces...)
	t.WheelDirs = append(t.WheelDirs, o.WheelDirs...)
	t.MadeFor = append(t.MadeFor, o.MadeFor...)
	t.System = append(t.System, o.System...)
}

// validate returns the error of the first row that lacks something or has a version or a
// pattern that does not parse.
func (t *Tables) validate() error {
	return cmp.Or(
		rowsValid(t.Pairs), rowsValid(t.Stacks), rowsValid(t.Carriers), rowsValid(t.Exclusive), rowsValid(t.CPUBuilds), rowsValid(t.Pinned),
		rowsValid(t.Capabilities), rowsValid(t.LibraryDists), rowsValid(t.MadeFor), rowsValid(t.System),
		rowsValid(t.Mounts), rowsValid(t.DriverExempt), rowsValid(t.GPUWheels), rowsValid(t.ExtensionHosts), rowsValid(t.WheelDirs), rowsValid(t.CXXNamespaces),
	)
}

// rowsValid returns the error of the first row that is not valid.
func rowsValid[T interface{ validate() error }](rows []T) error {
	for _, row := range rows {
		if err := row.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pair) validate() error {
	if p.Package == "" || p.For == "" || len(p.Versions) == 0 || len(p.Sources) == 0 {
		return fmt.Errorf("pair %q: needs a package, what it is for, versions and sources", p.Package)
	}
	if p.CUDA != "" && p.CUDA != "major" && p.CUDA != "minor" {
		return fmt.Errorf("pair %s: cuda is major or minor, not %q", p.Package, p.CUDA)
	}
	return patterns("pair "+p.Package, p.Builds)
}

func (c *Carrier) validate() error {
	if c.Family == "" || c.Library == "" || len(c.Sources) == 0 {
		return fmt.Errorf("carrier %q: needs a family, a library and sources", c.Family)
	}
	return patterns("carrier "+c.Family, slices.Concat(c.Wheels, c.Conda, c.System, c.Except, c.Files, []string{c.Own}))
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

func (e *Exclusive) validate() error {
	if e.ID == "" || len(e.Members) < 2 || !slices.Contains(e.Members, e.Keep) || len(e.Sources) == 0 {
		return fmt.Errorf("exclusive %q: needs an id, two members, which of them to keep, and sources", e.ID)
	}
	return nil
}

func (c *CPUBuild) validate() error {
	if c.Package == "" || c.Effect == "" || c.Fix == "" || !slices.Contains(Severities, c.Severity) || len(c.Sources) == 0 {
		return fmt.Errorf("cpu build %q: needs a package, an effect, a fix, a severity and sources", c.Package)
	}
	return patterns("cpu build "+c.Package, slices.Concat(c.Unless, c.Beside, c.Lacks))
}

func (p *Pinned) validate() error {
	if len(p.Packages) == 0 || len(p.Requires) == 0 || p.Why == "" || !slices.Contains(Severities, p.Severity) || len(p.Sources) == 0 {
		return fmt.Errorf("pinned %q: needs packages, what they require, a why, a severity and sources", p.Packages)
	}
	return patterns("pinned", slices.Concat(p.Packages, p.Requires))
}

func (c *Capability) validate() error {
	if c.Name == "" || len(c.Sources) == 0 {
		return fmt.Errorf("capability %q: needs a name and sources", c.Name)
	}
	return nil
}

func (d *Dist) validate() error {
	if d.Match == "" || d.Dist == "" || len(d.Sources) == 0 {
		return fmt.Errorf("library dist %q: needs a match, a dist and sources", d.Match)
	}
	return patterns("library dist", []string{d.Match})
}

func (n *MadeFor) validate() error {
	if n.Package == "" || n.Effect == "" || !slices.Contains(Severities, n.Severity) || len(n.Sources) == 0 {
		return fmt.Errorf("made for: %q: needs a package, an effect, a severity and sources", n.Package)
	}
	if _, err := version.Satisfies("1", n.Versions); err != nil {
		return fmt.Errorf("made for: %s: %w", n.Package, err)
	}
	if r, err := inventory.ParseRequirement(n.Of("1")); err != nil || r.Specifiers == "" {
		return fmt.Errorf("made for: %s: %q is no requirement of a version", n.Package, n.Needs)
	}
	return patterns("made for", []string{n.Package})
}

func (v *VersionFix) validate() error {
	if v.Match == "" || v.Fix == "" || len(v.Sources) == 0 {
		return fmt.Errorf("version %q: needs a match, a fix and sources", v.Match)
	}
	return patterns("version", []string{v.Match})
}

func (k *Known) validate() error {
	if k.Match == "" || k.Why == "" || len(k.Sources) == 0 {
		return fmt.Errorf("match %q: needs a match, a why and sources", k.Match)
	}
	return patterns("match", []string{k.Match})
}

// Of returns the requirement of the package's release with a version.
func (n *MadeFor) Of(version string) string { return Expand(n.Needs, "{version}", Numbers(version, 3)) }
