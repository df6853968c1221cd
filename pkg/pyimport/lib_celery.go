package pyimport

import (
	"slices"
	"strings"
)

// A worker of Celery imports the modules of tasks of its application: those that are found in
// packages, then those that its settings list (celery/loaders/base.py, import_default_modules;
// celery/app/base.py). Which application it is, find_app says (celery/app/utils.py).

func init() {
	classModel("celery.app.base", "Celery", func(r *Run, _ *class, a *args) value {
		c := r.classes["celery.Settings"]
		if c == nil {
			c = r.newClass("Settings", "celery.app.utils", nil)
			c.opaque = "settings of Celery"
			r.classes["celery.Settings"] = c
		}
		app := &celeryApp{mark: r.born(), conf: &instance{of: c, attrs: r.newNames()}}
		r.openUp(app.conf.attrs, c.opaque)
		app.conf.attrs.put("update", &builtin{"Settings.update", app.update})
		if v, ok := a.get(-1, "include"); ok {
			app.conf.attrs.put("include", v)
		}
		if v, ok := a.get(-1, "config_source"); ok {
			app.config = v
		}
		return app
	})
}

// celeryApp is an application of Celery.
type celeryApp struct {
	mark
	conf *instance
	celeryState
}

// celeryState holds all that changes of an application, apart from its settings.
type celeryState struct {
	config value       // of config_from_object
	prefix string      // of the names of its settings
	finds  []*discover // of autodiscover_tasks, in order
}

// discover is a call of autodiscover_tasks.
type discover struct{ packages, name value }

func (*celeryApp) typeName() string { return "celery.Celery" }

func (c *celeryApp) snapshot() any { return c.celeryState }

func (c *celeryApp) restore(s any) { c.celeryState = s.(celeryState) }

// join keeps the modules that both branches find. A worker may not import those of one branch.
func (c *celeryApp) join(r *Run, a, b any, why *unknown) {
	x, y := a.(celeryState), b.(celeryState)
	c.celeryState = x
	if !r.same(x.config, y.config) || x.prefix != y.prefix {
		c.config = why
	}
	c.finds = slices.DeleteFunc(slices.Clone(x.finds), func(d *discover) bool { return !slices.Contains(y.finds, d) })
}

func (c *celeryApp) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "conf":
		return c.conf, true
	case "autodiscover_tasks":
		return &builtin{name, func(r *Run, a *args) value {
			d := &discover{}
			d.packages, _ = a.get(0, "packages")
			if v, ok := a.get(1, "related_name"); ok {
				d.name = v
			} else {
				d.name = "tasks"
			}
			v, _ := a.get(2, "force")
			if is, _ := truth(v); is {
				r.discoverTasks(d)
				return nil
			}
			r.change(c)
			c.finds = append(slices.Clip(c.finds), d)
			return nil
		}}, true
	case "config_from_object":
		return &builtin{name, func(r *Run, a *args) value {
			r.change(c)
			c.config, _ = a.get(0, "obj")
			c.prefix, _ = a.text(3, "namespace")
			return nil
		}}, true
	case "worker_main":
		return &builtin{name, func(r *Run, _ *args) value { r.celeryTasks(c); return unknownf("the result of a worker") }}, true
	}
	return nil, false
}

// update is conf.update.
func (c *celeryApp) update(r *Run, a *args) value {
	b := *a
	for _, v := range a.pos {
		b.spread(v)
	}
	for _, name := range sortedKeys(b.kw) {
		r.set(c.conf.attrs, name, b.kw[name])
	}
	return nil
}

// Celery imports the module of an application of Celery as its command does, by the value of its option
// --app, and for a worker the modules of the tasks.
func (r *Run) Celery(app string, worker bool) *Node {
	return r.program(app, "", func() {
		c := r.findCelery(app, 0)
		if worker && c != nil && r.raised == nil {
			r.celeryTasks(c)
		}
	})
}

