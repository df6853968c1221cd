package nodejs

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// builtins are the modules of Node itself (require("module").builtinModules), without
// those that have the name only with "node:".
var builtins = strings.Fields(`assert async_hooks buffer child_process cluster console constants crypto dgram
	diagnostics_channel dns domain events fs http http2 https inspector module net os path perf_hooks
	process punycode querystring readline repl stream string_decoder sys timers tls trace_events
	tty url util v8 vm wasi worker_threads zlib`)

// builtinName returns the name of a module of Node itself, without "node:".
func builtinName(name string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, "node:"); ok {
		return rest, true
	}
	top, _, _ := strings.Cut(name, "/")
	return name, slices.Contains(builtins, top) || strings.HasPrefix(name, "_http_") || strings.HasPrefix(name, "_stream_") || strings.HasPrefix(name, "_tls_")
}

// builtin returns a module of Node itself.
func (r *run) builtin(name string) any {
	v := r.builtinModule(name)
	if o, ok := v.(*object); ok {
		o.module = true
	}
	return v
}

func (r *run) builtinModule(name string) any {
	open := newObject()
	open.open = true
	switch name {
	case "path", "path/posix":
		return r.pathModule()
	case "fs":
		return r.fsModule()
	case "os":
		return open.set("platform", simple(func(*run, []any) any { return "linux" })).
			set("arch", simple(func(r *run, _ []any) any { return r.arch() })).
			set("type", simple(func(*run, []any) any { return "Linux" })).
			set("endianness", simple(func(*run, []any) any { return "LE" }))
	case "process":
		v, _ := r.globals.lookup("process")
		return v
	case "module":
		create := simple(func(r *run, args []any) any {
			from, ok := "", false
			if len(args) > 0 {
				from, ok = args[0].(string)
			}
			if !ok || strings.IndexByte(from, 0) >= 0 {
				return unknownf("a require of a file that is not known")
			}
			return r.requireFunction(strings.TrimPrefix(from, "file://"))
		})
		m := native(func(*run, any, []any) completion { return value(unknownf("a Module")) })
		m.set("createRequire", create).set("builtinModules", newList())
		m.props["builtinModules"].(*object).open = true
		hook := simple(func(r *run, _ []any) any { r.hooks = changesSearch; return nil })
		m.set("register", hook).set("registerHooks", hook)
		return m.set("Module", m).set("default", m)
	case "url":
		return open.set("fileURLToPath", simple(func(_ *run, args []any) any {
			if s, ok := argument(args, 0).(string); ok {
				return strings.TrimPrefix(s, "file://")
			}
			if o, ok := argument(args, 0).(*object); ok {
				if s, ok := o.props["href"].(string); ok {
					return strings.TrimPrefix(s, "file://")
				}
			}
			return unknownf("fileURLToPath")
		}))
	}
	return open
}

func argument(args []any, i int) any {
	if i < len(args) {
		return args[i]
	}
	return nil
}

func (r *run) arch() any {
	if r.opt.Arch == "" {
		return unknownf("process.arch")
	}
	return r.opt.Arch
}

