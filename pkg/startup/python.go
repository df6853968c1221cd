package startup

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// python adds an interpreter of Python with its program, and follows programs that it
// starts.
func (w *walk) python(p proc, pr Program, v via) {
	py := pythonArguments(pr.Args[1:], p.dir)
	if py.Stdin && p.stdin != nil && Known(*p.stdin) {
		py.Stdin, py.Code = false, *p.stdin
	}
	if py.File != "" {
		py.File = w.main(py.File)
	}
	pr.Python = py
	i := w.add(pr)
	if i < 0 {
		return
	}
	switch {
	case py.Module != "":
		w.moduleStarter(p, i, py.Module, py.Args, v)
	case py.File != "" && w.isScript(py.File):
		w.starter(p, i, path.Base(py.File), py.Args, v)
	}
	if _, _, ok := w.fs.Lookup(py.File); py.File != "" && !ok && v.main && !v.caught && w.res.AbsentScript == nil {
		w.res.AbsentScript = w.absentScript(pr.Args[0], py.File, v)
	}
}

// absentScript returns the file of a Python program that is not there, or nil if that is not
// certain: if a script may have made it, or if no Python file is beside its place, so that the
// code may come from a volume.
func (w *walk) absentScript(name, file string, v via) *Absent {
	if v.unsure || v.maybe != "" || w.changed || w.written[file] || isAtRunTime(file) {
		return nil
	}
	a := &Absent{Name: file, Error: name + ": can't open file '" + file + "': [Errno 2] No such file or directory", Chain: v.chain, Tried: []string{file}}
	a.File, _ = v.at()
	dir := path.Dir(file)
	for ; dir != "/"; dir = path.Dir(dir) {
		if e, _, ok := w.fs.Lookup(dir); ok && e.IsDir() {
			break
		}
	}
	if dir == "/" {
		return nil
	}
	code, n := false, 0
	for e := range w.fs.Below(dir) {
		if n++; n > maxBeside {
			break
		}
		if strings.Contains(e.Path, "-packages/") {
			continue
		}
		code = code || e.Type == layers.Regular && strings.HasSuffix(e.Path, ".py")
		if path.Base(e.Path) == path.Base(file) && e.Type == layers.Regular && (a.Near == "" || len(e.Path) < len(a.Near)-1) {
			a.Near = "/" + e.Path
		}
	}
	if !code {
		return nil
	}
	return a
}

// maxBeside is the number of files among which absentScript looks for others.
const maxBeside = 20_000

// isScript reports whether a Python file may be the console script of a package: one
// without a suffix, in a directory of programs.
func (w *walk) isScript(file string) bool {
	return path.Ext(file) != ".py" && strings.HasSuffix(path.Dir(file), "bin")
}

// main returns the file of a program: of a directory its __main__.py.
func (w *walk) main(file string) string {
	if e, _, ok := w.fs.Lookup(file); ok && e.IsDir() {
		if m, _, ok := w.fs.Lookup(file + "/__main__.py"); ok && m.Type == layers.Regular {
			return file + "/__main__.py"
		}
	}
	return file
}

// pythonArguments reads the arguments of an interpreter
// (https://docs.python.org/3/using/cmdline.html, Python/initconfig.c config_parse_cmdline).
func pythonArguments(args []string, dir string) *Python {
	py := &Python{}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "-":
			py.Stdin, py.Args = true, args
			return py
		case a == "--":
		case strings.HasPrefix(a, "--"):
			if a == "--check-hash-based-pycs" && len(args) > 0 {
				args = args[1:]
			}
			continue
		case strings.HasPrefix(a, "-") && Known(a):
			var done bool
			if args, done = py.option(a[1:], args); done {
				return py
			}
			continue
		default:
			args = append([]string{a}, args...)
		}
		break
	}
	if len(args) == 0 {
		py.Stdin = true
		return py
	}
	py.Args = args[1:]
	if Known(args[0]) {
		py.File = absolute(args[0], dir)
	} else {
		py.Stdin = true
	}
	return py
}

// option reads an argument of one-letter options. done reports that -c or -m ends the
// options; rest are the arguments that follow.
func (py *Python) option(letters string, args []string) (rest []string, done bool) {
	for i, c := range letters {
		value := letters[i+1:]
		if strings.ContainsRune("cmWXQ", c) && value == "" && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		switch c {
		case 'c', 'm':
			py.Args = args
			switch {
			case !Known(value):
				py.Stdin = true
			case c == 'c':
				py.Code = value
			default:
				py.Module = value
			}
			return args, true
		case 'W', 'X', 'Q':
			return args, false
		case 'I':
			py.Isolated = true
		case 'S':
			py.NoSite = true
		case 's':
			py.NoUserSite = true
		case 'E':
			py.IgnoreEnv = true
		case 'P':
			py.SafePath = true
		case 'O':
			py.Optimized = true
		}
	}
	return args, false
}
