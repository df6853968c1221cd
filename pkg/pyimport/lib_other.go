package pyimport

import (
	"regexp"
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
		if t, ok := a.text(0, ""); ok && t == "P" {
			return int64(8)
		}
		return unknownf("a size")
	}})
	functions("functools _functools", map[string]func(*Run, *args) value{"reduce": reduce})
	functions("functools", map[string]func(*Run, *args) value{
		"lru_cache": decoratorMaker, "cache": identity, "wraps": wraps,
		"total_ordering": identity, "update_wrapper": identity,
		"cached_property": func(_ *Run, a *args) value { v, _ := a.get(0, ""); return &property{v} },
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
	classModel("contextlib", "nullcontext", func(*Run, *class, *args) value { return &quietContext{} })
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
	addModel("types", "ModuleType", func(r *Run) value { return r.moduleType() })
	functions("re", map[string]func(*Run, *args) value{
		"compile": func(_ *Run, a *args) value { return newPattern(a, true) },
		"match":   reFunc("match"), "search": reFunc("search"), "fullmatch": reFunc("fullmatch"), "sub": reFunc("sub"),
		"findall": notKnown("findall"), "split": notKnown("split"), "finditer": notKnown("finditer"),
		"escape": notKnown("escape"), "subn": notKnown("subn"),
	})
	functions("copy", map[string]func(*Run, *args) value{"copy": copyOf})
	functions("atexit", map[string]func(*Run, *args) value{"register": identity})
	functions("logging", map[string]func(*Run, *args) value{
		"getLogger": notKnown("getLogger"), "debug": nothing, "info": nothing, "warning": nothing, "error": nothing,
		"exception": nothing, "log": nothing, "basicConfig": nothing,
	})
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

// pattern is a re.Pattern that Go's syntax has, too.
type pattern struct{ of *regexp.Regexp }

func (*pattern) typeName() string { return "re.Pattern" }

func (p *pattern) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "match", "search", "fullmatch", "sub":
		return &builtin{"re.Pattern." + name, func(_ *Run, a *args) value { return p.apply(name, a) }}, true
	}
	return nil, false
}

// regexFlags are the flags of re by their names, with those of Go's syntax: "?" for a flag
// that it lacks, "x" for one that [withFlags] applies (Lib/re/__init__.py).
var regexFlags = []struct {
	names string
	bit   int64
	flag  string
}{
	{"T TEMPLATE", 1, "?"},
	{"I IGNORECASE", 2, "i"},
	{"L LOCALE", 4, "?"},
	{"M MULTILINE", 8, "m"},
	{"S DOTALL", 16, "s"},
	{"U UNICODE", 32, ""},
	{"X VERBOSE", 64, "x"},
	{"DEBUG", 128, "?"},
	{"A ASCII", 256, "?"},
}

// presetFlags sets the names that re has by enum.global_enum, or by an update of its globals.
func (r *Run) presetFlags(m *module) {
	if m.name != "re" {
		return
	}
	for _, f := range regexFlags {
		for _, name := range strings.Fields(f.names) {
			if v, ok := m.names.get(name); !ok || isUnknown(v) {
				m.names.put(name, f.bit)
			}
		}
	}
}

// maxPattern is the length of a regular expression that is compiled, in bytes.
const maxPattern = 500

// newPattern compiles the first argument, with flags as the second if there may be some.
func newPattern(a *args, flags bool) value {
	t, ok := a.text(0, "pattern")
	if !ok || len(t) > maxPattern || a.open || !flags && len(a.pos)+len(a.kw) > 1 || strings.Contains(t, "(?") && !strings.Contains(t, "(?P<") {
		return unknownf("a pattern")
	}
	if f, ok := a.get(1, "flags"); ok {
		bits, known := f.(int64)
		if t, ok = withFlags(t, bits); !known || !ok {
			return unknownf("a pattern")
		}
	}
	re, err := regexp.Compile(t)
	if err != nil {
		return unknownf("a pattern")
	}
	return &pattern{re}
}

// withFlags returns a pattern with flags of re in Go's syntax; ok is false if that has not all.
func withFlags(t string, bits int64) (pattern string, ok bool) {
	flags := ""
	for _, f := range regexFlags {
		switch {
		case bits&f.bit == 0:
		case f.flag == "?":
			return "", false
		case f.flag == "x":
			t = terse(t)
		default:
			flags += f.flag
		}
	}
	if flags != "" {
		t = "(?" + flags + ")" + t
	}
	return t, true
}

// terse returns a pattern of re.VERBOSE without its blanks and comments: those that neither
// follow a backslash nor stand in a class.
func terse(t string) string {
	var b strings.Builder
	class := false
	for i := 0; i < len(t); i++ {
		switch c := t[i]; {
		case c == '\\' && i+1 < len(t):
			b.WriteString(t[i : i+2])
			i++
		case !class && strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		case !class && c == '#':
			for i+1 < len(t) && t[i+1] != '\n' {
				i++
			}
		default:
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
		}
	}
	return b.String()
}

func reFunc(name string) func(*Run, *args) value {
	return func(_ *Run, a *args) value {
		if len(a.pos) < 2 || name == "sub" && len(a.pos) != 3 || name != "sub" && len(a.pos) != 2 {
			return unknownf("a match")
		}
		p, ok := newPattern(&args{pos: a.pos[:1], kw: a.kw}, false).(*pattern)
		if !ok {
			return unknownf("a match")
		}
		return p.apply(name, &args{pos: a.pos[1:]})
	}
}

func (p *pattern) apply(name string, a *args) value {
	if name == "sub" {
		to, ok1 := a.text(0, "repl")
		s, ok2 := a.text(1, "string")
		if !ok1 || !ok2 || strings.ContainsAny(to, `\$`) || len(a.pos) > 2 || len(s)*(len(to)+1) > maxText {
			return unknownf("a text")
		}
		return p.of.ReplaceAllString(s, to)
	}
	s, ok := a.text(0, "string")
	if !ok || len(a.pos) > 1 {
		return unknownf("a match")
	}
	i := p.of.FindStringSubmatchIndex(s)
	if i == nil || name == "match" && i[0] != 0 || name == "fullmatch" && (i[0] != 0 || i[1] != len(s)) {
		if name != "search" && i != nil {
			return unknownf("a match")
		}
		return nil
	}
	return &match{p, s, i}
}

// match is a re.Match.
type match struct {
	of    *pattern
	text  string
	index []int
}

func (*match) typeName() string { return "re.Match" }

func (m *match) group(v value) value {
	n := -1
	switch v := v.(type) {
	case int64:
		if v >= 0 && v < int64(len(m.index)/2) {
			n = int(v)
		}
	case string:
		n = m.of.of.SubexpIndex(v)
	}
	if n < 0 {
		return unknownf("a group")
	}
	if m.index[2*n] < 0 {
		return nil
	}
	return m.text[m.index[2*n]:m.index[2*n+1]]
}

func (m *match) item(_ *Run, index value) value { return m.group(index) }

func (m *match) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "group":
		return &builtin{"group", func(_ *Run, a *args) value {
			switch len(a.pos) {
			case 0:
				return m.group(int64(0))
			case 1:
				return m.group(a.pos[0])
			}
			t := &tuple{}
			for _, v := range a.pos {
				t.items = append(t.items, m.group(v))
			}
			return t
		}}, true
	case "groups":
		return &builtin{"groups", func(*Run, *args) value {
			t := &tuple{}
			for i := 1; i < len(m.index)/2; i++ {
				t.items = append(t.items, m.group(int64(i)))
			}
			return t
		}}, true
	}
	return nil, false
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
