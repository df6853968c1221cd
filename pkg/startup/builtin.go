package startup

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtins are the commands that the shell runs itself. Those of bash are in bashOnly.
var builtins map[string]func(s *shell, n syntax.Node, argv []string) flow

var bashOnly = set("source", "pushd", "popd", "declare", "typeset", "shopt", "mapfile", "readarray", "builtin", "let", "enable", "dirs", "disown", "[[")

func isBuiltin(name string) bool { _, ok := builtins[name]; return ok }

func init() {
	ok := func(s *shell, _ syntax.Node, _ []string) flow { s.status = succeeded; return goesOn }
	unknown := func(s *shell, _ syntax.Node, _ []string) flow { s.status = eitherWay; return goesOn }
	builtins = map[string]func(*shell, syntax.Node, []string) flow{
		":": ok, "true": ok, "trap": ok, "umask": ok, "ulimit": ok, "hash": (*shell).typeBuiltin, "shopt": (*shell).shopt, "alias": ok, "unalias": ok, "enable": ok,
		"jobs": ok, "disown": ok, "times": ok, "bind": ok, "complete": ok, "history": ok, "help": ok, "dirs": ok, "kill": unknown, "getopts": (*shell).getopts,
		"false": func(s *shell, _ syntax.Node, _ []string) flow { s.status = failed; return goesOn },
		"echo":  (*shell).echo, "printf": (*shell).printf, "cd": (*shell).cd, "chdir": (*shell).cd, "pushd": (*shell).cd, "popd": (*shell).popd,
		"pwd": (*shell).pwd, "export": (*shell).export, "readonly": (*shell).export, "local": (*shell).local, "declare": (*shell).local,
		"typeset": (*shell).local, "unset": (*shell).unset, "set": (*shell).setOptions, "shift": (*shell).shift, "exec": (*shell).execBuiltin,
		"eval": (*shell).eval, "source": (*shell).dot, ".": (*shell).dot, "return": (*shell).leaves, "exit": (*shell).leaves,
		"break": (*shell).leaves, "continue": (*shell).leaves, "test": (*shell).testBuiltin, "[": (*shell).testBuiltin,
		"command": (*shell).commandBuiltin, "builtin": (*shell).commandBuiltin, "type": (*shell).typeBuiltin, "wait": (*shell).wait,
		"read": (*shell).readBuiltin, "mapfile": (*shell).readBuiltin, "readarray": (*shell).readBuiltin,
	}
}

