package lint

import (
	"cmp"
	"slices"

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

// compareFindings puts the heaviest first, then what affects most.
func compareFindings(a, b Finding) int {
	return cmp.Or(
		slices.Index(packs.Severities, a.Severity)-slices.Index(packs.Severities, b.Severity),
		len(b.Affected)-len(a.Affected),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Message, b.Message),
	)
}

// advise adds fixes to a finding.
func (f *Finding) advise(list ...packs.Advice) {
	f.Advice = append(f.Advice, list...)
}

// effect adds an effect unless the finding has one with its text.
func (f *Finding) effect(e packs.Effect) {
	if !slices.ContainsFunc(f.Effects, func(o packs.Effect) bool { return o.Text == e.Text }) {
		f.Effects = append(f.Effects, e)
	}
}
