package templates

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds of a run of a template.
const (
	maxOutput = 256 << 20 // bytes of its text
	maxValue  = 16 << 20  // bytes that a function takes or returns
	maxWork   = 1 << 30   // bytes of all values of functions, and stepWork for each step
	stepWork  = 256
	maxNested = 100 // lists and dictionaries in one another
)

var (
	errOutput = fmt.Errorf("the text is longer than %d MiB", maxOutput>>20)
	errValue  = fmt.Errorf("a value is larger than %d MiB, or nests deeper than %d", maxValue>>20, maxNested)
	errWork   = errors.New("the template does not end: it takes too many steps")
)

// meter bounds a run of a template. It is the writer of the run: each body of a template and
// of a range begins with an empty text, so that a step without a text is a write, too.
type meter struct {
	out  bytes.Buffer
	work int64
}

func (m *meter) Write(b []byte) (int, error) {
	if err := m.spend(stepWork); err != nil {
		return 0, err
	}
	if m.out.Len()+len(b) > maxOutput {
		return 0, errOutput
	}
	return m.out.Write(b)
}

func (m *meter) spend(n int64) error {
	if m.work += n; m.work > maxWork {
		return errWork
	}
	return nil
}

// stepping puts an empty text before each body of a tree that may run more than once.
func stepping(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, each := range n.Nodes {
			stepping(each)
		}
	case *parse.IfNode:
		stepping(n.List)
		stepping(n.ElseList)
	case *parse.WithNode:
		stepping(n.List)
		stepping(n.ElseList)
	case *parse.RangeNode:
		stepping(n.List)
		stepping(n.ElseList)
		step(n.List)
	}
}

// step puts an empty text before a body.
func step(list *parse.ListNode) {
	list.Nodes = append([]parse.Node{&parse.TextNode{NodeType: parse.NodeText, Pos: list.Pos}}, list.Nodes...)
}

// bounded returns functions that fail before a value is too large. run has the meter of the
// run. A function fails by a panic, which text/template turns into the error of the call.
func bounded(all template.FuncMap, run *Template) template.FuncMap {
	for name, f := range map[string]any{
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	} {
		all[name] = f // as text/template has them
	}
	out := template.FuncMap{}
	for name, f := range all {
		call, grown := reflect.ValueOf(f), grows[name]
		out[name] = reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
			size := run.weigh(args)
			if grown != nil && !(grown(plainArgs(args), float64(size)) <= maxValue) {
				panic(errValue)
			}
			var results []reflect.Value
			if call.Type().IsVariadic() {
				results = call.CallSlice(args)
			} else {
				results = call.Call(args)
			}
			run.weigh(results)
			return results
		}).Interface()
	}
	return out
}

// weigh returns the bytes of values together, and counts them as work.
func (t *Template) weigh(values []reflect.Value) int64 {
	left := int64(maxValue)
	for _, v := range values {
		if !weigh(v, &left, 0) {
			panic(errValue)
		}
	}
	if err := t.run.spend(maxValue - left); err != nil {
		panic(err)
	}
	return maxValue - left
}

// weigh takes the bytes of a value from left, and reports whether they are there.
func weigh(v reflect.Value, left *int64, depth int) bool {
	if *left -= 16; *left < 0 || depth > maxNested {
		return false
	}
	switch v.Kind() {
	case reflect.String:
		*left -= int64(v.Len())
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || weigh(v.Elem(), left, depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !weigh(v.Index(i), left, depth+1) {
				return false
			}
		}
	case reflect.Map:
		for e := v.MapRange(); e.Next(); {
			if !weigh(e.Key(), left, depth+1) || !weigh(e.Value(), left, depth+1) {
				return false
			}
		}
	}
	return *left >= 0
}

// plainArgs returns the arguments of a call, with those of its last parameter in a row.
func plainArgs(args []reflect.Value) (list []any) {
	for _, a := range args {
		switch s := a.Interface().(type) {
		case []any:
			list = append(list, s...)
		case []int:
			for _, n := range s {
				list = append(list, n)
			}
		default:
			list = append(list, s)
		}
	}
	return list
}

// grows has the functions whose result can be far larger than their arguments: its bytes at
// most, from the arguments and their size.
var grows = map[string]func(args []any, size float64) float64{
	"repeat":  func(args []any, _ float64) float64 { return number(args, 0) * float64(len(text(args, 1))) },
	"indent":  indented,
	"nindent": indented,
	"until":   func(args []any, _ float64) float64 { return 16 * math.Abs(number(args, 0)) },
	"untilStep": func(args []any, _ float64) float64 {
		return 16 * math.Abs(number(args, 1)-number(args, 0)) / max(1, math.Abs(number(args, 2)))
	},
	"seq": func(args []any, _ float64) float64 {
		var all float64
		for i := range args {
			all += math.Abs(number(args, i))
		}
		if len(args) == 3 {
			all /= max(1, math.Abs(number(args, 1)))
		}
		return 64 * all
	},
	"replace": func(args []any, size float64) float64 {
		return size + float64(strings.Count(text(args, 2), text(args, 0)))*float64(len(text(args, 1)))
	},
	"join":                       func(args []any, size float64) float64 { return size + size/16*float64(len(text(args, 0))) },
	"printf":                     formatted,
	"regexReplaceAll":            replaced,
	"mustRegexReplaceAll":        replaced,
	"regexReplaceAllLiteral":     replaced,
	"mustRegexReplaceAllLiteral": replaced,
}

func indented(args []any, size float64) float64 {
	return size + number(args, 0)*float64(1+strings.Count(text(args, 1), "\n"))
}

// formatted counts each verb as all arguments. Go takes a width up to 1,000,000.
func formatted(args []any, size float64) float64 {
	format := text(args, 0)
	verb := size - float64(len(format))
	if strings.ContainsAny(format, "0123456789*") {
		verb += 1e6
	}
	return float64(len(format)) + verb*float64(strings.Count(format, "%"))
}

// replaced counts the replacement, or the whole text in each variable of it, for each byte.
func replaced(args []any, _ float64) float64 {
	return float64(len(text(args, 1))+1) * float64(len(text(args, 2))+1)
}

func number(args []any, i int) float64 {
	n, _ := args[i].(int)
	return float64(n)
}

func text(args []any, i int) string {
	s, _ := args[i].(string)
	return s
}
