package replay

import (
	"path"
	"slices"
	"strings"
)

// program is the Python file that the image runs, and sys.path[0], in which Python looks
// for the program's own modules.
type program struct{ file, dir string }

// pythonProgram returns the Python file that ENTRYPOINT and CMD run: `python FILE`,
// `python -m MODULE`, or a script. ok is false for all other commands.
func (co *Config) pythonProgram() (p program, ok bool) {
	if co.img.Config == nil {
		return p, false
	}
	argv := slices.Concat(co.img.Config.Config.Entrypoint, co.img.Config.Config.Cmd)
	e := co.Entry()
	if len(argv) == 0 || e.Problem != "" || !strings.HasPrefix(path.Base(e.Path), "python") {
		return p, false
	}
	file, found := co.Executable(argv[0])
	if !found {
		return p, false
	}
	if strings.HasSuffix(file, ".py") {
		return program{file, path.Dir(file)}, true
	}
	if !strings.HasPrefix(path.Base(file), "python") {
		return p, false
	}
	return co.pythonArgument(argv[1:])
}

// pythonArgument returns the file or module that Python's arguments name
// (https://docs.python.org/3/using/cmdline.html).
func (co *Config) pythonArgument(args []string) (p program, ok bool) {
	cwd := path.Join("/", co.Env().Cwd)
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-m" && i+1 < len(args):
			name := path.Join(cwd, strings.ReplaceAll(args[i+1], ".", "/"))
			for _, file := range []string{name + ".py", name + "/__main__.py"} {
				if co.img.IsFile(file) {
					return program{file, cwd}, true
				}
			}
			return p, false
		case a == "-W" || a == "-X":
			i++
		case a == "-" || strings.HasPrefix(a, "-c") || strings.HasPrefix(a, "-m"):
			return p, false
		case !strings.HasPrefix(a, "-"):
			if !path.IsAbs(a) {
				a = path.Join(cwd, a)
			}
			return program{a, path.Dir(a)}, co.img.IsFile(a)
		}
	}
	return p, false
}