// findCelery imports the module of an application and returns the application, or nil if it is not known.
func (r *Run) findCelery(app string, depth int) *celeryApp {
	name, attr, _ := strings.Cut(app, ":")
	parent, last, dotted := cutLast(name)
	if dotted && attr == "" {
		r.importModule(parent)
		m := r.moduleOf(parent, "")
		if m == nil || r.raised != nil {
			return nil
		}
		v, ok := m.names.get(last)
		if _, is := v.(*module); !is && (ok || m.names.open != "" && !r.Finds(parent, last)) {
			c, _ := v.(*celeryApp)
			return c
		}
	}
	r.importModule(name)
	m := r.moduleOf(name, "")
	if m == nil || r.raised != nil {
		return nil
	}
	names := []string{"app", "celery"}
	if attr != "" {
		names = []string{attr}
	}
	for _, n := range names {
		v, ok := m.names.get(n)
		if _, is := v.(*module); ok && !is {
			c, _ := v.(*celeryApp)
			return c
		}
	}
	if attr != "" || m.names.open != "" {
		return nil
	}
	if depth == 0 && r.Finds(name, "celery") {
		return r.findCelery(name+".celery", 1)
	}
	for _, n := range m.names.order {
		if c, ok := m.names.m[n].(*celeryApp); ok {
			return c
		}
	}
	return nil
}

// celeryTasks imports the modules of an application's tasks.
func (r *Run) celeryTasks(c *celeryApp) {
	setting := r.celerySettings(c)
	for _, d := range c.finds {
		if r.raised == nil {
			r.discoverTasks(d)
		}
	}
	for _, name := range []string{"imports", "include"} {
		v, ok := setting(name)
		if !ok || v == nil {
			continue
		}
		items, more := []value{v}, ""
		if _, one := v.(string); !one {
			items, more = r.iterate(v)
		}
		if more != "" {
			r.note("the setting " + name + " of Celery is not known: " + more)
		}
		for _, item := range items {
			if module, ok := item.(string); ok && isDotted(module) && r.raised == nil {
				r.importNamed(module)
			}
		}
	}
}

// celerySettings returns a function that gives the settings of an application: those that it sets itself,
// then those of a module or an object.
func (r *Run) celerySettings(c *celeryApp) func(name string) (value, bool) {
	from := c.config
	if text, ok := from.(string); ok && text != "" && !strings.Contains(text, ":") && isDotted(text) {
		from = r.importNamed(text)
	}
	return func(name string) (value, bool) {
		if v, ok := c.conf.attrs.get(name); ok {
			return v, true
		}
		var names *names
		switch from := from.(type) {
		case *module:
			names = from.names
		case *class:
			names = from.attrs
		case *instance:
			names = from.of.attrs
		default:
			return nil, false
		}
		old := "CELERY_" + strings.ToUpper(name)
		if c.prefix != "" {
			name, old = c.prefix+"_"+strings.ToUpper(name), ""
		}
		if v, ok := names.get(name); ok {
			return v, true
		}
		return names.get(old)
	}
}

// discoverTasks imports the modules of a name from packages: without packages those of Django's
// applications. A package without such a module is passed over.
func (r *Run) discoverTasks(d *discover) {
	related, _ := d.name.(string)
	packages := d.packages
	if f, ok := packages.(*function); ok {
		packages = r.call(f, &args{})
	}
	var names []string
	if packages == nil {
		if v, _ := r.env.get("DJANGO_SETTINGS_MODULE"); v != nil {
			_, names = r.djangoSetup()
		}
	} else {
		items, more := r.iterate(packages)
		if more != "" {
			r.note("the packages of tasks are not known: " + more)
		}
		for _, item := range items {
			if name, ok := item.(string); ok && isDotted(name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		if r.raised != nil {
			return
		}
		if parent, last, dotted := cutLast(name); dotted {
			r.importNamed(parent)
			if m := r.moduleOf(parent, ""); r.raised != nil || m == nil {
				return
			}
			if !r.Finds(parent, last) { // the name of a class
				name = parent
			}
		}
		r.importNamed(name)
		if r.raised == nil && related != "" && r.Finds(name, related) {
			r.importModule(name + "." + related)
		}
	}
}
