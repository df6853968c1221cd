package startup

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// walk is one following of a start.
type walk struct {
	fs       *layers.FS
	starters *Starters
	res      *Result
	steps    int
	over     bool            // the bound of steps is reached
	seen     map[string]int  // programs, by what makes them equal
	changed  bool            // a program or a text has run that may have made programs
	written  map[string]bool // files that scripts write
}

// via describes the way from the start to a program.
type via struct {
	chain   []Link
	main    bool // it is the container's own process
	service bool // something supervises it beside others
	caught  bool
	maybe   string
	depth   int
	scripts int    // `#!` lines of this execve
	shell   bool   // a shell starts it, and runs a text without `#!` itself
	loader  string // that runs the program by hand
	unsure  bool   // it may be another program: the options of a starter are not all known
	says    string // the error of the shell if the program is absent
}

// then returns v with one more step.
func (v via) then(l Link) via {
	v.chain = append(slices.Clip(v.chain), l)
	return v
}

// at returns the script of the last step, and its line.
func (v via) at() (file string, line int) {
	if len(v.chain) == 0 {
		return "", 0
	}
	l := v.chain[len(v.chain)-1]
	return l.File, l.Line
}

// again reports whether a script has started itself twice.
func (v via) again() bool {
	n := 0
	for _, l := range v.chain {
		if l == v.chain[len(v.chain)-1] && l.File != "" {
			n++
		}
	}
	return n > 2
}

// step counts work and reports whether there may be more.
func (w *walk) step(n int) bool {
	w.steps += n
	if w.steps > maxSteps && !w.over {
		w.over = true
		w.unknown("", 0, "the start takes more steps than are followed")
	}
	return !w.over
}

// unknown adds a part that is not followed.
func (w *walk) unknown(file string, line int, why string) {
	u := Unknown{file, line, Show(why)}
	if len(w.res.Unknown) < maxUnknown && !slices.Contains(w.res.Unknown, u) {
		w.res.Unknown = append(w.res.Unknown, u)
	}
}

// add adds a program and returns its index, or that of an equal one. It returns -1 if
// there are too many.
func (w *walk) add(p Program) int {
	parts := append([]string{p.Path, p.Loader, p.Dir, p.Maybe, p.File}, p.Args...)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if name != "OLDPWD" {
			parts = append(parts, name+"="+p.Env[name])
		}
	}
	if p.Python != nil {
		parts = append(parts, p.Python.Code)
	}
	key := strings.Join(parts, "\x01")
	w.step(len(key) / 1024)
	if i, ok := w.seen[key]; ok {
		w.res.Programs[i].Main = w.res.Programs[i].Main || p.Main
		w.res.Programs[i].Caught = w.res.Programs[i].Caught && p.Caught
		return i
	}
	if len(w.res.Programs) == maxPrograms {
		w.unknown("", 0, "the start has more programs than are followed")
		return -1
	}
	w.res.Programs = append(w.res.Programs, p)
	w.seen[key] = len(w.res.Programs) - 1
	return w.seen[key]
}

// exec follows an execve of a program with its arguments, as execvp finds it.
func (w *walk) exec(p proc, argv []string, v via) {
	file, line := v.at()
	if v.depth++; v.depth > maxDepth || !w.step(10) || v.again() {
		w.unknown(file, line, "programs start programs too deeply")
		return
	}
	if len(argv) == 0 || !Known(argv[0]) {
		w.unknown(file, line, "the name of the program is not known: "+strings.Join(argv, " "))
		return
	}
	found, known := w.find(argv[0], p)
	if found == "" {
		w.missing(p, argv, v, known)
		return
	}
	e, _, _ := w.fs.Lookup(found)
	if v.first() {
		w.res.Path = "/" + e.Path
	}
	switch {
	case e.Fault != "" && e.Object == nil:
		w.unknown(file, line, found+": "+e.Fault)
	case e.Mode&0o111 == 0:
		w.problem(v, Problem{Fault: Denied, Name: found, Path: "/" + e.Path})
	case e.Object != nil:
		w.start(p, found, argv, v)
	case e.Shebang == "" && v.shell:
		sh := w.fallbackShell(p)
		w.exec(p, append([]string{sh, found}, argv[1:]...), v)
	case e.Shebang == "":
		w.problem(v, Problem{Fault: NoFormat, Name: found, Path: "/" + e.Path})
	default:
		w.script(p, found, e, argv, v)
	}
}

// first reports whether nothing was started before.
func (v via) first() bool {
	return v.main && v.maybe == "" && !v.shell && v.depth == 1+v.scripts
}

// script follows the `#!` line of a file (fs/binfmt_script.c): the interpreter, at most
// one argument, and the file in place of argv[0].
func (w *walk) script(p proc, found string, e *layers.Entry, argv []string, v via) {
	name, rest := cutBlank(e.Shebang)
	if word, ok := strings.CutSuffix(e.Shebang, "\r"); ok && (rest == "" || path.Base(name) == "env" && !strings.ContainsAny(rest, " \t")) {
		if rest != "" {
			word = strings.TrimSuffix(rest, "\r")
		}
		w.problem(v, Problem{Fault: CarriageReturn, Name: word, Path: found, Interpreter: strings.TrimSuffix(name, "\r")})
		return
	}
	if v.scripts++; v.scripts > 5 {
		w.unknown(found, 1, "more scripts are interpreters of scripts than the kernel follows")
		return
	}
	args := []string{name}
	if rest != "" {
		args = append(args, rest)
	}
	v = v.then(Link{What: "#!" + strings.TrimSuffix(e.Shebang, "\r"), File: found, Line: 1})
	if w.scriptStarter(p, found, name, argv, v) {
		return
	}
	w.exec(p, append(append(args, found), argv[1:]...), v)
}

