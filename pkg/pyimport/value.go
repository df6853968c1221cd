package pyimport

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// value is a value of the program: nil is None; bool, int64, float64 and string are
// Python's; the others are the types below. A value that is not known is [*unknown].
type value any

type (
	// byteText is a bytes object.
	byteText string
	// unknown is a value that cannot be known, and the reason.
	// text is the known part of a string, with … for the rest; "" if nothing is known. begin is
	// the known beginning of a string, which has more behind it; "" if none is known.
	unknown struct {
		why, text, begin string
		dictOf           *instance // of which it is the __dict__, or nil
		class            bool      // that a class statement of a source makes
		object           bool      // of such a class
	}
	// tuple is a tuple, or a struct sequence such as sys.version_info if fields is set.
	tuple struct {
		items  []value
		fields []string
		of     *class // of a named tuple, or nil
	}
	// list is a list. Its items may be replaced, never changed in place.
	list struct {
		mark
		items []value
		open  bool   // may have other items
		split bool   // the parts of a text
		once  bool   // it is an iterator, and loses each item that the program reads
		mixed bool   // in an order that is not known
		of    *class // collections.deque, range, or a view of a dict, or nil
		held  held
	}
	// set is a set or frozenset of known values, in the order of insertion.
	set struct {
		mark
		items []value
		open  bool
	}
	// builtin is a function that this package implements.
	builtin struct {
		name string
		fn   func(*Run, *args) value
	}
	// method is a function bound to its first argument.
	method struct {
		self value
		fn   value // *function or *builtin
	}
	// property, staticMethod and classMethod are the descriptors of a class body.
	property     struct{ get, set value }
	staticMethod struct{ fn value }
	classMethod  struct{ fn value }
	// slice is the value of a:b:c in an index.
	slice struct{ lower, upper, step value }
	// super is super() of an instance: attributes after a class in its MRO.
	super struct {
		self  value
		of    *class
		after *class
	}
)

// object is a value of a type that this package implements, such as a path or a library.
type object interface {
	// typeName is the qualified name of the type.
	typeName() string
	// attr returns an attribute, or false if it is not known to have it.
	attr(r *Run, name string) (value, bool)
}

// unknownf returns an unknown value and the reason.
func unknownf(format string, a ...any) *unknown {
	return &unknown{why: fmt.Sprintf(format, a...)}
}

// isUnknown reports whether a value is not known.
func isUnknown(v value) bool {
	_, ok := v.(*unknown)
	return ok
}

// because returns the reason why the first of the values is unknown, as a value, or nil.
func because(vs ...value) *unknown {
	for _, v := range vs {
		if u, ok := v.(*unknown); ok {
			return u
		}
	}
	return nil
}

// truth returns bool(v); known is false if that is not known.
func truth(v value) (is, known bool) {
	switch v := v.(type) {
	case nil:
		return false, true
	case bool:
		return v, true
	case int64:
		return v != 0, true
	case float64:
		return v != 0, true
	case string:
		return v != "", true
	case byteText:
		return v != "", true
	case *tuple:
		return len(v.items) > 0, true
	case *list:
		return len(v.items) > 0 || v.once, v.once || !v.open || len(v.items) > 0
	case *set:
		return len(v.items) > 0, !v.open || len(v.items) > 0
	case *dict:
		return len(v.pairs) > 0, !v.open || len(v.pairs) > 0
	case *module, *function, *class, *builtin, *method, *generator, pysource.Ellipsis:
		return true, true
	case *instance:
		if v.payload != nil {
			is, known = truth(v.payload)
			return is, known && is // its methods may fill it
		}
		return true, !v.of.has("__bool__") && !v.of.has("__len__") && v.of.known()
	case *falsy:
		return !v.and, true
	case *specifiers:
		return v.text != "", true
	case *requirement, *filePath, *library, *environ, *match, *moduleDict, *fileObject,
		*moduleSpec, *loader, *fileFinder, *dist, *entryPoint, *release, *pattern, *codeObject:
		return true, true
	}
	return false, false
}

// same reports whether two values are the same for the program: one object, equal
// constants, or made by the same definition of the source.
func (r *Run) same(a, b value) bool { return r.sameWithin(a, b, 0) }

func (r *Run) sameWithin(a, b value, depth int) bool {
	if depth > 0 {
		r.spend(1)
	}
	if depth > maxWithin || r.stop != "" {
		return false
	}
	switch a := a.(type) {
	case *module:
		b, ok := b.(*module)
		return ok && (a == b || a.name == b.name && a.file == b.file)
	case *function:
		b, ok := b.(*function)
		return ok && (a == b || a.def != nil && a.def == b.def)
	case *class:
		b, ok := b.(*class)
		return ok && (a == b || a.def != nil && a.def == b.def)
	case *builtin:
		b, ok := b.(*builtin)
		return ok && a.name == b.name
	case *unknown:
		_, ok := b.(*unknown)
		return ok
	case *tuple:
		b, ok := b.(*tuple)
		return ok && (a == b || r.sameAll(a.items, b.items, depth+1))
	case *list:
		b, ok := b.(*list)
		return ok && (a == b || !a.open && !b.open && a.once == b.once && r.sameAll(a.items, b.items, depth+1))
	case *filePath:
		b, ok := b.(*filePath)
		return ok && *a == *b
	case object: // all are pointers
		return a == b
	}
	return comparable(a) && comparable(b) && a == b
}

