package startup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Starters are the programs that start others as their arguments say. The zero value
// knows none.
type Starters struct {
	// Starters are tried in order: the first row with the name and the command counts.
	Starters []Starter `yaml:"starters"`
	// Injected are programs that the container's runtime mounts from the machine.
	Injected Named `yaml:"injected"`
	// Questions are programs whose exit status is an answer: their failure is no error.
	Questions Named `yaml:"questions"`

	byName, byModule map[string][]int
}

// Named is a list of programs, with the source for it.
type Named struct {
	Names  []string `yaml:"names"`
	Source string   `yaml:"source"`
}

// Starter is a row of the table. It describes how a program reads its arguments.
type Starter struct {
	Names   []string `yaml:"names"`   // of the program's file
	Modules []string `yaml:"modules"` // of `python -m`
	Command []string `yaml:"command"` // the words that must follow, with options between them
	Source  string   `yaml:"source"`  // URL of the documentation of its options
	// Script means that the row is followed instead of the text of the program, a script.
	Script bool `yaml:"script"`
	// Then says how its operands are read: a key of the table below.
	Then string `yaml:"then"`
	// Values are the options that take a value: "-u", "--user". All others take none.
	Values []string `yaml:"values"`
	// Words means that `-abc` is one option, not three.
	Words bool `yaml:"words"`
	// Hyphens means that hyphens in the name of a `--` option stand for underscores.
	Hyphens bool `yaml:"hyphens"`
	// Anywhere means that options may follow operands.
	Anywhere bool `yaml:"anywhere"`
	// Skip is the number of operands before the program.
	Skip int `yaml:"skip"`
	// Assigns means that operands NAME=VALUE before the program set variables.
	Assigns bool `yaml:"assigns"`
	// Shell are the options whose value is a command of the shell.
	Shell []string `yaml:"shell"`
	// Module are the options after which the operand is a Python module, and Program those
	// after which it is a program.
	Module  []string `yaml:"module"`
	Program []string `yaml:"program"`
	// Imports are the options, and ImportEnv the variables, whose value names a module:
	// `module`, `module:attribute`. Classes are the options whose value is a class
	// `module.Class` or a short name of Short, which has its module.
	Imports   []string          `yaml:"imports"`
	ImportEnv []string          `yaml:"importenv"`
	Classes   []string          `yaml:"classes"`
	Short     map[string]string `yaml:"short"`
	// Files are the options whose value is a Python file that is executed, and Finds the
	// files of the working directory that are executed if they are there.
	Files []string `yaml:"files"`
	Finds []string `yaml:"finds"`
	// Chdir are the options whose value becomes the working directory.
	Chdir []string `yaml:"chdir"`
	// User are the options whose value is the user that the program runs as; UserOperand
	// means that it is the first operand. Home means that HOME is set to that user's.
	User        []string `yaml:"user"`
	UserOperand bool     `yaml:"useroperand"`
	Home        bool     `yaml:"home"`
	// Keeps are the options without which the program gets no variables but PATH.
	Keeps []string `yaml:"keeps"`
	// Cwd means that the working directory comes first on sys.path, Beside that the directory
	// of a file that is executed does.
	Cwd    bool `yaml:"cwd"`
	Beside bool `yaml:"beside"`
	// Paths are the options whose value lists directories, separated by commas, that come first
	// on sys.path. ArgsEnv are the variables that hold more arguments, and PathNames the names
	// that a file of Files or Finds sets to change sys.path.
	Paths     []string `yaml:"paths"`
	ArgsEnv   []string `yaml:"argsenv"`
	PathNames []string `yaml:"pathnames"`
	// ChdirName is the one of PathNames that sets the working directory. AppName is the name by which
	// such a file sets what the operand names, if there is none.
	ChdirName string `yaml:"chdirname"`
	AppName   string `yaml:"appname"`
	// Envs are patterns of the environments in whose bin directory programs are looked for
	// first: below the working directory, or below the home directory with "~/".
	Envs []string `yaml:"envs"`
	// Tasks are the TOML files of the working directory, each with the path of a table, whose
	// tasks the operand may name: "pixi.toml tasks".
	Tasks []string `yaml:"tasks"`
	// Prefix comes before the name of the program.
	Prefix string `yaml:"prefix"`
}

