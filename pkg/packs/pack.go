package packs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/imgcheck/imgcheck/internal/glob"
	"gopkg.in/yaml.v3"
)

// Beside is the directory in which a file lies with those that serve as well.
func (x *Exception) Beside(file string) string {
	dir := path.Dir(file)
	if within := "/" + x.Within + "/"; x.Within != "" {
		if i := strings.LastIndex(dir+"/", within); i >= 0 {
			return dir[:i+len(within)-1]
		}
	}
	return dir
}

// Packs is all that the packs say, checked.
type Packs struct {
	Rules      []*Rule
	Families   []*Family
	Driver     Driver
	Frameworks []*Framework
	Dlopens    []*Dlopens
	Needs      []*Need
	Choices    []*Choice
	Stdlib     []*StdlibModule
	Releases   []*Release
	Toolkits   []*Toolkit
	Sonames    []*Soname
	Optional   []*Exception
	AnyOf      []*Exception
	Absent     []*Exception
	Versions   []*VersionFix
	Symbols    []*SymbolFact
	Cases      []*Case
	Texts      []*ErrorText

	// Clauses are those that all rules share.
	Clauses map[string]*Clause

	// ID is a digest of what the packs were read from.
	ID string
	Tables

	weights []rowWeight

	families sync.Map // name → *Family

	saying sync.Mutex
	said   error // the first clause or value that was asked for and is not there
}

