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
)

// ledger is a result by what is wrong: two results are compared by it.
type ledger struct {
	res     *lint.Result
	order   []string            // keys of what is a warning or more, the heaviest first
	trouble map[string]*trouble // by key
	grave   map[string]bool     // files that a warning or error affects
	any     map[string]bool     // files that any finding about loading affects
	mapped  map[string]bool     // files that processes are foretold to load
	named   map[string]bool     // their names, without versions
	errors  int
}

// trouble is one thing that is wrong, and the files that meet it.
type trouble struct {
	finding *lint.Finding
	files   map[string]bool
}

func newLedger(res *lint.Result, img *lint.Image) *ledger {
	l := &ledger{res: res, trouble: map[string]*trouble{}, grave: map[string]bool{}, any: map[string]bool{}, mapped: map[string]bool{}, named: map[string]bool{}}
	for _, p := range res.Processes {
		mark(l.mapped, p.Mapped)
		for _, file := range p.Mapped {
			l.named[stem(file)] = true
		}
	}
	vars := map[string]string{}
	for _, v := range environment(img) {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
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
		k := key(f, vars)
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

// loads reports whether a finding says that its files cannot be loaded, as
// against that they are loaded and something else is not as it should be.
func loads(f *lint.Finding) bool {
	return (f.Library != "" || f.Symbol != "") && len(f.NeededBy) > 0
}

// key is what is wrong, whatever rule says it: a library that is missing is the
// same trouble when it is there and not on the path. The values of variables that
// a message quotes are left out: they change with other steps.
func key(f *lint.Finding, vars map[string]string) string {
	missing := strings.Contains(f.Message, "cannot open shared object file") || strings.HasPrefix(f.Message, "Error loading shared library ")
	if missing && f.Library != "" {
		return "missing " + f.Library
	}
	return f.Rule + " " + withoutValues(f.Message, vars)
}

// withoutValues takes the values out of what a text says as NAME=VALUE.
func withoutValues(text string, vars map[string]string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '=')
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		name := text[strings.LastIndexFunc(text[:i], func(r rune) bool {
			return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
		})+1 : i]
		b.WriteString(text[:i+1])
		text = text[i+1:]
		if value := vars[name]; value != "" {
			text = strings.TrimPrefix(text, value)
		}
	}
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
	for i := range after.res.Findings {
		f := &after.res.Findings[i]
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

// Better is nil when what lint says of a changed image is strictly better than
// what it says of the image as it was; else it says why not.
func Better(before, after *lint.Result, old, now *lint.Image) error {
	was, is := newLedger(before, old), newLedger(after, now)
	if broken := breaks(worse(was, is, old.FS, false)); broken != "" {
		return errors.New("it " + broken)
	}
	if !is.better(was) {
		return errors.New("it has as many findings as before")
	}
	return nil
}