// comparable reports whether Go can compare a value.
func comparable(v value) bool {
	switch v.(type) {
	case pysource.Ellipsis, nil, bool, int64, float64, string, byteText:
		return true
	}
	return reflect.TypeOf(v).Kind() == reflect.Pointer
}

func (r *Run) sameAll(a, b []value, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !r.sameWithin(a[i], b[i], depth) {
			return false
		}
	}
	return true
}

// hashKey returns a text that two known hashable values share if they are equal. ok is
// false for unknown and unhashable values, and for large tuples.
func hashKey(v value) (key string, ok bool) { return hashWithin(v, 0) }

func hashWithin(v value, depth int) (key string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "n", true
	case bool:
		if v {
			return "i1", true
		}
		return "i0", true
	case int64:
		return "i" + strconv.FormatInt(v, 10), true
	case float64:
		if v == float64(int64(v)) {
			return "i" + strconv.FormatInt(int64(v), 10), true
		}
		return "f" + strconv.FormatFloat(v, 'g', -1, 64), true
	case string:
		return "s" + v, true
	case byteText:
		return "b" + string(v), true
	case *filePath:
		return "p" + v.text, true
	case *tuple:
		var b strings.Builder
		b.WriteString("t")
		for _, item := range v.items {
			if depth > maxWithin {
				return "", false
			}
			k, ok := hashWithin(item, depth+1)
			if !ok || b.Len()+len(k) > maxKey {
				return "", false
			}
			b.WriteString(strconv.Itoa(len(k)))
			b.WriteByte(':')
			b.WriteString(k)
		}
		return b.String(), true
	case *class, *function, *module, *builtin:
		return fmt.Sprintf("o%p", v), true
	case *instance:
		return fmt.Sprintf("o%p", v), byIdentity(v)
	}
	return "", false
}

// equal compares two values as == does; known is false if the result is not known.
func (r *Run) equal(a, b value) (eq, known bool) { return r.equalWithin(a, b, 0) }

// equalWithin compares two values that are in depth containers. Lists can have themselves as items, and
// a few lines make containers whose parts are the same ones 2**60 times.
func (r *Run) equalWithin(a, b value, depth int) (eq, known bool) {
	r.spend(1)
	r.reads(a)
	r.reads(b)
	if depth > maxWithin || r.stop != "" {
		return false, false
	}
	switch x := a.(type) {
	case *unknown:
		return false, false
	case string:
		if y, ok := b.(string); ok {
			return x == y, true
		}
	case *list:
		if y, ok := b.(*list); ok {
			if x.open || y.open || x.once || y.once || x.of != nil || y.of != nil {
				return a == b, a == b || x.once && y.once
			}
			return r.equalAll(x.items, y.items, depth+1)
		}
		if isPlain(b) {
			return false, true
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return r.equalAll(x.items, y.items, depth+1)
		}
		if isPlain(b) {
			return false, true
		}
	case *set:
		if y, ok := b.(*set); ok {
			if x.open || y.open {
				return a == b, a == b
			}
			r.spend(len(x.items) + len(y.items))
			return len(x.items) == len(y.items) && x.has(y), true
		}
	case *dict:
		if y, ok := b.(*dict); ok {
			if x.open || y.open || a == b {
				return a == b, a == b
			}
			return r.equalDicts(x, y, depth+1)
		}
	case *release:
		if y, ok := b.(*release); ok {
			return x.compare(y) == 0, true
		}
		return false, false
	}
	if isUnknown(b) {
		return false, false
	}
	if byIdentity(a) && byIdentity(b) {
		return a == b, true
	}
	if i, ok := a.(*instance); ok && a == b && !i.of.has("__eq__") {
		return true, true // of a class that is not known in full, one that compares an object with itself
	}
	ka, oka := hashKey(a)
	kb, okb := hashKey(b)
	if oka && okb {
		return ka == kb, true
	}
	if isPlain(a) && isPlain(b) {
		return false, true // of different types, or one is no plain value
	}
	return false, false
}

// equalDicts compares two dicts all keys of which are known.
func (r *Run) equalDicts(a, b *dict, depth int) (eq, known bool) {
	if len(a.pairs) != len(b.pairs) {
		return false, true
	}
	known = true
	for _, p := range a.pairs {
		i, ok := b.index[p.hash]
		if !ok {
			return false, true
		}
		e, k := r.equalWithin(p.value, b.pairs[i].value, depth)
		if k && !e {
			return false, true
		}
		known = known && k
	}
	return known, known
}

// byIdentity reports whether == compares an object by its identity.
func byIdentity(v value) bool {
	switch v := v.(type) {
	case *pathFinder, *module, *function, *builtin, *class:
		return true
	case *instance:
		return (v.of.known() || v.of.enumeration) && !v.of.has("__eq__") && v.payload == nil
	}
	return false
}

