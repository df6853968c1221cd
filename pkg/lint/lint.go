// Package lint turns a file system that was read from an image into findings:
// what will fail when the image runs, in the loader's words, why, and what
// fixes it.
//
// Its knowledge is the packs of rules/: which names are GPU libraries, what the
// driver brings, how frameworks load, and for each rule its severity, its text
// and its fix. Its judgement is the replay of elfdeps: each ELF file is loaded
// as the image's own loader would load it, in the process in which it would be
// loaded, and what that process misses is grouped by cause.
//
// The package does not know how an image was read, and not how a result is
// printed.
package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Image is what a rule sees of an image.
type Image struct {
	FS *layers.FS
	// Config is nil for a directory.
	Config *v1.ConfigFile
	// Inventory, when it is known, is not read again: that of a Result for the same
	// files.
	Inventory *inventory.Inventory
}

// Severity is how sure it is that something fails.
type Severity string

// An error fails whenever that code path runs; a warning fails on some hosts or
// call paths; a note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities in the order of their weight, the heaviest first.
var Severities = []Severity{Error, Warning, Note}

// AtLeast reports whether s weighs as much as t or more.
func (s Severity) AtLeast(t Severity) bool {
	return slices.Index(Severities, s) <= slices.Index(Severities, t)
}

// atMost is s, or t where s weighs more.
func (s Severity) atMost(t Severity) Severity {
	if s.AtLeast(t) {
		return t
	}
	return s
}

// Kind is what is wrong, in a word.
type Kind string

// Kinds of findings.
const (
	Missing    Kind = "missing"    // a file that is asked for is not found
	Unusable   Kind = "unusable"   // a file is found and cannot be used
	Version    Kind = "version"    // a library lacks a version that is asked for
	Symbol     Kind = "symbol"     // a library lacks a symbol that is asked for
	Mixture    Kind = "mixture"    // a process gets libraries that do not go together
	Setting    Kind = "setting"    // a variable, a search path or the config
	Package    Kind = "package"    // installed packages that do not fit together, or the image
	Program    Kind = "program"    // a program that cannot be started
	Unexamined Kind = "unexamined" // it could not be looked at
)

// Kinds are all kinds of findings.
var Kinds = []Kind{Missing, Unusable, Version, Symbol, Mixture, Setting, Package, Program, Unexamined}

// Finding is one cause of failures and all that follows from it.
type Finding struct {
	// Rule is the ID of a rule of the packs.
	Rule     string   `json:"rule"`
	Kind     Kind     `json:"kind,omitempty"`
	Severity Severity `json:"severity"`
	// Cause identifies what is wrong: findings of one cause have the same, whatever
	// their rules, and other values of the image's variables do not change it.
	Cause string `json:"cause,omitempty"`
	// Subject is the path of the file that is wrong, or the name of the variable;
	// empty where it is neither.
	Subject string `json:"subject,omitempty"`
	// Message is what fails, in the words of the loader.
	Message string `json:"message"`
	// Library is the name that was asked for; empty where the finding is not
	// about one.
	Library string `json:"library,omitempty"`
	// Family is the GPU family of Library, or empty.
	Family string `json:"family,omitempty"`
	// Symbol is the name that nothing defines, and Demangled what it is in C++.
	Symbol    string `json:"symbol,omitempty"`
	Demangled string `json:"demangled,omitempty"`
	// Version is the version that Library does not define.
	Version string `json:"version,omitempty"`
	// BoundTo is the copy of a library that is asked and does not have what is
	// wanted, where that is the cause; Present are then the copies that have it.
	BoundTo *File `json:"bound_to,omitempty"`
	// Effects are what a user meets, and how it reads.
	Effects []Effect `json:"effects,omitempty"`
	// NeededBy are the files that ask for Library themselves.
	NeededBy []File `json:"needed_by,omitempty"`
	// Affected are all files that cannot be loaded because of it, those of
	// NeededBy among them.
	Affected []string `json:"affected,omitempty"`
	// Searched are the places where the loader looked for the first of
	// NeededBy, in order.
	Searched []Searched `json:"searched,omitempty"`
	// Present are files of that name that the image has and no path leads to.
	Present []File `json:"present,omitempty"`
	// Others are files of other major versions of Library.
	Others []File `json:"others,omitempty"`
	// Removed are files of that name that a layer has deleted.
	Removed []Removed `json:"removed,omitempty"`
	// Because says why the severity is less than the rule's, if it is.
	Because string `json:"because,omitempty"`
	// Fixes are what to do, the best first, as text.
	Fixes []string `json:"fixes,omitempty"`
	// Advice is what Fixes are written from; a finding that was read from JSON has none.
	Advice []Advice `json:"-"`
	// Later is set where the files of Affected are loaded, and open Library by its
	// name when somebody uses what needs it.
	Later bool `json:"-"`
	// Values are what the finding is about, by the names that its rule's edits have
	// in braces.
	Values map[string]string `json:"-"`
}

