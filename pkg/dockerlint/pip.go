package dockerlint

import (
	"bytes"
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pylock"
)

// Limits of requirements files: lines, and files that name one another.
const (
	maxRequirements = 2000 // of a file, and of a target
	maxFilesNested  = 5
)

// install is a `pip install` or `uv pip install`.
type install struct {
	command
	known *Knowledge
	// python names the environment into which it installs: "3.10", "/opt/venv" or "" for
	// that of PATH.
	python string
	wheels []wheel
	// index are the values of --index-url, and extra those of --extra-index-url and
	// --find-links, in their order.
	index, extra []string
	// namedAt has the lines of those that another instruction names.
	namedAt map[string]int
	noDeps  bool
	// oneIndex says that the first index that has a package is the only one asked for it, and early
	// that releases before a final one are taken.
	oneIndex, early bool
	// hidden says that packages may come from a place that is no index, or is not known:
	// --find-links, --no-index, --torch-backend.
	hidden bool
	// locked is set if it installs no other packages than those of wheels.
	locked bool
	// constraints are the specifiers of constraints files, by names. constrained says that there
	// are others, which are not known.
	constraints map[string]string
	constrained bool
	// markers are the known values for conditions.
	markers inventory.MarkerEnv
	// elsewhere is set if it installs into a directory of its own (--target).
	elsewhere bool
	// condas are the packages that conda is to install, and channels where it looks for them.
	condas   []pylock.Package
	channels []string
	// sources are the addresses of repositories that it builds, and projects the directories of the
	// context whose build imports torch.
	sources  []sourceOf
	projects []projectOf
	// unknown says which part of it is not known, or is empty.
	unknown []string
}

// sourceOf is a repository that an install builds.
type sourceOf struct {
	name         string // as written
	line, column int
}

// projectOf is a project of the build context that an install builds.
type projectOf struct {
	name string // its directory
	// alone says that it is built in an environment of its own: its pyproject.toml says so.
	alone bool
}

// wheel is a distribution that an install names.
type wheel struct {
	name    string // normalised
	extras  string // "cuda12,x"
	version string // if it is pinned
	taken   string // else the release that an index names as the newest, or ""
	why     string // why no index does
	spec    string // "==2.9.0", "" if there is none
	line    int    // of the Dockerfile
	column  int
	where   string // "requirements.txt:3" if another file names it
	index   string // that a lock file names, or ""
	plain   bool   // it is too small for a library of CUDA's
	maybe   bool   // a condition that is not known decides about it
	order   int    // of its install, if it is pinned
	binary  bool   // a wheel's file or address names it
	// file is a wheel of the build context, and fileName its name there.
	file     []byte
	fileName string
}

var (
	pipName    = regexp.MustCompile(`^pip(3(\.\d+)?|-3\.\d+)?$`)
	pythonName = regexp.MustCompile(`^python(3(\.\d+)?)?$`)
	minorOf    = regexp.MustCompile(`3\.\d+$`)
	wheelFile  = regexp.MustCompile(`([A-Za-z0-9_.]+)-([0-9][^-/]*)(-[^-/]+)?-[^-/]+-[^-/]+-[^-/]+\.whl`)
)

// pipValues are the options of pip install and uv pip install that take a value:
// https://pip.pypa.io/en/stable/cli/pip_install/, https://docs.astral.sh/uv/reference/cli/#uv-pip-install
var pipValues = []string{
	"-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-t", "--target", "-i", "--index-url", "--extra-index-url", "-f", "--find-links",
	"--index", "--default-index", "--prefix", "--root", "--src", "--platform", "--python-version", "--implementation", "--abi", "--upgrade-strategy",
	"--config-settings", "-C", "--global-option", "--no-binary", "--only-binary", "--progress-bar", "--root-user-action", "--report", "--cache-dir",
	"--trusted-host", "--cert", "--client-cert", "--timeout", "--retries", "--proxy", "--log", "--exists-action", "--python", "-p", "--index-strategy",
	"--override", "--build-constraint", "--resolution", "--prerelease", "--link-mode", "--torch-backend", "--keyring-provider", "--group", "--extra",
	"--exclude-newer", "--upgrade-package", "-P", "--reinstall-package", "--no-build-isolation-package", "--use-feature", "--use-deprecated",
}

