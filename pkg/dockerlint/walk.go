package dockerlint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Base has the known facts of an image that a FROM names.
type Base struct {
	Env []string
	Dir string // its working directory
	// CUDNN and CUDA are the major versions of the libraries libcudnn and libcublas or
	// libcudart that it has, sorted.
	CUDNN, CUDA []string
	// Wheels are the versions of the Python distributions that it has, by their names.
	Wheels map[string]string
	// Libraries are the directories with shared libraries.
	Libraries map[string]bool
	// Files are the names of its shared libraries, and of its compilers.
	Files map[string]bool
	// Programs are names of programs of Python and git in directories of programs, and User is the
	// image's user; "" for root.
	Programs map[string]bool
	User     string
	// Glibc is the release of its glibc, "2.36"; "" if it is not known.
	Glibc string
	// Findings are those of a scan of the image, the heaviest first.
	Findings []BaseFinding
	// Unscanned is why it was not scanned, or "".
	Unscanned string
}

// maxWork limits the instructions that are followed, of all targets of a file together: those
// of a stage count once for each target that is built on it.
const maxWork = 20_000

// walk goes through the instructions of one target, from its image upwards.
type walk struct {
	*linter
	chain []int
	from  *dockerfile.Stage // whose FROM names the image
	base  *Base             // nil if it is not known
	why   string            // then the reason
	// assumed has the libraries of a base that was not read, by its tag; nil if they are not known.
	assumed *Base
	scope   *dockerfile.Scope
	dir     string // WORKDIR; "" if it is not known

	copies   []copied
	installs []*install
	wheels   int // of all installs
	venvs    []venv
	copied   []string  // paths of environments that come from other stages
	links    []int     // lines of ln with the name of a library
	paths    []setting // ENV LD_LIBRARY_PATH
	lastPath setting   // the last of these, as it is written where it is not known
	cudnn    []cudnnPackage
	removed  []removed
	adds     []systemPackage
	unknown  []Unknown

	variables  []setting // names of ENVs
	programs   string    // the last ENV PATH, as written
	uninstalls []removed // distributions
	condas     []systemPackage
	// condaCUDNN and condaCUDA are the major versions that conda installs.
	condaCUDNN, condaCUDA []string
	poetryInSystem        bool // poetry makes no environments
	poetryInProject       bool // or makes them in the directory of the project
	poetryEnv             string
	starts                int // the line of CMD or ENTRYPOINT, or 0
	// entry and cmd are ENTRYPOINT and CMD, and shellFiles the variables that are set in files
	// that interactive shells alone read.
	entry, cmd *dockerfile.Step
	shellFiles []shellFile
	// behind are environments that come from another stage at their path, and brought the
	// places to which files come from other stages and images; "" is one that is not known.
	behind  []behind
	moved   []moved
	brought []string
	// packages is the directory of the image's own packages, if a COPY brings those of another stage.
	packages setting
	// uvPython is set if a command has uv install a Python.
	uvPython bool
	// judged are the packages whose files say what they lack.
	judged map[*wheel]bool
	// unread is what is not known of packages' files, and no reason for doubt elsewhere.
	unread []Unknown
	// config has the indexes that configuration in the image names.
	config configured
	// search are the directories of PATH, with the lines that name them first; "/" is one that is
	// not known. user is the user of the next instruction, and once has what was said.
	search []setting
	user   setting
	once   map[string]bool
	// sourced says that a RUN reads variables from elsewhere.
	sourced bool
	// written are the requirements files that a command writes from a lock, by their paths.
	written map[string]func(*install)
}

// copied is a COPY or ADD of the context.
type copied struct {
	from []string
	to   string
}

type venv struct {
	path string
	line int
	// uv says that uv makes it, python is the release that the command names, and other says
	// that the command names its Python in another way.
	uv     bool
	python string
	other  bool
}

type setting struct {
	value string
	line  int
}