// The functions that read a starter's operands, by the values of [Starter.Then].
var thens map[string]func(*started)

func init() {
	thens = map[string]func(*started){
		"program":     (*started).program,     // the operands are a program and its arguments
		"shell":       (*started).shellOption, // an option's value is a command of the shell, else as program
		"script":      (*started).script,      // the operand is a Python file of a new process
		"app":         (*started).app,         // the operand is MODULE:ATTRIBUTE, imported in this process
		"apps":        (*started).apps,        // as app, each operand
		"class":       (*started).class,       // the operand is MODULE.CLASS, whose module is imported in this process
		"celery":      (*started).celery,      // options and variables name an application of Celery
		"mlserver":    (*started).mlserver,    // models whose files name their modules
		"torchserve":  (*started).torchserve,  // models of a directory
		"serve":       (*started).serve,       // as app, or a file of settings has the names
		"bentoml":     (*started).bentoml,     // as app, or a directory whose file names it
		"cog":         (*started).cog,         // a variable or a file names the file of a predictor
		"triton":      (*started).triton,      // models of the Python back end
		"uwsgi":       (*started).uwsgi,       // options and files name an application
		"files":       (*started).files,       // as file, each operand
		"alembic":     (*started).alembic,     // the env.py of its configuration is executed in this process
		"file":        (*started).file,        // the operand is a Python file, executed in this process
		"options":     (*started).options,     // only options say what is imported
		"env":         (*started).env,         // as env(1)
		"conda":       (*started).conda,       // a program in an environment of conda
		"pyenv":       (*started).pyenv,       // a program of the versions that pyenv selects
		"venv":        (*started).venv,        // a program in an environment of Envs
		"supervisord": (*started).supervisord, // the programs of its configuration
		"s6":          (*started).s6,          // services of s6-overlay, then the operands
		"runit":       (*started).runit,       // the services of a directory
		"procfile":    (*started).procfile,    // the lines of a Procfile
		"npm":         (*started).npm,         // a script of package.json
		"npx":         (*started).npx,         // a program of node_modules
		"nodescript":  (*started).nodeScript,  // a file of Node, in a process of its own
		"nothing":     func(*started) {},      // known to start nothing that can be read
	}
}

// LoadStarters reads startup/*.yaml of a file system of rules. The error for a row that is
// not valid is one line.
func LoadStarters(fsys fs.FS) (*Starters, error) {
	all := &Starters{byName: map[string][]int{}, byModule: map[string][]int{}}
	names, err := fs.Glob(fsys, "startup/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if err := all.add(b); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return all, nil
}

func (all *Starters) add(b []byte) error {
	var one Starters
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&one); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, s := range one.Starters {
		if err := s.check(); err != nil {
			return fmt.Errorf("starter %q: %w", append(s.Names, s.Modules...), err)
		}
		i := len(all.Starters)
		all.Starters = append(all.Starters, s)
		for _, n := range s.Names {
			all.byName[n] = append(all.byName[n], i)
		}
		for _, n := range s.Modules {
			all.byModule[n] = append(all.byModule[n], i)
		}
	}
	all.Injected.Names = append(all.Injected.Names, one.Injected.Names...)
	all.Questions.Names = append(all.Questions.Names, one.Questions.Names...)
	return nil
}

// check returns the error of a row.
func (s *Starter) check() error {
	switch {
	case len(s.Names)+len(s.Modules) == 0:
		return errors.New("has no name")
	case !strings.HasPrefix(s.Source, "https://") && !strings.HasPrefix(s.Source, "http://"):
		return errors.New("has no source")
	case thens[s.Then] == nil:
		return fmt.Errorf("has an unknown then: %q", s.Then)
	}
	return nil
}

func (all *Starters) injected(name string) bool {
	return all != nil && slices.Contains(all.Injected.Names, name)
}

