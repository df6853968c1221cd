package dockerlint

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/pylock"
)

// projectFile is a lock file or an environment file that a command installs from.
type projectFile struct {
	name  string // in the image
	parse func([]byte, pylock.Options) (*pylock.List, error)
}

// project returns the install of a command that installs what a file of the project lists:
// `uv sync`, `poetry install`, `pixi install`, `conda env create`. It returns nil for another
// command.
func (w *walk) project(c command) *install {
	args, _ := c.args()
	in := &install{command: c, known: w.Knowledge, markers: w.markers(nil)}
	switch name := c.name(); {
	case name == "uv" && first(args) == "sync":
		in.python = w.at(cmp.Or(w.value("UV_PROJECT_ENVIRONMENT"), ".venv"), true)
		if in.python != "" {
			w.venvs = append(w.venvs, venv{path: in.python, line: c.line, uv: true, other: option(args, "-p", "--python") != ""})
		}
		w.uvSync(in, args[1:])
	case name == "poetry" && (first(args) == "install" || first(args) == "sync"):
		in.python = "poetry"
		switch dir := w.at(".venv", true); {
		case w.value("POETRY_VIRTUALENVS_CREATE") == "false" || w.poetryInSystem:
			in.python = ""
		case dir != "" && (w.poetryInProject || slices.Contains([]string{"true", "1"}, w.value("POETRY_VIRTUALENVS_IN_PROJECT"))) && option(args, "-C", "--directory", "-P", "--project") == "":
			in.python = dir
			w.poetryEnv = dir
			w.venvs = append(w.venvs, venv{path: dir, line: c.line})
		}
		w.poetryInstall(in, args[1:])
	case name == "pdm" && (first(args) == "install" || first(args) == "sync"):
		in.python = w.at(".venv", true)
		o := pylock.Options{Groups: optionAll(args, "-G", "--group"), NoDev: slices.Contains(args, "--prod") || slices.Contains(args, "--production")}
		o.AllGroups = slices.Contains(o.Groups, ":all")
		if slices.Contains(args, "--no-default") {
			o.Only = append(o.Only, o.Groups...)
		}
		if in.python != "" {
			w.venvs = append(w.venvs, venv{path: in.python, line: c.line, other: true})
		}
		in.list(w, projectFile{path.Join(option(args, "-p", "--project"), cmp.Or(option(args, "-L", "--lockfile"), "pdm.lock")), pylock.PDM}, o)
	case name == "pipenv" && (first(args) == "install" || first(args) == "sync"):
		w.pipenv(in, args[1:])
	case name == "pixi" && (first(args) == "install" || first(args) == "i"):
		in.python = "pixi"
		o := pylock.Options{Environment: option(args, "-e", "--environment")}
		in.list(w, projectFile{"pixi.lock", pylock.Pixi}, o)
	case slices.Contains(condaNames, name) && condaInstalls(args):
		in.python = "conda:" + option(args, "-n", "--name", "-p", "--prefix")
		w.conda(in, args)
	default:
		return nil
	}
	return in
}

// option returns the value of the first of some options, or "".
func option(args []string, names ...string) string {
	for i, a := range args {
		for _, n := range names {
			if a == n && i+1 < len(args) {
				return args[i+1]
			}
			if v, ok := strings.CutPrefix(a, n+"="); ok && strings.HasPrefix(n, "--") {
				return v
			}
		}
	}
	return ""
}

// optionAll returns the values of all occurrences of some options, which may have several
// separated by commas.
func optionAll(args []string, names ...string) (list []string) {
	for i := range args {
		if v := option(args[i:min(i+2, len(args))], names...); v != "" && slices.ContainsFunc(names, func(n string) bool { return args[i] == n || strings.HasPrefix(args[i], n+"=") }) {
			list = append(list, strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })...)
		}
	}
	return list
}

