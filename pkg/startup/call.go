package startup

import (
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call runs a simple command.
func (s *shell) call(c *syntax.CallExpr) flow {
	s.code = ""
	if len(c.Args) == 0 {
		s.status = succeeded
		for _, a := range c.Assigns {
			s.assign(a, false)
		}
		return goesOn
	}
	argv := s.fields(c.Args)
	if len(argv) == 0 { // "$@" without arguments
		if len(c.Assigns) == 0 {
			s.status = succeeded
		}
		return goesOn
	}
	return s.withAssigns(c, argv)
}

// withAssigns runs a command with the variables that are set before it: for the command
// alone, unless it is a special builtin.
func (s *shell) withAssigns(c *syntax.CallExpr, argv []string) flow {
	if len(c.Assigns) == 0 {
		return s.invoke(c, argv)
	}
	before := map[string]*variable{}
	for _, a := range c.Assigns {
		if a.Name == nil {
			continue
		}
		var was *variable
		if v, ok := s.vars[a.Name.Value]; ok {
			was = &v
		}
		if _, ok := before[a.Name.Value]; !ok {
			before[a.Name.Value] = was
		}
		s.assign(a, true)
	}
	f := s.invoke(c, argv)
	for name, v := range before {
		s.restore(name, v)
	}
	return f
}

func (s *shell) restore(name string, v *variable) {
	if v == nil {
		delete(s.vars, name)
	} else {
		s.vars[name] = *v
	}
}

// assign runs NAME=value, NAME+=value, NAME=(…) and NAME[i]=value.
func (s *shell) assign(a *syntax.Assign, export bool) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	switch {
	case a.Naked:
	case a.Array != nil:
		s.assignList(a)
	case a.Index != nil:
		s.assignElement(a)
	case a.Append && s.vars[name].isList:
		v := s.vars[name]
		v.list = slices.Clone(v.list)
		if len(v.list) == 0 {
			v.list = []string{""}
		}
		v.list[0] += s.value(a.Value)
		s.vars[name] = v
	default:
		value := s.value(a.Value)
		if a.Append {
			old, _ := s.get(name)
			value = old + value
		}
		if v := s.vars[name]; v.isList {
			v.isList, v.list = false, nil
			s.vars[name] = v
		}
		s.set(name, value)
	}
	s.exportIf(name, export)
}

func (s *shell) exportIf(name string, export bool) {
	if export {
		v, ok := s.vars[name]
		v.exported, v.absent = true, v.absent || !ok
		s.vars[name] = v
	}
}

func (s *shell) assignList(a *syntax.Assign) {
	var list []string
	keyed := false
	for _, e := range a.Array.Elems {
		keyed = keyed || e.Index != nil
		if e.Value != nil {
			list = append(list, s.fields([]*syntax.Word{e.Value})...)
		}
		if len(list) > maxArgs {
			break
		}
	}
	v := s.vars[a.Name.Value]
	if a.Append {
		old := v.list
		if !v.isList && v.value != "" {
			old = []string{v.value}
		}
		list = append(slices.Clip(old), list...)
	}
	if keyed || len(list) > maxArgs {
		list = []string{Hole}
	}
	s.vars[a.Name.Value] = variable{list: list, isList: true, exported: v.exported}
}

func (s *shell) assignElement(a *syntax.Assign) {
	v := s.vars[a.Name.Value]
	n, ok := s.arithm(a.Index)
	value := s.value(a.Value)
	list := slices.Clone(v.list)
	switch {
	case ok && n >= 0 && n < int64(len(list)) && !a.Append:
		list[n] = value
	case ok && n == int64(len(list)):
		list = append(list, value)
	default:
		list = []string{Hole}
	}
	s.vars[a.Name.Value] = variable{list: list, isList: true, exported: v.exported}
}

// declare runs declare, local, export, readonly and typeset.
func (s *shell) declare(c *syntax.DeclClause) {
	s.status, s.code = succeeded, ""
	list, export, remove := false, c.Variant.Value == "export", false
	local := c.Variant.Value == "local" || (c.Variant.Value == "declare" || c.Variant.Value == "typeset") && s.inFunc > 0
	for _, a := range c.Args {
		if a.Name == nil {
			for _, word := range s.fields([]*syntax.Word{a.Value}) {
				switch {
				case strings.HasPrefix(word, "-"):
					list = list || strings.ContainsAny(word, "aA")
					export = export || strings.Contains(word, "x")
					local = local && !strings.Contains(word, "g")
					remove = remove || strings.Contains(word, "n") && c.Variant.Value == "export"
				default:
					s.assignWord(word, local, export)
				}
			}
			continue
		}
		s.declareOne(a, local, export, list, remove)
	}
}

func (s *shell) declareOne(a *syntax.Assign, local, export, list, remove bool) {
	name := a.Name.Value
	if local && a.Value != nil && a.Index == nil && !a.Append {
		value := s.value(a.Value) // of the outer variable of the same name, too
		s.makeLocal(name)
		s.set(name, value)
		s.exportIf(name, export)
		return
	}
	if local {
		s.makeLocal(name)
	}
	v, ok := s.vars[name]
	if a.Naked {
		v.absent = v.absent || !ok
		v.isList = v.isList || list && !ok
		v.exported = (v.exported || export) && !remove
		s.vars[name] = v
		return
	}
	s.assign(a, export)
}

