package dockerlint

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// started is the program that the image starts.
type started struct {
	words []word
	line  int
}

// inits are programs that start another one, which their arguments name.
var inits = []string{"tini", "dumb-init", "catatonit", "docker-init"}

// started returns the program that ENTRYPOINT and CMD start, or nil if it is not known.
func (w *walk) started() *started {
	st := cmp.Or(w.entry, w.cmd)
	if st == nil {
		return nil
	}
	words := w.startWords(st)
	for len(words) > 0 && slices.Contains(inits, path.Base(words[0].text)) {
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
			words = words[1:]
		}
		if len(words) == 0 && st == w.entry && w.cmd != nil && w.cmd.Line > st.Line {
			st = w.cmd
			words = w.startWords(st)
		}
	}
	if len(words) == 0 || !words[0].known {
		return nil
	}
	return &started{words, st.Line}
}

// startWords returns the words of the one command of a CMD or ENTRYPOINT.
func (w *walk) startWords(st *dockerfile.Step) []word {
	list, whole := commands(w.parsed, st, w.scope)
	if !whole || len(list) != 1 {
		return nil
	}
	return list[0].words
}

// systemPaths are directories of programs that have those of no environment.
var systemPaths = regexp.MustCompile(`^(/usr(/local)?/s?bin|/s?bin|/usr/local/(cuda|nvidia)[^/]*/bin|/root/\.(local|cargo|poetry)/bin|/opt/poetry/bin|/opt/pipx/bin)/?$`)

// searched keeps the directories that an ENV PATH names, and judges one that drops those of an
// earlier one.
func (w *walk) searched(line int, value string) {
	var dirs []string
	keeps := strings.Contains(value, "$PATH") || strings.Contains(value, "${PATH")
	for dir := range strings.SplitSeq(value, ":") {
		switch {
		case strings.Contains(dir, "PATH"):
			for _, p := range w.search {
				dirs = append(dirs, p.value)
			}
		default:
			text, known := w.scope.Expand(dir)
			if !known {
				text = ""
			}
			dirs = append(dirs, path.Clean("/"+text))
		}
	}
	if !keeps {
		for _, p := range w.search {
			if p.line > 0 && p.value != "/" && !slices.Contains(dirs, p.value) && !slices.Contains(dirs, "/") && !systemPaths.MatchString(p.value) {
				w.say("path-replaced", "own", line, values{"lost": p.value, "before": strconv.Itoa(p.line)})
				break
			}
		}
	}
	old := w.search
	w.search = nil
	for _, dir := range dirs {
		at := line
		if i := slices.IndexFunc(old, func(s setting) bool { return s.value == dir }); i >= 0 {
			at = old[i].line
		}
		w.search = append(w.search, setting{dir, at})
	}
}

// systemOf returns the distribution that an image's tag names, or nil.
func (w *walk) systemOf(ref string) *SystemPython {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	for _, s := range w.SystemPythons {
		if s.named(ref) {
			return s
		}
	}
	return nil
}

// bringsPython are texts of a file that may bring a program `python`.
var bringsPython = regexp.MustCompile(`(?i)\bln\b.*python|alternatives.*python|python-is-python3|install\b.*\bpython\s|conda|mamba|pyenv|pixi|uv python|uv sync|uv venv|uv run|virtualenv|-m venv|activate|altinstall|make install|asdf|mise|alias |python2|python-minimal|\bcp\b.*python|/bin/python\b`)

