package lint

import (
	"regexp"
	"slices"
	"strings"
)

// pathFix is a fix that sets LD_LIBRARY_PATH, or does it besides. One that begins with
// "or" is another way, and stays as it is.
var pathFix = regexp.MustCompile(`^(ENV |RUN .*, and ENV )LD_LIBRARY_PATH=(\S*)( \(.* is left out\))?$`)

// pathEdit is what fixes do to LD_LIBRARY_PATH, all together.
type pathEdit struct {
	old, added, removed []string
	values              []string // of the fixes, each by itself
}

// take adds what one fix does.
func (e *pathEdit) take(fix string) {
	m := pathFix.FindStringSubmatch(fix)
	if m == nil || slices.Contains(e.values, m[2]) {
		return
	}
	e.values = append(e.values, m[2])
	elements := strings.Split(m[2], ":")
	for _, d := range elements {
		if d != "" && !slices.Contains(e.old, d) && !slices.Contains(e.added, d) {
			e.added = append(e.added, d)
		}
	}
	for _, d := range e.old {
		if !slices.Contains(elements, d) && !slices.Contains(e.removed, d) {
			e.removed = append(e.removed, d)
		}
	}
}

// value is LD_LIBRARY_PATH after all of them.
func (e *pathEdit) value() string {
	kept := slices.DeleteFunc(slices.Clone(e.old), func(d string) bool { return d == "" || slices.Contains(e.removed, d) })
	return strings.Join(append(kept, e.added...), ":")
}

// onePath gives all fixes that set LD_LIBRARY_PATH the value that all of them
// together want: of several ENV lines in a Dockerfile the last one counts. Notes are
// not shown as a rule, so that others do not have what they want.
func (w *world) onePath(findings []Finding) {
	all := pathEdit{old: w.pathEntries()}
	for _, f := range findings {
		if f.Severity != Note {
			for _, fix := range f.Fixes {
				all.take(fix)
			}
		}
	}
	for i, f := range findings {
		one := pathEdit{all.old, slices.Clone(all.added), slices.Clone(all.removed), slices.Clone(all.values)}
		for _, fix := range f.Fixes {
			one.take(fix)
		}
		if len(one.values) < 2 {
			continue // there is nothing to put together
		}
		findings[i].Fixes = slices.Clone(f.Fixes)
		for k, fix := range f.Fixes {
			if m := pathFix.FindStringSubmatchIndex(fix); m != nil {
				findings[i].Fixes[k] = fix[:m[4]] + one.value() + fix[m[5]:]
			}
		}
	}
}
