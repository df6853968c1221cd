package pyimport

import (
	"slices"
	"strings"
)

func init() {
	functions("platform", map[string]func(*Run, *args) value{
		"system":    func(*Run, *args) value { return "Linux" },
		"machine":   func(r *Run, _ *args) value { return r.opt.Machine },
		"processor": notKnown("processor"),
		"node":      notKnown("node"), "release": notKnown("release"), "version": notKnown("version"),
		"platform": notKnown("platform"), "libc_ver": notKnown("libc_ver"),
		"architecture": func(*Run, *args) value { return &tuple{items: []value{"64bit", "ELF"}} },
		"python_implementation": func(r *Run, _ *args) value {
			if r.in.Implementation == "pypy" {
				return "PyPy"
			}
			return "CPython"
		},
		"python_version":       pythonVersion,
		"python_version_tuple": notKnown("python_version_tuple"),
		"uname":                notKnown("uname"),
		"win32_ver":            notKnown("win32_ver"), "mac_ver": notKnown("mac_ver"),
	})
	functions("textwrap", map[string]func(*Run, *args) value{"dedent": dedent})
	functions("sysconfig", map[string]func(*Run, *args) value{
		"get_platform": func(r *Run, _ *args) value { return "linux-" + r.opt.Machine },
		"get_config_var": func(r *Run, a *args) value {
			name, _ := a.text(0, "name")
			vars := r.buildVars()
			switch name {
			case "EXT_SUFFIX":
				if len(r.in.Suffixes) > 0 {
					return r.in.Suffixes[0]
				}
			case "SHLIB_SUFFIX":
				return ".so"
			case "Py_GIL_DISABLED":
				return toInt(r.in.Free)
			}
			if d, ok := vars.(*dict); ok && name != "" {
				v, ok, _ := d.get(name)
				if ok {
					return v
				}
			}
			return unknownf("a variable of sysconfig")
		},
		"get_config_vars": func(r *Run, a *args) value {
			if vars := r.buildVars(); len(a.pos) == 0 {
				return vars
			}
			return unknownf("variables of sysconfig")
		},
		"get_paths": buildPath, "get_path": buildPath,
		"is_python_build": func(*Run, *args) value { return false },
	})
	functions("struct _struct", map[string]func(*Run, *args) value{"calcsize": func(_ *Run, a *args) value {
		t, _ := a.text(0, "")
		if t = strings.TrimPrefix(t, "@"); len(t) == 1 {
			for _, size := range []struct {
				of string
				n  int64
			}{{"cbB?x", 1}, {"hH", 2}, {"iIf", 4}, {"lLqQnNPd", 8}} {
				if strings.Contains(size.of, t) {
					return size.n
				}
			}
		}
		return unknownf("a size")
	}})
	functions("functools _functools", map[string]func(*Run, *args) value{"reduce": reduce})
	functions("functools", map[string]func(*Run, *args) value{
		"lru_cache": decoratorMaker, "cache": identity, "wraps": wraps,
		"update_wrapper": identity,
		"total_ordering": func(_ *Run, a *args) value {
			v, _ := a.get(0, "cls")
			if c, ok := v.(*class); ok {
				c.total = true
			}
			return v
		},
		"cached_property": func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &property{get: v} },
		"partial": func(_ *Run, a *args) value {
			f, _ := a.get(0, "")
			given := *a
			return &builtin{"functools.partial", func(r *Run, b *args) value { return r.call(f, given.with(b)) }}
		},
		"singledispatch": singleDispatch,
	})
	constants("typing typing_extensions", map[string]value{"TYPE_CHECKING": false})
	functions("typing typing_extensions", map[string]func(*Run, *args) value{
		"overload": identity, "final": identity, "no_type_check": identity, "runtime_checkable": identity,
		"cast":                func(_ *Run, a *args) value { v, _ := a.get(1, "val"); return v },
		"dataclass_transform": decoratorMaker,
	})
	functions("abc", map[string]func(*Run, *args) value{"abstractmethod": identity})
	functions("dataclasses", map[string]func(*Run, *args) value{"dataclass": dataclass, "field": notKnown("field")})
	classModel("contextlib", "suppress", func(_ *Run, _ *class, a *args) value { return &suppressor{&tuple{items: a.pos}} })
	classModel("contextlib", "nullcontext", func(_ *Run, _ *class, a *args) value {
		v, _ := a.get(0, "enter_result")
		return &quietContext{as: v}
	})
	functions("contextlib", map[string]func(*Run, *args) value{"contextmanager": contextManager})
	functions("warnings", map[string]func(*Run, *args) value{
		"warn": nothing, "filterwarnings": nothing, "simplefilter": nothing, "warn_explicit": nothing, "resetwarnings": nothing,
	})
	classModel("warnings", "catch_warnings", func(*Run, *class, *args) value { return &quietContext{} })
	addModel("_socket", "socket", func(r *Run) value {
		c := r.newClass("socket", "_socket", nil)
		c.opaque = "a class of an extension module"
		for _, name := range []string{"sendmsg", "recvmsg", "recvmsg_into", "sendmsg_afalg"} {
			c.attrs.put(name, unknownf("a method of sockets"))
		}
		return c
	})
	functions("_thread threading", map[string]func(*Run, *args) value{
		"Lock": quiet, "RLock": quiet, "Condition": notKnown("Condition"), "allocate_lock": quiet,
	})
	for name, of := range map[string]string{"FunctionType": "function", "LambdaType": "function", "GeneratorType": "generator", "MethodType": "method", "NoneType": "NoneType"} {
		addModel("types", name, func(r *Run) value { return r.typeClass(of) })
	}
	addModel("types", "ModuleType", func(r *Run) value { return r.moduleType() })
	addModel("types", "SimpleNamespace", func(r *Run) value {
		return r.plainClass("SimpleNamespace", "types", func(r *Run, i *instance, a *args) {
			for _, k := range sortedKeys(a.kw) {
				r.set(i.attrs, k, a.kw[k])
			}
			if len(a.pos) > 0 || a.open {
				r.openUp(i.attrs, "arguments")
			}
		})
	})
	for _, mod := range []string{"threading", "_thread", "_threading_local"} {
		addModel(mod, map[bool]string{true: "_local", false: "local"}[mod == "_thread"], func(r *Run) value {
			return r.plainClass("local", "_thread", func(*Run, *instance, *args) {})
		})
	}
	functions("ast", map[string]func(*Run, *args) value{"literal_eval": literalEval})
	functions("copy", map[string]func(*Run, *args) value{"copy": copyOf})
	functions("atexit", map[string]func(*Run, *args) value{"register": identity})
	functions("logging", map[string]func(*Run, *args) value{
		"getLogger": notKnown("getLogger"), "debug": nothing, "info": nothing, "warning": nothing, "error": nothing,
		"exception": nothing, "log": nothing, "basicConfig": nothing,
	})
}

