package startup

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// condaNames are the programs that activate environments of conda.
var condaNames = set("conda", "mamba", "micromamba")

// hook reports whether a text that eval runs is the output of `conda shell.bash hook` or
// `micromamba shell hook`: its functions are those that [shell.activates] knows.
func (s *shell) hook(src string) bool {
	for i := len(s.w.res.Programs) - 1; i >= 0 && src == Hole; i-- {
		p := s.w.res.Programs[i]
		return slices.ContainsFunc(p.Args, func(a string) bool { return condaNames[path.Base(a)] }) && slices.Contains(p.Args, "hook")
	}
	return false
}

// activates runs `conda activate` and `conda deactivate`, which only a shell's function
// can do, and reports whether the command is one.
func (s *shell) activates(n syntax.Node, argv []string) bool {
	name := baseName(argv[0])
	if !condaNames[name] || len(argv) < 2 || argv[1] != "activate" && argv[1] != "deactivate" {
		return false
	}
	s.status = succeeded
	if argv[1] == "deactivate" {
		return true
	}
	env := "base"
	for _, a := range argv[2:] {
		if !strings.HasPrefix(a, "-") {
			env = a
		}
	}
	s.useConda(n, env)
	return true
}

// sourcesConda runs `source activate NAME` with the activate in conda's bin. It reports
// false for other scripts.
func (s *shell) sourcesConda(args []string) bool {
	base := path.Base(args[0])
	if base == "conda.sh" || base == "mamba.sh" {
		return s.rememberConda(path.Dir(path.Dir(path.Dir(absolute(args[0], s.dir)))))
	}
	if base != "activate" {
		return false
	}
	dir := ""
	if args[0] == base {
		found, _ := s.w.find(base, s.proc())
		dir = path.Dir(path.Dir(found))
	} else {
		dir = path.Dir(path.Dir(absolute(args[0], s.dir)))
	}
	if e, _, ok := s.w.fs.Lookup(dir + "/conda-meta"); !ok || !e.IsDir() {
		return false
	}
	s.rememberConda(dir)
	env := "base"
	if len(args) > 1 {
		env = args[1]
	}
	s.useConda(nil, env)
	return true
}

// rememberConda sets the root of conda for `conda activate` if there is one.
func (s *shell) rememberConda(root string) bool {
	if e, _, ok := s.w.fs.Lookup(root + "/conda-meta"); !ok || !e.IsDir() {
		return false
	}
	s.set("CONDA_EXE", root+"/bin/conda")
	s.vars["CONDA_EXE"] = variable{value: root + "/bin/conda", exported: true}
	s.status = succeeded
	return true
}

// useConda puts an environment in front of PATH, and runs its activate.d.
func (s *shell) useConda(n syntax.Node, env string) {
	p := s.proc()
	prefix, ok := condaPrefix(s.w.fs, env, p, s.w)
	if !ok {
		why := "the environment " + env + " of conda is not found"
		if n != nil {
			s.unknown(n, why)
		} else {
			s.w.unknown("", 0, why)
		}
		s.status = failed
		return
	}
	s.vars["PATH"] = variable{value: condaPath(prefix, p.env["CONDA_PREFIX"], p.env["PATH"]), exported: true}
	s.vars["CONDA_PREFIX"] = variable{value: prefix, exported: true}
	s.vars["CONDA_DEFAULT_ENV"] = variable{value: env, exported: true}
	s.status = succeeded
	scripts, _ := glob(s.w.fs, prefix+"/etc/conda/activate.d/*.sh")
	for _, file := range scripts {
		at := Link{What: "conda activate " + env, File: file}
		if s.source(file, nil, at) != goesOn {
			break
		}
	}
	s.status = succeeded
}

// condaPath replaces the bin directory of the environment that was active, or puts a new
// one in front of PATH.
func condaPath(prefix, old, list string) string {
	var rest []string
	for dir := range strings.SplitSeq(list, ":") {
		if old == "" || dir != old+"/bin" {
			rest = append(rest, dir)
		}
	}
	return strings.Join(append([]string{prefix + "/bin"}, rest...), ":")
}

// condaPrefix returns the directory of an environment of conda: a path, "base" for the
// root, or a name below envs of the root.
func condaPrefix(fsys *layers.FS, env string, p proc, w *walk) (string, bool) {
	if !Known(env) {
		return "", false
	}
	var tries []string
	switch {
	case strings.Contains(env, "/"):
		tries = []string{absolute(env, p.dir)}
	default:
		for _, root := range condaRoots(p, w) {
			if env == "base" {
				tries = append(tries, root)
			}
			tries = append(tries, root+"/envs/"+env)
		}
	}
	for _, dir := range tries {
		if e, _, ok := fsys.Lookup(dir + "/conda-meta"); ok && e.IsDir() {
			return dir, true
		}
	}
	return "", false
}

// condaRoots returns the directories that may be conda's root: that of the program conda,
// of CONDA_EXE, and of micromamba.
func condaRoots(p proc, w *walk) []string {
	var list []string
	add := func(dir string) {
		if dir != "" && dir != "." && Known(dir) && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	add(p.env["MAMBA_ROOT_PREFIX"])
	for _, exe := range []string{p.env["CONDA_EXE"], p.env["MAMBA_EXE"]} {
		if exe != "" {
			add(path.Dir(path.Dir(exe)))
		}
	}
	for _, name := range []string{"conda", "mamba"} {
		if found, _ := w.find(name, p); found != "" {
			if e, _, ok := w.fs.Lookup(found); ok {
				add(path.Dir(path.Dir("/" + e.Path)))
			}
		}
	}
	if prefix := p.env["CONDA_PREFIX"]; prefix != "" {
		add(prefix)
		add(path.Dir(path.Dir(prefix)))
	}
	return list
}

// conda is `conda run` and its kin.
func (st *started) conda() {
	env := "base"
	if active := st.p.env["CONDA_DEFAULT_ENV"]; active != "" {
		env = active
	}
	if list := st.values([]string{"-n", "--name", "-p", "--prefix"}); len(list) > 0 {
		env = list[len(list)-1]
	}
	prefix, ok := condaPrefix(st.fs, env, st.p, st.walk)
	if !ok {
		file, line := st.v.at()
		st.unknown(file, line, "the environment "+env+" of conda is not found")
		return
	}
	for _, cwd := range st.values([]string{"--cwd"}) {
		st.p.dir = absolute(cwd, st.p.dir)
	}
	st.p = st.p.with("PATH", condaPath(prefix, st.p.env["CONDA_PREFIX"], st.p.env["PATH"])).with("CONDA_PREFIX", prefix)
	st.program()
}
