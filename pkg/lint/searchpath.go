package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// oneSearchPath makes all fixes that set LD_LIBRARY_PATH set one value, and writes the fixes of
// all findings as text: of several instructions Docker keeps the last, which would undo the
// others. The value of notes has the changes of the other findings and those of notes. Most
// readers do not see notes, which come last.
func oneSearchPath(pass *Pass, findings []Finding) {
	now := pass.Loaders.PathEntries()
	merged := now
	for _, notes := range []bool{false, true} {
		values := searchPaths(findings, notes)
		if len(values) == 0 {
			continue
		}
		merged = mergePaths(now, merged, values)
		for i := range findings {
			if f := &findings[i]; (f.Severity == packs.Note) == notes {
				f.setSearchPath(strings.Join(merged, ":"))
			}
		}
	}
	for i := range findings {
		findings[i].writeFixes()
	}
}

// searchPaths returns the elements of each value that fixes set LD_LIBRARY_PATH to: fixes of
// notes, or of the other findings.
func searchPaths(findings []Finding, notes bool) [][]string {
	var list [][]string
	seen := map[string]bool{}
	for _, f := range findings {
		for _, a := range f.Advice {
			if a.Path != nil && (f.Severity == packs.Note) == notes && !seen[*a.Path] {
				seen[*a.Path] = true
				list = append(list, strings.Split(*a.Path, ":"))
			}
		}
	}
	return list
}

// setSearchPath makes the fixes that set LD_LIBRARY_PATH set it to value.
func (f *Finding) setSearchPath(value string) {
	for i := range f.Advice {
		if f.Advice[i].Path != nil {
			f.Advice[i].Path = &value
		}
	}
}

// writeFixes fills Fixes from Advice.
func (f *Finding) writeFixes() {
	f.Fixes = nil
	for _, a := range f.Advice {
		f.Fixes = append(f.Fixes, a.String())
	}
}

// SetSearchPath makes the fixes of findings that set LD_LIBRARY_PATH set it to value, which a
// plan was tried with. Notes keep the elements that only they add or leave out.
func SetSearchPath(findings []Finding, value string) {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Severity != packs.Note && f.SetsPath() })
	if i < 0 {
		return
	}
	old, _ := findings[i].SearchPath()
	was, is := strings.Split(old, ":"), strings.Split(value, ":")
	for i := range findings {
		f, to := &findings[i], value
		own, sets := f.SearchPath()
		if !sets {
			continue
		}
		if f.Severity == packs.Note {
			to = strings.Join(mergePaths(was, is, [][]string{strings.Split(own, ":")}), ":")
		}
		f.setSearchPath(to)
		f.writeFixes()
	}
}

// SearchPath returns the value that the finding's fixes set LD_LIBRARY_PATH to, and whether one
// sets it.
func (f *Finding) SearchPath() (value string, sets bool) {
	for _, a := range f.Advice {
		if a.Path != nil {
			return *a.Path, true
		}
	}
	return "", false
}

// SetsPath reports whether a fix of the finding sets LD_LIBRARY_PATH.
func (f *Finding) SetsPath() bool {
	_, sets := f.SearchPath()
	return sets
}

// mergePaths returns the search path merged with the changes that each value makes to the
// search path now. It deletes the elements that a value leaves out. It inserts those that a
// value adds before the next element of that value, or at the end.
func mergePaths(now, merged []string, values [][]string) []string {
	gone := map[string]bool{}
	for _, v := range append(slices.Clone(values), merged) {
		in := setOf(v)
		for _, e := range now {
			gone[e] = gone[e] || !in[e]
		}
	}
	out := slices.DeleteFunc(slices.Clone(merged), func(e string) bool { return gone[e] })
	have := setOf(out)
	for _, v := range values {
		for i, e := range v {
			if have[e] || gone[e] || e == "" && len(v) == 1 {
				continue
			}
			at := len(out)
			if k := slices.IndexFunc(v[i+1:], func(next string) bool { return have[next] }); k >= 0 {
				at = slices.Index(out, v[i+1+k])
			}
			out, have[e] = slices.Insert(out, at, e), true
		}
	}
	return out
}

func setOf(list []string) map[string]bool {
	set := map[string]bool{}
	for _, e := range list {
		set[e] = true
	}
	return set
}