// scriptStarter follows a starter that is a script and whose row stands for its text, and
// reports whether it is one.
func (w *walk) scriptStarter(p proc, found, interpreter string, argv []string, v via) bool {
	if w.starters == nil {
		return false
	}
	rows := w.starters.byName[path.Base(found)]
	if !slices.ContainsFunc(rows, func(r int) bool { return w.starters.Starters[r].Script }) {
		return false
	}
	if i := w.add(w.program(interpreter, append([]string{interpreter, found}, argv[1:]...), p, v)); i >= 0 {
		w.starterRows(p, i, rows, argv[1:], v)
	}
	return true
}

// cutBlank cuts a `#!` line at its first blanks or tabs.
func cutBlank(line string) (first, rest string) {
	line = strings.Trim(line, " \t")
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.Trim(line[i:], " \t")
}

// missing records a program that was not found.
func (w *walk) missing(p proc, argv []string, v via, known bool) {
	file, line := v.at()
	name := argv[0]
	switch {
	case w.starters.injected(path.Base(name)):
		return // it comes from the machine
	case !known:
		w.unknown(file, line, "it is not known where "+name+" is")
		return
	}
	pr := Problem{Fault: NotOnPath, Name: name, Path: w.res.Path}
	if strings.Contains(name, "/") {
		pr.Fault = NotFound
	}
	pr.Link = w.dangling(candidates(name, p))
	w.problem(v, pr)
	w.add(w.program("", argv, p, v))
	switch a := w.absent(name, p, v); {
	case a == nil || v.caught:
	case v.main:
		w.ends(a)
	case v.service && len(w.res.Services) < maxPrograms:
		w.res.Services = append(w.res.Services, a)
	}
}

// problem records why the first program does not start; of others it is an unknown part.
func (w *walk) problem(v via, p Problem) {
	if v.first() {
		w.res.Problem = &p
		return
	}
	file, line := v.at()
	w.unknown(file, line, p.Name+" does not start: "+string(p.Fault))
}

// program returns a program as the start reaches it.
func (w *walk) program(file string, argv []string, p proc, v via) Program {
	return Program{
		Path: file, Args: argv, Env: maps.Clone(p.env), Dir: p.dir, Home: p.user.home,
		Loader: v.loader, Main: v.main, Service: v.service, Caught: v.caught, Maybe: v.maybe, Chain: v.chain,
	}
}

// find returns the path of a program: a name with a slash below the working directory,
// else the first executable file in PATH (os/exec.LookPath, as runc does), or the first
// regular file there. known is false if the answer depends on something unknown.
func (w *walk) find(name string, p proc) (found string, known bool) {
	plain := ""
	for _, c := range candidates(name, p) {
		if !Known(c) {
			return "", false // another file may come first
		}
		e, _, ok := w.fs.Lookup(c)
		switch {
		case !ok || e.Type != layers.Regular:
		case e.Mode&0o111 != 0 || strings.Contains(name, "/"):
			return c, true
		case plain == "":
			plain = c
		}
	}
	return plain, true
}

// candidates returns the paths that are tried for a program.
func candidates(name string, p proc) []string {
	if name == "" {
		return nil
	}
	if strings.Contains(name, "/") {
		return []string{absolute(name, p.dir)}
	}
	var list []string
	for dir := range strings.SplitSeq(p.env["PATH"], ":") {
		list = append(list, absolute(path.Join(dir, name), p.dir))
		if len(list) == 256 {
			break
		}
	}
	return list
}

// absolute returns a path below a directory, cleaned.
func absolute(name, dir string) string {
	if !strings.HasPrefix(name, "/") {
		name = dir + "/" + name
	}
	return path.Clean("/" + name)
}

var (
	pythonName = regexp.MustCompile(`^(python|pypy)[0-9.]*t?$`)
	shellName  = regexp.MustCompile(`^(r?bash|dash|ash|sh)(\.[a-z]+)?$`)
)

// start adds a program whose ELF file was found, and follows programs that its arguments
// name.
func (w *walk) start(p proc, found string, argv []string, v via) {
	e, _, _ := w.fs.Lookup(found)
	name, real := path.Base(found), path.Base(e.Path)
	if strings.HasPrefix(real, "busybox") || strings.HasPrefix(real, "coreutils") {
		real = name
		if strings.HasPrefix(name, "busybox") && len(argv) > 1 {
			name, real, argv = argv[1], argv[1], argv[1:]
		}
	}
	pr := w.program(found, argv, p, v)
	v.loader = ""
	switch {
	case loaderName.MatchString(name) || loaderName.MatchString(e.Object.Soname):
		w.loader(p, pr, v)
	case shellName.MatchString(name) || shellName.MatchString(real):
		pr.Kind = KindShell
		w.shell(p, pr, real, v)
	case pythonName.MatchString(name) || pythonName.MatchString(real):
		pr.Kind = KindPython
		w.python(p, pr, v)
	case name == "node" || name == "nodejs":
		pr.Kind = KindNode
		w.node(p, pr, v)
	case name == "java":
		pr.Kind, pr.File = KindJava, javaArchive(argv[1:], p.dir)
		w.add(pr)
	default:
		i := w.add(pr)
		if i >= 0 {
			w.starter(p, i, name, argv[1:], v)
		}
	}
}

// javaArchive returns the file of `java -jar FILE`, or "".
func javaArchive(args []string, dir string) string {
	if i := slices.Index(args, "-jar"); i >= 0 && i+1 < len(args) && Known(args[i+1]) {
		return absolute(args[i+1], dir)
	}
	return ""
}

// fallbackShell returns the shell that runs a text without a `#!` line.
func (w *walk) fallbackShell(proc) string { return "/bin/sh" }