// newGlobals returns the scope of Node's global names.
func (r *run) newGlobals() *scope {
	s := newScope(nil, true)
	env := newObject()
	for k, v := range r.opt.Env {
		if strings.IndexByte(v, 0) >= 0 {
			env.props[k] = unknownf("the variable %s", k)
		} else {
			env.props[k] = v
		}
	}
	versions := newObject().set("modules", unknownf("process.versions.modules")).set("napi", unknownf("process.versions.napi")).
		set("node", unknownf("process.versions.node")).set("uv", unknownf("process.versions.uv")).set("v8", unknownf("process.versions.v8")).set("openssl", unknownf("process.versions.openssl"))
	argv := newList(r.opt.Exec, "")
	for _, a := range r.opt.Args {
		if a == "\x00" {
			argv.open = true
			break
		}
		argv.list = append(argv.list, a)
	}
	header := &object{open: true, props: map[string]any{"glibcVersionRuntime": "2"}}
	if r.opt.Musl {
		header.props["glibcVersionRuntime"] = nil
	}
	objects := newList("/lib/libc.so.6")
	if r.opt.Musl {
		objects = newList("/lib/ld-musl-x86_64.so.1")
	}
	report := newObject().set("header", header).set("sharedObjects", objects)
	process := &object{open: true, props: map[string]any{
		"platform": "linux", "arch": r.arch(), "env": env, "versions": versions, "argv": argv, "execPath": r.opt.Exec, "pid": unknownf("process.pid"),
		"execArgv": newList(), "browser": nil, "type": nil, "pkg": nil,
		"release": newObject().set("name", "node"), "config": unknownf("process.config"),
		"cwd":    simple(func(r *run, _ []any) any { return r.opt.Cwd }),
		"report": newObject().set("getReport", simple(func(*run, []any) any { return report })),
		"exit":   native(func(r *run, _ any, _ []any) completion { return completion{kind: exits} }),
		"dlopen": native(func(r *run, _ any, args []any) completion { return r.dlopen(args) }),
	}}
	global := &object{open: true, props: map[string]any{"process": process}}
	for name, v := range map[string]any{"process": process, "global": global, "globalThis": global, "undefined": nil, "Object": objectConstructor(), "Array": arrayConstructor()} {
		s.vars[name] = v
	}
	s.vars["String"] = simple(func(_ *run, args []any) any {
		if t, ok := text(argument(args, 0)); ok {
			return t
		}
		return unknownf("a text")
	})
	s.vars["Boolean"] = simple(func(_ *run, args []any) any {
		if is, ok := truth(argument(args, 0)); ok {
			return is
		}
		return unknownf("a truth")
	})
	s.vars["URL"] = native(func(_ *run, this any, args []any) completion {
		o, ok := this.(*object)
		rel, ok1 := argument(args, 0).(string)
		base, ok2 := argument(args, 1).(string)
		if ok && ok1 && ok2 && strings.HasPrefix(base, "file://") && strings.IndexByte(rel+base, 0) < 0 {
			o.set("href", "file://"+path.Join(path.Dir(strings.TrimPrefix(base, "file://")), rel)).set("pathname", path.Join(path.Dir(strings.TrimPrefix(base, "file://")), rel))
			return value(o)
		}
		return value(unknownf("a URL"))
	})
	return s
}

// dlopen is process.dlopen(module, filename).
func (r *run) dlopen(args []any) completion {
	name, ok := argument(args, 1).(string)
	if !ok || strings.IndexByte(name, 0) >= 0 {
		r.note("process.dlopen of a file that is not known")
		return value(unknownf("the addon is not known"))
	}
	c := r.requireFrom(r.mod.file, absolute(name, r.opt.Cwd), false)
	if o, ok := argument(args, 0).(*object); ok && c.kind == normal {
		o.set("exports", c.value)
	}
	return c
}

// declareModule declares the names that a file has by itself.
func (r *run) declareModule(m *module) {
	if m.esm {
		m.scope.vars["this"] = nil
		return
	}
	m.scope.vars["module"] = m.object
	m.scope.vars["exports"] = m.exports
	m.scope.vars["this"] = newObject() // exports, without the helpers of compilers
	m.scope.vars["__filename"] = m.file
	m.scope.vars["__dirname"] = path.Dir(m.file)
	m.scope.vars["require"] = r.requireFunction(m.file)
	m.object.set("require", m.scope.vars["require"]).set("paths", unknownf("module.paths")).set("parent", unknownf("module.parent"))
	m.object.set("children", unknownf("module.children"))
	if r.node != nil && r.node.Kind == pyimport.Program {
		m.scope.vars["require"].(*object).set("main", m.object)
	}
}

// requireFunction returns the require of a file.
func (r *run) requireFunction(file string) *object {
	f := native(func(r *run, _ any, args []any) completion {
		name, ok := argument(args, 0).(string)
		if !ok || strings.IndexByte(name, 0) >= 0 {
			r.note("require of a name that is not known")
			return value(unknownf("the module is not known"))
		}
		return r.requireFrom(file, name, false)
	})
	f.set("resolve", native(func(r *run, _ any, args []any) completion {
		name, ok := argument(args, 0).(string)
		if !ok || strings.IndexByte(name, 0) >= 0 || len(args) > 1 || r.maybe != "" {
			return value(unknownf("a file that is not known"))
		}
		if b, ok := builtinName(name); ok {
			return value(b)
		}
		at, doubt := r.resolve(name, path.Dir(file), false)
		switch {
		case at != "":
			return value(r.real(at))
		case doubt != "":
			return value(unknownf("%s", doubt))
		}
		return completion{kind: throws, value: r.newError(&pyimport.Failure{Type: "Error", Text: "Cannot find module '" + name + "'"})}
	}))
	extensions := &object{open: true, props: map[string]any{}}
	return f.set("cache", &object{open: true, props: map[string]any{}}).set("extensions", extensions)
}

// readJSON returns the value of a JSON file, as far as it is kept.
func (r *run) readJSON(file string) any {
	e, _, ok := r.fs.Lookup(file)
	var v any
	if !ok || e.Content == nil || json.Unmarshal(e.Content, &v) != nil {
		return unknownf("the content of %s", file)
	}
	return fromJSON(v, 0)
}

