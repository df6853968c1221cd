package pyimport

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// environ is os.environ.
type environ struct {
	run  *Run
	vars *names
}

func newEnviron(r *Run, env map[string]string) *environ {
	e := &environ{run: r, vars: r.newNames()}
	for _, k := range sortedKeys(env) {
		e.vars.put(k, env[k])
	}
	return e
}

func (*environ) typeName() string { return "os._Environ" }

func (e *environ) attr(_ *Run, name string) (value, bool) {
	m, ok := methods["os._Environ."+name]
	return &method{self: e, fn: m}, ok
}

// has reports whether a variable is set. Every variable that the image sets is known, and
// what docker run -e adds is not part of the image.
func (e *environ) has(name string) (is, known bool) {
	v, ok := e.vars.get(name)
	if isUnknown(v) {
		return false, false
	}
	if !ok && !turnsOff(name) {
		e.run.basis.older = true
		e.run.lacks(name)
	}
	return ok, e.vars.open == ""
}

// lacks notes that the module which runs has asked for a variable that is not set, and for which it
// has no value of its own.
func (r *Run) lacks(name string) {
	if r.frame != nil && r.frame.module != nil && !turnsOff(name) {
		r.frame.module.lacks = name
	}
}

// turnsOff reports whether the name of a variable says that it turns something off, such as flashinfer's
// FLASHINFER_DISABLE_VERSION_CHECK: users of an image that works need not set it.
func turnsOff(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToUpper(name), "_"), func(word string) bool {
		return slices.Contains([]string{"BYPASS", "DISABLE", "DISABLED", "IGNORE", "SKIP"}, word)
	})
}

// forgo takes back an exception that the program does not expect, and that it raises because a
// variable is not set: its users set it (docker run -e), but not the name of a login.
func (r *Run) forgo(name string) {
	if name != "" && name != "USER" && name != "LOGNAME" && !r.expectedHere(r.raised) {
		r.raised = nil
		r.note("what happens where " + name + " is set: docker run may set the variable")
	}
}

// get returns a variable; ok is false if it is not set.
func (e *environ) get(name string) (v value, ok bool) {
	v, ok = e.vars.get(name)
	e.run.basis.older = e.run.basis.older || !ok && name != "PATH" && !turnsOff(name) // docker run may set it
	if !ok && e.vars.open != "" {
		return unknownf("the variable %s", name), true
	}
	return v, ok
}

func (e *environ) item(r *Run, index value) value {
	name, ok := index.(string)
	if !ok {
		return unknownf("a variable")
	}
	v, ok := e.get(name)
	if !ok {
		r.lacks(name)
		r.raise("KeyError", quote(name))
		r.forgo(name)
		return unknownf("the variable %s", name)
	}
	return v
}

func (e *environ) setItem(r *Run, index, v value) {
	name, ok := index.(string)
	if !ok {
		r.openUp(e.vars, "a variable whose name is not known")
		return
	}
	r.set(e.vars, name, v)
}

func (e *environ) delItem(r *Run, index value) {
	name, ok := index.(string)
	if !ok {
		r.openUp(e.vars, "a variable whose name is not known")
		return
	}
	if _, ok := e.get(name); !ok {
		r.raise("KeyError", quote(name))
		return
	}
	r.unset(e.vars, name)
}

// sysModules is sys.modules.
type sysModules struct{}

func (*sysModules) typeName() string { return "sys.modules" }

func (s *sysModules) attr(_ *Run, name string) (value, bool) {
	m, ok := methods["sys.modules."+name]
	return &method{self: s, fn: m}, ok
}

func (*sysModules) has(r *Run, name string) (is, known bool) {
	v, ok := r.modules.get(name)
	if m, isModule := v.(*module); isModule && m.maybe != "" {
		return false, false
	}
	if !ok && r.early[name] {
		return true, true
	}
	return ok, true
}

func (s *sysModules) item(r *Run, index value) value {
	name, ok := index.(string)
	if !ok {
		return unknownf("a module")
	}
	if v, ok := r.modules.get(name); ok {
		return v
	}
	if r.early[name] {
		return r.importModule(name)
	}
	r.guess("KeyError", quote(name))
	return unknownf("the module %s", name)
}

func (*sysModules) setItem(r *Run, index, v value) {
	if name, ok := index.(string); ok {
		r.set(r.modules, name, v)
	}
}

// moduleDict is the __dict__ of a module, and globals().
type moduleDict struct{ of *module }

func (*moduleDict) typeName() string { return "globals" }

func (d *moduleDict) attr(_ *Run, name string) (value, bool) {
	m, ok := methods["globals."+name]
	return &method{self: d, fn: m}, ok
}

func (d *moduleDict) item(r *Run, index value) value {
	if name, ok := index.(string); ok {
		if v, ok := d.of.names.get(name); ok {
			return v
		}
		if d.of.names.open == "" {
			r.guess("KeyError", quote(name))
		}
	}
	return unknownf("a name of %s", d.of.name)
}

// library is a ctypes.CDLL, or another handle of a library. Without a name it is that of the
// program itself.
type library struct {
	run    *Run
	name   string
	unsure bool // whether it was opened is not known
	// declared reports that its names are those of C declarations, which it need not define: cffi's
	// have constants, which stand in the Python source (_globals).
	declared bool
	// set has the names of the attributes that the program gives it, perhaps.
	set map[string]bool
}

func (*library) typeName() string { return "ctypes.CDLL" }

