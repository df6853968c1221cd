package nodejs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tdewolff/parse/v2/js"

	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// The values of a program are nil for undefined, null, bool, float64, string, *object, and
// *unknown.
type null struct{}

// unknown is a value that is not known.
type unknown struct{ why string }

func unknownf(format string, args ...any) *unknown { return &unknown{fmt.Sprintf(format, args...)} }

// object is an object, a list or a function.
type object struct {
	props map[string]any
	// open means that properties that are not in props may exist.
	open    bool
	module  bool // the exports of a module that was evaluated
	isList  bool
	list    []any
	fn      *function
	native  func(r *run, this any, args []any) completion
	getters map[string]*object
	failure *pyimport.Failure // of an error that a load has thrown
}

// function is a function of the program.
type function struct {
	params js.Params
	body   *js.BlockStmt
	scope  *scope
	mod    *module
	async  bool
	arrow  bool
	active int // calls of it that are being evaluated
	// isClass means that calls make objects that are not known.
	isClass, generator bool
}

func newObject() *object { return &object{props: map[string]any{}} }

func newList(items ...any) *object {
	return &object{isList: true, list: items, props: map[string]any{}}
}

func native(f func(r *run, this any, args []any) completion) *object {
	return &object{native: f, props: map[string]any{}, open: true}
}

// simple returns a function that cannot throw.
func simple(f func(r *run, args []any) any) *object {
	return native(func(r *run, _ any, args []any) completion { return value(f(r, args)) })
}

func (o *object) set(name string, v any) *object {
	if o.props == nil {
		o.props = map[string]any{}
	}
	if len(o.props) < maxItems {
		o.props[name] = v
	} else {
		o.open = true
	}
	return o
}

func (o *object) callable() bool { return o.fn != nil || o.native != nil }

// newError returns an Error that a failure raises.
func (r *run) newError(f *pyimport.Failure) *object {
	o := newObject()
	o.open, o.failure = true, f
	o.set("message", f.Text)
	o.set("code", "MODULE_NOT_FOUND")
	if f.Cause != nil {
		o.set("code", "ERR_DLOPEN_FAILED")
	}
	return o
}

// scope holds the variables of a block or function.
type scope struct {
	vars   map[string]any
	parent *scope
	fn     bool // of a function or file: `var` is here
}

func newScope(parent *scope, fn bool) *scope { return &scope{map[string]any{}, parent, fn} }

func (s *scope) lookup(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// assign sets a variable where it is declared.
func (s *scope) assign(name string, v any) {
	for at := s; at != nil; at = at.parent {
		if _, ok := at.vars[name]; ok || at.parent == nil {
			at.vars[name] = v
			return
		}
	}
}

// function returns the scope of the function around.
func (s *scope) function() *scope {
	for !s.fn && s.parent != nil {
		s = s.parent
	}
	return s
}

// truth returns whether a value is true; known is false if that is not known.
func truth(v any) (is, known bool) {
	switch v := v.(type) {
	case nil, null:
		return false, true
	case bool:
		return v, true
	case float64:
		return v != 0 && !math.IsNaN(v), true
	case string:
		if strings.IndexByte(v, 0) >= 0 {
			return false, false
		}
		return v != "", true
	case *object:
		return true, true
	}
	return false, false
}

// text returns a value as a string; ok is false if it is not known.
func text(v any) (s string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "undefined", true
	case null:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			return strconv.FormatInt(int64(v), 10), true
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	case string:
		return v, strings.IndexByte(v, 0) < 0
	case *object:
		if !v.isList || v.open {
			return "", false
		}
		parts := make([]string, 0, len(v.list))
		for _, e := range v.list {
			p, ok := text(e)
			if !ok || e == any(v) || len(parts) > 100 {
				return "", false
			}
			parts = append(parts, p)
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}

// number returns a value as a number.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case null:
		return 0, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil
	}
	return 0, false
}

// same compares two values as === does.
func same(a, b any) (is, known bool) {
	if u, ok := a.(*unknown); ok && u != nil {
		return false, false
	}
	if u, ok := b.(*unknown); ok && u != nil {
		return false, false
	}
	for _, v := range []any{a, b} {
		if s, ok := v.(string); ok && strings.IndexByte(s, 0) >= 0 {
			return false, false
		}
	}
	return a == b, true
}

// keys returns the names of an object's properties, sorted: their order is not kept.
func (o *object) keys() []string { return slices.Sorted(maps.Keys(o.props)) }
