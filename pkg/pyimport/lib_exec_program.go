package pyimport

import "strings"

// Exec is a program that takes the place of the Python program (os.execvp), or that it runs.
type Exec struct {
	Argv  []string
	Env   map[string]string // whole; without the variables that are not known
	Path  bool              // a name without a slash is looked up in PATH
	Dir   string            // the working directory, if the program sets one for it
	At    string            // the statement: FILE:LINE
	Maybe string            // the condition that is not known under which it runs, or ""
	// Child reports that it runs beside the Python program (subprocess.run); Checked that its failure
	// is one of the Python program.
	Child, Checked bool
}

// UnknownArgs stands in [Exec.Argv] for an argument that is not known, or for any number of them.
const UnknownArgs = "\x00"

// maxExecs limits the programs that one process may become.
const maxExecs = 8

// Execs returns the programs that may have taken the place of the run's program, or that it has run.
func (r *Run) Execs() []Exec { return r.execs }

func init() {
	table := map[string]func(*Run, *args) value{}
	for _, name := range []string{"execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "execlpe"} {
		table[name] = func(r *Run, a *args) value { return r.execProgram(strings.TrimPrefix(name, "exec"), a) }
	}
	functions("os", table)
	functions("posix", map[string]func(*Run, *args) value{"execv": table["execv"], "execve": table["execve"]})
}

// execProgram is os.execv and its kind: v has the arguments in a list, l as arguments, p
// searches PATH, e has the environment as its last argument. It does not return.
func (r *Run) execProgram(kind string, a *args) value {
	x, ok := r.execOf(kind, a)
	switch {
	case !ok:
		r.note("a program that takes its place is not known")
	case len(r.execs) < maxExecs:
		r.execs = append(r.execs, x)
	}
	r.raise("SystemExit", "")
	return nil
}

func (r *Run) execOf(kind string, a *args) (x Exec, ok bool) {
	x = Exec{Path: strings.Contains(kind, "p"), At: r.at(), Maybe: r.condition()}
	file, ok := a.text(0, "file")
	if !ok || a.open || len(a.pos) < 2 {
		return x, false
	}
	env := value(r.env)
	rest := a.pos[1:]
	if strings.HasSuffix(kind, "e") {
		env, rest = rest[len(rest)-1], rest[:len(rest)-1]
	}
	if strings.HasPrefix(kind, "v") && len(rest) > 0 {
		items, more := r.iterate(rest[0])
		if rest = items; more != "" {
			return x, false
		}
	}
	x.Argv = argvOf(rest)
	if x.Env, ok = r.variables(env); !ok || len(x.Argv) == 0 {
		return x, false
	}
	x.Argv[0] = file // the file decides what runs
	return x, true
}

// argvOf returns arguments as texts.
func argvOf(list []value) []string {
	var argv []string
	for _, v := range list {
		switch v := v.(type) {
		case string:
			argv = append(argv, v)
		case *filePath:
			argv = append(argv, v.text)
		default:
			argv = append(argv, UnknownArgs)
		}
	}
	return argv
}

// variables returns an environment, without the variables that are not known.
func (r *Run) variables(v value) (map[string]string, bool) {
	env := map[string]string{}
	switch v := v.(type) {
	case *environ:
		for name, value := range v.vars.m {
			if t, ok := value.(string); ok {
				env[name] = t
			}
		}
		return env, true
	case *dict:
		for _, p := range v.pairs {
			name, isText := p.key.(string)
			if t, ok := p.value.(string); ok && isText {
				env[name] = t
			}
		}
		return env, !v.open
	}
	return nil, false
}