// systemPackage is a package of the system that a command installs.
type systemPackage struct {
	name string
	line int
	// recommends says that those that it recommends are installed with it, and maybe that a
	// condition decides about it.
	recommends, maybe bool
}

type cudnnPackage struct {
	name         string
	line, column int
}

type removed struct {
	path         string
	line, column int
}

// targets judges every target of the file.
func (l *linter) targets() {
	for _, i := range l.built() {
		w := l.walk(i)
		if w == nil {
			continue
		}
		w.steps(i)
		if l.adds != "" {
			line := l.parsed.Stages[i].Line
			if steps := l.parsed.Stages[i].Steps; len(steps) > 0 {
				line = steps[len(steps)-1].Line
			}
			w.unknown = append(w.unknown, Unknown{line, l.adds})
		}
		w.judge()
		for _, u := range slices.Concat(w.unknown, w.unread) {
			if !slices.Contains(l.file.Unknown, u) {
				l.file.Unknown = append(l.file.Unknown, u)
			}
		}
	}
}

// built returns the stages that are judged.
func (l *linter) built() []int {
	if l.target == "" {
		return l.parsed.Targets()
	}
	for i := range l.parsed.Stages {
		if strings.EqualFold(l.parsed.Stages[i].Name, l.target) || strconv.Itoa(i) == l.target {
			return []int{i}
		}
	}
	l.file.Unknown = append(l.file.Unknown, Unknown{1, "the stage " + l.target + ", which the file does not have"})
	return nil
}

// walk begins at the image of a stage.
func (l *linter) walk(i int) *walk {
	chain := l.parsed.Chain(i)
	w := &walk{linter: l, chain: chain, from: &l.parsed.Stages[chain[0]], dir: "/", once: map[string]bool{}}
	switch {
	case w.from.Why != "":
		w.why = w.from.Why
	case w.from.Ref == "scratch":
		w.base = new(Base)
	case l.base != nil:
		w.base, w.why = l.base(w.from.Ref, w.from.Platform)
	default:
		w.why = "base images are not read"
	}
	var env []string
	if w.base != nil {
		env, w.dir = w.base.Env, path.Join("/", w.base.Dir)
		w.user.value = w.base.User
		for _, e := range env {
			if dirs, ok := strings.CutPrefix(e, "PATH="); ok {
				for dir := range strings.SplitSeq(dirs, ":") {
					w.search = append(w.search, setting{path.Clean("/" + dir), 0})
				}
			}
		}
		if w.base.Unscanned != "" {
			w.unknown = append(w.unknown, Unknown{w.from.Line, "findings of the base image: " + w.base.Unscanned})
		}
	} else if w.why != "" {
		w.unknown = append(w.unknown, Unknown{w.from.Line, "the base image: " + w.why})
		if w.from.Why == "" {
			w.user.value = l.userOf(w.from.Ref)
			w.assumed = l.assumed(w.from.Ref)
		}
	}
	w.scope = l.parsed.Scope(env, w.base != nil)
	return w
}

func (w *walk) value(name string) string {
	v, _ := w.scope.Get(name)
	return v
}

// steps goes through a stage and those below it.
func (w *walk) steps(i int) {
	for _, k := range w.parsed.Chain(i) {
		stage := &w.parsed.Stages[k]
		for s := range stage.Steps {
			w.step(&stage.Steps[s])
		}
		w.scope.Next()
	}
}

func (w *walk) step(st *dockerfile.Step) {
	if *w.work++; *w.work > maxWork {
		if *w.work == maxWork+1 {
			w.unknown = append(w.unknown, Unknown{st.Line, "the instructions from here on: the file's targets have too many"})
		}
		w.scope.Set(st)
		return
	}
	w.keep(st)
	switch st.Name {
	case "ENV":
		w.env(st)
		w.scope.Set(st)
		w.configFiles(st, nil)
	case "ARG":
		w.scope.Set(st)
	case "USER":
		if len(st.Words) > 0 {
			name, known := w.scope.Expand(st.Words[0])
			if !known {
				name = ""
			}
			w.user = setting{name, st.Line}
		}
	case "WORKDIR":
		if len(st.Words) > 0 {
			dir, known := w.scope.Expand(st.Words[0])
			w.dir = w.at(dir, known)
		}
	case "COPY", "ADD":
		before := len(w.copies)
		w.copy(st)
		w.configFiles(st, w.copies[before:])
	case "RUN":
		w.configFiles(st, nil)
		w.run(st)
	}
}