// pylockName matches the name of a lock of PEP 751.
var pylockName = regexp.MustCompile(`^pylock\.(?:[^.]+\.)?toml$`)

// pip returns the install that a command is, or nil.
func (w *walk) pip(c command) *install {
	words := c.words
	in := &install{command: c, known: w.Knowledge}
	switch name := c.name(); {
	case pipName.MatchString(name):
		in.python = environment(words[0].text, name)
		words = words[1:]
	case pythonName.MatchString(name) && len(words) > 3 && words[1].text == "-m" && words[2].text == "pip":
		in.python = environment(words[0].text, name)
		words = words[3:]
	case name == "uv" && len(words) > 2 && words[1].text == "pip":
		in.python = w.value("VIRTUAL_ENV")
		words = words[2:]
	default:
		return nil
	}
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") { // options of pip itself
		words = words[1:]
	}
	uv := c.name() == "uv"
	if len(words) == 0 || words[0].text != "install" && (!uv || words[0].text != "sync") {
		return nil
	}
	if words[0].text == "sync" { // its files need no -r
		for i, word := range words {
			if i > 0 && path.Ext(word.text) != "" && !strings.HasPrefix(word.text, "-") && !slices.Contains(pipValues, words[i-1].text) {
				words[i].text = "-r" + word.text
			}
		}
	}
	in.oneIndex, in.markers = uv, w.markers(in)
	in.options(w, words[1:])
	in.named(w, uv)
	in.constrainedBy(w, uv)
	in.constrain()
	return in
}

// constrainedBy reads the constraints that variables name. One that the base sets is of the base.
func (in *install) constrainedBy(w *walk, uv bool) {
	name := "PIP_CONSTRAINT"
	if uv {
		name = "UV_CONSTRAINT"
	}
	value, known := w.scope.Get(name)
	for _, file := range strings.Fields(value) {
		if _, _, why := w.contextFile(file); why != "" {
			in.constrained = true
		} else {
			in.constraint(w, file, true)
		}
	}
	in.constrained = in.constrained || !known && slices.ContainsFunc(w.variables, func(s setting) bool { return s.value == name })
}

// constrain adds the specifiers of constraints to those of the packages.
func (in *install) constrain() {
	for i := range in.wheels {
		x := &in.wheels[i]
		by := in.constraints[x.name]
		if x.version != "" || by == "" || x.maybe {
			continue
		}
		if v, ok := strings.CutPrefix(by, "=="); ok && !strings.ContainsAny(v, ",*") {
			x.version, x.spec = v, by
		} else {
			x.spec = strings.TrimPrefix(x.spec+","+by, ",")
		}
	}
}

// environment returns the environment of a pip or a python by its path.
func environment(program, name string) string {
	if dir := path.Dir(program); path.Base(dir) == "bin" && dir != "/usr/bin" && dir != "/bin" && dir != "/usr/local/bin" {
		return path.Dir(dir)
	}
	return minorOf.FindString(name)
}

// options reads the arguments of install.
func (in *install) options(w *walk, words []word) {
	for i := 0; i < len(words); i++ {
		text, known := words[i].text, words[i].known
		name, value, has := strings.Cut(text, "=")
		if !strings.HasPrefix(text, "-") {
			if !known {
				in.unknown = append(in.unknown, "the value of "+text)
				continue
			}
			if strings.HasPrefix(text, ".") && !wheelFile.MatchString(text) {
				in.own(w, text, known)
				continue
			}
			in.require(text, cmp.Or(words[i].line, in.line), cmp.Or(words[i].column, in.column), "")
			if n := len(in.wheels); wheelFile.MatchString(text) && !strings.Contains(text, "://") && w.predicted != nil {
				if file, from, why := w.contextFile(text); why == "" {
					in.wheels[n-1].file, in.wheels[n-1].fileName = file, path.Base(from)
				} else {
					in.unknown = append(in.unknown, "which files "+text+" has"+why)
				}
			}
			continue
		}
		if !strings.HasPrefix(text, "--") && len(text) > 2 { // -rrequirements.txt, -qU
			name, value, has = text[:2], text[2:], slices.Contains(pipValues, text[:2])
		}
		if !has && slices.Contains(pipValues, name) && i+1 < len(words) {
			i++
			value, known = words[i].text, words[i].known
		}
		in.option(w, name, value, known)
	}
}

