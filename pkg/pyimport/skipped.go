package pyimport

import (
	"cmp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// maxSkipped limits the names that a module is known to have skipped.
const maxSkipped = 256

// skip notes the names that the body of a try at the top level of a module would have bound from
// the statement on that has raised an exception, and its else. Where another statement binds such a name,
// or a statement that [pysource.Reduce] leaves out, it is among the module's names.
func (r *Run) skip(s *pysource.Try, e *exception) {
	m := r.frame.module
	if r.frame.vars != m.names || !r.certain() || e.vague || m.maybe != "" {
		return
	}
	if m.skipped == nil {
		m.skipped = map[string]string{}
	}
	r.skipFrom(m, s.Body, r.frame.line, e.doubt)
	r.skipFrom(m, s.Else, 0, e.doubt)
}

// skipFrom notes the names that statements from a line on bind.
func (r *Run) skipFrom(m *module, body []pysource.Stmt, line int, doubt string) {
	for _, s := range body {
		r.spend(1)
		if s.Line() >= line {
			for _, name := range append(boundBy(s), importedBy(s)...) {
				if len(m.skipped) < maxSkipped {
					m.skipped[name] = doubt
				}
			}
		}
		for _, b := range blocksOf(s) {
			r.skipFrom(m, b, line, doubt)
		}
	}
}

// importedBy returns the names that an import binds.
func importedBy(s pysource.Stmt) (list []string) {
	switch s := s.(type) {
	case *pysource.Import:
		for _, a := range s.Names {
			first, _, _ := strings.Cut(a.Name, ".")
			list = append(list, cmp.Or(a.As, first))
		}
	case *pysource.ImportFrom:
		for _, a := range s.Names {
			list = append(list, cmp.Or(a.As, a.Name))
		}
	}
	return list
}

// blocksOf returns the blocks of a statement that run as a part of it: not those of functions and
// classes.
func blocksOf(s pysource.Stmt) [][]pysource.Stmt {
	switch s := s.(type) {
	case *pysource.If:
		return [][]pysource.Stmt{s.Body, s.Else}
	case *pysource.For:
		return [][]pysource.Stmt{s.Body, s.Else}
	case *pysource.While:
		return [][]pysource.Stmt{s.Body, s.Else}
	case *pysource.With:
		return [][]pysource.Stmt{s.Body}
	case *pysource.Try:
		list := [][]pysource.Stmt{s.Body, s.Else, s.Finally}
		for _, h := range s.Handlers {
			list = append(list, h.Body)
		}
		return list
	}
	return nil
}

// skips reports whether a module lacks a name since its top level has skipped the statement that
// binds it, and the doubt about that. Nothing else that is known of its source may bind the name.
func (r *Run) skips(m *module, name string) (doubt string, is bool) {
	doubt, is = m.skipped[name]
	if !is || !r.certain() || r.trial != nil || m.maybe != "" || m.names.open != "" || r.in.Partial() || m.handed >= byValue {
		return "", false
	}
	if _, lazy := m.names.get("__getattr__"); lazy && m.refused[name] == nil || r.mayFind(m, name) || r.mayBeSet(m, name) {
		return "", false
	}
	return doubt, true
}