func (s *shell) echo(_ syntax.Node, argv []string) flow {
	args, end, escapes := argv[1:], "\n", !s.bash
	for len(args) > 0 && (args[0] == "-n" || s.bash && (args[0] == "-e" || args[0] == "-ne" || args[0] == "-en" || args[0] == "-E")) {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes && strings.Contains(text, `\`) {
		text = ansi(text)
	}
	s.print(text + end)
	s.status = succeeded
	return goesOn
}

// printf knows %s, %d and %%, and escapes.
func (s *shell) printf(n syntax.Node, argv []string) flow {
	s.status = succeeded
	args := argv[1:]
	if len(args) > 1 && args[0] == "-v" {
		s.set(args[1], formatted(args[2:]))
		return goesOn
	}
	s.print(formatted(args))
	return goesOn
}

func formatted(args []string) string {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return ""
	}
	format, rest := ansi(args[0]), args[1:]
	var b strings.Builder
	for {
		used := false
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			i++
			switch format[i] {
			case '%':
				b.WriteByte('%')
				continue
			case 's', 'd', 'i':
			default:
				return Hole
			}
			if len(rest) > 0 {
				b.WriteString(rest[0])
				rest, used = rest[1:], true
			}
			if b.Len() > maxValue {
				return Hole
			}
		}
		if !used || len(rest) == 0 {
			return b.String()
		}
	}
}

// cd is cd and pushd. A directory that is not in the image is kept: a volume, or one that
// the script makes, may be there.
func (s *shell) cd(n syntax.Node, argv []string) flow {
	args := slices.DeleteFunc(slices.Clone(argv[1:]), func(a string) bool { return a == "--" || a == "-P" || a == "-L" || a == "-e" })
	to := s.vars["HOME"].value
	if len(args) > 0 {
		to = args[0]
	}
	old := s.dir
	if to == "-" {
		to, _ = s.get("OLDPWD")
	}
	s.status = succeeded
	if !Known(to) || !Known(s.dir) && !path.IsAbs(to) {
		s.moved(Hole, old)
		s.status = eitherWay
		return goesOn
	}
	dir := absolute(to, s.dir)
	e, known := s.lookup(dir)
	if e == nil || !e.IsDir() {
		s.status = failed
		if !known {
			s.status = eitherWay
			s.moved(dir, old)
		}
		return goesOn
	}
	s.moved(dir, old)
	return goesOn
}

func (s *shell) moved(dir, old string) {
	s.dir = dir
	s.set("PWD", dir)
	s.set("OLDPWD", old)
}

func (s *shell) popd(syntax.Node, []string) flow {
	old, _ := s.get("OLDPWD")
	s.moved(old, s.dir)
	s.status = succeeded
	return goesOn
}

func (s *shell) pwd(syntax.Node, []string) flow {
	s.print(s.dir + "\n")
	s.status = succeeded
	return goesOn
}

func (s *shell) export(_ syntax.Node, argv []string) flow {
	for _, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") {
			s.assignWord(a, false, argv[0] == "export")
		}
	}
	s.status = succeeded
	return goesOn
}

func (s *shell) local(_ syntax.Node, argv []string) flow {
	for _, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") {
			s.assignWord(a, s.inFunc > 0, false)
		}
	}
	s.status = succeeded
	return goesOn
}

func (s *shell) unset(_ syntax.Node, argv []string) flow {
	for _, a := range argv[1:] {
		if a == "-f" {
			for _, name := range argv[1:] {
				delete(s.funcs, name)
			}
			break
		}
		delete(s.vars, a)
	}
	s.status = succeeded
	return goesOn
}

// setOptions is set: options, and the arguments after them.
func (s *shell) setOptions(_ syntax.Node, argv []string) flow {
	s.status = succeeded
	args := argv[1:]
	for len(args) > 0 {
		a := args[0]
		switch {
		case a == "--":
			s.args = args[1:]
			return goesOn
		case a == "-":
			args = args[1:]
		case len(a) > 1 && (a[0] == '-' || a[0] == '+') && Known(a):
			on := a[0] == '-'
			args = args[1:]
			if strings.HasSuffix(a, "o") && len(args) > 0 {
				if args[0] == "errexit" {
					s.errexit = on
				}
				args = args[1:]
			}
			if strings.Contains(a, "e") {
				s.errexit = on
			}
			if strings.Contains(a, "f") {
				s.noglob = on
			}
			continue
		}
		if len(args) > 0 {
			s.args = args
		}
		return goesOn
	}
	return goesOn
}

func (s *shell) shift(_ syntax.Node, argv []string) flow {
	n := 1
	if len(argv) > 1 {
		var err error
		if n, err = strconv.Atoi(argv[1]); err != nil || n < 0 {
			s.args, s.status = []string{Hole}, eitherWay
			return goesOn
		}
	}
	hole := slices.Index(s.args, Hole)
	s.status = succeeded
	switch {
	case hole >= 0 && n > hole:
		s.args = []string{Hole}
		s.status = eitherWay
	case n > len(s.args):
		s.status = failed
	default:
		s.args = s.args[n:]
	}
	return goesOn
}

// execBuiltin is exec: the shell becomes the program.
func (s *shell) execBuiltin(n syntax.Node, argv []string) flow {
	args := argv[1:]
	p := s.proc()
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		o := args[0]
		args = args[1:]
		if o == "--" {
			break
		}
		if strings.HasSuffix(o, "a") && len(args) > 0 {
			args = args[1:]
		}
		if strings.Contains(o, "c") {
			p.env = map[string]string{}
		}
	}
	if len(args) == 0 {
		s.status = succeeded
		return goesOn
	}
	if args[0] == Hole {
		s.unknown(n, "what the shell becomes is not known")
		return exits
	}
	found, known := s.w.find(args[0], p)
	s.exec(n, p, args, true)
	s.print(Hole)
	if found == "" && known {
		s.status, s.code = failed, "127"
		return aborts
	}
	return exits
}

func (s *shell) eval(n syntax.Node, argv []string) flow {
	src := strings.Join(argv[1:], " ")
	if !Known(src) {
		if s.hook(src) || prints(src) {
			return goesOn
		}
		s.unknown(n, "the text that eval runs is not known: "+short(src))
		s.runUnknown()
		return goesOn
	}
	s.status = succeeded
	if s.sourced++; s.sourced > maxDepth {
		s.sourced--
		s.status = eitherWay
		return goesOn
	}
	defer func() { s.sourced-- }()
	return s.run(&text{src: src, link: s.link(n)})
}

// prints reports whether a text that is not known whole is one command, which prints its arguments:
// `eval "echo \"$line\""` fills in the variables of a template.
func prints(src string) bool {
	command, args, _ := strings.Cut(strings.TrimLeft(src, " \t"), " ")
	return (command == "echo" || command == "printf") && !strings.ContainsAny(strings.ReplaceAll(args, Hole, ""), ";&|\n`$()")
}

// dot is source and `.`: it runs a file in the shell.
func (s *shell) dot(n syntax.Node, argv []string) flow {
	args := argv[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || !Known(args[0]) || !Known(s.dir) {
		s.unknown(n, "the name of the file that is sourced is not known")
		s.runUnknown()
		return goesOn
	}
	if s.sourcesConda(args) {
		return goesOn
	}
	file := absolute(args[0], s.dir)
	if !strings.Contains(args[0], "/") {
		if found, _ := s.w.find(args[0], s.proc()); found != "" {
			file = found
		}
	}
	return s.source(file, args[1:], s.link(n))
}

// source runs a file in the shell. at is the statement that does it.
func (s *shell) source(file string, args []string, at Link) flow {
	src, why := s.read(file)
	if why != "" && s.venv(file) {
		return goesOn
	}
	if why != "" {
		s.w.unknown(at.File, at.Line, file+": "+why)
		if why != "there is no such file" {
			s.runUnknown()
		} else {
			s.status = failed
			if !s.bash { // POSIX: a special builtin's error ends the shell
				return aborts
			}
		}
		return goesOn
	}
	if s.sourced++; s.sourced > maxDepth {
		s.sourced--
		s.w.unknown(at.File, at.Line, "files source files too deeply")
		return goesOn
	}
	was, park := s.args, s.parked
	s.parked = nil
	if len(args) > 0 {
		s.args = args
	}
	s.status = succeeded
	f := s.run(&text{file: file, src: src})
	s.unpark(returns)
	s.parked = append(park, s.parked...)
	if len(args) > 0 {
		s.args = was
	}
	s.sourced--
	if f == returns {
		return goesOn
	}
	return f
}

// venv activates a virtual environment whose bin/activate is there but was not kept, and
// reports whether the file is that.
func (s *shell) venv(file string) bool {
	dir := path.Dir(path.Dir(file))
	_, _, script := s.w.fs.Lookup(file)
	_, _, is := s.w.fs.Lookup(dir + "/pyvenv.cfg")
	if path.Base(file) != "activate" || !script || !is || s.isTouched(file) {
		return false
	}
	s.vars["VIRTUAL_ENV"] = variable{value: dir, exported: true}
	s.set("PATH", dir+"/bin:"+s.vars["PATH"].value)
	s.status = succeeded
	return true
}

// leaves is return, exit, break and continue.
func (s *shell) leaves(_ syntax.Node, argv []string) flow {
	switch argv[0] {
	case "break":
		s.status = succeeded
		return breaks
	case "continue":
		s.status = succeeded
		return continues
	}
	if len(argv) > 1 {
		s.status, s.code = eitherWay, argv[1]
		if n, err := strconv.Atoi(argv[1]); err == nil {
			s.status = truth(n == 0)
		}
	}
	switch {
	case argv[0] == "return":
		return returns
	case s.status == failed:
		return aborts
	case s.v.main && !s.sub:
		s.isMain(s.last)
	}
	return exits
}

func (s *shell) testBuiltin(_ syntax.Node, argv []string) flow {
	args := argv[1:]
	if argv[0] == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			s.status = eitherWay
			return goesOn
		}
		args = args[:len(args)-1]
	}
	s.status = s.bracket(args)
	return goesOn
}

// commandBuiltin is command and builtin: with -v they describe a name, else they run the
// program or builtin of the name, never a function.
func (s *shell) commandBuiltin(n syntax.Node, argv []string) flow {
	args := argv[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-v" || args[0] == "-V" {
			s.which(args[1:])
			return goesOn
		}
		args = args[1:]
	}
	if len(args) == 0 {
		s.status = succeeded
		return goesOn
	}
	if f, ok := s.funcs[args[0]]; ok {
		delete(s.funcs, args[0])
		defer func() { s.funcs[args[0]] = f }()
	}
	return s.invoke(n, args)
}

