package pyimport

import "unicode"

// Django imports the settings that a variable names, the applications that they list with their
// models, and the module of URLs (django/apps/registry.py, django/apps/config.py,
// django/core/management/__init__.py).

func init() {
	functions("django", map[string]func(*Run, *args) value{"setup": func(r *Run, _ *args) value { r.djangoSetup(); return nil }})
	for _, mod := range []string{"wsgi", "asgi"} {
		functions("django.core."+mod, map[string]func(*Run, *args) value{"get_" + mod + "_application": func(r *Run, _ *args) value {
			r.djangoSetup()
			return unknownf("an application of Django")
		}})
	}
	addModel("django.conf", "settings", func(*Run) value { return &djangoSettings{} })
	functions("django.core.management", map[string]func(*Run, *args) value{"execute_from_command_line": runDjango})
}

// djangoSettings is django.conf.settings: it imports the settings when a program first reads one (LazySettings of
// django/conf/__init__.py), unless the program has configured them itself.
type djangoSettings struct{ configured bool }

func (*djangoSettings) typeName() string { return "django.conf.LazySettings" }

func (s *djangoSettings) attr(r *Run, name string) (value, bool) {
	if name == "configure" {
		return &builtin{"LazySettings.configure", func(*Run, *args) value { s.configured = true; return nil }}, true
	}
	v, _ := r.env.get("DJANGO_SETTINGS_MODULE")
	mod, ok := v.(string)
	if !ok || s.configured || !isDotted(mod) || name == "" || !unicode.IsUpper([]rune(name)[0]) {
		return nil, false
	}
	r.importNamed(mod)
	m := r.moduleOf(mod, "")
	if m == nil || r.raised != nil {
		return nil, false
	}
	return m.names.get(name)
}

// djangoSetup is django.setup. It returns the settings, and the names of the applications.
func (r *Run) djangoSetup() (settings *module, apps []string) {
	v, _ := r.env.get("DJANGO_SETTINGS_MODULE")
	name, ok := v.(string)
	if !ok || !isDotted(name) {
		return nil, nil
	}
	r.importNamed(name)
	if settings = r.moduleOf(name, ""); settings == nil || r.raised != nil {
		return nil, nil
	}
	list, _ := settings.names.get("INSTALLED_APPS")
	items, more := r.iterate(list)
	if more != "" {
		r.note("the applications of " + name + " are not known: " + more)
	}
	var classes []*class
	r.spend(16 * len(items)) // each is searched for, with its parts
	for _, item := range items {
		entry, ok := item.(string)
		if !ok || !isDotted(entry) {
			continue
		}
		app, c := r.djangoApp(entry)
		if r.raised != nil {
			return nil, nil
		}
		apps = append(apps, app)
		if c != nil {
			classes = append(classes, c)
		}
	}
	for _, app := range apps {
		if r.Finds(app, "models") && r.raised == nil {
			r.importModule(app + ".models")
		}
	}
	for _, c := range classes {
		if ready, ok := c.attrs.get("ready"); ok && r.raised == nil {
			i := &instance{of: c, attrs: r.newNames()}
			r.openUp(i.attrs, "a class of Django")
			r.call(ready, &args{pos: []value{i}})
		}
	}
	return settings, apps
}

// djangoApp imports an application, which an entry of the settings names by its module or the class of
// its configuration. It returns the module's name, and the class or nil.
func (r *Run) djangoApp(entry string) (app string, config *class) {
	parent, last, dotted := cutLast(entry)
	if !dotted || !unicode.IsUpper(rune(last[0])) {
		r.importModule(entry)
		if r.raised != nil || !r.Finds(entry, "apps") {
			return entry, nil
		}
		r.importModule(entry + ".apps")
		if m := r.moduleOf(entry+".apps", ""); m != nil && r.raised == nil {
			config = onlyClass(m)
		}
		return entry, config
	}
	r.importModule(parent)
	m := r.moduleOf(parent, "")
	if m == nil || r.raised != nil {
		return parent, nil
	}
	app, _, _ = cutLast(parent)
	v, _ := m.names.get(last)
	if c, ok := v.(*class); ok {
		config = c
		if name, ok := c.attrs.get("name"); ok {
			if text, ok := name.(string); ok && isDotted(text) {
				app = text
			}
		}
	}
	if app == "" {
		return parent, config
	}
	r.importModule(app)
	return app, config
}

// onlyClass returns the only class that a module defines, or nil.
func onlyClass(m *module) *class {
	var only *class
	for _, name := range m.names.order {
		if c, ok := m.names.m[name].(*class); ok && c.module == m.name {
			if only != nil {
				return nil
			}
			only = c
		}
	}
	return only
}

// runDjango is execute_from_command_line: it runs a command of Django's, or one that an application
// brings as management/commands/NAME.py.
func runDjango(r *Run, a *args) value {
	done := unknownf("the result of a command")
	v, _ := a.get(0, "argv")
	if v == nil {
		v, _ = r.sys.names.get("argv")
	}
	items, _ := r.iterate(v)
	if len(items) < 2 {
		return done
	}
	command, ok := items[1].(string)
	settings, apps := r.djangoSetup()
	if !ok || settings == nil || r.raised != nil || !isDotted(command) {
		return done
	}
	for _, app := range apps {
		for _, part := range []string{"management", "commands", command} {
			if r.raised != nil || !r.Finds(app, part) {
				break
			}
			app += "." + part
			r.importModule(app)
		}
	}
	switch command {
	case "runserver", "check", "migrate":
		r.importSetting(settings, "ROOT_URLCONF", false)
		if command == "runserver" {
			r.importSetting(settings, "WSGI_APPLICATION", true)
		}
	}
	return done
}

// importSetting imports the module that a setting names, or whose attribute it names.
func (r *Run) importSetting(settings *module, name string, attribute bool) {
	v, _ := settings.names.get(name)
	text, ok := v.(string)
	if attribute {
		text, _, _ = cutLast(text)
	}
	if ok && isDotted(text) && r.raised == nil {
		r.importModule(text)
	}
}
