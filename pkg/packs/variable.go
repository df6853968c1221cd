package packs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// LdLibraryPath is the name of the variable with the loader's search path.
const LdLibraryPath = "LD_LIBRARY_PATH"

// Edit is a change of one environment variable that holds a list of elements.
type Edit struct {
	Variable string `yaml:"variable"`
	// Op is one of [editOps].
	Op string `yaml:"op"`
	// Separator holds the bytes that separate elements. The first of them joins elements.
	// Empty: those of the loader, colon and semicolon. Spaces around a comma do not count.
	Separator string `yaml:"separator"`
	// Value is the element or elements, or the whole value for set. A finding's Values fill
	// its placeholders. If the finding lacks one, there is no edit.
	Value string `yaml:"value"`
	// Default is the value that a variable which is unset or empty stands for; append and
	// prepend add to it.
	Default string `yaml:"default"`
}

// editOps are the operations of an [Edit]: append adds an element that is not there yet at
// the end, prepend puts one at the beginning, last moves one to the end, drop removes one,
// tidy removes empty elements, set replaces the whole value.
var editOps = []string{"append", "prepend", "last", "drop", "tidy", "set"}

func (e *Edit) validate() error {
	switch {
	case e.Variable == "" || strings.ContainsAny(e.Variable, "= \t\n") || !slices.Contains(editOps, e.Op):
		return fmt.Errorf("edit of %q: needs a variable and an op (%s)", e.Variable, strings.Join(editOps, ", "))
	case (e.Value == "") != (e.Op == "tidy"):
		return fmt.Errorf("edit of %s: needs a value unless it is tidy", e.Variable)
	case strings.Trim(e.Separator, ":;, ") != "":
		return fmt.Errorf("edit of %s: separators are colon, semicolon, comma and space", e.Variable)
	}
	return nil
}

// For returns the edit with its placeholders filled from a finding's values, and whether
// there is a value for each.
func (e Edit) For(values map[string]string) (_ Edit, ok bool) {
	for _, name := range inBraces.FindAllString(e.Value, -1) {
		if _, ok := values[name[1:len(name)-1]]; !ok {
			return e, false
		}
	}
	e.Value = Fill(e.Value, values)
	return e, true
}

// Apply returns the variable's value after the edit; old is "" if the variable is not set.
func (e Edit) Apply(old string) string {
	switch {
	case e.Op == "set":
		return e.Value
	case old == "" && (e.Op == "append" || e.Op == "prepend"):
		old = e.Default
	}
	list := e.Elements(old)
	after := list
	if e.Op == "tidy" {
		after = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	}
	for _, v := range e.Elements(e.Value) {
		if v != "" {
			after = e.applyTo(after, v)
		}
	}
	if slices.Equal(list, after) {
		return old
	}
	return strings.Join(after, e.separator()[:1])
}

// applyTo returns list after the edit with one element.
func (e Edit) applyTo(list []string, v string) []string {
	without := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return SameElement(s, v) })
	switch e.Op {
	case "append":
		if len(without) == len(list) {
			return append(without, v)
		}
	case "prepend":
		return append([]string{v}, without...)
	case "last":
		return append(without, v)
	case "drop":
		return without
	}
	return list
}

// Elements returns the elements of a value, empty ones too; an empty value has none.
func (e Edit) Elements(value string) []string {
	var list []string
	for sep, more := e.separator(), value != ""; more; {
		one := value
		i := strings.IndexAny(value, sep)
		if more = i >= 0; more {
			one, value = value[:i], value[i+1:]
		}
		if strings.Contains(sep, ",") {
			one = strings.TrimSpace(one)
		}
		list = append(list, one)
	}
	return list
}

func (e Edit) separator() string { return cmp.Or(e.Separator, ":;") }

// SameElement reports whether two elements are equal, but for slashes at the end of a
// directory.
func SameElement(a, b string) bool {
	return a == b || a != "" && b != "" && strings.TrimRight(a, "/") == strings.TrimRight(b, "/")
}

// Edits returns the edits of a rule for which the values of a finding have all
// placeholders.
func (p *Packs) Edits(rule string, values map[string]string) []Edit {
	r := p.Rule(rule)
	if r == nil {
		return nil
	}
	var list []Edit
	for _, e := range r.Edits {
		if e, ok := e.For(values); ok {
			list = append(list, e)
		}
	}
	return list
}
