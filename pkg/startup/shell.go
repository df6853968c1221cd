package startup

import (
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// status is the exit status of a command, as far as it is known.
type status uint8

const (
	succeeded status = iota
	failed
	eitherWay
)

// not returns the status of `! command`.
func (s status) not() status { return [...]status{failed, succeeded, eitherWay}[s] }

// truth returns the status of a test.
func truth(ok bool) status {
	if ok {
		return succeeded
	}
	return failed
}

// flow says where the shell goes on after a list of statements.
type flow uint8

const (
	goesOn flow = iota
	breaks
	continues
	returns
	exits  // the shell ends, or becomes another program
	aborts // the shell ends with a status that is not 0
)

// variable is a variable of the shell. A list is an array.
type variable struct {
	value    string
	list     []string
	isList   bool
	exported bool
	absent   bool // declared, but without a value
}

// function is a function of the shell and the text that declares it.
type function struct {
	body *syntax.Stmt
	text *text
}

// text is a script that is being read: a file, or the argument of -c.
type text struct {
	file string // "" for an argument
	src  string
	link Link // of the argument
}

// shell is the state of a shell at one point of its script. Clones share nothing that
// they change.
type shell struct {
	w     *walk
	vars  map[string]variable
	funcs map[string]function
	name  string   // $0
	args  []string // $1 and so on; see [Hole]
	dir   string
	user  user
	text  *text
	v     via // of the shell itself

	bash     bool // bash, or a shell with its words
	errexit  bool
	noglob   bool
	nullglob bool
	// blind means that an unknown text has run: variables that seem unset may be set.
	blind   bool
	status  status
	code    string // $?
	testing int    // depth of conditions, whose failures count for nothing
	depth   int    // of statements in statements
	sourced int    // of files
	inFunc  int
	sub     bool     // a subshell
	conds   []string // unknown conditions of the branches that are being run
	left    string   // the condition under which the shell has not ended before
	locals  []map[string]*variable
	parked  []parked
	last    []int // the programs that ran last
	jobs    []int // programs in the background
	out     *strings.Builder
	lacks   *Absent           // the program of the last command, if it is certain to be absent
	stdin   *string           // nil if it is not known
	files   map[string]string // that the script has written; see [Hole]
	touched map[string]bool   // paths that programs may have changed
	service bool              // in the background
}

// parked is a state that left a function or a loop on a branch that may not be taken.
type parked struct {
	flow  flow
	state *shell
}

// shell adds a shell and follows its script.
func (w *walk) shell(p proc, pr Program, real string, v via) {
	s := &shell{
		w: w, vars: map[string]variable{}, funcs: map[string]function{}, files: map[string]string{}, touched: map[string]bool{},
		dir: p.dir, v: v, stdin: p.stdin, name: pr.Args[0], depth: v.depth,
	}
	s.user = p.user
	s.bash = !strings.HasPrefix(real, "dash")
	for name, value := range p.env {
		if isName(name) {
			s.vars[name] = variable{value: value, exported: true}
		}
	}
	s.vars["PWD"] = variable{value: p.dir, exported: true}
	a := shellArguments(pr.Args[1:])
	if a.mode == 'f' && len(a.rest) > 0 && Known(a.rest[0]) {
		pr.File = absolute(a.rest[0], p.dir)
	}
	w.add(pr)
	s.errexit, s.noglob = strings.Contains(a.set, "e"), strings.Contains(a.set, "f")
	s.profile(a, strings.HasPrefix(real, "bash"))
	f := s.begin(a)
	if f == goesOn && v.main {
		s.isMain(s.last)
	}
	s.endsWith(f)
}

// isMain marks programs whose end is that of the container: only commands of the shell
// itself follow them.
func (s *shell) isMain(list []int) {
	for _, i := range list {
		pr := &s.w.res.Programs[i]
		pr.Main = true
		if !pr.Service {
			pr.Caught = s.v.caught
		}
	}
}

// shellArgs are the arguments of a shell: mode 'c' for -c, 's' for -s, 'f' for a file.
type shellArgs struct {
	mode               byte
	set                string // letters of options that are on
	login, interactive bool
	rest               []string
}

// shellArguments reads the arguments of a shell (POSIX sh, bash(1)).
func shellArguments(args []string) shellArgs {
	a := shellArgs{mode: 'f'}
	for len(args) > 0 && len(args[0]) > 1 && strings.ContainsRune("-+", rune(args[0][0])) {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if strings.HasPrefix(arg, "--") {
			a.login = a.login || arg == "--login"
			if (arg == "--rcfile" || arg == "--init-file") && len(args) > 0 {
				args = args[1:]
			}
			continue
		}
		for _, c := range arg[1:] {
			switch {
			case c == 'c' || c == 's':
				a.mode = byte(c)
			case c == 'l':
				a.login = true
			case c == 'i':
				a.interactive = true
			case (c == 'o' || c == 'O') && len(args) > 0:
				if args[0] == "errexit" && arg[0] == '-' {
					a.set += "e"
				}
				args = args[1:]
			case arg[0] == '-':
				a.set += string(c)
			}
		}
	}
	if a.mode == 'c' && len(args) > 0 && (args[0] == "-" || args[0] == "--") {
		args = args[1:]
	}
	a.rest = args
	if a.mode == 'f' && len(args) == 0 {
		a.mode = 's'
	}
	return a
}

// profile runs the files that a shell reads first: of a login shell the profiles, else of
// bash BASH_ENV.
func (s *shell) profile(a shellArgs, bash bool) {
	home := s.vars["HOME"].value
	switch {
	case a.login:
		s.sourceIfThere("/etc/profile")
		if bash {
			for _, name := range []string{".bash_profile", ".bash_login", ".profile"} {
				if _, _, ok := s.w.fs.Lookup(absolute(name, home)); ok && Known(home) {
					s.sourceIfThere(absolute(name, home))
					return
				}
			}
			return
		}
		if Known(home) {
			s.sourceIfThere(absolute(".profile", home))
		}
	case bash && a.interactive && Known(home):
		s.sourceIfThere("/etc/bash.bashrc")
		s.sourceIfThere(absolute(".bashrc", home))
	case bash && s.vars["BASH_ENV"].value != "" && Known(s.vars["BASH_ENV"].value):
		s.sourceIfThere(absolute(s.vars["BASH_ENV"].value, s.dir))
	}
}

func (s *shell) sourceIfThere(file string) {
	if _, _, ok := s.w.fs.Lookup(file); ok {
		s.source(file, nil, Link{What: "profile"})
	}
}

// begin runs the shell's script.
func (s *shell) begin(a shellArgs) flow {
	switch {
	case a.mode == 's':
		s.args = a.rest
		if s.stdin != nil && Known(*s.stdin) && *s.stdin != "" {
			return s.run(&text{src: *s.stdin})
		}
		return goesOn
	case len(a.rest) == 0:
		return goesOn
	case !Known(a.rest[0]):
		file, line := s.v.at()
		s.w.unknown(file, line, "what the shell runs is not known")
		return goesOn
	case a.mode == 'c':
		if len(a.rest) > 1 {
			s.name = a.rest[1]
			s.args = a.rest[2:]
		}
		t := &text{src: a.rest[0]}
		if len(s.v.chain) > 0 {
			t.link = s.v.chain[len(s.v.chain)-1]
		}
		return s.run(t)
	}
	s.name, s.args = a.rest[0], a.rest[1:]
	file := s.scriptFile(a.rest[0])
	src, why := s.read(file)
	if why != "" {
		s.w.unknown(file, 0, why)
		return goesOn
	}
	return s.run(&text{file: file, src: src})
}

// scriptFile returns the path of a shell's script: below the working directory, else in
// PATH.
func (s *shell) scriptFile(name string) string {
	file := absolute(name, s.dir)
	if _, _, ok := s.w.fs.Lookup(file); !ok && !strings.Contains(name, "/") {
		if found, _ := s.w.find(name, s.proc()); found != "" {
			return found
		}
	}
	return file
}

// read returns a file as the script sees it, or why it is not known.
func (s *shell) read(file string) (src, why string) {
	if src, ok := s.files[file]; ok {
		if !Known(src) {
			return "", "what the script has written to it is not known"
		}
		return src, ""
	}
	if s.isTouched(file) {
		return "", "a program may have changed it"
	}
	return content(s.w.fs, file)
}

// proc returns the state that a child of the shell inherits.
func (s *shell) proc() proc {
	env := map[string]string{}
	for name, v := range s.vars {
		if v.exported && !v.absent && !v.isList {
			env[name] = v.value
		}
	}
	return proc{env: env, dir: s.dir, user: s.user, stdin: s.stdin}
}

// clone returns a copy for a branch or a subshell.
func (s *shell) clone() *shell {
	c := *s
	s.w.step(len(s.vars) / 4)
	c.vars, c.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
	c.files, c.touched = maps.Clone(s.files), maps.Clone(s.touched)
	c.conds, c.args = slices.Clip(s.conds), slices.Clip(s.args)
	c.last, c.jobs = slices.Clip(s.last), slices.Clip(s.jobs)
	c.parked = nil
	c.locals = make([]map[string]*variable, len(s.locals))
	for i, l := range s.locals {
		c.locals[i] = maps.Clone(l)
	}
	return &c
}

// join makes s the state in which either s or o is.
func (s *shell) join(o *shell) {
	for name, v := range o.vars {
		if mine, ok := s.vars[name]; !ok || !mine.equal(v) {
			s.vars[name] = variable{value: Hole, exported: v.exported || mine.exported}
		}
	}
	for name, mine := range s.vars {
		if _, ok := o.vars[name]; !ok {
			s.vars[name] = variable{value: Hole, exported: mine.exported}
		}
	}
	maps.Copy(s.funcs, o.funcs)
	for name, src := range o.files {
		if mine, ok := s.files[name]; !ok || mine != src {
			s.files[name] = Hole
		}
	}
	for name := range s.files {
		if _, ok := o.files[name]; !ok {
			s.files[name] = Hole
		}
	}
	maps.Copy(s.touched, o.touched)
	s.args = joinArgs(s.args, o.args)
	if s.dir != o.dir {
		s.dir = Hole
	}
	if s.status != o.status {
		s.status = eitherWay
	}
	if s.code != o.code {
		s.code = Hole
	}
	s.errexit = s.errexit && o.errexit
	s.blind = s.blind || o.blind
	s.last = union(s.last, o.last)
	s.jobs = union(s.jobs, o.jobs)
	s.parked = append(s.parked, o.parked...)
	if s.left == "" {
		s.left = o.left
	}
}

func (v variable) equal(o variable) bool {
	return v.value == o.value && v.isList == o.isList && v.exported == o.exported && v.absent == o.absent && slices.Equal(v.list, o.list)
}

// joinArgs returns the arguments that are either a or b.
func joinArgs(a, b []string) []string {
	if slices.Equal(a, b) {
		return a
	}
	var list []string
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		list = append(list, a[i])
	}
	return append(list, Hole)
}