// NotStarted is the name of the effect that the image's own program does not start.
const NotStarted = "not-started"

// Effect is what follows from a finding for a user of the image.
type Effect struct {
	Name  string `json:"name,omitempty"`  // for programs, as NotStarted; empty for most
	Text  string `json:"text"`            // "`import torch` fails"
	Error string `json:"error,omitempty"` // the text that the user will read
}

// File is a path of the image and the layer that brought it.
type File struct {
	Path  string    `json:"path"`
	Layer *LayerRef `json:"layer,omitempty"`
}

// Removed is a file that one layer brought and another deleted.
type Removed struct {
	File
	By *LayerRef `json:"by"`
}

// LayerRef names a layer.
type LayerRef struct {
	Index     int    `json:"index"` // from 1, the lowest
	Digest    string `json:"digest,omitempty"`
	CreatedBy string `json:"created_by,omitempty"`
}

// Searched is one source of directories that a loader went through.
type Searched struct {
	Source string  `json:"source"`
	Places []Place `json:"places"`
}

// Place is a directory, or the cache, in which a loader looked for a library. As text it
// is the directory with the result in brackets.
type Place struct {
	Dir string
	// Result says what was there and why it was passed over; empty for nothing.
	Result string
}

func (p Place) String() string {
	if p.Result == "" {
		return p.Dir
	}
	return p.Dir + " (" + p.Result + ")"
}

// MarshalText returns the place as text.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText takes the whole text for the directory: brackets may be part of its name.
func (p *Place) UnmarshalText(text []byte) error {
	*p = Place{Dir: string(text)}
	return nil
}

// Result is what a scan has found.
type Result struct {
	Findings []Finding `json:"findings"`
	// Inventory is what is installed.
	Inventory *inventory.Inventory `json:"inventory,omitempty"`
	// Copies are the GPU libraries of the image, by name, and who gets which file.
	Copies []Copies `json:"copies,omitempty"`
	// Processes are what the frameworks and the programs that use GPU libraries
	// load, as it is foretold.
	Processes []Process `json:"processes,omitempty"`
	Stats     Stats     `json:"stats"`
}

// Stats say what was looked at.
type Stats struct {
	Files      int      `json:"files"`
	ELF        int      `json:"elf_files"`
	Static     int      `json:"static_files,omitempty"` // ELF files that no dynamic loader loads
	Packages   int      `json:"packages,omitempty"`     // wheels, conda, deb, apk and rpm packages
	Frameworks []string `json:"frameworks,omitempty"`   // "PyTorch at /opt/venv/…/torch"
	Loaders    []string `json:"loaders,omitempty"`      // "/lib64/ld-linux-x86-64.so.2 (glibc 2.36)"
}