func (in *install) option(w *walk, name, value string, known bool) {
	switch name {
	case "-r", "--requirement":
		if !known {
			in.unknown = append(in.unknown, "which file -r "+value+" is")
			return
		}
		in.file(w, value, 0)
	case "-c", "--constraint":
		in.constraint(w, value, known)
	case "--override":
		in.unknown = append(in.unknown, "the overrides of "+value)
	case "-i", "--index-url", "--default-index":
		in.index = append(in.index, value)
		in.hidden = in.hidden || !known
	case "--extra-index-url", "--index", "-f", "--find-links":
		in.extra = append(in.extra, value)
		in.hidden = in.hidden || !known || name == "-f" || name == "--find-links"
	case "--no-index", "--torch-backend":
		in.hidden = true
	case "--index-strategy":
		in.oneIndex = in.oneIndex && value == "first-index"
		in.hidden = in.hidden || value == "unsafe-first-match"
	case "--pre", "--prerelease":
		in.early = true
	case "-e", "--editable":
		in.own(w, value, known)
	case "-t", "--target", "--prefix", "--root":
		in.elsewhere = true
	case "-p", "--python":
		in.python = minorOf.FindString(value)
		if strings.Contains(value, "/") {
			in.python = environment(value, path.Base(value))
		}
	case "--no-deps":
		in.noDeps = true
	}
}

// require adds a requirement, a wheel's file or a project.
func (in *install) require(text string, line, column int, where string) {
	if m := wheelFile.FindStringSubmatch(text); m != nil {
		v := strings.ReplaceAll(m[2], "%2B", "+")
		in.wheels = append(in.wheels, wheel{name: inventory.Normalize(m[1]), version: v, spec: "==" + v, line: line, column: column, where: where, binary: true})
		return
	}
	if strings.HasPrefix(text, ".") || strings.Contains(text, "/") || strings.Contains(text, " @ ") {
		in.unknown = append(in.unknown, "the requirements of "+text)
		in.sources = append(in.sources, sourceOf{text, line, column})
		return
	}
	extras := ""
	if a, b := strings.Index(text, "["), strings.Index(text, "]"); a > 0 && b > a {
		extras, text = text[a+1:b], text[:a]+text[b+1:]
	}
	r, err := inventory.ParseRequirement(text)
	if err != nil {
		in.unknown = append(in.unknown, "the requirement "+text)
		return
	}
	w := wheel{name: r.Name, extras: extras, spec: strings.ReplaceAll(r.Specifiers, " ", ""), line: line, column: column, where: where}
	if r.Marker != "" {
		holds, known := r.Applies(in.markers)
		if known && !holds {
			return
		}
		if w.maybe = !known; !known {
			in.unknown = append(in.unknown, "whether `"+r.Marker+"` holds")
			in.wheels = append(in.wheels, w)
			return
		}
	}
	if v, ok := strings.CutPrefix(w.spec, "=="); ok && !strings.ContainsAny(v, ",*") {
		if _, err := version.Parse(v); err == nil {
			w.version = v
		}
	}
	in.wheels = append(in.wheels, w)
}

// own reads the requirements of a project of the context: `pip install .[gpu]`.
func (in *install) own(w *walk, text string, known bool) {
	dir, extras, _ := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	if !known || strings.Contains(dir, "://") || strings.HasPrefix(dir, "git+") {
		in.unknown = append(in.unknown, "the requirements of "+text)
		if strings.Contains(text, "git+") {
			in.sources = append(in.sources, sourceOf{text, in.line, in.column})
		}
		return
	}
	in.importsTorch(w, dir)
	o := pylock.Options{Extras: strings.FieldsFunc(extras, func(r rune) bool { return r == ',' || r == ' ' })}
	in.list(w, projectFile{path.Join(dir, "pyproject.toml"), pylock.Project}, o)
	in.locked = false
}