// plainClass is a class whose objects have the attributes that the program sets.
func (r *Run) plainClass(name, mod string, init func(r *Run, i *instance, a *args)) value {
	if c, ok := r.classes[mod+"."+name]; ok {
		return c
	}
	c := r.newClass(name, mod, nil)
	c.make = func(r *Run, k *class, a *args) value {
		i := &instance{of: k, attrs: r.newNames()}
		init(r, i, a)
		return i
	}
	r.classes[mod+"."+name] = c
	return c
}

// buildVars imports the module of the standard library with the variables of the
// interpreter's build (sysconfig._init_posix), and returns them.
func (r *Run) buildVars() value {
	files := r.glob(r.in.StdLib + "/_sysconfigdata_*.py")
	if r.in.Debian { // without the platform; the other one is a link to it
		files = slices.DeleteFunc(files, func(p string) bool { return strings.Contains(p, "_linux_") })
	}
	if len(files) != 1 {
		return unknownf("variables of sysconfig")
	}
	name := strings.TrimSuffix(files[0][len(r.in.StdLib)+1:], ".py")
	v := r.importModule(name)
	if r.raised != nil {
		return v
	}
	return r.getattr(v, "build_time_vars")
}

// buildPath is sysconfig.get_path: it reads the variables of the build.
func buildPath(r *Run, _ *args) value {
	r.buildVars()
	return unknownf("a path of sysconfig")
}

// copyOf is copy.copy: another list or dict with the same items.
func copyOf(r *Run, a *args) value {
	v, _ := a.get(0, "x")
	switch v.(type) {
	case nil, bool, int64, float64, string, *tuple:
		return v
	case *list, *dict:
		return r.call(r.getattr(v, "copy"), &args{})
	}
	return unknownf("a copy")
}

func nothing(*Run, *args) value { return nil }

func quiet(*Run, *args) value { return &quietContext{} }

func pythonVersion(r *Run, _ *args) value {
	if v, ok := r.sys.names.m["version"].(string); ok {
		t, _, _ := strings.Cut(v, " ")
		return t
	}
	return unknownf("the version of Python")
}

// decoratorMaker is a decorator that keeps what it decorates, with or without arguments.
func decoratorMaker(_ *Run, a *args) value {
	if len(a.pos) == 1 {
		switch f := a.pos[0].(type) {
		case *function, *class, *method:
			return f
		case *unknown:
			return unknownf("a decorated function")
		}
	}
	return &builtin{"decorator", identity}
}

// singleDispatch is functools.singledispatch, which imports weak references and, where register asks
// whether a type is a union (3.11 to 3.13) or reads annotations, typing.
func singleDispatch(r *Run, a *args) value {
	r.importModule("types")
	r.importModule("weakref")
	f, _ := a.get(0, "func")
	return &dispatcher{f}
}

// dispatcher is the function that functools.singledispatch returns.
type dispatcher struct{ of value }

func (*dispatcher) typeName() string { return "function" }

