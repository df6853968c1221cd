// Package packs holds the knowledge of the rule packs: rules/*.yaml and the directories of
// --rules. It has the types of their entries, loads and validates them, and fills the
// templates of findings, so that every report says the same. It answers questions about
// names and versions: which GPU family a library belongs to, which CUDA has it, which fix
// the packs have for it.
//
// It does not know images. pkg/replay and pkg/lint look at an image and ask this package.
package packs

import (
	"reflect"
	"sync"
)

// Sections are the sections of a pack. Those of several packs are appended.
type Sections struct {
	Rules []*Rule `yaml:"rules"`
	// Clauses are the clauses that all rules share, by their IDs.
	Clauses    map[string]*Clause `yaml:"clauses"`
	Families   []*Family          `yaml:"families"`
	Driver     Driver             `yaml:"driver"`
	Frameworks []*Framework       `yaml:"frameworks"`
	Dlopens    []*Dlopens         `yaml:"dlopens"`
	Plugins    []*Plugin          `yaml:"plugins"`
	Folders    []*Folder          `yaml:"folders"`
	Attributes []*Attribute       `yaml:"attributes"`
	Backends   []*Backend         `yaml:"backends"`
	Needs      []*Need            `yaml:"needs"`
	Choices    []*Choice          `yaml:"choices"`
	Stdlib     []*StdlibModule    `yaml:"stdlib"`
	Releases   []*Release         `yaml:"releases"`
	Toolkits   []*Toolkit         `yaml:"toolkits"`
	Sonames    []*Soname          `yaml:"sonames"`
	// Optional are files that their package works without.
	Optional Exceptions `yaml:"optional"`
	// AnyOf are sets of files of which a program needs only one.
	AnyOf Exceptions `yaml:"any_of"`
	// Absent are files that a package may lack, and the feature that fails without them.
	Absent   Exceptions    `yaml:"absent"`
	Versions []*VersionFix `yaml:"versions"`
	Symbols  []*SymbolFact `yaml:"symbols"`
	Cases    []*Case       `yaml:"cases"`
	Texts    []*ErrorText  `yaml:"texts"`
	Looks    []*Look       `yaml:"looks"`
	Contexts []*Context    `yaml:"contexts"`
	// Surroundings are where a text may come from.
	Surroundings []*Surrounding `yaml:"surroundings"`
	// SharedFixes are fixes that several cases have in common.
	SharedFixes []*SharedFix `yaml:"shared_fixes"`
	// Translations are messages of the C library in other languages.
	Translations []*Translation `yaml:"translations"`

	// The sections below are about installed packages and what they need.

	Pairs        []*Pair            `yaml:"pairs"`
	Stacks       []*Stack           `yaml:"stacks"`
	Carriers     []*Carrier         `yaml:"carriers"`
	Exclusive    []*Exclusive       `yaml:"exclusive"`
	CPUBuilds    []*CPUBuild        `yaml:"cpu_builds"`
	Modules      []*Modules         `yaml:"modules"`
	Programs     []*ProgramPackages `yaml:"programs"`
	Given        []*Given           `yaml:"given"`
	Names        []*Names           `yaml:"names"`
	Pinned       []*Pinned          `yaml:"pinned"`
	Capabilities []*Capability      `yaml:"capabilities"`
	// Mounts are directories to which something is mounted when the container starts.
	Mounts KnownList `yaml:"mounts"`
	// DriverExempt are files that have names of the driver's and belong to a distribution.
	DriverExempt KnownList `yaml:"driver_exempt"`
	// GPUWheels are wheels that only a GPU can use.
	GPUWheels KnownList `yaml:"gpu_wheels"`
	// ExtensionHosts are packages that extensions are compiled against, together with the
	// system's CUDA.
	ExtensionHosts KnownList `yaml:"extension_hosts"`
	// ExtensionBuilds say how pip gets the build of an extension for the installed framework.
	ExtensionBuilds []*ExtensionBuild `yaml:"extension_builds"`
	LibraryDists    []*Dist           `yaml:"library_dists"`
	MadeFor         []*MadeFor        `yaml:"made_for"`
	// CXXNamespaces are in the order in which a name with parts in several is looked up.
	CXXNamespaces []*CXXNamespaces `yaml:"cxx_namespaces"`
	// WheelDirs are directories below site-packages that hold the libraries of wheels.
	WheelDirs KnownList `yaml:"wheel_dirs"`
	// System are libraries of distributions, with the packages that have them.
	System []*SystemLibrary `yaml:"system"`
	// Development are headers and the like of libraries, with the packages that have them.
	Development []*Development `yaml:"development"`
}

// add appends the lists of another pack. Clauses and Driver are for the caller.
func (s *Sections) add(o *Sections) {
	to, from := reflect.ValueOf(s).Elem(), reflect.ValueOf(o).Elem()
	for i := range to.NumField() {
		if to.Field(i).Kind() == reflect.Slice {
			to.Field(i).Set(reflect.AppendSlice(to.Field(i), from.Field(i)))
		}
	}
}

// Packs are all packs, validated. Its methods may be called at the same time.
type Packs struct {
	Sections

	// ID is a digest of the files that the packs were read from.
	ID string

	weights  []rowWeight
	families sync.Map // name of a library → *Family
	sonames  sync.Map // name of a library before `.so.` → *Soname

	saying sync.Mutex
	said   error // see Err
}
