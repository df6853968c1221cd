package pyimport

import "strings"

// model returns the value of a name that this package knows better than the source of the
// name's module. It is called once for each module that binds the name.
type model func(*Run) value

// models are the names that are known, by module and name.
var models = map[string]map[string]model{}

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