func (all *Starters) question(name string) bool {
	return all != nil && slices.Contains(all.Questions.Names, name)
}

// starter follows the programs that a starter's arguments name. i is the starter.
func (w *walk) starter(p proc, i int, name string, args []string, v via) {
	if w.starters != nil {
		w.starterRows(p, i, w.starters.byName[name], args, v)
	}
}

// moduleStarter is as starter, for `python -m module`.
func (w *walk) moduleStarter(p proc, i int, module string, args []string, v via) {
	if w.starters != nil {
		w.starterRows(p, i, w.starters.byModule[module], args, v)
	}
}

func (w *walk) starterRows(p proc, i int, rows []int, args []string, v via) {
	for _, r := range rows {
		st := &started{walk: w, row: &w.starters.Starters[r], p: p, index: i, v: v}
		if !st.read(args) {
			continue
		}
		if st.hole {
			file, line := v.at()
			w.unknown(file, line, "an argument before the program is not known: "+strings.Join(args, " "))
			return
		}
		st.v.says, st.doubted = "", st.v.unsure
		st.v.unsure = st.v.unsure || st.row.Then != "program" || len(st.opts) > 0 && !slices.Contains(args, "--")
		thens[st.row.Then](st)
		return
	}
}

// started is a starter with its arguments.
type started struct {
	*walk
	row      *Starter
	p        proc
	index    int // of the starter among the programs
	v        via
	opts     []option
	operands []string
	doubted  bool // the starter itself may be another program
	hole     bool // an argument that may be anything comes before the operands
}

// option is an option of a command line, with its value or "".
type option struct{ name, value string }

// read splits the arguments and reports whether the row is for them.
func (st *started) read(args []string) bool {
	st.split(args)
	for _, word := range st.row.Command {
		if len(st.operands) == 0 || st.operands[0] != word {
			return false
		}
		rest := st.operands[1:]
		st.operands = nil
		st.split(rest)
	}
	for _, o := range st.opts {
		if slices.Contains(st.row.Chdir, o.name) && Known(o.value) {
			st.p.dir = absolute(o.value, st.p.dir)
		}
	}
	st.changeUser()
	return true
}

// changeUser sets the user that the options name, and the user's variables.
func (st *started) changeUser() {
	names := st.values(st.row.User)
	if st.row.UserOperand && len(st.operands) > 0 {
		names = append(names, st.operands[0])
	}
	if st.row.Keeps != nil && !st.has(st.row.Keeps) {
		env := map[string]string{"PATH": defaultPath}
		for name, value := range st.p.env {
			if st.inherited()[name] != value {
				env[name] = value // an operand has set it
			}
		}
		st.p.env = env
		if len(names) == 0 {
			names = []string{"root"}
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[len(names)-1]
	st.p.user = user{name: name, uid: -1}
	if Known(name) {
		st.p.user = findUser(st.fs, name)
	}
	if st.row.Home {
		home := st.p.user.home
		if home == "" {
			home = Hole
		}
		st.p = st.p.with("HOME", home)
	}
}

// split splits arguments into options and operands.
func (st *started) split(args []string) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			st.operands = append(st.operands, args...)
			return
		case len(a) > 1 && a[0] == '-':
			args = st.option(a, args)
		case a == Hole:
			st.hole = true
		case st.row.Assigns && isAssignment(a):
			name, value, _ := strings.Cut(a, "=")
			st.p = st.p.with(name, value)
		case !st.row.Anywhere:
			st.operands = append(append(st.operands, a), args...)
			return
		default:
			st.operands = append(st.operands, a)
		}
	}
}

// option reads one argument of options and returns the arguments after it.
func (st *started) option(a string, args []string) []string {
	takes := func(name string) bool { return slices.Contains(st.row.Values, name) }
	next := func() (value string) {
		if len(args) > 0 {
			value, args = args[0], args[1:]
		}
		return value
	}
	name, value, has := strings.Cut(a, "=")
	if st.row.Hyphens && strings.HasPrefix(name, "--") {
		name = "--" + strings.ReplaceAll(name[2:], "-", "_")
	}
	if strings.HasPrefix(a, "--") || st.row.Words {
		if !has && takes(name) {
			value = next()
		}
		st.opts = append(st.opts, option{name, value})
		return args
	}
	for i := 1; i < len(a); i++ {
		o := option{"-" + a[i:i+1], ""}
		if takes(o.name) {
			if o.value = a[i+1:]; o.value == "" {
				o.value = next()
			}
			i = len(a)
		}
		st.opts = append(st.opts, o)
	}
	return args
}

