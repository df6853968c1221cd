package packs

import (
	"fmt"
	"slices"
)

// Attribute is an attribute of an extension module whose value says for what the module was built.
type Attribute struct {
	Module string `yaml:"module"` // dotted
	Name   string `yaml:"name"`
	// Needs are patterns of DT_NEEDED: the attribute is True if the module's file needs such a library,
	// else False.
	Needs []string `yaml:"needs"`
	// Value is the attribute's value in each build of the module. A row has it or Needs.
	Value   *int64   `yaml:"value"`
	Sources []string `yaml:"sources"`
}

func (a *Attribute) validate() error {
	if a.Module == "" || a.Name == "" || (len(a.Needs) == 0) == (a.Value == nil) || len(a.Sources) == 0 {
		return fmt.Errorf("attributes %q: needs a module, a name, either a value or the libraries that the module needs if it is true (needs), and sources", a.Module)
	}
	return checkPatterns("attributes "+a.Module, a.Needs)
}

// Built returns the attributes of an extension module whose file needs these libraries: bool or int64.
func Built(all []*Attribute, module string, needed []string) map[string]any {
	var set map[string]any
	for _, a := range all {
		if a.Module != module {
			continue
		}
		if set == nil {
			set = map[string]any{}
		}
		if a.Value != nil {
			set[a.Name] = *a.Value
			continue
		}
		set[a.Name] = slices.ContainsFunc(needed, func(name string) bool { return MatchAny(a.Needs, name) })
	}
	return set
}
