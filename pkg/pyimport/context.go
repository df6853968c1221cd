package pyimport

import (
	"slices"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// mayStop reports whether a generator with these statements, as a context manager, may stop
// an exception: where its yield stands in a try with handlers, or in a with statement.
func mayStop(body []pysource.Stmt) bool {
	return slices.ContainsFunc(body, func(s pysource.Stmt) bool {
		switch s := s.(type) {
		case *pysource.If:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.For:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.While:
			return mayStop(s.Body) || mayStop(s.Else)
		case *pysource.Try:
			return len(s.Handlers) > 0 || mayStop(s.Body) || len(s.Finally) > 0 && leaves(s.Finally)
		case *pysource.With:
			return !stopsNone(s) || mayStop(s.Body)
		case *pysource.Match:
			return true
		}
		return false
	})
}

// stopsNone reports whether the contexts of a with statement are those of
// os.add_dll_directory, which stop no exception.
func stopsNone(s *pysource.With) bool {
	return !slices.ContainsFunc(s.Items, func(i pysource.WithItem) bool {
		c, ok := i.Context.(*pysource.Call)
		return !ok || exprText(c.Func) != "os.add_dll_directory"
	})
}

// leaves reports whether statements of a finally clause may end the function, and with it
// the exception.
func leaves(body []pysource.Stmt) bool {
	return slices.ContainsFunc(body, func(s pysource.Stmt) bool {
		switch s.(type) {
		case *pysource.ExprStmt, *pysource.Assign:
			return false
		}
		return true
	})
}