// attr looks up a symbol, as CDLL.__getattr__ does.
func (l *library) attr(r *Run, name string) (value, bool) {
	if name == "_name" {
		return l.name, true
	}
	if strings.HasPrefix(name, "_") || l.unsure || l.declared || l.set[name] || !r.certain() {
		return nil, false
	}
	if l.name == "" && (r.passedOver || len(r.extensions) > 0) {
		return nil, false // another library of the process may define it
	}
	if is, known := r.host.Defines(l.name, name); known && !is {
		r.raise("AttributeError", cmp.Or(l.name, r.in.Path)+": undefined symbol: "+name)
	}
	return nil, false
}

func (l *library) item(r *Run, index value) value {
	if name, ok := index.(string); ok {
		if v, ok := l.attr(r, name); ok {
			return v
		}
	}
	return unknownf("a symbol")
}

// suppressor is contextlib.suppress(…).
type suppressor struct{ types value }

func (*suppressor) typeName() string                { return "contextlib.suppress" }
func (*suppressor) attr(*Run, string) (value, bool) { return nil, false }
func (s *suppressor) names() string                 { return typesText(s.types) }

// quietContext is a context manager that stops no exception. Its __enter__ returns as, if that is
// not nil.
type quietContext struct{ as value }

func (*quietContext) typeName() string { return "context" }

func (c *quietContext) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "__enter__":
		return &builtin{name, func(r *Run, _ *args) value { return r.enter(c) }}, true
	case "__exit__":
		return &builtin{name, func(*Run, *args) value { return nil }}, true
	}
	return nil, false
}

// typesText returns the names of exception classes.
func typesText(v value) string {
	switch v := v.(type) {
	case *class:
		return v.name
	case *tuple:
		var list []string
		for _, item := range v.items {
			list = append(list, typesText(item))
		}
		return "(" + strings.Join(list, ", ") + ")"
	}
	return "…"
}

// release is a version that can be compared: packaging.version.Version or LooseVersion.
type release struct {
	text string
	of   version.Version
}

func (*release) typeName() string { return "packaging.version.Version" }

func (v *release) compare(w *release) int { return v.of.Compare(w.of) }

// attr returns the numbers of a version.
func (v *release) attr(_ *Run, name string) (value, bool) {
	rel := v.of.Release()
	number := func(i int) value {
		if i < len(rel) {
			return int64(rel[i])
		}
		return int64(0)
	}
	switch name {
	case "major":
		return number(0), true
	case "minor":
		return number(1), true
	case "micro":
		return number(2), true
	case "release":
		t := &tuple{}
		for i := range rel {
			t.items = append(t.items, number(i))
		}
		return t, true
	case "base_version":
		return rel.String(), true
	case "is_prerelease":
		return v.of.IsPreRelease(), true
	}
	return nil, false
}

// filePath is a pathlib path.
type filePath struct {
	text string
	pure bool
}

func (*filePath) typeName() string { return "pathlib.Path" }

// newPath returns a path in pathlib's normal form.
func newPath(parts ...string) *filePath {
	text := ""
	for _, p := range parts {
		if strings.HasPrefix(p, "/") {
			text = p
			continue
		}
		if text != "" && p != "" {
			text += "/"
		}
		text += p
	}
	abs := strings.HasPrefix(text, "/")
	var list []string
	for _, p := range strings.Split(text, "/") {
		if p != "" && p != "." {
			list = append(list, p)
		}
	}
	text = strings.Join(list, "/")
	if abs {
		text = "/" + text
	} else if text == "" {
		text = "."
	}
	return &filePath{text: text}
}

// joined is p / s, or unknown if that is longer than a path can be.
func (p *filePath) joined(s string) value {
	if len(p.text)+len(s) > maxPath {
		return unknownf("a path that is too long")
	}
	return p.join(s)
}

func (p *filePath) join(s string) *filePath {
	if p.text == "." {
		return newPath(s)
	}
	return newPath(p.text, s)
}

func (p *filePath) parent() *filePath {
	if p.text == "/" || p.text == "." {
		return p
	}
	return newPath(path.Dir(p.text))
}

func (p *filePath) name() string {
	if p.text == "/" || p.text == "." {
		return ""
	}
	return path.Base(p.text)
}

func (p *filePath) suffix() string {
	name := p.name()
	if i := strings.LastIndexByte(name, '.'); i > 0 && i < len(name)-1 {
		return name[i:]
	}
	return ""
}

// attr returns an attribute or a method of a path.
func (p *filePath) attr(r *Run, name string) (value, bool) {
	switch name {
	case "parent":
		return p.parent(), true
	case "parents":
		t := &tuple{}
		for q := p; q.parent() != q && q.parent().text != q.text; {
			q = q.parent()
			t.items = append(t.items, q)
		}
		return t, true
	case "name":
		return p.name(), true
	case "suffix":
		return p.suffix(), true
	case "stem":
		return strings.TrimSuffix(p.name(), p.suffix()), true
	case "parts":
		t := &tuple{}
		rest := p.text
		if strings.HasPrefix(rest, "/") {
			t.items = append(t.items, "/")
		}
		for _, s := range strings.Split(strings.Trim(rest, "/"), "/") {
			if s != "" && s != "." {
				t.items = append(t.items, s)
			}
		}
		return t, true
	}
	m, ok := methods["pathlib.Path."+name]
	return &method{self: p, fn: m}, ok
}