// uvSync reads uv.lock: https://docs.astral.sh/uv/reference/cli/#uv-sync
func (w *walk) uvSync(in *install, args []string) {
	o := pylock.Options{
		Extras: optionAll(args, "--extra"), Groups: optionAll(args, "--group"), Only: optionAll(args, "--only-group"), Without: optionAll(args, "--no-group"),
		AllExtras: slices.Contains(args, "--all-extras"), AllGroups: slices.Contains(args, "--all-groups"),
		NoDev: slices.Contains(args, "--no-dev") || slices.Contains(args, "--no-default-groups") || w.value("UV_NO_DEV") == "1",
	}
	if slices.Contains(args, "--only-dev") {
		o.Only = append(o.Only, "dev")
	}
	dir := option(args, "--project", "--directory")
	if option(args, "--package") != "" || slices.Contains(args, "--all-packages") || slices.Contains(args, "--script") {
		in.unknown = append(in.unknown, "which packages of the workspace uv installs")
		return
	}
	in.list(w, projectFile{path.Join(dir, "uv.lock"), pylock.UV}, o)
}

// poetryInstall reads poetry.lock: https://python-poetry.org/docs/cli/#install
func (w *walk) poetryInstall(in *install, args []string) {
	o := pylock.Options{
		Extras: optionAll(args, "-E", "--extras"), Groups: optionAll(args, "--with"), Only: optionAll(args, "--only"), Without: optionAll(args, "--without"),
		AllExtras: slices.Contains(args, "--all-extras"), AllGroups: slices.Contains(args, "--all-groups"), NoDev: slices.Contains(args, "--no-dev"),
	}
	if slices.Contains(args, "--only-root") {
		return
	}
	in.list(w, projectFile{path.Join(option(args, "-C", "--directory", "-P", "--project"), "poetry.lock"), pylock.Poetry}, o)
}

// pipenv reads Pipfile.lock: https://pipenv.pypa.io/en/latest/commands.html
func (w *walk) pipenv(in *install, args []string) {
	in.python = "pipenv"
	if slices.Contains(args, "--system") || w.value("PIPENV_SYSTEM") == "1" {
		in.python = ""
		in.markers = w.markers(in)
	}
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			in.unknown = append(in.unknown, "what pipenv installs besides its lock")
			return
		}
	}
	o := pylock.Options{}
	if slices.Contains(args, "--dev") || slices.Contains(args, "-d") {
		o.Groups = []string{"dev"}
	}
	in.list(w, projectFile{"Pipfile.lock", pylock.Pipfile}, o)
}

// export keeps the requirements file that a command writes from a lock: `uv export`, `poetry
// export`. It reports whether the command is one.
func (w *walk) export(c command) bool {
	args, known := c.args()
	name := c.name()
	if (name != "uv" && name != "poetry") || first(args) != "export" {
		return false
	}
	to := cmp.Or(option(args, "-o", "--output", "--output-file"), c.out)
	if to = w.at(to, known && to != ""); to == "" || c.maybe {
		return false
	}
	at := *w // the directory and the copies of this moment
	if w.written == nil {
		w.written = map[string]func(*install){}
	}
	w.written[to] = func(in *install) {
		if name == "uv" {
			at.uvSync(in, args[1:])
			return
		}
		// `export` has no group but main, without --with
		o := pylock.Options{Extras: optionAll(args, "-E", "--extras"), Groups: optionAll(args, "--with"), Only: optionAll(args, "--only"), AllExtras: slices.Contains(args, "--all-extras"), AllGroups: slices.Contains(args, "--all-groups")}
		if len(o.Only) == 0 && !o.AllGroups {
			o.Only = append([]string{"main"}, o.Groups...)
		}
		in.list(&at, projectFile{path.Join(option(args, "-C", "--directory", "-P", "--project"), "poetry.lock"), pylock.Poetry}, o)
	}
	return true
}

var condaNames = []string{"conda", "mamba", "micromamba"}

// condaInstalls reports whether arguments of conda install packages.
func condaInstalls(args []string) bool {
	switch first(args) {
	case "install", "create", "update", "upgrade":
		return true
	case "env":
		return len(args) > 1 && (args[1] == "create" || args[1] == "update")
	}
	return false
}

// condaValues are the options of conda with a value.
var condaValues = []string{"-n", "--name", "-p", "--prefix", "-c", "--channel", "-f", "--file", "-r", "--root-prefix", "--platform", "--solver", "--override-frozen", "--rc-file"}

