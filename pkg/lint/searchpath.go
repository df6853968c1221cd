package lint

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/envline"
)

// pathFix is the instruction of a Dockerfile that sets LD_LIBRARY_PATH to a value
// that mends one finding. What it says in the end is for oneSearchPath.
func (w *world) pathFix(value string) string {
	line := SearchPathLine(value)
	w.pathFixes[line] = value
	return line
}

// SearchPathLine is the instruction of a Dockerfile that sets LD_LIBRARY_PATH to a
// value; where no Dockerfile can say the value, what to do by hand.
func SearchPathLine(value string) string {
	line, err := envline.Of("LD_LIBRARY_PATH", value)
	if err != nil {
		return "correct LD_LIBRARY_PATH: its value is one that no Dockerfile can say"
	}
	return line
}

// oneSearchPath makes one value of those that the findings' fixes give to
// LD_LIBRARY_PATH: of several instructions Docker keeps the last, which would undo
// what the others mend. What only notes say is in the notes' value alone, which has
// the other one in it: most readers do not see the notes, which come last.
func (w *world) oneSearchPath(findings []Finding) {
	now := w.pathEntries()
	merged := now
	defer func() {
		for i := range findings {
			for _, a := range findings[i].Advice {
				findings[i].Fixes = append(findings[i].Fixes, a.String())
			}
		}
	}()
	for _, notes := range []bool{false, true} {
		var values [][]string
		seen := map[string]bool{}
		for i := range findings {
			if f := &findings[i]; (f.Severity == Note) == notes {
				for _, a := range f.Advice {
					if a.Path != nil && !seen[SearchPathLine(*a.Path)] {
						seen[SearchPathLine(*a.Path)] = true
						values = append(values, strings.Split(*a.Path, ":"))
					}
				}
				for _, fix := range f.Fixes {
					if line := w.pathFixIn(fix); line != "" && !seen[line] {
						seen[line] = true
						values = append(values, strings.Split(w.pathFixes[line], ":"))
					}
				}
			}
		}
		if len(values) == 0 {
			continue
		}
		merged = mergePaths(now, merged, values)
		for i := range findings {
			if (findings[i].Severity == Note) == notes {
				w.setSearchPath(&findings[i], strings.Join(merged, ":"))
			}
		}
	}
}

// setSearchPath has a finding's fixes set LD_LIBRARY_PATH to a value, where they set
// it.
func (w *world) setSearchPath(f *Finding, value string) {
	for i := range f.Advice {
		if f.Advice[i].Path != nil {
			f.SearchPath, f.Advice[i].Path = value, &value
		}
	}
	for i, fix := range f.Fixes {
		if line := w.pathFixIn(fix); line != "" {
			f.SearchPath = value
			f.Fixes[i] = strings.Replace(fix, line, SearchPathLine(value), 1)
		}
	}
}

// pathFixIn is the instruction of pathFix that a fix has in it, or empty. Behind it
// stand a blank and a bracket, or a semicolon, where anything does: a directory may
// have these in its name.
func (w *world) pathFixIn(fix string) string {
	at := strings.Index(fix, "ENV LD_LIBRARY_PATH=")
	if at < 0 {
		return ""
	}
	line := fix[at:]
	for {
		if _, ok := w.pathFixes[line]; ok {
			return line
		}
		end := max(strings.LastIndex(line, " ("), strings.LastIndex(line, "; "))
		if end < 0 {
			return ""
		}
		line = line[:end]
	}
}

// SetSearchPath has the findings' fixes set LD_LIBRARY_PATH to another value than they
// do: one that was tried. Notes keep what they change beside.
func SetSearchPath(findings []Finding, value string) {
	i := slices.IndexFunc(findings, func(f Finding) bool { return f.Severity != Note && f.SetsPath() })
	if i < 0 {
		return
	}
	was, is := strings.Split(findings[i].SearchPath, ":"), strings.Split(value, ":")
	for i := range findings {
		f, to := &findings[i], value
		if !f.SetsPath() {
			continue
		}
		if f.Severity == Note {
			to = strings.Join(mergePaths(was, is, [][]string{strings.Split(f.SearchPath, ":")}), ":")
		}
		for k, fix := range f.Fixes {
			f.Fixes[k] = strings.Replace(fix, SearchPathLine(f.SearchPath), SearchPathLine(to), 1)
		}
		f.SearchPath = to
	}
}

// SetsPath reports whether one of the fixes sets LD_LIBRARY_PATH, to SearchPath.
func (f *Finding) SetsPath() bool {
	return slices.ContainsFunc(f.Fixes, func(fix string) bool { return strings.Contains(fix, SearchPathLine(f.SearchPath)) })
}

// mergePaths is a search path with all that is changed in now by one of the values:
// what one of them leaves out is left out, and what one has more comes before what it
// comes before there, else to the end. It starts from merged, which has other
// changes of now already.
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
