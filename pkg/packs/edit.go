package packs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Edit is a change of one variable of the environment, which is a list of
// elements.
type Edit struct {
	Variable string `yaml:"variable"`
	// Op is one of [editOps].
	Op string `yaml:"op"`
	// Separator holds the bytes that separate elements, the one to join them with
	// first; empty means the loader's, a colon or a semicolon. Around a comma
	// spaces do not count.
	Separator string `yaml:"separator"`
	// Value is the element, or several; of set the whole. A finding says what
	// {name} stands for (its Values); of a finding that does not, the edit is
	// none.
	Value string `yaml:"value"`
	// Default is what the variable means where it is not set or empty, and is
	// added to.
	Default string `yaml:"default"`
}

// editOps are what an [Edit] does with an element: it comes behind the others, or
// before them, unless it is there; from where it is it goes to the end; it goes.
// tidy takes out elements that are empty, set replaces the whole.
var editOps = []string{"append", "prepend", "last", "drop", "tidy", "set"}

func (e *Edit) validate() error {
	switch {
	case e.Variable == "" || strings.ContainsAny(e.Variable, "= \t\n") || !slices.Contains(editOps, e.Op):
		return fmt.Errorf("edit of %q: needs a variable and an op (%s)", e.Variable, strings.Join(editOps, ", "))
	case (e.Value == "") != (e.Op == "tidy"):
		return fmt.Errorf("edit of %s: needs a value, and to tidy none", e.Variable)
	case strings.Trim(e.Separator, ":;, ") != "":
		return fmt.Errorf("edit of %s: separators are colon, semicolon, comma and space", e.Variable)
	}
	return nil
}

// For returns the edit with the values of a finding in the place of their names, and
// whether the finding has them all.
func (e Edit) For(values map[string]string) (_ Edit, ok bool) {
	for _, name := range inBraces.FindAllString(e.Value, -1) {
		if _, ok := values[name[1:len(name)-1]]; !ok {
			return e, false
		}
	}
	e.Value = Fill(e.Value, values)
	return e, true
}

// Apply is the variable's value after the edit; old is empty where it is not
// set.
func (e Edit) Apply(old string) string {
	if e.Op == "set" {
		return e.Value
	}
	if old == "" && (e.Op == "append" || e.Op == "prepend") {
		old = e.Default
	}
	list, changed := e.Elements(old), false
	for _, v := range e.Elements(e.Value) {
		if v == "" {
			continue
		}
		without := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return SameElement(s, v) })
		switch e.Op {
		case "append":
			if len(without) < len(list) {
				continue
			}
			list = append(list, v)
		case "prepend", "last":
			if e.Op == "last" {
				list = append(without, v)
			} else {
				list = append([]string{v}, without...)
			}
		case "drop":
			if len(without) == len(list) {
				continue
			}
			list = without
		}
		changed = true
	}
	if e.Op == "tidy" {
		n := len(list)
		list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
		changed = len(list) < n
	}
	if !changed {
		return old
	}
	return strings.Join(list, e.separator()[:1])
}

// Elements are those of a value, empty ones too; an empty value has none.
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

// SameElement compares elements; a slash at the end of a directory makes no
// difference.
func SameElement(a, b string) bool {
	return a == b || a != "" && b != "" && strings.TrimRight(a, "/") == strings.TrimRight(b, "/")
}

// Edits are what a finding's rule would do with variables, as far as the finding
// says what it needs.
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