// torchImport matches an import of torch that a file begins with, outside of functions and conditions.
var torchImport = regexp.MustCompile(`(?m)^(?:import|from) torch\b`)

// importsTorch keeps a project whose setup.py imports torch before it says anything, and whose
// pyproject.toml does not ask for torch.
func (in *install) importsTorch(w *walk, dir string) {
	text, _, why := w.contextFile(path.Join(dir, "setup.py"))
	if why != "" || !torchImport.Match(text) {
		return
	}
	settings, _, why := w.contextFile(path.Join(dir, "pyproject.toml"))
	if bytes.Contains(settings, []byte("torch")) { // it may require it for the build
		return
	}
	in.projects = append(in.projects, projectOf{dir, why == "" && bytes.Contains(settings, []byte("[build-system]"))})
}

// constraint reads a constraints file of the context.
func (in *install) constraint(w *walk, name string, known bool) {
	text, _, why := w.contextFile(name)
	if !known || why != "" {
		in.unknown = append(in.unknown, "the constraints of "+name+why)
		return
	}
	if in.constraints == nil {
		in.constraints = map[string]string{}
	}
	for i, line := range requirementLines(text) {
		if i > maxRequirements {
			in.unknown = append(in.unknown, "the rest of the constraints of "+name)
			return
		}
		r, err := inventory.ParseRequirement(line)
		if err != nil || r.Specifiers == "" {
			continue
		}
		if holds, known := r.Applies(in.markers); r.Marker != "" && (!holds || !known) {
			in.constrained = in.constrained || !known
			continue
		}
		in.constraints[r.Name] = strings.TrimPrefix(in.constraints[r.Name]+","+strings.ReplaceAll(r.Specifiers, " ", ""), ",")
	}
}

// requirementLines returns the lines of a requirements file without comments and hashes:
// https://pip.pypa.io/en/stable/reference/requirements-file-format/
func requirementLines(text []byte) (list []string) {
	for _, line := range strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\\\n", " "), "\n") {
		line, _, _ = strings.Cut(" "+line, " #")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			line = ""
		}
		if !strings.HasPrefix(line, "-") {
			line, _, _ = strings.Cut(line, " --") // --hash
		}
		list = append(list, strings.TrimSpace(line))
	}
	return list
}

// Forms of lines of a requirements file: a URL or a directory, and what follows a package's name.
var (
	placeForm  = regexp.MustCompile(`^([A-Za-z0-9._-]+ *(\[[A-Za-z0-9._, -]*\])? *@ *)?[a-z+]+://|^(file:)?\.{1,2}(/|\[|$)`)
	boundForm  = regexp.MustCompile(`^([=!~]=|[<>])`)
	markerForm = regexp.MustCompile(`[=!]=|[<>]| in `)
)

// requires reports whether a line of a requirements file has the form of a requirement. A Dockerfile
// of others may name a file of keys or passwords, of which no line may be shown.
func requires(line string) bool {
	if placeForm.MatchString(line) || wheelFile.MatchString(line) {
		return true
	}
	r, err := inventory.ParseRequirement(line)
	return err == nil && (r.Specifiers == "" || boundForm.MatchString(r.Specifiers)) && (r.Marker == "" || markerForm.MatchString(r.Marker))
}

// file reads a requirements file of the context, or a pyproject.toml, which uv takes as well.
func (in *install) file(w *walk, name string, depth int) {
	if list := w.written[w.at(name, true)]; list != nil && depth == 0 {
		before := len(in.wheels)
		list(in)
		in.locked = in.locked && before == 0
		return
	}
	text, from, why := w.contextFile(name)
	switch {
	case why != "" || depth > maxFilesNested:
		in.unknown = append(in.unknown, "what "+name+" requires"+why)
	case pylockName.MatchString(path.Base(name)):
		before := len(in.wheels)
		in.list(w, projectFile{name, pylock.Pylock}, pylock.Options{})
		in.locked = in.locked && before == 0
	case path.Base(name) == "pyproject.toml":
		in.list(w, projectFile{name, pylock.Project}, pylock.Options{})
	default:
		in.lines(w, name, from, requirementLines(text), depth, true)
	}
}