// isAssignment reports whether a word is NAME=VALUE.
func isAssignment(a string) bool {
	name, _, ok := strings.Cut(a, "=")
	return ok && isName(name)
}

// isName reports whether a word can be the name of a variable.
func isName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// values returns the values of some options, in their order.
func (st *started) values(names []string) []string {
	var list []string
	for _, o := range st.opts {
		if slices.Contains(names, o.name) {
			list = append(list, o.value)
		}
	}
	return list
}

// has reports whether one of some options is there.
func (st *started) has(names []string) bool { return len(st.values(names)) > 0 }

// link returns a step of the chain at the starter's line.
func (st *started) link(what string) Link {
	file, line := st.v.at()
	return Link{What: what, File: file, Line: line}
}

func (st *started) program() {
	if argv := st.operands[min(st.row.Skip, len(st.operands)):]; len(argv) > 0 {
		st.v.scripts = 0
		if st.row.Prefix != "" {
			argv = append([]string{st.row.Prefix + argv[0]}, argv[1:]...)
		}
		st.exec(st.p, argv, st.v)
	}
}

func (st *started) shellOption() {
	if list := st.values(st.row.Shell); len(list) > 0 {
		st.exec(st.p, []string{"/bin/sh", "-c", list[0]}, st.v)
		return
	}
	st.program()
}

// script starts the operand as a Python program of its own, with the starter's own
// interpreter: `torchrun FILE`, `torchrun -m MODULE`, `torchrun --no-python PROGRAM`.
func (st *started) script() {
	argv := st.operands[min(st.row.Skip, len(st.operands)):]
	if len(argv) == 0 {
		return
	}
	switch {
	case st.has(st.row.Program):
	case st.has(st.row.Module):
		argv = append([]string{st.python(), "-m"}, argv...)
	default:
		argv = append([]string{st.python()}, argv...)
	}
	st.exec(st.p, argv, st.v)
}

// python returns the interpreter that runs the starter.
func (st *started) python() string {
	if pr := st.res.Programs[st.index]; pr.Kind == KindPython {
		return pr.Path
	}
	return "python"
}

// app imports the module of the operand MODULE:ATTRIBUTE.
func (st *started) app() {
	st.options()
	if argv := st.operands[min(st.row.Skip, len(st.operands)):]; len(argv) > 0 {
		st.importName(argv[0])
	} else if py := st.res.Programs[st.index].Python; py != nil {
		py.AppName = st.row.AppName
	}
}

// apps imports the module of each operand MODULE:ATTRIBUTE.
func (st *started) apps() {
	st.options()
	for _, arg := range st.operands {
		st.importName(arg)
	}
}

// class imports the module of the operand MODULE.CLASS, MODULE:ATTRIBUTE, or MODULE without a dot.
func (st *started) class() {
	st.options()
	if len(st.operands) == 0 {
		return
	}
	if arg := st.operands[0]; strings.Contains(arg, ":") || !strings.Contains(arg, ".") {
		st.importName(arg)
	} else {
		st.importClass(arg)
	}
}

// celery imports the application that its options name, and for a worker or the scheduler the modules of
// its tasks.
func (st *started) celery() {
	st.options()
	py := st.res.Programs[st.index].Python
	if py == nil {
		return
	}
	for i := range py.Imports {
		if im := &py.Imports[i]; im.File == "" && im.Link.What != "" {
			im.Module, im.Celery = im.Link.What, true
			im.Worker = slices.ContainsFunc(st.operands, func(o string) bool { return o == "worker" || o == "beat" })
		}
	}
}