func (d *dispatcher) attr(r *Run, name string) (value, bool) {
	switch name {
	case "register":
		return &builtin{"functools.singledispatch.register", d.register}, true
	case "dispatch", "registry", "_clear_cache":
		return unknownf("%s of functools.singledispatch", name), true
	}
	return r.attrOr(d.of, name, unknownf("%s of a function", name)), true
}

// register registers a function for a type, which may be the type of its annotation.
func (d *dispatcher) register(r *Run, a *args) value {
	of, _ := a.get(0, "cls")
	f, given := a.get(1, "func")
	_, annotated := of.(*function)
	if r.in.Minor >= 11 && r.in.Minor <= 13 || annotated {
		r.importModule("typing")
	}
	switch {
	case given:
		return f
	case annotated:
		return of
	}
	return &builtin{"functools.singledispatch.register", identity}
}

// dataclass is dataclasses.dataclass: instances get an __init__ that is not followed.
func dataclass(r *Run, a *args) value {
	mark := func(r *Run, b *args) value {
		v, _ := b.get(0, "")
		c, ok := v.(*class)
		if !ok {
			return v
		}
		r.checkDefaults(c)
		if c.opaque == "" {
			c.opaque = "a dataclass"
		}
		c.data = true
		eq, given := a.kw["eq"]
		frozen, unsafe := a.kw["frozen"], a.kw["unsafe_hash"]
		c.unhashable = !a.open && (!given || eq == true) && (frozen == nil || frozen == false) && (unsafe == nil || unsafe == false) && !c.has("__hash__")
		return v
	}
	if len(a.pos) == 1 {
		return mark(r, a)
	}
	return &builtin{"dataclass", mark}
}

// checkDefaults raises ValueError if a field of a dataclass has a default without a hash: Python 3.11 and later take it
// for one that changes (dataclasses, _get_field). It passes over lists, dicts and sets, which each release
// refuses.
func (r *Run) checkDefaults(c *class) {
	if r.in.Major != 3 || r.in.Minor < 11 || !r.certain() {
		return
	}
	for _, name := range c.fields {
		v, _ := c.attrs.get(name)
		if i, ok := v.(*instance); ok && i.of.unhashable {
			r.raise("ValueError", "mutable default <class '"+i.of.module+"."+i.of.name+"'> for field "+name+" is not allowed: use default_factory")
			return
		}
	}
}

// dedent is textwrap.dedent: the white space that all lines with something else begin with is left out.
func dedent(_ *Run, a *args) value {
	text, ok := a.text(0, "text")
	if !ok {
		return unknownf("a text")
	}
	lines := strings.Split(text, "\n")
	margin, some := "", false
	for i, line := range lines {
		begin := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		switch {
		case begin == line:
			lines[i] = ""
		case !some:
			margin, some = begin, true
		default:
			for !strings.HasPrefix(begin, margin) {
				margin = margin[:len(margin)-1]
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, margin)
	}
	return strings.Join(lines, "\n")
}

// wraps is functools.wraps: the function gets the name of the wrapped one.
func wraps(_ *Run, a *args) value {
	of, _ := a.get(0, "wrapped")
	return &builtin{"functools.wraps", func(r *Run, b *args) value {
		v, _ := b.get(0, "")
		f, ok := v.(*function)
		if !ok {
			return v
		}
		g := *f
		g.attrs = r.newNames()
		for _, name := range []string{"__name__", "__qualname__", "__module__"} {
			g.attrs.put(name, r.attrOr(of, name, unknownf("the name of a function")))
		}
		g.attrs.put("__wrapped__", of)
		if f, ok := of.(*function); ok {
			if list, ok := f.attrs.get(clickParams); ok {
				r.set(g.attrs, clickParams, list)
			}
		}
		r.openUp(g.attrs, "functools.wraps")
		return &g
	}}
}

func contextManager(_ *Run, a *args) value {
	v, _ := a.get(0, "")
	if f, ok := v.(*function); ok {
		f.context = true
	}
	return v
}

// with returns arguments followed by others.
func (a *args) with(b *args) *args {
	c := &args{open: a.open || b.open, kw: map[string]value{}}
	c.pos = append(append(c.pos, a.pos[min(1, len(a.pos)):]...), b.pos...)
	for k, v := range a.kw {
		c.kw[k] = v
	}
	for k, v := range b.kw {
		c.kw[k] = v
	}
	return c
}

// reduce is functools.reduce.
func reduce(r *Run, a *args) value {
	v, _ := a.get(1, "iterable")
	items, more := r.iterate(v)
	acc, given := a.get(2, "initial")
	if !given && len(items) > 0 {
		acc, given, items = items[0], true, items[1:]
	}
	if !given || more != "" || len(a.pos) == 0 {
		return unknownf("the result of functools.reduce")
	}
	for _, item := range items {
		if !r.step() {
			break
		}
		acc = r.call(a.pos[0], &args{pos: []value{acc, item}})
	}
	return acc
}
