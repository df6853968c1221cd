package pyimport

import (
	"path"
	"slices"
	"strings"
)

// RunsProgram is the reason in [Node.Unknown] of a statement that runs another program.
const RunsProgram = "the result of a program that is run"

func init() {
	table := map[string]func(*Run, *args) value{"getoutput": inShell, "getstatusoutput": inShell}
	for _, name := range []string{"run", "check_output", "check_call", "call", "Popen"} {
		table[name] = func(r *Run, a *args) value { return r.startProgram(a, strings.HasPrefix(name, "check_")) }
	}
	functions("subprocess", table)
	functions("shutil", map[string]func(*Run, *args) value{"which": which})
	functions("git", map[string]func(*Run, *args) value{"refresh": refreshGit})
}

// inShell is a call of subprocess that leaves the command to a shell: the result is not known.
func inShell(r *Run, a *args) value {
	r.mayMake(a)
	r.note(RunsProgram)
	return unknownf("the result of a program")
}

// startProgram is subprocess.Popen and its kind. A program that is not there raises
// FileNotFoundError (Lib/subprocess.py, Popen._execute_child); the result of another one is not known.
func (r *Run) startProgram(a *args, checked bool) value {
	shell, _ := a.get(8, "shell")
	is, known := truth(shell)
	_, other := a.get(2, "executable")
	_, moved := a.get(9, "cwd")
	name := ""
	if known && !is && !other && !a.open {
		name = r.programOf(a)
	}
	if name != "" && (!moved || !strings.Contains(name, "/")) {
		env, given := a.get(10, "env")
		if !given || env == nil {
			env = r.env
		}
		if file, known := r.findProgram(name, env); known && file == "" {
			r.lacksProgram(name)
			return unknownf("a program that is not there")
		}
		r.startsBeside(a, env, checked)
	}
	return inShell(r, a)
}

// startsBeside notes a program that the Python program runs, and that may be one of Python.
func (r *Run) startsBeside(a *args, env value, checked bool) {
	check, _ := a.get(-1, "check")
	is, known := truth(check)
	x := Exec{Path: true, At: r.at(), Maybe: r.condition(), Child: true, Checked: (checked || known && is) && len(r.tries) == 0}
	v, _ := a.get(0, "args")
	items, more := r.iterate(v)
	if x.Argv = argvOf(items); more != "" {
		x.Argv = append(x.Argv, UnknownArgs)
	}
	if len(x.Argv) > 1 && x.Argv[1] == "-c" {
		return // a question, such as whether a module can be imported
	}
	if dir, given := a.get(9, "cwd"); given && dir != nil {
		text, ok := str(dir)
		if !ok {
			return
		}
		x.Dir = r.absolute(text)
	}
	if x.Env, known = r.variables(env); known && len(items) > 0 && len(r.execs) < maxExecs {
		r.execs = append(r.execs, x)
	}
}

// programOf returns the program that the first argument of a call of subprocess names: a text, or
// the first of a list; "" if it is not known.
func (r *Run) programOf(a *args) string {
	v, _ := a.get(0, "args")
	switch l := v.(type) {
	case *list:
		if len(l.items) > 0 {
			v = l.items[0]
		}
	case *tuple:
		if len(l.items) > 0 {
			v = l.items[0]
		}
	}
	if name, ok := v.(string); ok {
		return name
	}
	return ""
}

// lacksProgram raises the exception of a program that is not there.
func (r *Run) lacksProgram(name string) {
	r.raiseFailure(&Failure{Type: "FileNotFoundError", Text: "[Errno 2] No such file or directory: " + quote(name), Program: name}, nil)
}

// findProgram returns the file of a program, by the PATH of an environment, or "" if it is not
// there (os.get_exec_path, os.defpath). known is false if that is not certain: a directory of PATH is
// not known, or the program is one of Options.Given.
func (r *Run) findProgram(name string, env value) (file string, known bool) {
	given := slices.Contains(r.opt.Given, path.Base(name))
	if strings.Contains(name, "/") {
		is, known := r.isFile(name).(bool)
		if is {
			return name, true
		}
		return "", known && !given
	}
	search := "/bin:/usr/bin" // os.defpath
	switch env := env.(type) {
	case *environ:
		search = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" // a container has a PATH
		if v, ok := env.get("PATH"); ok {
			if search, known = v.(string); !known {
				return "", false
			}
		}
	case *dict:
		v, ok, known := env.get("PATH")
		if !known {
			return "", false
		}
		if ok {
			if search, known = v.(string); !known {
				return "", false
			}
		}
	default:
		return "", false
	}
	for dir := range strings.SplitSeq(search, ":") {
		file := joinPath([]string{dir, name})
		e, _, ok := r.src.fs.Lookup(r.absolute(file))
		if ok && !e.IsDir() && e.Mode&0o111 != 0 {
			return file, true
		}
	}
	return "", !given
}

// which is shutil.which.
func which(r *Run, a *args) value {
	name, ok := a.text(0, "cmd")
	if !ok {
		return unknownf("a program")
	}
	file, known := r.findProgram(name, r.env)
	switch {
	case !known:
		return unknownf("where %s is", name)
	case file == "":
		return nil
	}
	return file
}

// refreshGit is git.refresh of GitPython: it runs Git, by classes that a reduced source does not have
// (git/cmd.py, Git.refresh; the words are those of 2.1.9 to 3.1).
func refreshGit(r *Run, a *args) value {
	name, ok := "git", true
	if v, given := a.get(0, "path"); given && v != nil {
		name, ok = str(v)
	} else if v, set := r.env.get("GIT_PYTHON_GIT_EXECUTABLE"); set {
		name, ok = v.(string)
	}
	mode := "raise"
	if v, set := r.env.get("GIT_PYTHON_REFRESH"); set {
		mode, _ = v.(string)
	}
	if !ok || !slices.Contains([]string{"error", "e", "exception", "raise", "r", "2"}, strings.ToLower(mode)) {
		return inShell(r, a)
	}
	if file, known := r.findProgram(name, r.env); !known || file != "" {
		return inShell(r, a)
	}
	r.raiseFailure(&Failure{Type: "ImportError", Text: "Bad git executable.", Program: name}, nil)
	return nil
}