// assignWord runs NAME=value as an argument of a builtin.
func (s *shell) assignWord(word string, local, export bool) {
	name, value, has := strings.Cut(word, "=")
	name, more := strings.CutSuffix(name, "+")
	if !isName(name) {
		return
	}
	if local {
		s.makeLocal(name)
	}
	if has {
		if more {
			old, _ := s.get(name)
			value = old + value
		}
		s.set(name, value)
	}
	v, ok := s.vars[name]
	v.exported, v.absent = v.exported || export, v.absent || !ok
	s.vars[name] = v
}

// makeLocal remembers a variable that a function makes its own.
func (s *shell) makeLocal(name string) {
	if len(s.locals) == 0 {
		return
	}
	top := s.locals[len(s.locals)-1]
	if _, ok := top[name]; ok {
		return
	}
	v, ok := s.vars[name]
	if !ok {
		top[name] = nil
		return
	}
	top[name] = &v
	if s.bash { // dash keeps the value
		s.vars[name] = variable{absent: true, exported: v.exported}
	}
}

// invoke runs a command: a function, a builtin or a program.
func (s *shell) invoke(n syntax.Node, argv []string) flow {
	name := argv[0]
	if !Known(name) {
		s.unknown(n, "the name of the program is not known: "+strings.Join(argv, " "))
		s.status = eitherWay
		s.print(Hole)
		return goesOn
	}
	if f, ok := s.funcs[name]; ok {
		return s.function(f, argv)
	}
	if b, ok := builtins[name]; ok && (s.bash || !bashOnly[name]) {
		return b(s, n, argv)
	}
	s.program(n, argv)
	return goesOn
}

// function calls a function.
func (s *shell) function(fn function, argv []string) flow {
	if s.inFunc++; s.inFunc > maxDepth {
		s.inFunc--
		s.status = eitherWay
		s.w.unknown(s.text.file, 0, "functions call functions too deeply")
		return exits
	}
	args, text, left, park := s.args, s.text, s.left, s.parked
	s.args, s.text, s.parked = argv[1:], fn.text, nil
	s.locals = append(s.locals, map[string]*variable{})
	f := s.stmt(fn.body)
	if f == returns {
		f = goesOn
	}
	if f == goesOn {
		s.unpark(returns)
		s.left = left
	}
	s.parked = append(park, s.parked...)
	top := s.locals[len(s.locals)-1]
	s.locals = s.locals[:len(s.locals)-1]
	for name, v := range maps.All(top) {
		s.restore(name, v)
	}
	s.args, s.text = args, text
	s.inFunc--
	return f
}

// program runs a program that the shell waits for.
func (s *shell) program(n syntax.Node, argv []string) {
	if s.activates(n, argv) {
		return
	}
	p := s.proc()
	found, known := s.w.find(argv[0], p)
	p.stdin = s.stdin
	s.exec(n, p, argv, false)
	if found == "" && known && !s.w.starters.injected(baseName(argv[0])) {
		s.status, s.code = failed, "127"
		s.lacks = s.w.absent(argv[0], p, via{chain: s.chain(n), shell: true, maybe: s.maybe(), unsure: s.v.unsure, says: s.notFound(n, argv[0], p, false)})
		return
	}
	s.changes(argv)
	s.status = eitherWay
	s.touch(argv)
	out, st, ok := s.compute(argv)
	if ok {
		s.status = st
		s.print(out)
		return
	}
	s.print(Hole)
}

// touch notes the paths that a program may change: those among its arguments.
func (s *shell) touch(argv []string) {
	if readOnly[baseName(argv[0])] || !Known(s.dir) || len(s.touched) > 1000 {
		return
	}
	for _, a := range argv[1:] {
		if strings.HasPrefix(a, "-") || !Known(a) || len(a) > 4096 || a == "/" || a == "." {
			continue
		}
		if strings.Contains(a, "/") || writes[baseName(argv[0])] {
			s.touched[absolute(a, s.dir)] = true
		}
	}
}

// readOnly are programs that change no files of their arguments, and writes those that
// change files whose names have no slash.
var (
	readOnly = set("cat", "ls", "grep", "egrep", "fgrep", "head", "tail", "dirname", "basename", "readlink", "realpath", "stat", "test", "[",
		"which", "id", "echo", "printf", "chmod", "chown", "chgrp", "wc", "find", "sort", "cut", "awk", "diff", "cmp", "ldconfig", "nice",
		"python", "python3", "node", "java", "sleep", "uname", "du", "df", "file", "sha256sum", "md5sum", "env", "tini", "gosu", "su-exec")
	writes = set("mkdir", "touch", "cp", "mv", "ln", "rm", "rmdir", "install", "tee", "tar", "unzip", "git", "wget", "curl", "rsync", "virtualenv")
)

func set(names ...string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}
