package pyimport

import "github.com/imgcheck/imgcheck/pkg/pysource"

// sourceText is the text of a Python source of the image, or the code that compile makes of
// it. Other uses of it are not known: the index may have only its reduced text.
type sourceText struct {
	path string
	file *pysource.File // of compile of a known text; else nil
}

func (*sourceText) typeName() string { return "str" }

func (*sourceText) attr(_ *Run, name string) (value, bool) {
	return unknownf("%s of the text of a file", name), true
}

// parse returns the statements of a text, or nil if they are not known.
func (s *sourceText) parse(r *Run) *pysource.File {
	if s.file != nil {
		return s.file
	}
	return r.src.parse(s.path)
}

// compileText is compile() of statements.
func compileText(r *Run, a *args) value {
	if mode, ok := a.text(2, "mode"); !ok || mode != "exec" || a.open {
		return unknownf("the result of compile")
	}
	if v, ok := a.get(0, "source"); ok {
		if s, ok := v.(*sourceText); ok {
			return s
		}
	}
	text, ok := a.text(0, "source")
	if !ok {
		return unknownf("the result of compile")
	}
	r.spend(len(text))
	return &sourceText{file: pysource.Parse([]byte(text + "\n"))}
}

// execText is exec() of a known text, in the namespaces of the frame or those given.
func execText(r *Run, a *args) value {
	f := r.textOf(a)
	if f != nil && f.Partial == "" && r.execIn(f, a) {
		return nil
	}
	r.openUp(r.frame.module.names, "exec")
	r.openUp(r.frame.vars, "exec")
	for _, v := range a.pos[min(1, len(a.pos)):] {
		r.openNamespace(v)
	}
	if len(a.pos) == 1 {
		r.note("exec of a text that is not known")
	}
	return nil
}

// textOf returns the statements of the first argument, or nil if they are not known.
func (r *Run) textOf(a *args) *pysource.File {
	if a.open || len(a.kw) > 0 || len(a.pos) == 0 {
		return nil
	}
	if s, ok := a.pos[0].(*sourceText); ok {
		return s.parse(r)
	}
	text, ok := a.text(0, "")
	if !ok {
		return nil
	}
	r.spend(len(text))
	return pysource.Parse([]byte(text + "\n"))
}

// execIn executes statements in the namespaces of exec's arguments. It reports false if
// these are not known.
func (r *Run) execIn(f *pysource.File, a *args) bool {
	if len(a.pos) == 1 {
		r.block(f.Body)
		return true
	}
	var m *module
	switch globals := a.pos[1].(type) {
	case *moduleDict:
		m = globals.of
	case *dict:
		m = r.namespace(globals)
	}
	if m == nil {
		return false
	}
	locals, given := a.get(2, "")
	d, isDict := locals.(*dict)
	of, isModule := locals.(*moduleDict)
	switch {
	case !given || locals == nil || isModule && of.of == m:
		r.inFrame(r.execFrame(m, m.names), func() { r.block(f.Body) })
	case isDict:
		vars := r.namespace(d).names
		r.inFrame(r.execFrame(m, vars), func() { r.block(f.Body) })
		r.putBack(d, vars)
	default:
		return false
	}
	if globals, ok := a.pos[1].(*dict); ok {
		r.putBack(globals, m.names)
	}
	return true
}

// execFrame returns a frame for statements of exec, which have no file of their own.
func (r *Run) execFrame(m *module, vars *names) *frame {
	return &frame{module: m, vars: vars, file: r.frame.file, line: r.frame.line}
}

// namespace returns the names of a dict, as those of a module without a name.
func (r *Run) namespace(d *dict) *module {
	m := &module{names: r.newNames()}
	for _, p := range d.pairs {
		if name, ok := p.key.(string); ok {
			m.names.put(name, p.value)
		}
	}
	if d.open {
		r.openUp(m.names, "a dict with names that are not known")
	}
	return m
}

// putBack sets the keys of a dict to names after exec.
func (r *Run) putBack(d *dict, n *names) {
	for _, name := range n.order {
		r.setKey(d, name, n.m[name])
	}
	if n.open != "" && !d.open {
		r.change(d)
		d.open = true
	}
}

// openNamespace notes that exec may have set names in a namespace.
func (r *Run) openNamespace(v value) {
	switch v := v.(type) {
	case *dict:
		r.change(v)
		v.open = true
	case *moduleDict:
		r.openUp(v.of.names, "exec")
	}
}
