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
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// ledger lists the troubles of a result, to compare it with another.
type ledger struct {
	res     *lint.Result
	counted []lint.Finding      // the findings that count
	order   []string            // causes of the findings that count and are a warning or more, the heaviest first
	trouble map[string]*trouble // by cause
	grave   map[string]bool     // files that a warning or error affects, whether it counts or not
	any     map[string]bool     // files that any finding about loading affects, whether it counts or not
	causes  map[string]bool     // of all findings, whether they count or not
	mapped  map[string]bool     // files that the processes load
	named   map[string]bool     // their names, without versions
	errors  int
}

// trouble is one cause, and the files that it affects.
type trouble struct {
	finding *lint.Finding
	files   map[string]bool
}

// newLedger returns the ledger of a result. counts returns the findings that count; nil
// means that all do.
func newLedger(res *lint.Result, counts func([]lint.Finding) []lint.Finding) *ledger {
	l := &ledger{res: res, counted: res.Findings, trouble: map[string]*trouble{}, grave: map[string]bool{}, any: map[string]bool{}, causes: map[string]bool{}, mapped: map[string]bool{}, named: map[string]bool{}}
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

// broken marks the files that findings affect.
func (l *ledger) broken(findings []lint.Finding) {
	for i := range findings {
		f := &findings[i]
		l.causes[f.Cause] = true
		if loads(f) {
			mark(l.any, f.Affected)
		}
		if f.Severity != packs.Note {
			mark(l.grave, f.Affected)
		}
	}
}

// since returns the causes of the findings that before does not have.
func (l *ledger) since(before *ledger) []string {
	var list []string
	for i := range l.counted {
		f := &l.counted[i]
		if !slices.ContainsFunc(before.counted, func(o lint.Finding) bool { return o.Cause == f.Cause }) && !slices.Contains(list, f.Cause) {
			list = append(list, f.Cause)
		}
	}
	return list
}

func mark(set map[string]bool, list []string) {
	for _, s := range list {
		set[s] = true
	}
}

// loads reports whether a finding says that files cannot be loaded, rather than that they
// are loaded and something else is wrong.
func loads(f *lint.Finding) bool {
	return (f.Library != "" || f.Symbol != "") && len(f.NeededBy) > 0
}

// String returns the causes, each with the number of its files. Two ledgers with the same
// text count as one state.
func (l *ledger) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(l.trouble)) {
		fmt.Fprintf(&b, "%s %d\n", k, len(l.trouble[k].files))
	}
	return b.String()
}

// count returns how many files a trouble affects, at least 1.
func (l *ledger) count(k string) int { return max(1, len(l.trouble[k].files)) }

// gain returns how many of the files that a trouble affects it does not affect in after.
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

// worse returns a finding that after has and before does not, with the file that it
// breaks ("" if it names none), or nil. Three kinds of files may have new findings: those
// that could not be loaded before, whose other findings were hidden; new files; and files
// that no process loaded before and one loads in after, which strict does not spare. A file
// of the first kind may not lose a library that it found. It may if the library lies beside
// it: the change then puts both aside.
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
		if f.Kind != packs.Missing || len(f.Present) == 0 || before.causes[f.Cause] {
			continue
		}
		for _, n := range f.NeededBy { // a loader names all libraries that a file lacks: it had this one
			beside := slices.ContainsFunc(f.Present, func(o replay.File) bool { return path.Dir(o.Path) == path.Dir(n.Path) })
			if !spared(n.Path) && !beside {
				return f, n.Path
			}
		}
	}
	return nil, ""
}

// breaks returns the result of worse as a line, "" for none.
func breaks(f *lint.Finding, file string) string {
	switch {
	case f == nil:
		return ""
	case file == "" || file == f.Subject: // the message names it
		return "breaks " + f.Message
	}
	return fmt.Sprintf("breaks %s: %s", file, f.Message)
}

// firstLoaded reports whether a process loads a file in after, and none loaded it before,
// nor another file of its name, which it would replace.
func (l *ledger) firstLoaded(p string, after *ledger) bool {
	return !l.mapped[p] && after.mapped[p] && !l.named[stem(p)]
}

// stem returns a library's name without its version.
func stem(p string) string {
	name, _, _ := strings.Cut(path.Base(p), ".so")
	return name
}

// isNew reports whether a file was not in the image before.
func isNew(old *layers.FS, p string) bool {
	_, _, ok := old.Lookup(p)
	return !ok
}

// better returns nil if there is less trouble than before and no new one in its place, else
// the reason why not. It does not look for files that break, which worse finds. See [Better].
func (l *ledger) better(before *ledger) error {
	if f := l.instead(before); f != nil {
		return fmt.Errorf("%s: %s", again, f.Message)
	}
	switch {
	case l.errors > before.errors:
		return fmt.Errorf("there are more errors than before: %d, not %d", l.errors, before.errors)
	case l.errors == before.errors && len(l.order) > len(before.order):
		return fmt.Errorf("there are more warnings than before: %d, not %d", len(l.order)-l.errors, len(before.order)-before.errors)
	}
	is := l.ills()
	for i, was := range before.ills() {
		if is[i] < was {
			return nil
		}
	}
	return errors.New("nothing that was wrong is gone")
}

// ill is a cause with one of the files that it affects, "" for the image as a whole.
type ill struct{ cause, file string }

// ills returns all ills of a ledger with their weights.
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

// weightOf returns the weight of a finding for a file that it affects: an error weighs more
// than a warning, and of two with one severity, a file that cannot be loaded weighs more
// than one that is loaded and fails later in a part of what it does.
func weightOf(f *lint.Finding) int {
	weight := 2 * (len(packs.Severities) - slices.Index(packs.Severities, f.Severity))
	if f.Later {
		weight--
	}
	return weight
}

// instead returns a finding that is heavier for a file than before, or new for a file
// from which one of no greater weight is gone; nil if there is none.
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

// Better returns nil if a changed image is strictly better than the image before, else an
// error with the reason. before and after are the results for both, and old has the files of
// the image before. It looks at the findings that count (nil: all) and are a warning or
// more. The changed image is strictly better if all of this holds:
//
//   - No file breaks: a file that was in the image has no new finding, not even a note
//     about loading, and none loses a library that it found elsewhere than beside
//     itself. Exempt is a file that no process loaded before and one loads now, since its
//     findings were hidden behind those that are resolved.
//   - No finding is traded for another: a file that has lost a finding has no new one of
//     the same weight instead, as when a library is found that lacks the symbols; and no
//     finding weighs more than before. A file that is loaded and opens a missing library
//     later weighs less than a file that cannot be loaded.
//   - There are no more errors than before, and if there are as many, no more warnings.
//   - For one file at least, a finding is gone or weighs less.
func Better(before, after *lint.Result, old *layers.FS, counts func([]lint.Finding) []lint.Finding) error {
	if err := NotWorse(before, after, old, counts); err != nil {
		return err
	}
	return newLedger(after, counts).better(newLedger(before, counts))
}

// NotWorse returns an error if the changed image breaks something, as [Better] defines it.
func NotWorse(before, after *lint.Result, old *layers.FS, counts func([]lint.Finding) []lint.Finding) error {
	if broken := breaks(worse(newLedger(before, counts), newLedger(after, counts), old, false)); broken != "" {
		return errors.New("it " + broken)
	}
	return nil
}