// alembic executes the env.py below the directory that alembic.ini names: its key script_location
// (alembic/script/base.py). A key prepend_sys_path puts directories first on sys.path.
func (st *started) alembic() {
	file := "alembic.ini"
	for _, value := range st.values([]string{"-c", "--config"}) {
		file = value
	}
	if !Known(file) || !Known(st.p.dir) {
		return
	}
	file = absolute(file, st.p.dir)
	text, _ := content(st.fs, file)
	for _, s := range sections(text) {
		where := strings.ReplaceAll(s.keys["script_location"], "%(here)s", path.Dir(file))
		if s.name != "alembic" || where == "" || strings.Contains(where, ":") {
			continue
		}
		env := absolute(where, st.p.dir) + "/env.py"
		if _, _, ok := st.fs.Lookup(env); !ok {
			return
		}
		if py := st.res.Programs[st.index].Python; py != nil && s.keys["prepend_sys_path"] == "." {
			py.Path = append(py.Path, st.p.dir)
		}
		st.importFile(env)
		return
	}
}

// file executes the operand in the starter's process.
func (st *started) file() {
	st.options()
	if argv := st.operands[min(st.row.Skip, len(st.operands)):]; len(argv) > 0 {
		st.importFile(argv[0])
	}
}

// files executes each operand that is a Python file in the starter's process.
func (st *started) files() {
	st.options()
	for _, arg := range st.operands {
		if strings.HasSuffix(arg, ".py") {
			st.importFile(arg)
		}
	}
}

// options imports the modules that options, variables and files of the working directory
// name.
func (st *started) options() {
	py := st.res.Programs[st.index].Python
	if py == nil {
		return
	}
	if st.row.Cwd && Known(st.p.dir) && !slices.Contains(py.Path, st.p.dir) {
		py.Path = append(py.Path, st.p.dir)
		py.PathKnown = !st.doubted && !st.hole && !slices.ContainsFunc(st.row.ArgsEnv, func(name string) bool { return st.p.env[name] != "" })
		py.PathNames, py.ChdirName = st.row.PathNames, st.row.ChdirName
		for _, value := range st.values(st.row.Paths) {
			for dir := range strings.SplitSeq(value, ",") {
				if py.PathKnown = py.PathKnown && Known(dir); Known(dir) {
					py.Path = slices.Insert(py.Path, 0, absolute(dir, st.p.dir))
				}
			}
		}
	}
	for _, name := range st.row.Finds {
		if _, _, ok := st.fs.Lookup(absolute(name, st.p.dir)); ok && !st.has(st.row.Files) {
			st.importFile(name)
			st.sets()
		}
	}
	for _, value := range st.values(st.row.Files) {
		if module, ok := strings.CutPrefix(value, "python:"); ok {
			st.importName(module)
		} else {
			st.importFile(strings.TrimPrefix(value, "file:"))
		}
		st.sets()
	}
	for _, value := range st.values(st.row.Classes) {
		st.importClass(value)
	}
	for _, value := range st.values(st.row.Imports) {
		st.importName(value)
	}
	for _, name := range st.row.ImportEnv {
		if value := st.p.env[name]; value != "" && !st.has(st.row.Imports) {
			st.importName(value)
		}
	}
}

// sets notes that the last import is of settings.
func (st *started) sets() {
	if py := st.res.Programs[st.index].Python; py != nil && len(py.Imports) > 0 {
		py.Imports[len(py.Imports)-1].Settings = true
	}
}

// importClass imports the module of MODULE.CLASS, or of a short name.
func (st *started) importClass(value string) {
	if module, ok := st.row.Short[value]; ok {
		st.importName(module)
	} else if i := strings.LastIndexByte(value, '.'); i > 0 {
		st.importName(value[:i])
	}
}

// importName imports MODULE, MODULE:ATTRIBUTE, or FILE.py.
func (st *started) importName(value string) {
	module, _, _ := strings.Cut(value, ":")
	switch {
	case strings.HasSuffix(module, ".py"):
		st.importFile(module)
	case !Known(module) || module == "":
		file, line := st.v.at()
		st.unknown(file, line, "the name of a module is not known: "+value)
	default:
		st.addImport(Import{Module: module, Link: st.link(value)})
	}
}