// at returns a path as an absolute one, or "" if it is not known.
func (w *walk) at(p string, known bool) string {
	switch {
	case !known || p == "" || w.dir == "" && !strings.HasPrefix(p, "/"):
		return ""
	case strings.HasPrefix(p, "/"):
		return path.Clean(p)
	}
	return path.Join(w.dir, p)
}

// run reads the commands of a RUN.
func (w *walk) run(st *dockerfile.Step) {
	list, whole := commands(w.parsed, st, w.scope)
	if !whole {
		w.unknown = append(w.unknown, Unknown{st.Line, "the commands of this RUN were not understood"})
	}
	w.withoutEffect(st, list, whole)
	w.shellFile(st)
	dir := w.dir
	w.sourced = !whole || slices.ContainsFunc(list, func(c command) bool {
		return slices.Contains([]string{".", "source", "eval", "read", "mapfile", ""}, c.name())
	})
	for _, c := range list {
		w.command(c)
	}
	w.dir = dir
}

// inside returns the command that another one runs in an environment: `conda run -n app pip`.
func inside(c command) command {
	name := c.name()
	if len(c.words) < 3 || c.words[1].text != "run" || name != "poetry" && !slices.Contains(condaNames, name) {
		return c
	}
	i := 2
	for ; i < len(c.words) && strings.HasPrefix(c.words[i].text, "-"); i++ {
		if slices.Contains(condaValues, c.words[i].text) {
			i++
		}
	}
	if i < len(c.words) {
		args, _ := c.args()
		if c.env = "poetry"; name != "poetry" {
			c.env = "conda:" + option(args[:i-1], "-n", "--name", "-p", "--prefix")
		}
		c.words = c.words[i:]
	}
	return c
}

func (w *walk) command(c command) {
	c = inside(c)
	if c.env == "poetry" && w.poetryEnv != "" {
		c.env = w.poetryEnv
	}
	w.asRoot(c)
	w.invisible(c)
	w.runsPython(c)
	w.notActivated(c)
	args, known := c.args()
	in := w.pip(c)
	if in == nil {
		in = w.project(c)
	}
	if in != nil {
		if in.python == "" {
			in.python = c.env
		}
		if w.wheels += len(in.wheels); w.wheels > maxRequirements {
			in.wheels, in.unknown = nil, []string{"the packages from here on: there are too many"}
		}
		w.installs = append(w.installs, in)
		w.compiles(in)
		w.builtWithTorch(in)
		w.clones(in)
		for _, u := range in.unknown {
			w.unknown = append(w.unknown, Unknown{c.line, u})
		}
		return
	}
	if w.export(c) {
		return
	}
	if c.name() == "ln" {
		w.stub(c, args)
	}
	if c.name() == "uv" && len(args) > 1 && args[0] == "python" && args[1] == "install" {
		w.uvPython = true
	}
	if c.name() == "ln" && slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, ".so") }) {
		w.links = append(w.links, c.line)
	}
	switch name := c.name(); {
	case slices.Contains(args, "uninstall") && (pipName.MatchString(name) || first(args) == "-m" || first(args) == "pip"):
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				w.uninstalls = append(w.uninstalls, removed{inventory.Normalize(a), c.line, c.column})
			}
		}
	case pipName.MatchString(name) && first(args) == "config":
		w.configSet(c, args)
	case pythonName.MatchString(name) && len(args) > 2 && args[1] == "pip" && args[2] == "config":
		w.configSet(c, args)
	case name == "poetry" && first(args) == "config":
		switch {
		case slices.Contains(args, "virtualenvs.create"):
			w.poetryInSystem = slices.Contains(args, "false")
		case slices.Contains(args, "virtualenvs.in-project"):
			w.poetryInProject = slices.Contains(args, "true")
		}
	case slices.Contains(condaNames, name) && slices.Contains([]string{"clean", "init", "config", "info", "list", "activate", "deactivate"}, first(args)):
	case name == "cd" && len(args) > 0:
		w.dir = w.at(args[0], known)
	case (name == "apt-get" || name == "apt") && slices.Contains(args, "install"):
		w.apt(c, args)
	case name == "rm":
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				w.removed = append(w.removed, removed{a, c.line, c.column})
			}
		}
	case pythonName.MatchString(name) && len(args) > 2 && args[0] == "-m" && (args[1] == "venv" || args[1] == "virtualenv"), name == "virtualenv", name == "uv" && len(args) > 0 && args[0] == "venv":
		w.venv(c, args, known)
	case slices.Contains(w.Carriers, name) && known && !slices.ContainsFunc(args, func(a string) bool {
		return !keyring.MatchString(a) && packs.MatchAny(w.Libraries, strings.ReplaceAll(a, "/", " "))
	}):
	case name == "dpkg" && known && len(args) > 1 && !slices.ContainsFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") && !keyring.MatchString(a) }):
	case name == "" || !w.harmless(name), pythonName.MatchString(name) && !slices.Contains(pythonOptions, first(args)):
		w.unknown = append(w.unknown, Unknown{c.line, "the effect of " + cmp.Or(name, "a command")})
	}
}

