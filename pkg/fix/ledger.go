package fix

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// ledger is a result by what is wrong: two results are compared by it.
type ledger struct {
	res     *lint.Result
	counted []lint.Finding      // the findings that count
	order   []string            // causes of those that are a warning or more, the heaviest first
	trouble map[string]*trouble // by cause
	grave   map[string]bool     // files that a warning or error affects, whether it counts or not
	any     map[string]bool     // files that any finding about loading affects, whether it counts or not
	mapped  map[string]bool     // files that processes are foretold to load
	named   map[string]bool     // their names, without versions
	errors  int
}

// trouble is one thing that is wrong, and the files that meet it.
type trouble struct {
	finding *lint.Finding
	files   map[string]bool
}

// newLedger returns the ledger of a result. counts returns the findings that count; nil
// means all.
func newLedger(res *lint.Result, counts func([]lint.Finding) []lint.Finding) *ledger {
	l := &ledger{res: res, counted: res.Findings, trouble: map[string]*trouble{}, grave: map[string]bool{}, any: map[string]bool{}, mapped: map[string]bool{}, named: map[string]bool{}}
	for _, p := range res.Processes {
		mark(l.mapped, p.Mapped)
		for _, file := range p.Mapped {
			l.named[stem(file)] = true
		}
	}
	l.broken(res.Findings)
	if counts != nil {
		l.counted = counts(res.Findings)
		l.broken(l.counted)
	}
	for i := range l.counted {
		f := &l.counted[i]
		if f.Severity == packs.Note {
			continue
		}
		if f.Severity == packs.Error {
			l.errors++
		}
		if l.trouble[f.Cause] == nil {
			l.trouble[f.Cause] = &trouble{finding: f, files: map[string]bool{}}
			l.order = append(l.order, f.Cause)
		}
		mark(l.trouble[f.Cause].files, f.Affected)
	}
	return l
}

// broken marks the files of findings.
func (l *ledger) broken(findings []lint.Finding) {
	for i := range findings {
		f := &findings[i]
		if loads(f) {
			mark(l.any, f.Affected)
		}
		if f.Severity != packs.Note {
			mark(l.grave, f.Affected)
		}
	}
}

func mark(set map[string]bool, list []string) {
	for _, s := range list {
		set[s] = true
	}
}

// loads reports whether a finding says that its files cannot be loaded, as
// against that they are loaded and something else is not as it should be.
func loads(f *lint.Finding) bool {
	return (f.Library != "" || f.Symbol != "") && len(f.NeededBy) > 0
}

// String tells ledgers apart: what is wrong, and with how many files.
func (l *ledger) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(l.trouble)) {
		fmt.Fprintf(&b, "%s %d\n", k, len(l.trouble[k].files))
	}
	return b.String()
}

// count is how many files a trouble affects; one that names none is one.
func (l *ledger) count(k string) int { return max(1, len(l.trouble[k].files)) }

// gain is how many files that a trouble affects are rid of it in after.
func (l *ledger) gain(k string, after *ledger) int {
	still := after.trouble[k]
	if still == nil {
		return l.count(k)
	}
	n := 0
	for p := range l.trouble[k].files {
		if !still.files[p] {
			n++
		}
	}
	return n
}

// worse is what is wrong in after that was not in before, and the file that it
// breaks (empty where it names none); nil when nothing is. A trouble whose files
// all could not be loaded before is none: it stood behind another. Neither is one
// of files that are new, or, unless strict, that no process got to load before and
// one does now.
func worse(before, after *ledger, old *layers.FS, strict bool) (f *lint.Finding, file string) {
	spared := func(p string) bool { return isNew(old, p) || !strict && before.firstLoaded(p, after) }
	for _, k := range after.order {
		t := after.trouble[k]
		if len(t.files) == 0 {
			if before.trouble[k] == nil {
				return t.finding, ""
			}
			continue
		}
		for _, p := range t.finding.Affected {
			if !before.grave[p] && !spared(p) {
				return t.finding, p
			}
		}
	}
	for i := range after.counted {
		f := &after.counted[i]
		if !loads(f) {
			continue
		}
		for _, p := range f.Affected {
			if !before.any[p] && !spared(p) {
				return f, p
			}
		}
	}
	return nil, ""
}