func (st *started) importFile(value string) {
	if !Known(value) || !Known(st.p.dir) {
		file, line := st.v.at()
		st.unknown(file, line, "the name of a file is not known: "+value)
		return
	}
	file := st.main(absolute(value, st.p.dir))
	if py := st.res.Programs[st.index].Python; py != nil && st.row.Beside && !slices.Contains(py.Path, path.Dir(file)) {
		py.Path = append(py.Path, path.Dir(file))
		if _, _, ok := st.fs.Lookup(path.Dir(file) + "/__init__.py"); !ok { // else the root of the package may come first
			py.PathKnown = !st.doubted && !st.hole
		}
	}
	st.addImport(Import{File: file, Link: st.link(value)})
}

func (st *started) addImport(i Import) {
	if py := st.res.Programs[st.index].Python; py != nil && len(py.Imports) < maxArgs && !slices.ContainsFunc(py.Imports, func(o Import) bool { return o.Module == i.Module && o.File == i.File && o.Link == i.Link }) {
		py.Imports = append(py.Imports, i)
	}
}

// env is env(1): variables are set and removed, -S splits a string into arguments
// (https://www.gnu.org/software/coreutils/manual/html_node/env-invocation.html).
func (st *started) env() {
	for range 8 {
		list := st.values([]string{"-S", "--split-string"})
		if len(list) == 0 {
			break
		}
		st.opts = slices.DeleteFunc(st.opts, func(o option) bool { return o.name == "-S" || o.name == "--split-string" })
		operands := st.operands
		st.operands = nil
		st.split(append(splitEnv(list[0], st.p.env), operands...))
	}
	assigned := st.p.env
	if st.has([]string{"-i", "--ignore-environment", "-"}) {
		st.p.env = maps.Clone(assigned)
		for name, value := range st.inherited() {
			if assigned[name] == value {
				delete(st.p.env, name)
			}
		}
	}
	for _, name := range st.values([]string{"-u", "--unset"}) {
		st.p.env = maps.Clone(st.p.env)
		delete(st.p.env, name)
	}
	st.program()
}

// inherited returns the variables that the starter itself got.
func (st *started) inherited() map[string]string { return st.res.Programs[st.index].Env }

// splitEnv splits a string as env -S does: blanks separate, quotes and a backslash quote,
// ${NAME} is a variable.
func splitEnv(s string, env map[string]string) []string {
	var list []string
	var word strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, in = c, true
		case c == '\\' && i+1 < len(s):
			i++
			word.WriteByte(s[i])
			in = true
		case c == '$' && quote != '\'' && strings.HasPrefix(s[i:], "${"):
			name, _, _ := strings.Cut(s[i+2:], "}")
			word.WriteString(env[name])
			i, in = min(i+2+len(name), len(s)), true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			if in {
				list = append(list, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteByte(c)
			in = true
		}
		if word.Len() > maxValue || len(list) > maxArgs {
			return append(list, Hole)
		}
	}
	if in {
		list = append(list, word.String())
	}
	return list
}

// venv starts the operands with the first environment that the image has in front of PATH.
func (st *started) venv() {
	for _, pattern := range st.row.Envs {
		base := st.p.dir
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			pattern, base = rest, st.p.env["HOME"]
		}
		if !Known(base) {
			continue
		}
		if dirs, _ := glob(st.fs, absolute(pattern, base)); len(dirs) > 0 {
			st.activate(dirs[0], "VIRTUAL_ENV")
			break
		}
	}
	if len(st.operands) > 0 && st.task(st.operands[0], st.operands[1:], 0) {
		return
	}
	if len(st.operands) > 0 && (strings.HasSuffix(st.operands[0], ".py") || st.has(st.row.Module)) {
		st.script()
		return
	}
	st.program()
}

// activate puts an environment in front of PATH.
func (st *started) activate(dir, variable string) {
	st.p = st.p.with("PATH", dir+"/bin:"+st.p.env["PATH"]).with(variable, dir)
}