// keyring matches the package that only adds NVIDIA's repository:
// https://docs.nvidia.com/cuda/cuda-installation-guide-linux/ (the installation from the network)
var keyring = regexp.MustCompile(`(?:^|/)cuda-keyring_[^/]*\.deb$`)

// pythonOptions are the first arguments of a Python that runs no program of the image's.
var pythonOptions = []string{"-c", "-V", "--version"}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (w *walk) isTool(name string) bool { return slices.Contains(w.Tools, name) }

func (w *walk) harmless(name string) bool { return slices.Contains(w.Harmless, name) }

// venv keeps the path of a virtual environment.
func (w *walk) venv(c command, args []string, known bool) {
	dir := ""
	for i, a := range args {
		switch {
		case a == "--relocatable":
			return
		case a == "-m" || i > 0 && args[i-1] == "-m" || a == "venv" && dir == "" && i == 0:
		case i > 0 && (args[i-1] == "-p" || args[i-1] == "--python" || args[i-1] == "--prompt"):
		case !strings.HasPrefix(a, "-"):
			dir = a
		}
	}
	if c.name() == "uv" && dir == "" {
		dir = ".venv"
	}
	if p := w.at(dir, known); p != "" {
		w.venvs = append(w.venvs, venv{path: p, line: c.line, uv: c.name() == "uv", python: minorOf.FindString(c.name()), other: option(args, "-p", "--python") != "" || slices.Contains(args, "--copies") || strings.Contains(c.words[0].text, "/") || c.env != ""})
	}
}

// apt reads the packages of apt-get install.
func (w *walk) apt(c command, args []string) {
	recommends := !slices.ContainsFunc(args, func(a string) bool {
		return a == "--no-install-recommends" || strings.Contains(a, "Install-Recommends")
	})
	for _, a := range args[slices.Index(args, "install")+1:] {
		name, _, pinned := strings.Cut(a, "=")
		switch {
		case strings.HasPrefix(a, "-"):
			continue
		case packs.MatchAny(w.DriverPackages, name):
			w.say("driver-copied", "package", c.line, map[string]string{"package": name})
		case (name == "libcudnn8" || name == "libcudnn8-dev") && !pinned:
			w.cudnn = append(w.cudnn, cudnnPackage{name, c.line, c.column})
		}
		w.adds = append(w.adds, systemPackage{name, c.line, recommends, c.maybe})
	}
}
