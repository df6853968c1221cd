package lint

import (
	"cmp"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Finding is one thing that is wrong with an image. Its texts are filled from the packs.
type Finding struct {
	// Rule is the ID of a rule of the packs.
	Rule     string         `json:"rule"`
	Kind     packs.Kind     `json:"kind,omitempty"`
	Severity packs.Severity `json:"severity"`
	// Cause identifies the root cause. Findings of one cause have the same value, whatever
	// their rules. It does not depend on values of the image's variables.
	Cause string `json:"cause,omitempty"`
	// Subject is the path of the file, or the name of the variable, that is wrong. It is
	// empty if the finding is about neither.
	Subject string `json:"subject,omitempty"`
	// Message says what fails, in the words of the loader where it reports the failure.
	Message string `json:"message"`
	// Library is the name of the library that the finding is about, or empty.
	Library string `json:"library,omitempty"`
	// Family is the GPU family of Library, or empty.
	Family string `json:"family,omitempty"`
	// Symbol is the name of an undefined symbol. Demangled is its C++ form, if it has one.
	Symbol    string `json:"symbol,omitempty"`
	Demangled string `json:"demangled,omitempty"`
	// Version is the version that Library does not define.
	Version string `json:"version,omitempty"`
	// BoundTo is the copy of a library that a process loads and that lacks the version or
	// symbol. Present are then the copies that have it.
	BoundTo *replay.File `json:"bound_to,omitempty"`
	// Effects are the failures that a user meets.
	Effects []packs.Effect `json:"effects,omitempty"`
	// NeededBy are the files that need Library themselves.
	NeededBy []replay.File `json:"needed_by,omitempty"`
	// Affected are the paths of all files that cannot be loaded because of the finding,
	// with those of NeededBy.
	Affected []string `json:"affected,omitempty"`
	// Searched are the places in which the loader looked for Library on behalf of the
	// first of NeededBy, in order.
	Searched []Searched `json:"searched,omitempty"`
	// Present are files of the image that the finding shows: for a missing library, those
	// of its name that no search path leads to.
	Present []replay.File `json:"present,omitempty"`
	// Others are files of other major versions of Library.
	Others []replay.File `json:"others,omitempty"`
	// Removed are files named Library that a layer deletes.
	Removed []replay.Removed `json:"removed,omitempty"`
	// Machines are the GPUs and drivers that the finding is about; empty if it is about all.
	Machines []targets.Machine `json:"machines,omitempty"`
	// Because says why the severity is lower than the rule's. It is empty if it is not.
	Because string `json:"because,omitempty"`
	// Fixes are the advised fixes as text, the best first.
	Fixes []string `json:"fixes,omitempty"`
	// Advice has the templates and values of Fixes. A finding read from JSON has none.
	Advice []packs.Advice `json:"-"`
	// Decide says which decision Advice has the alternatives for. It is empty if the first is the
	// best one.
	Decide string `json:"-"`
	// NoLines says why no lines at the end of a Dockerfile fix the finding, if its clauses say so.
	NoLines string `json:"-"`
	// Later is set if the files of Affected load, and open Library by its name only when a
	// feature is used.
	Later bool `json:"-"`
	// order counts the causes of misses as the loaders of all files meet them: of what one file
	// lacks, its loader names the one with the lowest. It is 0 for other findings.
	order int
	// Values fill the placeholders of the rule's edits.
	Values map[string]string `json:"-"`
}

// NotStarted is the name of the effect that the image's program does not start.
const NotStarted = "not-started"

// NotStarted returns the effect of the finding that the image's program does not start, or
// nil.
func (f *Finding) NotStarted() *packs.Effect {
	for i := range f.Effects {
		if f.Effects[i].Name == NotStarted {
			return &f.Effects[i]
		}
	}
	return nil
}

// compareFindings orders findings by severity, the highest first. Of one severity, those
// because of which the image's program does not start come first; then the number of affected
// files, the rule and the message decide.
func compareFindings(a, b Finding) int {
	stops := func(f *Finding) int {
		if f.NotStarted() != nil {
			return 0
		}
		return 1
	}
	met := func(f *Finding) int { // what is opened later, the program opens in an order of its own
		if f.Later {
			return 0
		}
		return f.order
	}
	first := 0 // of what stops the image's program, its loader names the first
	if stops(&a)+stops(&b) == 0 {
		first = met(&a) - met(&b)
	}
	return cmp.Or(
		slices.Index(packs.Severities, a.Severity)-slices.Index(packs.Severities, b.Severity),
		stops(&a)-stops(&b),
		first,
		len(b.Affected)-len(a.Affected),
		cmp.Compare(a.Rule, b.Rule),
		met(&a)-met(&b),
		cmp.Compare(a.Message, b.Message),
	)
}

// advise adds fixes behind those that the finding has.
func (f *Finding) advise(list ...packs.Advice) {
	f.Advice = append(f.Advice, list...)
}

// addEffects adds the effects that the finding does not have yet.
func (f *Finding) addEffects(list ...packs.Effect) {
	for _, e := range list {
		if !slices.Contains(f.Effects, e) {
			f.Effects = append(f.Effects, e)
		}
	}
}

// addEffectText adds an effect unless the finding has one of the same text.
func (f *Finding) addEffectText(e packs.Effect) {
	if !slices.ContainsFunc(f.Effects, func(o packs.Effect) bool { return o.Text == e.Text }) {
		f.Effects = append(f.Effects, e)
	}
}