func (s *shell) typeBuiltin(_ syntax.Node, argv []string) flow {
	var names []string
	for _, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") {
			names = append(names, a)
		}
	}
	s.which(names)
	return goesOn
}

// which prints the paths of programs, and sets the status.
func (s *shell) which(names []string) {
	s.status = succeeded
	for _, name := range names {
		if !Known(name) {
			s.status = eitherWay
			s.print(Hole)
			continue
		}
		if _, ok := s.funcs[name]; ok || isBuiltin(name) && (s.bash || !bashOnly[name]) {
			s.print(name + "\n")
			continue
		}
		found, known := s.w.find(name, s.proc())
		switch {
		case found != "":
			s.print(found + "\n")
		case !known || s.w.starters.injected(name):
			s.status = eitherWay
			s.print(Hole)
		default:
			s.status = failed
		}
	}
}

// wait waits for programs in the background: the script's end is theirs.
func (s *shell) wait(syntax.Node, []string) flow {
	if s.v.main && !s.sub {
		s.isMain(s.jobs)
	}
	s.status = eitherWay
	return goesOn
}

// readBuiltin is read and mapfile: what they read is known only from a here-document.
func (s *shell) readBuiltin(_ syntax.Node, argv []string) flow {
	s.status = eitherWay
	var names []string
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case strings.HasPrefix(a, "-") && strings.ContainsAny(a[len(a)-1:], "dnNptuia"):
			i++
		case strings.HasPrefix(a, "-"):
		case isName(a):
			names = append(names, a)
		}
	}
	if argv[0] != "read" {
		for _, name := range names {
			s.vars[name] = variable{list: []string{Hole}, isList: true}
		}
		return goesOn
	}
	for _, name := range names {
		s.set(name, Hole)
	}
	return goesOn
}

func (s *shell) shopt(_ syntax.Node, argv []string) flow {
	if slices.Contains(argv, "nullglob") {
		s.nullglob = slices.Contains(argv, "-s")
	}
	s.status = succeeded
	return goesOn
}

func (s *shell) getopts(_ syntax.Node, argv []string) flow {
	s.status = eitherWay
	if len(s.args) == 0 {
		s.status = failed
		s.set("OPTIND", "1")
		return goesOn
	}
	if len(argv) > 2 && isName(argv[2]) {
		s.set(argv[2], Hole)
	}
	s.set("OPTARG", Hole)
	s.set("OPTIND", Hole)
	return goesOn
}
