package pyimport

import (
	"strings"

	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

// Servers import the application that a program names by a text MODULE:ATTRIBUTE when they
// start (uvicorn/importer.py, granian/_internal.py, hypercorn/utils.py, gunicorn/util.py).

func init() {
	functions("uvicorn uvicorn.main", map[string]func(*Run, *args) value{"run": runUvicorn})
	classModel("uvicorn.config", "Config", func(_ *Run, _ *class, a *args) value {
		return configOf(a)
	})
	for _, mod := range []string{"uvicorn.server", "uvicorn.main"} {
		classModel(mod, "Server", func(_ *Run, _ *class, a *args) value {
			v, _ := a.get(0, "config")
			c, _ := v.(*serverConfig)
			return &server{config: c, serve: []string{"run", "serve"}}
		})
	}
	classModel("granian", "Granian", func(_ *Run, _ *class, a *args) value {
		app, _ := a.get(0, "target")
		return &server{config: &serverConfig{app: app}, serve: []string{"serve"}}
	})
	functions("hypercorn.run", map[string]func(*Run, *args) value{"run": func(r *Run, a *args) value {
		if v, ok := a.get(0, "config"); ok {
			if i, ok := v.(*instance); ok {
				app, _ := i.attrs.get("application_path")
				r.importApplication(app)
			}
		}
		return unknownf("the result of a server")
	}})
	for _, name := range []string{"BaseApplication", "Application"} {
		addModel("gunicorn.app.base", name, func(r *Run) value { return r.gunicornApplication(name, "gunicorn.app.base") })
	}
	addModel("gunicorn.app.wsgiapp", "WSGIApplication", func(r *Run) value { return r.gunicornApplication("WSGIApplication", "gunicorn.app.wsgiapp") })
	functions("runpy", map[string]func(*Run, *args) value{"run_module": runModule, "run_path": runPath, "_run_module_as_main": runModule})
}

// runUvicorn is uvicorn.run.
func runUvicorn(r *Run, a *args) value {
	if dir, ok := a.text(-1, "app_dir"); ok {
		r.AddPath(dir)
	}
	r.serve(configOf(a))
	return unknownf("the result of a server")
}

// serverConfig is a configuration of a server: uvicorn.Config.
type serverConfig struct {
	app     value
	factory bool // app makes the application
	off     bool // the lifespan of the application does not run
}

// configOf returns the configuration of uvicorn that its arguments give.
func configOf(a *args) *serverConfig {
	c := &serverConfig{}
	c.app, _ = a.get(0, "app")
	factory, _ := a.get(-1, "factory")
	span, _ := a.get(-1, "lifespan")
	c.factory, c.off = factory == true, span == "off"
	return c
}

func (*serverConfig) typeName() string { return "a configuration" }

func (c *serverConfig) attr(r *Run, name string) (value, bool) {
	switch name {
	case "app":
		return c.app, true
	case "load":
		return &builtin{name, func(r *Run, _ *args) value { r.importApplication(c.app); return nil }}, true
	}
	return nil, false
}

// server is a server, which imports its application by the methods of some names.
type server struct {
	config *serverConfig
	serve  []string
}

func (*server) typeName() string { return "a server" }

func (s *server) attr(_ *Run, name string) (value, bool) {
	if name == "config" && s.config != nil {
		return s.config, true
	}
	for _, serve := range s.serve {
		if name == serve && s.config != nil {
			return &builtin{name, func(r *Run, _ *args) value {
				r.serve(s.config)
				return unknownf("the result of a server")
			}}, true
		}
	}
	return nil, false
}

// importApplication imports the module of a text MODULE:ATTRIBUTE.
func (r *Run) importApplication(v value) {
	text, ok := v.(string)
	if !ok {
		return
	}
	module, _, _ := strings.Cut(text, ":")
	if isDotted(module) {
		r.importNamed(module)
	}
}

// serve imports the application of a server, and runs what the application has for the server's start.
func (r *Run) serve(c *serverConfig) {
	app := c.app
	if text, ok := app.(string); ok {
		r.importApplication(app)
		module, name, _ := strings.Cut(text, ":")
		m := r.moduleOf(module, "")
		if m == nil || r.raised != nil {
			return
		}
		app, _ = m.names.get(name)
	}
	if _, made := app.(*function); c.factory && made && r.raised == nil {
		app = r.call(app, &args{})
	}
	if !c.off {
		r.startUp(app)
	}
}

// isDotted reports whether a text is the dotted name of a module, or too long to be one.
func isDotted(text string) bool {
	if len(text) > maxModule {
		return true // importModule says so
	}
	for part := range strings.SplitSeq(text, ".") {
		if part == "" || strings.TrimLeft(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

// importNamed imports a module that a text names. One that is not there may come from a volume.
func (r *Run) importNamed(module string) value {
	m := r.importModule(module)
	e := r.raised
	if e == nil || e.from == nil || e.from.Type != "ModuleNotFoundError" || e.from.Doubt != "" {
		return m
	}
	top, _, _ := strings.Cut(module, ".")
	if rest, ok := strings.CutPrefix(e.from.Text, "No module named '"+top); ok && (rest == "'" || strings.HasPrefix(rest, ".")) {
		e.from.Doubt = "the image has no module " + top + ", and may get it from a volume"
		e.doubt = e.from.Doubt
	}
	return m
}

// gunicornApplication returns a class whose __init__ calls load_config, and whose method run starts
// workers, which call load.
func (r *Run) gunicornApplication(name, mod string) value {
	key := mod + "." + name
	if c, ok := r.classes[key]; ok {
		return c
	}
	c := r.newClass(name, mod, nil)
	c.opaque = "a class of gunicorn"
	c.attrs.put("run", &builtin{key + ".run", func(r *Run, a *args) value {
		i, ok := a.pos[0].(*instance)
		if !ok {
			return unknownf("the result of a server")
		}
		if load, ok := i.of.find("load"); ok {
			r.call(load, &args{pos: []value{i}})
		} else if app, ok := i.attrs.get("app_uri"); ok {
			r.importApplication(app)
		}
		return unknownf("the result of a server")
	}})
	c.attrs.put("__init__", &builtin{key + ".__init__", func(r *Run, a *args) value {
		if i, ok := a.pos[0].(*instance); ok {
			if f, ok := i.of.find("load_config"); ok {
				r.call(f, &args{pos: []value{i}})
			}
		}
		return nil
	}})
	r.classes[key] = c
	return c
}

// runModule is runpy.run_module.
func runModule(r *Run, a *args) value {
	name, ok := a.text(0, "mod_name")
	if !ok {
		r.note("a module that is run is not known")
		return unknownf("the names of a module")
	}
	as, ok := a.text(2, "run_name")
	if !ok {
		as = name
	}
	search := r.path
	for range 2 {
		if parent, _, dotted := cutLast(name); dotted {
			m := r.importModule(parent)
			if r.raised != nil {
				return unknownf("the names of a module")
			}
			if search = r.searchPath(m); search == nil {
				r.note("the package of " + name + " is not known")
				return unknownf("the names of a module")
			}
		}
		spec, doubt := r.find(name, search)
		switch {
		case spec == nil:
			r.missing(name, doubt, "No module named "+name)
			if e := r.raised; e != nil { // runpy._get_module_details
				e.of.of, e.from.Type = r.exceptionClass("ImportError"), "ImportError"
			}
			return unknownf("the names of a module")
		case spec.Search != nil:
			name += ".__main__"
			continue
		}
		pkg, _, _ := cutLast(name)
		return r.runAs(as, pkg, spec)
	}
	return unknownf("the names of a module")
}

// runPath is runpy.run_path.
func runPath(r *Run, a *args) value {
	file, ok := a.text(0, "path_name")
	if !ok {
		r.note("a file that is run is not known")
		return unknownf("the names of a module")
	}
	as, ok := a.text(2, "run_name")
	if !ok {
		as = "<run_path>"
	}
	file = r.absolute(file)
	if is, _ := r.isFile(file).(bool); !is {
		r.note("the file " + file + " that is run is not known")
		return unknownf("the names of a module")
	}
	return r.runAs(as, "", &pyenv.Spec{Name: as, Kind: pyenv.Source, File: file})
}

// runAs executes a file as a module of a name.
func (r *Run) runAs(name, pkg string, spec *pyenv.Spec) value {
	if r.loads++; r.loads > r.opt.Modules || r.nesting >= maxImports {
		r.note("more modules are run than are followed")
		return unknownf("the names of a module")
	}
	m := r.newModule(name, spec.File)
	m.names.put("__package__", pkg)
	m.names.put("__file__", spec.File)
	n := r.child(Module, spec.Name, spec.File, "ImportError")
	outer := r.node
	r.node = n
	r.nesting++
	r.execModule(m, spec)
	r.nesting--
	r.node = outer
	if r.raised != nil {
		n.Failed = r.raised.failure()
	}
	return unknownf("the names of a module")
}