// noPython reports whether an image of a distribution with Python 3 alone is known to have no
// program `python` before a line, and what may bring it after all.
func (w *walk) noPython(line int) (absent bool, by string) {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	if w.systemOf(ref) == nil || !packs.MatchAny(w.PythonElsewhere, ref) || len(w.brought) > 0 || w.uvPython || w.base != nil && w.base.program("python") {
		return false, ""
	}
	for _, s := range w.search {
		if s.line > 0 && !systemPaths.MatchString(s.value) {
			return false, ""
		}
	}
	for i, text := range w.lines {
		if i+1 < line && !strings.HasPrefix(strings.TrimSpace(text), "#") && bringsPython.MatchString(text) {
			return false, ""
		}
	}
	for _, a := range w.adds {
		if a.name == "python" || a.name == "python-is-python3" || strings.ContainsAny(a.name, "$/*…") || strings.HasPrefix(a.name, "python2") || strings.HasPrefix(a.name, "python-") {
			return false, ""
		}
	}
	for _, c := range w.copies {
		if c.bringsLibrary() && (c.to == "" || c.to == "/" || strings.HasPrefix(c.to, "/usr") || strings.HasPrefix(c.to, "/bin")) {
			return false, ""
		}
	}
	for _, u := range w.unknown {
		if u.Line != w.from.Line && (strings.HasPrefix(u.Why, "the effect of") || strings.HasPrefix(u.Why, "the commands of") || strings.HasPrefix(u.Why, "the files that")) {
			return true, "line " + strconv.Itoa(u.Line) + " may bring it, which is not known: " + u.Why
		}
	}
	return true, ""
}

// plainBase reports whether the image below is one of which the tag tells what it has and sets: an
// official one of Python or a distribution, or NVIDIA's of CUDA.
func (w *walk) plainBase() bool {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	return w.officialPython(ref) != "" || packs.MatchAny(w.PythonElsewhere, ref) && !strings.HasPrefix(ref, "gcr.io/")
}

// program reports whether a base has a program in a directory of programs.
func (b *Base) program(name string) bool { return b.Programs[name] }

// runsPython judges a RUN of `python` in an image that has python3 alone.
func (w *walk) runsPython(c command) {
	if c.name() != "python" || c.words[0].text != "python" || c.maybe || c.env != "" || w.once["python"] {
		return
	}
	if absent, by := w.noPython(c.line); absent {
		w.once["python"] = true
		w.programAbsent("run", c.line, c.column, by)
	}
}

// byTag makes a finding a warning if the base was not read: only its tag tells what it has.
func (w *walk) byTag(f *Finding) {
	if w.base == nil {
		f.Severity, f.Because = packs.Warning, "the base was not read ("+cmp.Or(w.why, "no instruction depends on it")+")"
	}
}

