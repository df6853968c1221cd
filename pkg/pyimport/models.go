package pyimport

import (
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// model returns the value of a name that this package knows better than the source of the
// name's module. It is called once for each module that binds the name.
type model func(*Run) value

// models are the names that are known, by module and name.
var models = map[string]map[string]model{}

// models returns the models of a module.
func (m *module) models() map[string]model {
	if m.copyOf != "" {
		return models[m.copyOf]
	}
	if !m.modelled {
		m.table, m.modelled = modelsOf(m.name), true
	}
	return m.table
}

// copied returns the module of which a file is a copy under another name, or "": that of
// packaging's versions, which pandas has as pandas.util.version.
func copied(f *pysource.File) string {
	marks := []string{"Version", "InvalidVersion", "_parse_letter_version", "_cmpkey"}
	left := len(marks)
	for _, s := range f.Body {
		for _, name := range boundBy(s) {
			if slices.Contains(marks, name) {
				left--
			}
		}
	}
	if left <= 0 {
		return "packaging.version"
	}
	return ""
}

// boundBy returns the names that a definition or an assignment binds.
func boundBy(s pysource.Stmt) []string {
	switch s := s.(type) {
	case *pysource.Def:
		return []string{s.Name}
	case *pysource.Class:
		return []string{s.Name}
	case *pysource.Assign:
		var list []string
		for _, t := range s.Targets {
			if n, ok := t.(*pysource.Name); ok {
				list = append(list, n.ID)
			}
		}
		return list
	}
	return nil
}

// modelsOf returns the models of a module. Vendored copies of packaging have those of
// packaging.
func modelsOf(name string) map[string]model {
	if m, ok := models[name]; ok {
		return m
	}
	if _, part, ok := strings.Cut(name, ".packaging."); ok {
		return models["packaging."+part]
	}
	return nil
}

// functions adds functions to the models of modules.
func functions(modules string, table map[string]func(*Run, *args) value) {
	for _, mod := range strings.Fields(modules) {
		for name, fn := range table {
			b := &builtin{name: mod + "." + name, fn: fn}
			addModel(mod, name, func(*Run) value { return b })
		}
	}
}

// constants adds values to the models of modules.
func constants(modules string, table map[string]value) {
	for _, mod := range strings.Fields(modules) {
		for name, v := range table {
			addModel(mod, name, func(*Run) value { return v })
		}
	}
}

// isConstant reports whether a value of a model is one that no program sets anew: ctypes.RTLD_GLOBAL, os.sep.
func isConstant(v value) bool {
	switch v.(type) {
	case int64, string:
		return true
	}
	return false
}

func addModel(mod, name string, m model) {
	if models[mod] == nil {
		models[mod] = map[string]model{}
	}
	models[mod][name] = m
}

// classModel adds a class whose instances this package makes.
func classModel(mod, name string, make func(r *Run, c *class, a *args) value) {
	addModel(mod, name, func(r *Run) value {
		key := mod + "." + name
		if c, ok := r.classes[key]; ok {
			return c
		}
		c := r.newClass(name, mod, nil)
		c.make = make
		r.classes[key] = c
		return c
	})
}
