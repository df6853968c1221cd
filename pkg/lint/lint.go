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
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// Finding is one cause of failures and all that follows from it.
type Finding struct {
	// Rule is the ID of a rule of the packs.
	Rule     string         `json:"rule"`
	Kind     packs.Kind     `json:"kind,omitempty"`
	Severity packs.Severity `json:"severity"`
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
	BoundTo *replay.File `json:"bound_to,omitempty"`
	// Effects are what a user meets, and how it reads.
	Effects []packs.Effect `json:"effects,omitempty"`
	// NeededBy are the files that ask for Library themselves.
	NeededBy []replay.File `json:"needed_by,omitempty"`
	// Affected are all files that cannot be loaded because of it, those of
	// NeededBy among them.
	Affected []string `json:"affected,omitempty"`
	// Searched are the places where the loader looked for the first of
	// NeededBy, in order.
	Searched []Searched `json:"searched,omitempty"`
	// Present are files of that name that the image has and no path leads to.
	Present []replay.File `json:"present,omitempty"`
	// Others are files of other major versions of Library.
	Others []replay.File `json:"others,omitempty"`
	// Removed are files of that name that a layer has deleted.
	Removed []replay.Removed `json:"removed,omitempty"`
	// Because says why the severity is less than the rule's, if it is.
	Because string `json:"because,omitempty"`
	// Fixes are what to do, the best first, as text.
	Fixes []string `json:"fixes,omitempty"`
	// Advice is what Fixes are written from; a finding that was read from JSON has none.
	Advice []packs.Advice `json:"-"`
	// Later is set where the files of Affected are loaded, and open Library by its
	// name when somebody uses what needs it.
	Later bool `json:"-"`
	// Values are what the finding is about, by the names that its rule's edits have
	// in braces.
	Values map[string]string `json:"-"`
}

// NotStarted is the name of the effect that the image's own program does not start.
const NotStarted = "not-started"

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
func (r *Result) Worst() packs.Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	worst := packs.Note
	for _, f := range r.Findings {
		if f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// compareFindings puts the heaviest first, then what affects most.
func compareFindings(a, b Finding) int {
	return cmp.Or(
		slices.Index(packs.Severities, a.Severity)-slices.Index(packs.Severities, b.Severity),
		len(b.Affected)-len(a.Affected),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Message, b.Message),
	)
}