// Rule is what a finding refers to.
type Rule struct {
	ID string `yaml:"id"`
	// Severity is that of the rule's findings; a clause may lower it.
	Severity Severity `yaml:"severity"`
	// Usual is the severity of a finding of the rule for which there is no reason to weigh
	// more or less; empty: Severity. A policy that sets the severity of the rule does not
	// raise findings below it.
	Usual Severity `yaml:"usual"`
	// Kind is what is wrong, of one of [Kinds].
	Kind  Kind   `yaml:"kind"`
	Title string `yaml:"title"`
	Doc   string `yaml:"doc"`
	// Clauses are what findings of the rule say, by the names of the cases.
	Clauses map[string]*Clause `yaml:"clauses"`
	// Patterns are the texts that the failure shows as; {library}, {path},
	// {symbol}, {version} and {error} stand for what they name.
	Patterns []string `yaml:"patterns"`
	// Mend are the kinds of changes that may make a finding go away, in the order
	// in which they are to be tried: one of [Mends] each. Without any, nothing is.
	Mend []string `yaml:"mend"`
	// Edits are what "variable" among them does: each is tried by itself.
	Edits []Edit `yaml:"edits"`
	// Fix says what to do in general, the best first; a finding says it of its
	// image.
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

// Mends are the kinds of changes that a rule may name; pkg/fix says what each is.
var Mends = []string{"link", "path", "drop", "unpreload", "variable", "execstack", "ldconf", "add", "newer", "replace", "remove"}

// Family is a group of GPU libraries that come together.
type Family struct {
	ID    string   `yaml:"id"`
	Title string   `yaml:"title"`
	Match []string `yaml:"match"`
	// Together are names of which a process must have all from one release.
	Together []string `yaml:"together"`
	Fix      []string `yaml:"fix"`
	// FixOf is for libraries that come in another way than the rest.
	FixOf   []FixOf  `yaml:"fix_of"`
	Sources []string `yaml:"sources"`
}

// FixOf is what to do, in place of what its family says, where one of some
// libraries is missing.
type FixOf struct {
	Match   []string `yaml:"match"`
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

// ComeTogether reports whether a process must have libraries of a family from one release.
func (p *Packs) ComeTogether(family string) bool {
	return slices.ContainsFunc(p.Families, func(f *Family) bool { return f.ID == family && len(f.Together) > 0 })
}

// fixes returns the fixes for a missing library of the family: templates in which {library}
// is its name, {major} its major version, and {cuda} and {-cu} are as in [Packs.forCUDA].
func (f *Family) fixes(library string) []string {
	for _, of := range f.FixOf {
		if MatchAny(of.Match, library) {
			return of.Fix
		}
	}
	return f.Fix
}

// Driver lists what the container runtime mounts.
type Driver struct {
	Libraries []string `yaml:"libraries"` // names without `.so` and what follows
	// Symbols say which symbols a library defines; one that has no line may define any.
	Symbols []DriverSymbols `yaml:"symbols"`
	Sources []string        `yaml:"sources"`
}

// DriverSymbols are the patterns of the names that a library of the driver defines.
type DriverSymbols struct {
	Library string   `yaml:"library"` // one of [Driver.Libraries]
	Match   []string `yaml:"match"`
	Sources []string `yaml:"sources"`
}

// Framework is how a framework is found and how it loads its libraries: its plan.
type Framework struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	// Package is the directory of the installation; empty where the marker's own
	// directory is it.
	Package string `yaml:"package"`
	Marker  string `yaml:"marker"`
	// Host is the name of the program that opens it and whose symbols it asks for
	// (node): where the image does not have it, none are bound. Empty: Python in
	// Python's directories, elsewhere any program, of which it wants nothing.
	Host string `yaml:"host"`
	// Without is a pattern of files below that directory: where there is one, another
	// framework is meant.
	Without string `yaml:"without"`
	// Dist are the names of its distributions, as their dist-info directories
	// and conda-meta have them; they tell its version.
	Dist []string `yaml:"dist"`
	// OnlyDist: an installation of another distribution, of the CPU's build say, is
	// not meant.
	OnlyDist bool `yaml:"only_dist"`
	// CPUToo: where it opens none of its GPU libraries, it is not meant to.
	CPUToo bool `yaml:"cpu_too"`
	// Aside: it is often installed for another's sake and never imported; what it
	// misses, but for GPU libraries, is a warning.
	Aside     bool      `yaml:"aside"`
	Preload   []Preload `yaml:"preload"`
	Steps     []Step    `yaml:"steps"`
	Later     []Open    `yaml:"later"`
	Uses      []Use     `yaml:"uses"`
	Refuses   []Refusal `yaml:"refuses"`
	Mixed     []Mixed   `yaml:"mixed"`
	Helped    []Help    `yaml:"helped"`
	Serves    []string  `yaml:"serves"`
	Followers []string  `yaml:"followers"`
	Sources   []string  `yaml:"sources"`
}

// Preload are files that a framework opens by their full path, in order.
type Preload struct {
	Versions string `yaml:"versions"` // of the framework; empty: all
	// When is one of:
	//   - first: before the first step. What cannot be loaded is passed over.
	//   - after-first-step: when the first step has succeeded. The first of Files that is
	//     not there or cannot be loaded ends the preload, and the framework goes on.
	//   - after-miss: when the first step has failed and its error names one of Files.
	//     Then the step is tried once more. The first of Files that is not there (see
	//     Missing) or cannot be loaded ends the import.
	When string `yaml:"when"`
	// Files are patterns below the directory that holds the framework; with Dirs, each
	// is FOLDER/NAME.
	Files []string `yaml:"files"`
	// Dirs are the directories below those of sys.path in which a FOLDER/NAME of Files is
	// looked for: {folder} is FOLDER, {cuda} the major version of CUDA that the framework
	// is built for. The first file found is opened, of the first directory of sys.path
	// that has one.
	Dirs []string `yaml:"dirs"`
	// Optional are patterns of files that are opened after them, where they are there.
	Optional []string `yaml:"optional"`
	// Mapped is part of the path of a loaded file, without which there is no preload
	// after the first step.
	Mapped string `yaml:"mapped"`
	// Missing is how it reads when one of Files is not there after a miss: {name} is
	// NAME. Empty: it goes on with what is there.
	Missing string `yaml:"missing"`
}

// Step is one file that a framework opens.
type Step struct {
	Open     string `yaml:"open"`
	Versions string `yaml:"versions"` // of the framework; empty: all, as where it is not known
	// Flags are those of dlopen, as in [Open]; PreloadFlags are for what is opened by
	// full path before.
	Flags        []string `yaml:"flags"`
	PreloadFlags []string `yaml:"preload_flags"`
	// Preload are patterns below the directory that holds the framework, of files
	// that it opens by their full path before this one; when one cannot be loaded, the
	// step fails.
	Preload []string `yaml:"preload"`
	// Optional are such patterns of files that it opens before those, and does
	// without.
	Optional []string `yaml:"optional"`
	// Unusable is how it reads when it is the file's own fault: {path} is the file.
	Unusable string `yaml:"unusable"`
	// Feature: the framework goes on without it when it fails.
	Feature bool   `yaml:"feature"`
	Effect  string `yaml:"effect"`
	// Error is how it reads: {error} is the loader's text, {stem} the name of what is
	// missing without its version, libcublas.so.
	Error string `yaml:"error"`
	// Absent is how it reads when the file itself is gone; empty: as an import of a
	// module that is not there.
	Absent string `yaml:"absent"`
}

// Open is a library that a framework or another library opens by its name
// (dlopen), when somebody uses a feature.
type Open struct {
	// Part names it for [Use]; unique within its list.
	Part string `yaml:"part"`
	// By is the file of the framework that opens it: its RPATH or RUNPATH
	// decides. Of several that fit, one that can is enough. Empty means the
	// program.
	By string `yaml:"by"`
	// Names are tried in order until one opens. {release}, {minor} and {major} are
	// the version of the one who opens, {cuda} is the major version of CUDA in the
	// process, and {cudart}, {nvrtc} and so on what its [Toolkit] says. A pattern
	// stands for the names in the image that fit.
	Names []string `yaml:"names"`
	// Beside: a file of one of the names in the directory of the one who opens
	// serves as well.
	Beside bool `yaml:"beside"`
	// Flags are now, lazy and global; none means now.
	Flags []string `yaml:"flags"`
	// Versions of the one who opens; empty means all. One that is not known fits
	// where the image has one of the names, or had it.
	Versions string `yaml:"versions"`
	// Optional opens fail without a trace.
	Optional bool     `yaml:"optional"`
	Severity Severity `yaml:"severity"` // of a miss; error when empty
	Effect   string   `yaml:"effect"`
	// Error is how it reads: {error} is the loader's text, {name} the last of the
	// names, {names} all of them.
	Error string `yaml:"error"`
}

// Also is one more effect of a miss.
type Also struct {
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
}

// Use says what a part of a library is to a framework.
type Use struct {
	Part  string `yaml:"part"` // ID of the Dlopens, a slash, the part
	Never bool   `yaml:"never"`
	// Optional: it is opened, and what the framework does works without.
	Optional bool     `yaml:"optional"`
	Severity Severity `yaml:"severity"`
	// Own is why it is no more than a note where the one who opens is the
	// framework's own copy; empty: it is what it is elsewhere.
	Own    string `yaml:"own"`
	Effect string `yaml:"effect"`
	Error  string `yaml:"error"`
	// Also is what else fails, and how that reads.
	Also []Also `yaml:"also"`
}

// Refusal is a check of a framework that fails for an older library than its own
// distribution brings. What versions of frameworks want where they bring none is
// the inventory's.
type Refusal struct {
	Library string `yaml:"library"` // pattern of the SONAME that tells the version in the process
	Own     string `yaml:"own"`     // of the distribution's own copy
	// Numbers of the version that are compared: 2 for 9.19.
	Numbers int    `yaml:"numbers"`
	Effect  string `yaml:"effect"`
	Error   string `yaml:"error"` // {own} and {found} are (9, 19, 0)
}

// Mixed is what fails when a part of a library is of another release than the parts
// that are opened with it.
type Mixed struct {
	Library  string   `yaml:"library"`  // pattern of the part's SONAME
	Severity Severity `yaml:"severity"` // warning where few programs come to it; empty: error
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"`
}

// Help is what makes a framework's steps succeed that fail by themselves, when
// the program does it first.
type Help struct {
	Framework string   `yaml:"framework"` // imported first, from the same directory of packages
	Files     []string `yaml:"files"`     // or opened by full path first
	Versions  string   `yaml:"versions"`  // that have it; one that is unknown has not
	Why       string   `yaml:"why"`
}

// Dlopens are what a library opens by name itself.
type Dlopens struct {
	ID      string   `yaml:"id"`
	By      []string `yaml:"by"` // SONAMEs or file names
	Opens   []Open   `yaml:"opens"`
	Sources []string `yaml:"sources"`
}

// Toolkit is what stands after `.so.` in the names of the libraries of one major
// version of CUDA. An [Open] may name them: {cufft}.
type Toolkit struct {
	CUDA     string   `yaml:"cuda"`
	Cudart   string   `yaml:"cudart"`
	Cublas   string   `yaml:"cublas"`
	Nvrtc    string   `yaml:"nvrtc"`
	Cufft    string   `yaml:"cufft"`
	Cusolver string   `yaml:"cusolver"`
	Cusparse string   `yaml:"cusparse"`
	Sources  []string `yaml:"sources"`
}

// Need is what an installed distribution asks of the image when a feature is used,
// other than a library: a header, a program.
type Need struct {
	ID       string   `yaml:"id"`
	Dist     []string `yaml:"dist"`     // as dist-info directories have them; patterns
	Versions string   `yaml:"versions"` // of the distribution; one that is not known has no need
	// Present are patterns of files, of which one must be there for the need to be
	// one; none: it always is.
	Present []string `yaml:"present"`
	// Any are what serves, one is enough: patterns of files, absolute or below a
	// directory of sys.path; $NAME and what may follow it, where the image sets that
	// variable; command:NAME, a program on PATH; name:NAME, an ELF file anywhere; dist:NAME,
	// a distribution beside; loader:NAME, a library that the loader finds by its name;
	// toolkit:NAME/PATTERN, a file below the CUDA toolkit in which the loader finds a
	// library by its name; gone:NAME,NAME, that the first of these variables that is set is
	// empty or names a directory which is not there.
	Any      []string `yaml:"any"`
	Severity Severity `yaml:"severity"`
	Message  string   `yaml:"message"`
	Effect   string   `yaml:"effect"`
	Error    string   `yaml:"error"` // {site}: the directory of packages
	Fix      []string `yaml:"fix"`
	Sources  []string `yaml:"sources"`
}

// Choice is a package that brings a build for each version of CUDA and takes one.
type Choice struct {
	ID   string   `yaml:"id"`
	Dist []string `yaml:"dist"` // as dist-info directories have them; patterns
	Of   string   `yaml:"of"`   // whose CUDA decides: a framework that tells it (torch)
	// File is a path below the directory of packages; {cuda} are the digits of the
	// version of CUDA, 124.
	File     string `yaml:"file"`
	Override string `yaml:"override"` // a variable with such digits that decides instead
	// Releases say what happens when the file is not there; the first that fits counts.
	Releases []ChoiceRelease `yaml:"releases"`
	Sources  []string        `yaml:"sources"`
}

// ChoiceRelease is what some releases of a package do when the build that they want
// is not there.
type ChoiceRelease struct {
	Versions string `yaml:"versions"`
	// SameMajor: a build for another minor version is taken.
	SameMajor bool   `yaml:"same_major"`
	Effect    string `yaml:"effect"`
	Error     string `yaml:"error"` // {path} and {name} are the file's
}

// Release tells which distribution has the version of a library whose file name
// does not tell it.
type Release struct {
	Match   []string `yaml:"match"` // file names
	Dist    []string `yaml:"dist"`  // patterns of distributions, as their dist-info directories have them
	Sources []string `yaml:"sources"`
}

// Exception is a set of files that are judged otherwise, and why.
type Exception struct {
	Match string `yaml:"match"`
	Why   string `yaml:"why"`
	// Within, of files of which one serves, is the name of the directory in which they
	// lie, each in its place; empty where they lie side by side.
	Within string `yaml:"within"`
	// Effect, of files of which one serves, is what it means when none does: empty
	// where that is no matter. Of a file that may be absent, it is what fails without
	// it. Error is how it reads.
	Effect  string   `yaml:"effect"`
	Error   string   `yaml:"error"`
	Fix     string   `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

// VersionFix is what to do when a version is missing, or, of the system's, a
// library.
type VersionFix struct {
	Match string `yaml:"match"`
	// Number is the release that has the version, where its name tells none:
	// GLIBC_ABI_DT_RELR is of glibc 2.36.
	Number  string   `yaml:"number"`
	Fix     string   `yaml:"fix"` // {version}, {number} and {library} stand for what they name
	Sources []string `yaml:"sources"`
}

// SymbolFact is what is known of symbols by their names.
type SymbolFact struct {
	Match string `yaml:"match"`
	// Library has them, in the releases that have them at all: a pattern.
	Library string `yaml:"library"`
	// Feature is what calls them.
	Feature string   `yaml:"feature"`
	Fix     string   `yaml:"fix"` // {cuda}, {-cu} and {number}, the release in the name
	Sources []string `yaml:"sources"`
}

// Case is something that can be wrong and that an error text may come from. One
// with a rule is what that rule finds, and has from there what it does not say
// itself.
type Case struct {
	ID    string `yaml:"id"`
	Rule  string `yaml:"rule"`
	Class string `yaml:"class"` // of the taxonomy of reports
	Title string `yaml:"title"`
	Doc   string `yaml:"doc"`
	// Visible says whether an image shows it: yes, partly (with what is known of
	// the driver or the GPU) or no.
	Visible string `yaml:"visible"`
	// Causes are the usual ones, the most frequent first.
	Causes  []string `yaml:"causes"`
	Confirm string   `yaml:"confirm"` // what would show that it is this
	Fix     []string `yaml:"fix"`
	Sources []string `yaml:"sources"`
}

// ErrorText is a shape of line that cases show as, the likeliest first.
type ErrorText struct {
	Patterns []string `yaml:"patterns"`
	// Where limits captures to what fits one of the shell patterns.
	Where map[string][]string `yaml:"where"`
	Cases []string            `yaml:"cases"`
	// Certain is set where the first case is the only meaning, Symptom where the
	// line follows from another error.
	Certain bool `yaml:"certain"`
	Symptom bool `yaml:"symptom"`
}

// pack is one file.
type pack struct {
	Rules      []*Rule            `yaml:"rules"`
	Clauses    map[string]*Clause `yaml:"clauses"`
	Families   []*Family          `yaml:"families"`
	Driver     Driver             `yaml:"driver"`
	Frameworks []*Framework       `yaml:"frameworks"`
	Dlopens    []*Dlopens         `yaml:"dlopens"`
	Needs      []*Need            `yaml:"needs"`
	Choices    []*Choice          `yaml:"choices"`
	Stdlib     []*StdlibModule    `yaml:"stdlib"`
	Releases   []*Release         `yaml:"releases"`
	Toolkits   []*Toolkit         `yaml:"toolkits"`
	Sonames    []*Soname          `yaml:"sonames"`
	Optional   []*Exception       `yaml:"optional"`
	AnyOf      []*Exception       `yaml:"any_of"`
	Absent     []*Exception       `yaml:"absent"`
	Versions   []*VersionFix      `yaml:"versions"`
	Symbols    []*SymbolFact      `yaml:"symbols"`
	Cases      []*Case            `yaml:"cases"`
	Texts      []*ErrorText       `yaml:"texts"`
	Tables     `yaml:",inline"`
}

// Limits on packs, which may come from anywhere (--rules).
const (
	maxPackFiles = 256
	maxPackSize  = 1 << 20 // bytes
)

// LoadPacks reads every *.yaml of the file systems. A pack with an unknown field,
// a missing text or a pattern that does not parse is refused, with its file, line
// and reason in one line.
func LoadPacks(list ...fs.FS) (*Packs, error) {
	p := new(Packs)
	var err error
	p.ID, err = eachPack(list, func(name string, b []byte) error {
		if err := p.add(b); err != nil {
			return fmt.Errorf("rule pack %s:%w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// PacksID is the ID that LoadPacks would give the packs, which need not be valid:
// reading them takes much less time than parsing them.
func PacksID(list ...fs.FS) (string, error) {
	return eachPack(list, func(string, []byte) error { return nil })
}

// eachPack calls f with every pack, and tells a digest of all of them.
func eachPack(list []fs.FS, f func(name string, b []byte) error) (id string, err error) {
	sum := sha256.New()
	for _, fsys := range list {
		names, err := fs.Glob(fsys, "*.yaml")
		if err != nil {
			return "", err
		}
		if len(names) > maxPackFiles {
			return "", fmt.Errorf("there are %d rule packs, more than the %d that are read", len(names), maxPackFiles)
		}
		for _, name := range names {
			b, err := readPack(fsys, name)
			if err != nil {
				return "", fmt.Errorf("rule pack %s: %w", name, err)
			}
			if err := f(name, b); err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%q %d\n", name, len(b))
			sum.Write(b)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func readPack(fsys fs.FS, name string) ([]byte, error) {
	if st, err := fs.Stat(fsys, name); err == nil && !st.Mode().IsRegular() {
		return nil, errors.New("is not a regular file") // opening a FIFO would wait
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPackSize+1))
	if err == nil && len(b) > maxPackSize {
		err = fmt.Errorf("is longer than the %d bytes that are read", maxPackSize)
	}
	return b, err
}

const (
	maxKeys = 1 << 10 // of one mapping: yaml.v3 holds each key against all others
	sureFew = 1 << 14 // so many keys in all take no time
)

// fewKeys refuses a pack with a mapping of more keys than any has: in a mebibyte
// there is room for some that take minutes.
func fewKeys(b []byte) error {
	marks := 0
	for _, c := range []string{":", ",", "?", "\n"} { // each key has one
		marks += bytes.Count(b, []byte(c))
	}
	if marks <= sureFew {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return yamlError(err)
	}
	for list := []*yaml.Node{&doc}; len(list) > 0; {
		n := list[len(list)-1]
		if n.Kind == yaml.MappingNode && len(n.Content) > 2*maxKeys {
			return fmt.Errorf("%d: has more than %d keys in one mapping", n.Line, maxKeys)
		}
		list = append(list[:len(list)-1], n.Content...)
	}
	return nil
}

// add takes a pack in. An error begins with the line that it is about, "3: ".
func (p *Packs) add(b []byte) error {
	if err := fewKeys(b); err != nil {
		return err
	}
	var one pack
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&one); err != nil && !errors.Is(err, io.EOF) {
		return yamlError(err)
	}
	if err := one.eachValid(b); err != nil {
		return err
	}
	for i, r := range one.Rules {
		if p.Rule(r.ID) != nil {
			return fmt.Errorf("%d: rule %q is there twice", lineOf(b, "rules", i), r.ID)
		}
		p.Rules = append(p.Rules, r)
	}
	p.weights = append(p.weights, one.weights()...)
	if err := p.weigh(&one, b); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(one.Clauses)) {
		if err := one.Clauses[id].validate(id); err != nil {
			return fmt.Errorf("%d: %w", lineOf(b, "clauses", 0), err)
		}
		if p.Clauses[id] != nil {
			return fmt.Errorf("%d: clause %q is there twice", lineOf(b, "clauses", 0), id)
		}
	}
	if p.Clauses == nil {
		p.Clauses = map[string]*Clause{}
	}
	maps.Copy(p.Clauses, one.Clauses)
	p.Families = append(p.Families, one.Families...)
	p.Driver.Libraries = append(p.Driver.Libraries, one.Driver.Libraries...)
	p.Driver.Symbols = append(p.Driver.Symbols, one.Driver.Symbols...)
	p.Driver.Sources = append(p.Driver.Sources, one.Driver.Sources...)
	p.Frameworks = append(p.Frameworks, one.Frameworks...)
	p.Dlopens = append(p.Dlopens, one.Dlopens...)
	p.Needs = append(p.Needs, one.Needs...)
	p.Choices = append(p.Choices, one.Choices...)
	p.Stdlib = append(p.Stdlib, one.Stdlib...)
	p.Releases = append(p.Releases, one.Releases...)
	p.Toolkits = append(p.Toolkits, one.Toolkits...)
	p.Sonames = append(p.Sonames, one.Sonames...)
	p.Optional = append(p.Optional, one.Optional...)
	p.AnyOf = append(p.AnyOf, one.AnyOf...)
	p.Absent = append(p.Absent, one.Absent...)
	p.Versions = append(p.Versions, one.Versions...)
	p.Symbols = append(p.Symbols, one.Symbols...)
	p.Cases = append(p.Cases, one.Cases...)
	p.Texts = append(p.Texts, one.Texts...)
	p.Tables.add(one.Tables)
	return nil
}

// rowWeight is the severity that a row of a table gives to findings of a rule.
type rowWeight struct {
	rule, section string
	row           int
	severity      Severity
}

// weights returns the severities of a pack's rows.
func (p *pack) weights() []rowWeight {
	var list []rowWeight
	for i, row := range p.Pinned {
		list = append(list, rowWeight{"requirement-unmet", "pinned", i, row.Severity})
	}
	for i, row := range p.MadeFor {
		list = append(list, rowWeight{"requirement-unmet", "made_for", i, row.Severity})
	}
	for i, row := range p.CPUBuilds {
		list = append(list, rowWeight{"cpu-build", "cpu_builds", i, row.Severity})
	}
	for i, row := range p.Needs {
		if row.Severity != "" {
			list = append(list, rowWeight{"feature-needs", "needs", i, row.Severity})
		}
	}
	return list
}

// weigh refuses a row that is heavier than its rule, where one of the two is of the pack
// one, which was added last, and whose text is b.
func (p *Packs) weigh(one *pack, b []byte) error {
	for i, row := range p.weights {
		r := p.Rule(row.rule)
		if r == nil || r.Severity.AtLeast(row.severity) {
			continue
		}
		line := lineOf(b, "rules", slices.Index(one.Rules, r))
		if i >= len(p.weights)-len(one.weights()) {
			line = lineOf(b, row.section, row.row)
		}
		return fmt.Errorf("%d: %s: a row has the severity %s, and the rule %s is %s", line, row.section, row.severity, r.ID, r.Severity)
	}
	return nil
}

// eachValid validates the entries of a pack, whose text is b, one by one, so that
// the line of a bad one can be told.
func (p *pack) eachValid(b []byte) error {
	v := reflect.ValueOf(p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		section, list := f.Tag.Get("yaml"), v.FieldByIndex(f.Index)
		if f.Anonymous || list.Kind() == reflect.Map {
			continue // its fields are visible; clauses are validated by add
		}
		for i := range entries(list) {
			var one pack
			only := list
			if list.Kind() == reflect.Slice {
				if list.Index(i).Kind() == reflect.Pointer && list.Index(i).IsNil() {
					return fmt.Errorf("%d: an entry of %s is empty", lineOf(b, section, i), section)
				}
				only = list.Slice(i, i+1)
			}
			reflect.ValueOf(&one).Elem().FieldByIndex(f.Index).Set(only)
			if err := one.validate(); err != nil {
				return fmt.Errorf("%d: %w", lineOf(b, section, i), err)
			}
		}
	}
	return nil
}

// entries is how many a section has: one when it is no list.
func entries(v reflect.Value) int {
	if v.Kind() == reflect.Slice {
		return v.Len()
	}
	return 1
}

// lineOf is the line of entry i of a section of a pack, or of the section. The
// text is parsed once more for it, which only a bad one is worth.
func lineOf(b []byte, section string, i int) int {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil || len(doc.Content) == 0 {
		return 1
	}
	top := doc.Content[0]
	for k := 0; k+1 < len(top.Content); k += 2 {
		if top.Content[k].Value != section {
			continue
		}
		if list := top.Content[k+1]; list.Kind == yaml.SequenceNode && i >= 0 && i < len(list.Content) {
			return list.Content[i].Line
		}
		return top.Content[k].Line
	}
	return top.Line
}

var yamlLine = regexp.MustCompile(`line (\d+): (?s:(.*))`)

// yamlError is the first error that a YAML decoder tells, its line in front.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) && len(types.Errors) > 0 {
		text = types.Errors[0]
	}
	line := "1"
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, text = m[1], m[2]
	}
	text, _, _ = strings.Cut(text, " in type packs.")
	text, _, _ = strings.Cut(text, " into packs.")
	return fmt.Errorf("%s: %s", line, strings.Join(strings.Fields(text), " "))
}

var ruleID = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

func (p *pack) validate() error {
	for _, r := range p.Rules {
		if r.ID == "" || r.Title == "" || r.Doc == "" || !slices.Contains(Severities, r.Severity) {
			return fmt.Errorf("rule %q: needs an id, a title, a doc and a severity (error, warning or note)", r.ID)
		}
		for _, m := range r.Mend {
			if !slices.Contains(Mends, m) {
				return fmt.Errorf("rule %q: there is no change %q: say one of %s", r.ID, m, strings.Join(Mends, ", "))
			}
		}
		if r.Usual != "" && (!slices.Contains(Severities, r.Usual) || !r.Severity.AtLeast(r.Usual)) {
			return fmt.Errorf("rule %q: usual is %q, which is no severity or is higher than the rule's", r.ID, r.Usual)
		}
		if r.Kind != "" && !slices.Contains(Kinds, r.Kind) {
			return fmt.Errorf("rule %q: kind is %q, which is none", r.ID, r.Kind)
		}
		for _, id := range slices.Sorted(maps.Keys(r.Clauses)) {
			if err := r.Clauses[id].validate(id); err != nil {
				return fmt.Errorf("rule %q: %w", r.ID, err)
			}
			if c := r.Clauses[id]; c.Severity != "" && !r.Severity.AtLeast(c.Severity) {
				return fmt.Errorf("rule %q: clause %q has a higher severity than the rule", r.ID, id)
			}
		}
		for _, e := range r.Edits {
			if err := e.validate(); err != nil {
				return fmt.Errorf("rule %q: %w", r.ID, err)
			}
		}
		if len(r.Edits) > 0 != slices.Contains(r.Mend, "variable") {
			return fmt.Errorf("rule %q: edits go with the change \"variable\"", r.ID)
		}
		if strings.ContainsFunc(r.Title, unicode.IsControl) {
			return fmt.Errorf("rule %q: a title is one line", r.ID)
		}
		if !ruleID.MatchString(r.ID) {
			return fmt.Errorf("rule %q: an id is of lower-case letters, digits and hyphens", r.ID)
		}
		if len(r.Sources) == 0 {
			return fmt.Errorf("rule %q: needs sources", r.ID)
		}
	}
	for _, f := range p.Families {
		if f.ID == "" || f.Title == "" || len(f.Match) == 0 || len(f.Sources) == 0 {
			return fmt.Errorf("family %q: needs an id, a title, names to match and sources", f.ID)
		}
		if err := patterns("family "+f.ID, f.Match); err != nil {
			return err
		}
		for _, of := range f.FixOf {
			if len(of.Match) == 0 || len(of.Fix) == 0 || len(of.Sources) == 0 {
				return fmt.Errorf("family %q: fix_of: needs names to match, fixes and sources", f.ID)
			}
			if err := patterns("family "+f.ID, of.Match); err != nil {
				return err
			}
		}
	}
	if len(p.Driver.Libraries) > 0 && len(p.Driver.Sources) == 0 {
		return errors.New("driver: needs sources")
	}
	for _, s := range p.Driver.Symbols {
		if s.Library == "" || len(s.Match) == 0 || len(s.Sources) == 0 {
			return fmt.Errorf("driver: symbols of %q: needs a library, a match and sources", s.Library)
		}
		if err := patterns("driver", s.Match); err != nil {
			return err
		}
	}
	for _, f := range p.Frameworks {
		if err := f.validate(); err != nil {
			return fmt.Errorf("framework %q: %w", f.ID, err)
		}
	}
	for _, d := range p.Dlopens {
		if d.ID == "" || len(d.By) == 0 || len(d.Opens) == 0 || len(d.Sources) == 0 {
			return fmt.Errorf("dlopens %q: needs an id, who opens (by), opens and sources", d.ID)
		}
		if err := patterns("dlopens "+d.ID, d.By); err != nil {
			return err
		}
		for _, o := range d.Opens {
			if err := o.validate(); err != nil {
				return fmt.Errorf("dlopens %q: %w", d.ID, err)
			}
		}
	}
	for _, n := range p.Needs {
		if err := n.validate(); err != nil {
			return fmt.Errorf("need %q: %w", n.ID, err)
		}
	}
	for _, c := range p.Choices {
		if err := c.validate(); err != nil {
			return fmt.Errorf("choice %q: %w", c.ID, err)
		}
	}
	for _, m := range p.Stdlib {
		if err := m.validate(); err != nil {
			return fmt.Errorf("stdlib %q: %w", m.Module, err)
		}
	}
	for _, t := range p.Toolkits {
		if t.CUDA == "" || len(t.Sources) == 0 {
			return errors.New("toolkits: needs the major version (cuda) and sources")
		}
	}
	for _, s := range p.Sonames {
		if err := s.validate(); err != nil {
			return err
		}
	}
	for _, r := range p.Releases {
		if len(r.Match) == 0 || len(r.Dist) == 0 || len(r.Sources) == 0 {
			return errors.New("releases: needs a match, a dist and sources")
		}
		if err := patterns("releases", slices.Concat(r.Match, r.Dist)); err != nil {
			return err
		}
	}
	if err := rowsValid(p.Versions); err != nil {
		return err
	}
	for _, s := range p.Symbols {
		if s.Match == "" || len(s.Sources) == 0 {
			return fmt.Errorf("symbol %q: needs a match and sources", s.Match)
		}
		if err := patterns("symbol", []string{s.Match, s.Library}); err != nil {
			return err
		}
	}
	for _, c := range p.Cases {
		if c.ID == "" || c.Class == "" || !slices.Contains([]string{"yes", "partly", "no"}, c.Visible) {
			return fmt.Errorf("case %q: needs an id, a class and a visible (yes, partly or no)", c.ID)
		}
		if c.Rule == "" && (c.Title == "" || c.Doc == "" || len(c.Sources) == 0) {
			return fmt.Errorf("case %q: needs a rule, or a title, a doc and sources", c.ID)
		}
	}
	for _, t := range p.Texts {
		if len(t.Patterns) == 0 || len(t.Cases) == 0 {
			return fmt.Errorf("text %q: needs patterns and cases", t.Patterns)
		}
		for name, list := range t.Where {
			if err := patterns("where "+name, list); err != nil {
				return err
			}
		}
	}
	for _, e := range slices.Concat(p.Optional, p.AnyOf, p.Absent) {
		if e.Match == "" || e.Why == "" || len(e.Sources) == 0 {
			return fmt.Errorf("exception %q: needs a match, a why and sources", e.Match)
		}
		if err := patterns("exception", []string{e.Match}); err != nil {
			return err
		}
	}
	for _, e := range p.Absent {
		if e.Effect == "" {
			return fmt.Errorf("absent %q: needs an effect", e.Match)
		}
	}
	return p.Tables.validate()
}

func patterns(what string, list []string) error {
	for _, m := range list {
		if err := glob.Check(m); err != nil {
			return fmt.Errorf("%s: %q %w", what, m, err)
		}
	}
	return nil
}

// Match reports whether a name or path (without its leading slash) fits a
// pattern that was checked.
func Match(pattern, name string) bool {
	name = strings.TrimPrefix(name, "/")
	return mayMatch(pattern, name) && doublestar.MatchUnvalidated(pattern, name)
}

// mayMatch reports whether a name begins as a pattern does, up to its first special
// character. Most are told by that.
func mayMatch(pattern, name string) bool {
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[' || c == '{' || c == '\\' || c >= utf8.RuneSelf:
			return true
		case i == len(name):
			return c == '/' // DIR/** is DIR, too
		case c != name[i]:
			return false
		}
	}
	return len(pattern) == len(name)
}

func MatchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Rule is the rule with an ID, or nil.
func (p *Packs) Rule(id string) *Rule {
	for _, r := range p.Rules {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Symbol is what is known of a symbol, nil when nothing is.
func (p *Packs) Symbol(name string) *SymbolFact {
	for _, s := range p.Symbols {
		if Match(s.Match, name) {
			return s
		}
	}
	return nil
}

// SymbolFix is what mends that a symbol is not there, by its name alone: empty when
// nothing is known of it, or when the image has to say which CUDA it has.
func (p *Packs) SymbolFix(name string) string {
	s := p.Symbol(name)
	if s == nil || strings.Contains(s.Fix, "{") {
		return ""
	}
	return s.Fix
}

// LibraryFixes returns the fixes for a missing library by its name alone: those of its GPU
// family, or the packages of distributions that have it. It returns none if the packs do
// not know the name. The fixes name a version of CUDA only if a single version has the name.
func (p *Packs) LibraryFixes(name string) []string {
	cuda := ""
	if has := p.CudaOf(name); len(has) == 1 {
		cuda = has[0]
	}
	var list []string
	for _, a := range p.LibraryAdvice(path.Base(name), cuda) {
		list = append(list, a.String())
	}
	return list
}

// LibraryAdvice returns the fixes for a missing library that is wanted from a major version
// of CUDA, "" if that is not known.
func (p *Packs) LibraryAdvice(library, cuda string) []Advice {
	if f := p.Family(library); f != nil {
		return p.Rows(f.fixes(library), Values{"library": library, "major": MajorOf(library), "cuda": cuda})
	}
	var list []Advice
	for _, s := range p.System {
		if Match(s.Match, path.Base(library)) {
			list = append(list, Row(s.Fix, Values{"library": path.Base(library)}))
		}
	}
	return list
}

// Family is the GPU family of a library's name, nil when it has none.
func (p *Packs) Family(name string) *Family {
	name = path.Base(name)
	if f, ok := p.families.Load(name); ok {
		return f.(*Family)
	}
	var found *Family
	for _, f := range p.Families {
		if MatchAny(f.Match, name) {
			found = f
			break
		}
	}
	p.families.Store(name, found)
	return found
}

// FromDriver reports whether the container runtime brings a library.
func (p *Packs) FromDriver(name string) bool {
	base, _, ok := strings.Cut(path.Base(name), ".so")
	return ok && slices.Contains(p.Driver.Libraries, base)
}

// DriverDefines says which symbols a library of the driver may define; nil: any.
func (p *Packs) DriverDefines(name string) func(symbol []byte) bool {
	base, _, _ := strings.Cut(path.Base(name), ".so")
	i := slices.IndexFunc(p.Driver.Symbols, func(s DriverSymbols) bool { return s.Library == base })
	if i < 0 {
		return nil
	}
	return func(symbol []byte) bool { return MatchAny(p.Driver.Symbols[i].Match, string(symbol)) }
}

// OneOf says why a file is one of several of which a program chooses one; empty
// where it is none.
func (p *Packs) OneOf(file string) string {
	if e := ExceptionFor(p.AnyOf, file); e != nil {
		return e.Why
	}
	return ""
}

// ExceptionFor is the first of list that a path fits.
func ExceptionFor(list []*Exception, p string) *Exception {
	for _, e := range list {
		if Match(e.Match, p) {
			return e
		}
	}
	return nil
}

// Expand puts values into a rule's text.
func Expand(text string, values ...string) string {
	return strings.NewReplacer(values...).Replace(text)
}

// MajorOf is the number after `.so.` in a SONAME, or empty.
func MajorOf(soname string) string {
	_, after, ok := strings.Cut(soname, ".so.")
	if !ok {
		return ""
	}
	major, _, _ := strings.Cut(after, ".")
	return major
}

// Stem is a SONAME without its version: libcublas.so.
func Stem(soname string) string {
	before, _, ok := strings.Cut(soname, ".so.")
	if !ok {
		return soname
	}
	return before + ".so"
}