// conda reads the packages that a command of conda names, and its environment file. Conda adds
// their dependencies.
func (w *walk) conda(in *install, args []string) {
	if first(args) == "env" {
		args = args[1:]
	}
	for i := 1; i < len(args); i++ {
		a := args[i]
		switch {
		case slices.Contains(condaValues, a):
			i++
		case strings.HasPrefix(a, "-"):
		case strings.HasSuffix(a, ".yml") || strings.HasSuffix(a, ".yaml"):
			in.list(w, projectFile{a, condaFile}, pylock.Options{})
		default:
			if p, ok := pylock.CondaSpec(a); ok {
				w.condas = append(w.condas, systemPackage{name: p.Name, line: in.line})
				in.condas = append(in.condas, p)
				w.condaVersion(p)
			}
		}
	}
	in.channels = append(in.channels, optionAll(args, "-c", "--channel")...)
	for _, file := range optionAll(args, "-f", "--file") {
		in.list(w, projectFile{file, condaFile}, pylock.Options{})
	}
	w.unknown = append(w.unknown, Unknown{in.line, "the packages that conda adds to those that are named"})
}

func condaFile(text []byte, _ pylock.Options) (*pylock.List, error) { return pylock.Conda(text) }

// condaVersion keeps the libraries of CUDA's that conda installs.
func (w *walk) condaVersion(p pylock.Package) {
	major := version.ParseRelease(p.Version).First(1).String()
	switch {
	case p.Version == "":
	case p.Name == "cudnn" || p.Name == "libcudnn":
		w.condaCUDNN = append(w.condaCUDNN, major)
	case p.Name == "cudatoolkit" || p.Name == "cuda-version" || p.Name == "cuda-toolkit" || p.Name == "libcublas":
		w.condaCUDA = append(w.condaCUDA, major)
	}
}

// list adds what a file of the context installs.
func (in *install) list(w *walk, f projectFile, o pylock.Options) {
	text, from, why := w.contextFile(f.name)
	if why != "" {
		in.unknown = append(in.unknown, "what "+f.name+" installs"+why)
		return
	}
	o.Markers = in.markers
	list, err := f.parse(text, o)
	if err != nil {
		in.unknown = append(in.unknown, fmt.Sprintf("what %s installs: %v", from, err))
		return
	}
	in.channels = append(in.channels, list.Channels...)
	for _, p := range list.Packages {
		if p.Conda {
			w.condas = append(w.condas, systemPackage{name: p.Name, line: in.line})
			in.condas = append(in.condas, p)
			w.condaVersion(p)
			continue
		}
		x := wheel{name: p.Name, version: p.Version, spec: "==" + p.Version, line: in.line, column: in.column, where: from, plain: p.Small, index: p.Index}
		if p.Line > 0 {
			x.where = fmt.Sprintf("%s:%d", from, p.Line)
		}
		if p.Maybe {
			x.version, x.maybe = "", true
		}
		in.wheels = append(in.wheels, x)
	}
	for _, u := range list.Unknown {
		in.unknown = append(in.unknown, u+" of "+from)
	}
	in.lines(w, f.name, from, list.Requirements, 0, false)
	in.locked = list.Exact
}

// markers returns the known values for conditions of the requirements of an install with pip; nil:
// of another one, whose Python is not known.
func (w *walk) markers(in *install) inventory.MarkerEnv {
	env := pylock.Linux()
	switch p := w.from.Platform; {
	case strings.HasPrefix(p, "linux/arm64"):
		env["platform_machine"] = "aarch64"
	case p != "" && !strings.HasPrefix(p, "linux/amd64"):
		delete(env, "platform_machine")
	}
	if in == nil || in.elsewhere || !w.plainBase() || w.says(otherPython) || w.uvPython || len(w.behind) > 0 || w.value("UV_PYTHON") != "" {
		return env
	}
	args, _ := in.command.args()
	if slices.ContainsFunc(args, func(a string) bool { return a == "-p" || a == "--python" || strings.HasPrefix(a, "--python=") }) || slices.ContainsFunc(w.venvs, func(v venv) bool { return v.other || v.uv }) {
		return env
	}
	if python := w.targetOf(in).Python; python != "" {
		env["python_version"] = python
	}
	return env
}

// otherPython are texts of a file that may have another Python than the image's serve its pip.
var otherPython = []string{"conda", "mamba", "pyenv", "deadsnakes", "get-pip", "altinstall", "update-alternatives", "asdf", "mise", "rye", "hatch", "pixi", "make install", "python-build"}