// isPlain reports whether a value is a constant or container whose type is known.
func isPlain(v value) bool {
	switch v.(type) {
	case nil, bool, int64, float64, string, byteText, *tuple, *list, *set, *dict, *class, *function, *module, *builtin:
		return true
	}
	return false
}

func (r *Run) equalAll(a, b []value, depth int) (eq, known bool) {
	if len(a) != len(b) {
		return false, true
	}
	known = true
	for i := range a {
		e, k := r.equalWithin(a[i], b[i], depth)
		if k && !e {
			return false, true
		}
		known = known && k
	}
	return known, known
}

// typeName returns the name of type(v), or "" if it is not known.
func typeName(v value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case byteText:
		return "bytes"
	case *tuple:
		return "tuple"
	case *list:
		if v.once {
			return "iterator"
		}
		return "list"
	case *set:
		return "set"
	case *dict:
		return "dict"
	case *module:
		return "module"
	case *function:
		return "function"
	case *class:
		return "type"
	case *property:
		return "property"
	case *builtin:
		return "builtin_function_or_method"
	case *method:
		return "method"
	case *instance:
		return v.of.name
	case object:
		return v.typeName()
	}
	return ""
}

// str returns str(v); known is false if that is not known.
func str(v value) (text string, known bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case *filePath:
		return v.text, true
	case *release:
		return v.text, true
	case *instance:
		if e := v.exc; e != nil {
			return e.text, !e.vague
		}
	case *unknown:
		if v.text != "" {
			return v.text, false
		}
	}
	return repr(v)
}

// str returns str(v). Its length counts as steps of the program.
func (r *Run) str(v value) (text string, known bool) {
	if text, known, found := r.textBy(v, "__str__", "__repr__"); found {
		return text, known
	}
	text, known = str(v)
	r.spend(len(text) / quotedBytes)
	return text, known
}

// repr returns repr(v). Its length counts as steps of the program.
func (r *Run) repr(v value) (text string, known bool) {
	if text, known, found := r.textBy(v, "__repr__"); found {
		return text, known
	}
	text, known = repr(v)
	r.spend(len(text) / quotedBytes)
	return text, known
}

// textBy returns the text that a method of an object's class gives. found is false if the program defines none.
func (r *Run) textBy(v value, methods ...string) (text string, known, found bool) {
	i, ok := v.(*instance)
	if !ok || r.raised != nil || r.stop != "" {
		return "", false, false
	}
	for _, name := range methods {
		f, _ := i.of.find(name)
		if g, own := f.(*function); own && (i.exc == nil || name == "__str__") {
			s, is := r.call(&method{self: i, fn: g}, &args{}).(string)
			return s, is && r.raised == nil, true
		}
	}
	if i.payload != nil && i.of.known() {
		text, known = repr(i.payload)
		if s, ok := i.payload.(string); ok && methods[0] == "__str__" {
			text = s
		}
		return text, known, true
	}
	return "", false, false
}

// quotedBytes are the bytes of repr() that count as a step.
const quotedBytes = 16

// repr returns repr(v) of constants and containers of them.
func repr(v value) (text string, known bool) { return reprWithin(v, 0) }

func reprWithin(v value, depth int) (text string, known bool) {
	if depth > maxWithin {
		return "…", false
	}
	switch v := v.(type) {
	case nil:
		return "None", true
	case bool:
		if v {
			return "True", true
		}
		return "False", true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return reprFloat(v), true
	case string:
		return quote(v), true
	case byteText:
		return "b" + quoteBy(string(asRunes(v)), func(c rune) bool { return c >= ' ' && c < 0x7f }), true
	case *tuple:
		text, known = reprAll(v.items, depth+1)
		if len(v.items) == 1 {
			text += ","
		}
		return "(" + text + ")", known && v.fields == nil
	case *list:
		text, known = reprAll(v.items, depth+1)
		return "[" + text + "]", known && !v.open && !v.once && v.of == nil
	}
	return "…", false
}

func reprAll(items []value, depth int) (text string, known bool) {
	known = true
	var b strings.Builder
	for i, item := range items {
		if b.Len() > maxText {
			return b.String(), false
		}
		t, k := reprWithin(item, depth)
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t)
		known = known && k
	}
	return b.String(), known
}

// reprFloat is repr() of a float: its shortest digits, in the exponent's form below 1e-4 and from 1e16 on
// (float_repr_style "short").
func reprFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64)), "+")
	case v != 0 && (math.Abs(v) < 1e-4 || math.Abs(v) >= 1e16):
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote returns repr() of a string.
func quote(s string) string { return quoteBy(s, unicode.IsPrint) }

// quoteBy returns a string in the quotes of repr(), with what is not printable escaped.
func quoteBy(s string, printable func(rune) bool) string {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	var b strings.Builder
	b.WriteRune(q)
	for _, c := range s {
		switch {
		case c == q || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case printable(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteRune(q)
	return b.String()
}