func fromJSON(v any, depth int) any {
	switch v := v.(type) {
	case nil:
		return null{}
	case map[string]any:
		o := newObject()
		o.open = true // only a part of a package.json is kept
		if depth < 20 {
			for k, x := range v {
				o.set(k, fromJSON(x, depth+1))
			}
		}
		return o
	case []any:
		l := newList()
		for _, x := range v[:min(len(v), maxItems)] {
			l.list = append(l.list, fromJSON(x, depth+1))
		}
		return l
	}
	return v
}

// strings returns arguments that are known texts.
func texts(args []any) ([]string, bool) {
	var list []string
	for _, a := range args {
		s, ok := a.(string)
		if !ok || strings.IndexByte(s, 0) >= 0 {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// onTexts returns a function of known texts.
func onTexts(f func(r *run, args []string) any) *object {
	return simple(func(r *run, args []any) any {
		r.charge(100)
		if list, ok := texts(args); ok {
			return f(r, list)
		}
		return unknownf("a path that is not known")
	})
}

func (r *run) pathModule() *object {
	o := newObject()
	o.open = true
	o.set("join", onTexts(func(_ *run, a []string) any { return path.Join(a...) }))
	o.set("resolve", onTexts(func(r *run, a []string) any {
		at := r.opt.Cwd
		for _, p := range a {
			if strings.HasPrefix(p, "/") {
				at = p
			} else {
				at = path.Join(at, p)
			}
		}
		return path.Clean(at)
	}))
	o.set("dirname", onTexts(func(_ *run, a []string) any { return path.Dir(strings.Join(a, "")) }))
	o.set("normalize", onTexts(func(_ *run, a []string) any { return path.Clean(strings.Join(a, "")) }))
	o.set("extname", onTexts(func(_ *run, a []string) any { return path.Ext(path.Base(strings.Join(a, ""))) }))
	o.set("basename", onTexts(func(_ *run, a []string) any {
		if len(a) == 2 {
			return strings.TrimSuffix(path.Base(a[0]), a[1])
		}
		return path.Base(strings.Join(a, ""))
	}))
	o.set("isAbsolute", onTexts(func(_ *run, a []string) any { return strings.HasPrefix(strings.Join(a, ""), "/") }))
	o.set("sep", "/").set("delimiter", ":").set("posix", o)
	return o
}

func (r *run) fsModule() *object {
	o := newObject()
	o.open = true
	o.set("existsSync", onTexts(func(r *run, a []string) any {
		_, _, ok := r.fs.Lookup(absolute(a[0], r.opt.Cwd))
		return ok
	}))
	o.set("readdirSync", native(func(r *run, _ any, args []any) completion {
		dir, ok := argument(args, 0).(string)
		if !ok || strings.IndexByte(dir, 0) >= 0 || len(args) > 1 {
			return value(unknownf("a directory that is not known"))
		}
		if dir = absolute(dir, r.opt.Cwd); !r.isDir(dir) {
			return completion{kind: throws, value: r.systemError(dir)}
		}
		l := newList()
		for e := range r.fs.In(r.real(dir)) {
			if l.list = append(l.list, path.Base(e.Path)); len(l.list) > maxItems {
				l.open = true
				break
			}
		}
		return value(l)
	}))
	o.set("realpathSync", onTexts(func(r *run, a []string) any { return r.real(absolute(a[0], r.opt.Cwd)) }))
	stat := native(func(r *run, _ any, args []any) completion {
		file, ok := argument(args, 0).(string)
		if !ok || strings.IndexByte(file, 0) >= 0 || len(args) > 1 {
			return value(unknownf("a file that is not known"))
		}
		e, _, ok := r.fs.Lookup(absolute(file, r.opt.Cwd))
		if !ok {
			return completion{kind: throws, value: r.systemError(file)}
		}
		s := newObject()
		s.open = true
		s.set("isFile", simple(func(*run, []any) any { return e.Type == layers.Regular }))
		return value(s.set("isDirectory", simple(func(*run, []any) any { return e.IsDir() })))
	})
	o.set("statSync", stat).set("accessSync", stat)
	o.set("readFileSync", native(func(r *run, _ any, args []any) completion {
		file, ok := argument(args, 0).(string)
		switch {
		case !ok || strings.IndexByte(file, 0) >= 0:
		case file == "/usr/bin/ldd" && r.isFile(file) && r.opt.Musl:
			return value("musl libc")
		case file == "/usr/bin/ldd" && r.isFile(file):
			return value("GNU C Library")
		default:
			if _, _, ok := r.fs.Lookup(absolute(file, r.opt.Cwd)); !ok && !strings.HasPrefix(file, "/proc/") {
				return completion{kind: throws, value: r.systemError(file)}
			}
		}
		return value(unknownf("the content of a file"))
	}))
	return o
}

func (r *run) systemError(file string) *object {
	o := newObject()
	o.open = true
	return o.set("code", "ENOENT").set("message", "ENOENT: no such file or directory, open '"+file+"'")
}

func absolute(file, cwd string) string {
	file = strings.TrimPrefix(file, "file://")
	if !strings.HasPrefix(file, "/") {
		file = path.Join(cwd, file)
	}
	return path.Clean(file)
}

func objectConstructor() *object {
	o := native(func(*run, any, []any) completion { return value(&object{open: true}) })
	names := simple(func(_ *run, args []any) any {
		x, ok := argument(args, 0).(*object)
		if !ok || x.open || x.isList {
			return unknownf("the names of an object")
		}
		l := newList()
		for _, k := range x.keys() {
			l.list = append(l.list, k)
		}
		if len(l.list) > 1 {
			l.open = true // their order is not kept
		}
		return l
	})
	o.set("keys", names).set("getOwnPropertyNames", names)
	o.set("assign", simple(func(_ *run, args []any) any {
		to, ok := argument(args, 0).(*object)
		if !ok {
			return unknownf("an object")
		}
		for _, a := range args[1:] {
			from, ok := a.(*object)
			if !ok || from.open {
				to.open = true
			}
			if ok {
				for k, v := range from.props {
					to.set(k, v)
				}
			}
		}
		return to
	}))
	o.set("freeze", simple(func(_ *run, args []any) any { return argument(args, 0) }))
	o.set("create", simple(func(*run, []any) any { return &object{open: true, props: map[string]any{}} }))
	o.set("defineProperty", native(func(r *run, _ any, args []any) completion {
		to, ok := argument(args, 0).(*object)
		name, ok2 := argument(args, 1).(string)
		d, ok3 := argument(args, 2).(*object)
		if !ok {
			return value(argument(args, 0))
		}
		switch g, isGetter := (*object)(nil), false; {
		case ok2 && ok3:
			if g, isGetter = d.props["get"].(*object); !isGetter {
				g, isGetter = d.getters["get"], d.getters["get"] != nil
			}
			if v, has := d.props["value"]; has {
				to.set(name, v)
			} else if isGetter && g.callable() {
				if to.getters == nil {
					to.getters = map[string]*object{}
				}
				to.getters[name] = g
			} else {
				to.open = true
			}
		default:
			to.open = true
		}
		return value(to)
	}))
	return o
}

func arrayConstructor() *object {
	o := native(func(*run, any, []any) completion { return value(&object{isList: true, open: true}) })
	return o.set("isArray", simple(func(_ *run, args []any) any {
		x, ok := argument(args, 0).(*object)
		if _, no := argument(args, 0).(*unknown); no {
			return unknownf("isArray")
		}
		return ok && x.isList
	}))
}

// functionMethod returns call, apply or bind of a function.
func functionMethod(f *object, name string) *object {
	switch name {
	case "call":
		return native(func(r *run, _ any, args []any) completion {
			return r.call(f, argument(args, 0), args[min(1, len(args)):])
		})
	case "apply":
		return native(func(r *run, _ any, args []any) completion {
			l, ok := argument(args, 1).(*object)
			if !ok || !l.isList || l.open {
				return r.call(f, argument(args, 0), []any{unknownf("arguments")})
			}
			return r.call(f, argument(args, 0), l.list)
		})
	case "bind":
		return simple(func(_ *run, bound []any) any {
			return native(func(r *run, _ any, args []any) completion {
				return r.call(f, argument(bound, 0), append(slices.Clone(bound[min(1, len(bound)):]), args...))
			})
		})
	}
	return nil
}

// stringMethod returns a method of a string, or an unknown value.
func stringMethod(s, name string) any {
	known := strings.IndexByte(s, 0) < 0
	method := func(f func(a []string) any) any {
		return onTexts(func(_ *run, a []string) any {
			if !known || len(a) == 0 {
				return unknownf("a text that is not known")
			}
			return f(a)
		})
	}
	switch name {
	case "includes":
		return method(func(a []string) any { return strings.Contains(s, a[0]) })
	case "startsWith":
		return method(func(a []string) any { return strings.HasPrefix(s, a[0]) })
	case "endsWith":
		return method(func(a []string) any { return strings.HasSuffix(s, a[0]) })
	case "indexOf":
		return method(func(a []string) any { return float64(strings.Index(s, a[0])) })
	case "concat":
		return method(func(a []string) any {
			if joined := s + strings.Join(a, ""); len(joined) <= maxText {
				return joined
			}
			return unknownf("a long text")
		})
	case "split":
		return method(func(a []string) any {
			l := newList()
			for _, p := range strings.SplitN(s, a[0], 256) {
				l.list = append(l.list, p)
			}
			return l
		})
	case "replace":
		return method(func(a []string) any {
			if len(a) != 2 || strings.Contains(a[1], "$") {
				return unknownf("replace")
			}
			if len(s)+len(a[1]) > maxText {
				return unknownf("a long text")
			}
			return strings.Replace(s, a[0], a[1], 1)
		})
	case "toLowerCase", "toUpperCase", "trim", "toString":
		return simple(func(*run, []any) any {
			switch {
			case !known:
				return unknownf("a text that is not known")
			case name == "toLowerCase":
				return strings.ToLower(s)
			case name == "toUpperCase":
				return strings.ToUpper(s)
			case name == "trim":
				return strings.TrimSpace(s)
			}
			return s
		})
	}
	return unknownf("a method of a string")
}

// listMethod returns a method of a list, or an unknown value.
func listMethod(l *object, name string) any {
	each := func(f func(r *run, item, result any, i int) (stop bool), end func() any) any {
		return native(func(r *run, _ any, args []any) completion {
			fn := argument(args, 0)
			if l.open {
				return value(unknownf("a list that is not known"))
			}
			r.charge(len(l.list))
			for i, item := range slices.Clone(l.list) {
				if !r.step() {
					return completion{kind: exits}
				}
				c := r.call(fn, nil, []any{item, float64(i), l})
				if c.kind != normal {
					return c
				}
				if f(r, item, c.value, i) {
					break
				}
			}
			return value(end())
		})
	}
	switch name {
	case "push":
		return simple(func(r *run, args []any) any {
			if r.maybe != "" || len(l.list)+len(args) > maxItems {
				l.open = true
			}
			l.list = append(l.list, args...)
			return float64(len(l.list))
		})
	case "forEach":
		return each(func(*run, any, any, int) bool { return false }, func() any { return nil })
	case "map":
		out := newList()
		return each(func(_ *run, _, v any, _ int) bool { out.list = append(out.list, v); return false }, func() any { return out })
	case "filter", "find", "some", "every":
		return listSearch(l, name, each)
	case "join":
		return simple(func(r *run, args []any) any {
			r.charge(16 * len(l.list))
			sep, ok := ",", true
			if len(args) > 0 {
				sep, ok = args[0].(string)
			}
			parts, known := texts(l.list)
			if !ok || !known || l.open {
				return unknownf("a list that is not known")
			}
			if joined := strings.Join(parts, sep); len(joined) <= maxText {
				return joined
			}
			return unknownf("a long text")
		})
	case "includes", "indexOf":
		return simple(func(r *run, args []any) any {
			r.charge(len(l.list))
			at, sure := -1, !l.open
			for i, item := range l.list {
				is, known := same(item, argument(args, 0))
				sure = sure && known
				if is && at < 0 {
					at = i
				}
			}
			switch {
			case !sure:
				return unknownf("a list that is not known")
			case name == "includes":
				return at >= 0
			}
			return float64(at)
		})
	case "concat":
		return simple(func(r *run, args []any) any {
			out := newList(slices.Clone(l.list)...)
			out.open = l.open
			for _, a := range args {
				if r.charge(len(out.list)); len(out.list) > maxItems {
					out.open = true
					break
				}
				if x, ok := a.(*object); ok && x.isList {
					out.list, out.open = append(out.list, x.list...), out.open || x.open
				} else {
					out.list = append(out.list, a)
				}
			}
			return out
		})
	}
	return unknownf("a method of a list")
}

func listSearch(_ *object, name string, each func(func(*run, any, any, int) bool, func() any) any) any {
	out := newList()
	sure, hit := true, any(nil)
	found := false
	return each(func(_ *run, item, v any, _ int) bool {
		is, known := truth(v)
		sure = sure && known
		switch {
		case name == "every" && !is, name != "every" && name != "filter" && is:
			hit, found = item, true
			return true
		case name == "filter" && is:
			out.list = append(out.list, item)
		}
		return false
	}, func() any {
		switch {
		case !sure:
			return unknownf("a list that is not known")
		case name == "filter":
			return out
		case name == "find":
			return hit
		case name == "some":
			return found
		}
		return !found
	})
}