// programAbsent reports a missing `python`.
func (w *walk) programAbsent(clause string, line, column int, by string) {
	f := w.finding("program-absent", clause, line, values{"base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
	f.Column = column
	w.byTag(&f)
	if by != "" {
		f.Severity, f.Because = packs.Note, by
	}
	w.add(f)
}

// starts judges the program that the image starts.
func (w *walk) judgeStart() {
	s := w.started()
	w.startElsewhere()
	if s == nil {
		return
	}
	if program := s.words[0].text; program == "python" && !w.once["python"] {
		if absent, by := w.noPython(len(w.lines) + 1); absent {
			w.programAbsent("start", s.line, 0, by)
			return
		}
	}
	w.programLeft(s)
	w.otherEnvironment(s)
	w.otherRelease(s)
}

// keepsEnvironment are texts of a file with which a program of the system may find the packages of
// an environment.
var keepsEnvironment = []string{"activate", "PYTHONPATH", "poetry run", "uv run", "pipenv run", "pdm run", "in-project", ".pth", "sys.path", "virtualenvs.create", "UV_SYSTEM_PYTHON", "VIRTUALENVS_", "bin/python", "ln -s", "alternatives", "site-packages", "shell-hook"}

// envOf returns the environment whose program PATH finds: a path, or "" for the system's. known is
// false if a directory of PATH is one of which nothing is known.
func (w *walk) envOf(program string) (env string, known bool) {
	if strings.Contains(program, "/") {
		return environment(program, path.Base(program)), true
	}
	for _, dir := range w.search {
		switch {
		case systemPaths.MatchString(dir.value):
		case path.Base(dir.value) == "bin" && slices.ContainsFunc(w.installs, func(in *install) bool { return in.python == path.Dir(dir.value) }):
			return path.Dir(dir.value), true
		default:
			return "", false
		}
	}
	return "", true
}

// otherEnvironment judges a program of the system's Python where all packages are in an environment.
func (w *walk) otherEnvironment(s *started) {
	program := path.Base(s.words[0].text)
	python := pythonName.MatchString(program)
	if !python && (!packs.MatchAny(w.Programs, program) || program == "tritonserver") || strings.Contains(s.words[0].text, "/") || w.says(keepsEnvironment) {
		return
	}
	if w.base == nil && !w.plainBase() {
		return // it may set variables
	}
	if python && len(s.words) > 1 && (s.words[1].text == "-c" || s.words[1].text == "-V" || s.words[1].text == "--version") {
		return
	}
	if env, known := w.envOf(program); env != "" || !known || w.value("VIRTUAL_ENV") != "" || slices.ContainsFunc(w.variables, func(v setting) bool { return v.value == "VIRTUAL_ENV" || v.value == "PYTHONHOME" }) {
		return
	}
	var in *install
	for _, i := range w.installs {
		switch {
		case i.elsewhere || strings.HasPrefix(i.python, "conda:") || i.python == "pixi" || i.maybe || i.env != "":
			return // of these it is not known which programs find them
		case i.python == "" || minorOf.FindString(i.python) == i.python, slices.Contains([]string{"/usr", "/usr/local", "/opt/conda"}, i.python):
			if i.first(w) != "" || len(i.unknown) > 0 {
				return
			}
		case i.first(w) != "" && in == nil:
			in = i
		}
	}
	if in == nil {
		return
	}
	env := in.python
	if env == "poetry" {
		if _, ok := w.contextText("poetry.toml"); ok {
			return
		}
	}
	if !strings.HasPrefix(env, "/") {
		env = "the environment that " + env + " makes"
	}
	effect := "ModuleNotFoundError"
	if !python {
		effect = "executable file not found in $PATH"
	}
	f := w.finding("starts-other-python", "environment", s.line, values{"program": program, "effect": effect, "base": w.from.Ref, "package": in.first(w), "env": env, "before": strconv.Itoa(in.line), "advice": environmentAdvice(in.python)})
	for _, u := range w.unknown {
		if u.Line != w.from.Line && (strings.HasPrefix(u.Why, "the effect of") || strings.HasPrefix(u.Why, "the commands of") || strings.HasPrefix(u.Why, "the files that")) {
			f.Severity, f.Because = packs.Note, "line "+strconv.Itoa(u.Line)+" may change that, which is not known: "+u.Why
			break
		}
	}
	if w.context == nil {
		f.Severity, f.Because = packs.Note, "the build context, which may have a configuration, is not read"
	}
	w.add(f)
}

func environmentAdvice(env string) string {
	switch env {
	case "poetry":
		return "ENV POETRY_VIRTUALENVS_CREATE=false before the install"
	case "pipenv":
		return "pipenv install --system --deploy"
	}
	return "ENV PATH=" + env + "/bin:$PATH"
}

// otherRelease judges a start of one release of Python where pip is that of another.
func (w *walk) otherRelease(s *started) {
	program := path.Base(s.words[0].text)
	system := w.systemOf(w.from.Ref)
	if !pythonName.MatchString(program) || program == "python" || system == nil || !packs.MatchAny(w.PythonElsewhere, strings.TrimPrefix(w.from.Ref, "docker.io/")) ||
		w.says(otherPipTexts) || w.uvPython || len(w.brought) > 0 || w.systemPythons() == nil || len(w.venvs) > 0 {
		return
	}
	started := cmp.Or(minorOf.FindString(program), system.Python)
	var other *install
	of := ""
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || in.first(w) == "" {
			continue
		}
		release := in.python
		if release == "" {
			release = system.Python
		}
		if minorOf.FindString(release) != release || release == started {
			return
		}
		if other == nil {
			other, of = in, release
		}
	}
	if other == nil {
		return
	}
	w.say("starts-other-python", "release", s.line, values{"program": program, "started": started, "package": other.first(w), "before": strconv.Itoa(other.line), "of": of})
}

// otherPipTexts are texts of a file that may make pip serve another Python.
var otherPipTexts = []string{"conda", "mamba", "pyenv", "get-pip", "ensurepip", "altinstall", "alternatives", "ln -", "PYTHONPATH", "asdf", "mise", "pixi", "make install", "alias ", "PATH=", "UV_PYTHON", "--python", "sys.path"}

var packagesDir = regexp.MustCompile(`/python(3\.\d+)(?:/(?:site|dist)-packages)?/?$`)

// otherPackages judges a COPY of the packages of one Python to an image that has another one.
func (w *walk) otherPackages(line int, to string) {
	m := packagesDir.FindStringSubmatch(to)
	has := w.officialPython(w.from.Ref)
	if m == nil || has == "" || w.says([]string{"PYTHONPATH", "sys.path", ".pth", "altinstall", "pyenv", "conda"}) {
		return
	}
	if m[1] == has && strings.HasPrefix(to, "/usr/local/lib/") {
		w.packages = setting{to, line}
	}
	dir := path.Dir(strings.TrimSuffix(to, "/"))
	if path.Base(dir) != "lib" && path.Base(dir) != "python"+m[1] {
		return
	}
	if m[1] == has {
		if strings.HasSuffix(strings.TrimSuffix(to, "/"), "/dist-packages") {
			w.say("starts-other-python", "debian", line, values{"base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "to": to})
		}
		return
	}
	w.say("starts-other-python", "copied", line, values{"python": m[1], "base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "has": has, "to": to})
}

// programLeft judges a start of a program whose package a COPY brings from another stage without
// the directory of programs.
func (w *walk) programLeft(s *started) {
	program := s.words[0].text
	if w.packages.line == 0 || strings.Contains(program, "/") || program == "tritonserver" || !packs.MatchAny(w.Programs, program) || w.base != nil && len(w.base.Programs) == 0 {
		return
	}
	programs := func(to string) bool {
		return to == "" || to == "/" || strings.HasPrefix("/usr/local/bin/", to+"/") || path.Base(to) == program || path.Base(path.Dir(to)) == "bin" || path.Base(to) == "bin"
	}
	if slices.ContainsFunc(w.brought, programs) || slices.ContainsFunc(w.copies, func(c copied) bool { return programs(strings.TrimSuffix(c.to, "/")) }) || len(w.copied) > 0 {
		return
	}
	if slices.ContainsFunc(w.installs, func(in *install) bool { return in.first(w) != "" || len(in.unknown) > 0 }) {
		return
	}
	for _, dir := range w.search {
		if dir.line > 0 && !systemPaths.MatchString(dir.value) {
			return
		}
	}
	f := w.finding("program-absent", "left", s.line, values{"program": program, "line": strconv.Itoa(w.packages.line)})
	for _, u := range w.unknown {
		if u.Line != w.from.Line && u.Line != w.packages.line {
			f.Severity, f.Because = packs.Note, "line "+strconv.Itoa(u.Line)+" may bring it, which is not known: "+u.Why
			break
		}
	}
	w.add(f)
}

// startElsewhere judges an image without a start of its own, where the stage that it copies from has
// one.
func (w *walk) startElsewhere() {
	if w.entry != nil || w.cmd != nil || w.target != "" || w.systemOf(w.from.Ref) == nil || !packs.MatchAny(w.PythonElsewhere, strings.TrimPrefix(w.from.Ref, "docker.io/")) {
		return
	}
	for i := range w.parsed.Stages {
		o := w.made[i]
		if o == nil || o.nested == 0 {
			continue
		}
		st := cmp.Or(o.entry, o.cmd)
		if st == nil || st.Line > w.from.Line {
			continue
		}
		w.say("start-in-other-stage", "lost", st.Line, values{"instruction": st.Name, "stage": w.parsed.Stages[i].String(), "from": strconv.Itoa(w.from.Line)})
		return
	}
}
