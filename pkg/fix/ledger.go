package fix

import (
	"fmt"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
)

// ledger is a result by what is wrong: two results are compared by it.
type ledger struct {
	res     *lint.Result
	order   []string            // keys of what is a warning or more, the heaviest first
	trouble map[string]*trouble // by key
	grave   map[string]bool     // files that a warning or error affects
	any     map[string]bool     // files that any finding about loading affects
	errors  int
}

// trouble is one thing that is wrong, and the files that meet it.
type trouble struct {
	finding *lint.Finding
	files   map[string]bool
}

func newLedger(res *lint.Result) *ledger {
	l := &ledger{res: res, trouble: map[string]*trouble{}, grave: map[string]bool{}, any: map[string]bool{}}
	for i := range res.Findings {
		f := &res.Findings[i]
		if loads(f) {
			mark(l.any, f.Affected)
		}
		if f.Severity == lint.Note {
			continue
		}
		mark(l.grave, f.Affected)
		if f.Severity == lint.Error {
			l.errors++
		}
		k := key(f)
		if l.trouble[k] == nil {
			l.trouble[k] = &trouble{finding: f, files: map[string]bool{}}
			l.order = append(l.order, k)
		}
		mark(l.trouble[k].files, f.Affected)
	}
	return l
}

func mark(set map[string]bool, list []string) {
	for _, s := range list {
		set[s] = true
	}
}

// loads reports whether a finding says that its files cannot be loaded.
func loads(f *lint.Finding) bool { return f.Library != "" || f.Symbol != "" }

// key is what is wrong, whatever rule says it: a library that is missing is the
// same trouble when it is there and not on the path.
func key(f *lint.Finding) string {
	missing := strings.Contains(f.Message, "cannot open shared object file") || strings.HasPrefix(f.Message, "Error loading shared library ")
	if missing && f.Library != "" {
		return "missing " + f.Library
	}
	return f.Rule + " " + f.Message
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

// worse says what is wrong in after that was not in before, or is empty. A
// trouble whose files all could not be loaded before is none: it stood behind
// another. Neither is one of files that are new.
func worse(before, after *ledger, now *layers.FS) string {
	for _, k := range after.order {
		t := after.trouble[k]
		if old := before.trouble[k]; old != nil && len(t.files) == 0 {
			continue
		}
		if len(t.files) == 0 {
			return t.finding.Message
		}
		for _, p := range t.finding.Affected {
			if !before.grave[p] && !isNew(now, p) {
				return fmt.Sprintf("%s: %s", p, t.finding.Message)
			}
		}
	}
	for i := range after.res.Findings {
		f := &after.res.Findings[i]
		if !loads(f) {
			continue
		}
		for _, p := range f.Affected {
			if !before.any[p] && !isNew(now, p) {
				return fmt.Sprintf("%s: %s", p, f.Message)
			}
		}
	}
	return ""
}

// isNew reports whether a file is of the layer that is tried.
func isNew(now *layers.FS, p string) bool {
	_, layer, ok := now.Lookup(p)
	return ok && layer == len(now.Layers)-1
}

// better reports whether less is wrong than before: fewer errors, or as many and
// fewer warnings, or of both the same and fewer files.
func (l *ledger) better(before *ledger) bool { return l.weigh(before) < 0 }

// asGood reports whether no more is wrong than in other.
func (l *ledger) asGood(other *ledger) bool { return l.weigh(other) <= 0 }

func (l *ledger) weigh(other *ledger) int {
	switch {
	case l.errors != other.errors:
		return l.errors - other.errors
	case len(l.order) != len(other.order):
		return len(l.order) - len(other.order)
	}
	return len(l.grave) - len(other.grave)
}