// breaks says in a line what worse has found, empty for nothing.
func breaks(f *lint.Finding, file string) string {
	switch {
	case f == nil:
		return ""
	case file == "" || strings.HasPrefix(f.Message, file):
		return "breaks " + f.Message
	}
	return fmt.Sprintf("breaks %s: %s", file, f.Message)
}

// firstLoaded reports whether a process loads a file in after, and none did
// before, nor another file of its name: that one's place it has taken.
func (l *ledger) firstLoaded(p string, after *ledger) bool {
	return !l.mapped[p] && after.mapped[p] && !l.named[stem(p)]
}

// stem is a library's name without its version.
func stem(p string) string {
	name, _, _ := strings.Cut(path.Base(p), ".so")
	return name
}

// isNew reports whether a file was not in the image before.
func isNew(old *layers.FS, p string) bool {
	_, _, ok := old.Lookup(p)
	return !ok
}

// better is nil when less is wrong than before, nothing else is wrong instead,
// and else says why not; whether something breaks is for worse to tell. See
// [Better].
func (l *ledger) better(before *ledger) error {
	if f := l.instead(before); f != nil {
		return fmt.Errorf("%s: %s", again, f.Message)
	}
	switch {
	case l.errors > before.errors:
		return fmt.Errorf("there are more errors than before (%d, and %d were)", l.errors, before.errors)
	case l.errors == before.errors && len(l.order) > len(before.order):
		return fmt.Errorf("there are more warnings than before (%d, and %d were)", len(l.order)-l.errors, len(before.order)-before.errors)
	}
	is := l.ills()
	for i, was := range before.ills() {
		if is[i] < was {
			return nil
		}
	}
	return errors.New("nothing that was wrong is gone")
}

// ill is a file with a trouble that it meets; no file is the image as such.
type ill struct{ cause, file string }

// ills are all of them, and what each weighs.
func (l *ledger) ills() map[ill]int {
	list := map[ill]int{}
	for k, t := range l.trouble {
		if len(t.files) == 0 {
			list[ill{k, ""}] = weightOf(t.finding)
		}
		for file := range t.files {
			list[ill{k, file}] = weightOf(t.finding)
		}
	}
	return list
}

// weightOf is what a finding weighs with a file that it affects: an error more
// than a warning, and of two that are alike the one for which the file cannot be
// loaded more than one for which a part of what it does fails later.
func weightOf(f *lint.Finding) int {
	weight := 2 * (len(packs.Severities) - slices.Index(packs.Severities, f.Severity))
	if f.Later {
		weight--
	}
	return weight
}

// instead is what is wrong with a file in place of something that was wrong with
// it before and was no heavier, or weighs more than it did; nil when nothing is.
func (l *ledger) instead(before *ledger) *lint.Finding {
	was, is := before.ills(), l.ills()
	gone := map[string]int{} // by file, the heaviest
	for i, weight := range was {
		if is[i] < weight {
			gone[i.file] = max(gone[i.file], weight)
		}
	}
	for _, k := range l.order {
		t := l.trouble[k]
		for file := range t.files {
			weight := weightOf(t.finding)
			old, there := was[ill{k, file}]
			if there && weight > old || !there && gone[file] > 0 && weight >= gone[file] {
				return t.finding
			}
		}
	}
	return nil
}

// Better returns nil if a changed image is strictly better than the image as it was, whose
// files are old, by the results for both; else an error that says why it is not. It looks
// at the findings that count (nil: all) and are a warning or more. The image is strictly
// better if all of this holds:
//
//   - Nothing breaks. No finding, be it a note about loading, is about a file that
//     was there and had none of that kind; but for a file that no process got to
//     load before and one does now, since what is wrong with it stood behind what
//     is mended.
//   - Nothing is traded. Where something that was wrong with a file is gone,
//     nothing else is wrong with that file instead that is as heavy: a library
//     that is found now and has not the symbols helps nobody. Neither does
//     anything weigh more than it did. Lighter than that a file cannot be loaded
//     is that it is, and something that it opens later is missing.
//   - There are no more errors than before, and where there are as many, no more
//     warnings.
//   - Something is gone, or weighs less than it did, for one file at least.
func Better(before, after *lint.Result, old *layers.FS, counts func([]lint.Finding) []lint.Finding) error {
	was, is := newLedger(before, counts), newLedger(after, counts)
	if broken := breaks(worse(was, is, old, false)); broken != "" {
		return errors.New("it " + broken)
	}
	return is.better(was)
}