// Worst is the heaviest severity among the findings; empty when there are none.
func (r *Result) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	worst := Note
	for _, f := range r.Findings {
		if f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// Run applies the packs' rules to an image.
func Run(ctx context.Context, img *Image, packs *Packs) (*Result, error) {
	w := newWorld(img, packs)
	if n := len(w.installs); n > maxInstalls {
		return nil, fmt.Errorf("it has %d installations of frameworks, more than the %d that are replayed: scan an image with fewer environments", n, maxInstalls)
	}
	if err := w.takeStock(); err != nil {
		return nil, err
	}
	if err := w.replay(ctx); err != nil {
		return nil, err
	}
	if err := w.spent(); err != nil {
		return nil, err
	}
	if w.seesMore() {
		return nil, fmt.Errorf("its Python environments see more than the %d packages that are looked at: scan an image with fewer environments", maxSeen)
	}
	res := &Result{Stats: w.stats(), Inventory: w.inv}
	res.Findings = append(res.Findings, w.entrypoint()...)
	res.Findings = append(res.Findings, w.interpreters()...)
	res.Findings = append(res.Findings, w.causes()...)
	res.Findings = append(res.Findings, w.symbols()...)
	res.Findings = fold(res.Findings, w.check())
	res.Findings = w.mixtures(res.Findings)
	w.requiredFixes(res.Findings)
	res.Findings = append(res.Findings, w.namedLibraries(res.Findings)...)
	res.Findings = append(res.Findings, w.drivers()...)
	res.Copies, res.Processes = w.copies(), w.processes()
	res.Findings = append(res.Findings, w.unexamined()...)
	res.Findings = append(res.Findings, w.unjudged()...)
	if err := w.spent(); err != nil {
		return nil, err
	}
	for i, f := range res.Findings {
		if packs.Rule(f.Rule) == nil {
			return nil, fmt.Errorf("no pack has the rule %q", f.Rule)
		}
		slices.Sort(res.Findings[i].Affected)
	}
	slices.SortStableFunc(res.Findings, compareFindings)
	w.oneSearchPath(res.Findings)
	return res, w.said
}

// maxInstalls bounds the frameworks, of which each is asked for each file whether it
// loads it; an image with a dozen environments has fifty. A variable, so that tests
// can reach it.
var maxInstalls = 512

// maxSeen bounds the packages of all environments, of which each is looked at with
// all that it sees: thousands may see the packages of one. A variable, so that tests
// can reach it.
var maxSeen = 1 << 20

// seesMore reports whether the environments see more packages than are looked at.
func (w *world) seesMore() bool {
	n := 0
	for _, wheels := range w.environments() {
		if n += len(wheels); n > maxSeen {
			return true
		}
	}
	return false
}

// spent is why the image cannot be judged: it asks for more than is done.
func (w *world) spent() error { return cmp.Or(w.work.Err(), w.img.FS.Err()) }

// compareFindings puts the heaviest first, then what affects most.
func compareFindings(a, b Finding) int {
	return cmp.Or(
		slices.Index(Severities, a.Severity)-slices.Index(Severities, b.Severity),
		len(b.Affected)-len(a.Affected),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Message, b.Message),
	)
}

// layerRef describes the layer with the index i, counted from 0; nil where
// layers are of no interest (a directory).
func (w *world) layerRef(i int) *LayerRef {
	infos := w.img.FS.Layers
	if i < 0 || i >= len(infos) || len(infos) == 1 && infos[0].Digest == "" {
		return nil
	}
	return &LayerRef{Index: i + 1, Digest: infos[i].Digest, CreatedBy: infos[i].CreatedBy}
}

// file describes a path of the image.
func (w *world) file(path string) File {
	_, layer, ok := w.img.FS.Lookup(path)
	if !ok {
		return File{Path: path}
	}
	return File{Path: path, Layer: w.layerRef(layer)}
}

// env is the environment of the image's processes.
func (w *world) env() elfdeps.Env {
	if w.img.Config == nil {
		return elfdeps.Env{Work: &w.work}
	}
	return elfdeps.Env{Vars: w.img.Config.Config.Env, Cwd: w.img.Config.Config.WorkingDir, Work: &w.work}
}