// lines reads the lines of a requirements file. numbered says that they are those of the file.
func (in *install) lines(w *walk, name, from string, list []string, depth int, numbered bool) {
	for i, line := range list {
		if line == "" {
			continue
		}
		if len(in.wheels)+len(in.unknown) > maxRequirements {
			in.unknown = append(in.unknown, "the rest of "+name)
			return
		}
		if strings.HasPrefix(line, "-") {
			option, value, _ := strings.Cut(line, " ")
			if o, v, ok := strings.Cut(option, "="); ok { // --index-url=URL
				option, value = o, v
			}
			value = strings.TrimSpace(value)
			switch option {
			case "-r", "--requirement":
				in.file(w, path.Join(path.Dir(name), value), depth+1)
			case "-c", "--constraint":
				if !strings.Contains(value, "://") {
					value = path.Join(path.Dir(name), value)
				}
				in.option(w, option, value, true)
			default:
				in.option(w, option, value, true)
			}
			continue
		}
		where := from
		if numbered {
			where += ":" + strconv.Itoa(i+1)
			if !requires(line) {
				in.unknown = append(in.unknown, "the requirement at "+where)
				continue
			}
		}
		in.require(line, in.line, in.column, where)
	}
}

// ownPython are texts of a file that may install into another Python than the distribution's, or
// take its mark away.
var ownPython = []string{"break-system-packages", "BREAK_SYSTEM_PACKAGES", "EXTERNALLY-MANAGED", "externally-managed", "break_system", "get-pip", "conda", "mamba", "pyenv", "virtualenv", "activate", "pipx", "altinstall", "deadsnakes", "PIP_TARGET", "PIP_PREFIX", "VIRTUAL_ENV", "pip.conf", "rye", "hatch", "PYTHONUSERBASE", "pip config", "asdf", "mise"}

// ManagedImage has patterns of images whose pip installs nothing outside of virtual environments.
type ManagedImage struct {
	Images []string `yaml:"images"`
	Python string   `yaml:"python"` // its release
	// Own says that the image has this Python; else a package of the system brings it.
	Own     bool     `yaml:"own"`
	Sources []string `yaml:"sources"`
}

// managed returns the release of a Python of the system that pip installs nothing into, or "".
func (w *walk) managed() string {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	installed := w.systemPythons() != nil
	if i := slices.IndexFunc(w.SystemPythons, func(s *SystemPython) bool { return s.Managed && s.named(ref) }); i >= 0 && installed && packs.MatchAny(w.PythonElsewhere, ref) {
		return w.SystemPythons[i].Python
	}
	for _, row := range w.ManagedImages {
		if packs.MatchAny(row.Images, ref) && (row.Own || installed) {
			return row.Python
		}
	}
	return ""
}

// refuses judges an install by the pip of a distribution that keeps its Python for itself.
func (w *walk) refuses() {
	python := w.managed()
	if python == "" || w.programs != "" || w.says(ownPython) || w.broughtTo("/usr", "/etc", "/bin", "/root/.config") || w.uvPython {
		return
	}
	for _, in := range w.installs {
		if in.elsewhere || in.maybe || in.env != "" || in.python != "" && in.python != python || !pipName.MatchString(in.command.name()) && !pythonName.MatchString(in.command.name()) {
			continue
		}
		x := wheel{name: "its packages", line: in.line, column: in.column}
		if len(in.wheels) > 0 {
			x = in.wheels[0]
		}
		f := w.finding("pip-refuses", "managed", x.line, values{"package": x.name, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
		f.Column = x.column
		w.byTag(&f)
		w.add(f)
		return
	}
}