func union(a, b []int) []int {
	list := slices.Clone(a)
	for _, i := range b {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list
}

// maybe returns the unknown conditions under which the shell is where it is, or "".
func (s *shell) maybe() string {
	list := slices.Clone(s.conds)
	if s.left != "" {
		list = append(list, s.left)
	}
	if s.v.maybe != "" {
		list = append([]string{s.v.maybe}, list...)
	}
	list = slices.Compact(list)
	if len(list) > 3 {
		list = append(list[:3], "…")
	}
	return Show(strings.Join(list, " and "))
}

// run runs a script and returns how it ends.
func (s *shell) run(t *text) flow {
	if nests(t.src) {
		s.w.unknown(t.file, 0, "it nests more deeply than is followed")
		return goesOn
	}
	was := s.text
	s.text = t
	defer func() { s.text = was }()
	variant := syntax.LangBash
	if !s.bash {
		variant = syntax.LangPOSIX
	}
	list, err := parse(t.src, variant)
	f := s.stmts(list)
	if f == goesOn && err != nil {
		s.w.unknown(t.file, 0, "it does not parse: "+short(err.Error()))
	}
	return f
}

// parse returns the statements before the first error of syntax, which a shell runs, and
// that error.
func parse(src string, variant syntax.LangVariant) (list []*syntax.Stmt, err error) {
	// StmtsSeq may yield once more after a loop that was left (v3.14.1), so it is not left.
	for st, e := range syntax.NewParser(syntax.Variant(variant)).StmtsSeq(strings.NewReader(src)) {
		switch {
		case err != nil:
		case e != nil:
			err = e
		default:
			list = append(list, st)
		}
	}
	return list, err
}

// nests reports whether a text may nest so deeply that to parse it takes too much stack.
func nests(src string) bool {
	const most = 500
	depth, words := 0, 0
	for _, c := range []byte(src) {
		switch c {
		case '(', '{', '[', '`':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		}
		if depth > most {
			return true
		}
	}
	for word := range strings.FieldsSeq(src) {
		switch strings.Trim(word, ";") {
		case "if", "while", "until", "for", "case", "select", "!", "time", "function", "coproc", "&&", "||", "|":
			words++
		case "fi", "done", "esac":
			words = max(words-1, 0)
		}
		if strings.HasSuffix(word, "()") {
			words++
		}
	}
	return words > 16*most
}

// stmts runs statements.
func (s *shell) stmts(list []*syntax.Stmt) flow {
	for _, st := range list {
		if f := s.stmt(st); f != goesOn {
			return f
		}
	}
	return goesOn
}

// link returns the step of the chain for a node.
func (s *shell) link(n syntax.Node) Link {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	what := ""
	if from <= to && to <= len(s.text.src) {
		what = short(s.text.src[from:to])
	}
	if s.text.file == "" {
		return Link{What: what, File: s.text.link.File, Line: s.text.link.Line}
	}
	return Link{What: what, File: s.text.file, Line: int(n.Pos().Line())}
}

// unknown records a part of the script that is not followed.
func (s *shell) unknown(n syntax.Node, why string) {
	l := s.link(n)
	s.w.unknown(l.File, l.Line, why)
}

// runUnknown records that a text runs which is not known. It may set any variable, above
// all those that decide where libraries and modules are found.
func (s *shell) runUnknown() {
	s.blind, s.status, s.w.changed = true, eitherWay, true
	for _, name := range []string{"LD_LIBRARY_PATH", "LD_PRELOAD"} {
		s.vars[name] = variable{value: Hole, exported: true}
	}
	path := Hole // what it may add comes first
	if old := s.vars["PYTHONPATH"].value; old != "" {
		path += ":" + old
	}
	s.vars["PYTHONPATH"] = variable{value: path, exported: true}
}

// exec follows a program that the shell starts. replace means that the shell becomes it.
func (s *shell) exec(n syntax.Node, p proc, argv []string, replace bool) {
	before := len(s.w.res.Programs)
	v := via{
		chain: s.chain(n), depth: s.depth, shell: true, maybe: s.maybe(), service: s.service || s.v.service,
		main:   replace && s.v.main && !s.sub && !s.service,
		caught: s.v.caught || s.testing > 0 || s.service || !replace && !s.errexit, unsure: s.v.unsure,
		says: s.notFound(n, argv[0], p, replace),
	}
	s.w.exec(p, argv, v)
	for i := before; i < len(s.w.res.Programs); i++ {
		if i == before {
			s.last = nil
		}
		s.last = append(s.last, i)
		if s.service {
			s.jobs = append(s.jobs, i)
		}
	}
}

// chain returns the steps to a node of the script.
func (s *shell) chain(n syntax.Node) []Link {
	l := s.link(n)
	chain := slices.Clip(s.v.chain)
	if n := len(chain); n > 0 && strings.HasPrefix(chain[n-1].What, "#!") && chain[n-1].File == l.File {
		chain = slices.Clip(chain[:n-1]) // the script's own line says as much
	}
	if s.text.file == "" && len(chain) > 0 && strings.HasSuffix(chain[len(chain)-1].What, l.What) {
		return chain
	}
	return append(chain, l)
}

// isTouched reports whether a program of the script may have changed a path.
func (s *shell) isTouched(file string) bool {
	for p := file; p != "/" && p != "."; p = path.Dir(p) {
		if s.touched[p] {
			return true
		}
	}
	return false
}

// atRunTime are the directories that the container's runtime fills.
var atRunTime = []string{"/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets"}

// isAtRunTime reports whether a path is in one of them.
func isAtRunTime(file string) bool {
	return slices.ContainsFunc(atRunTime, func(dir string) bool { return file == dir || strings.HasPrefix(file, dir+"/") })
}

// lookup returns the entry at a path of the image. known is false if it may be another at
// run time.
func (s *shell) lookup(file string) (e *layers.Entry, known bool) {
	if isAtRunTime(file) || s.isTouched(file) || s.w.starters.injected(path.Base(file)) {
		return nil, false
	}
	e, _, _ = s.w.fs.Lookup(file)
	return e, true
}
