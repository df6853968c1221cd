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

// behind is an environment that a COPY brings from another stage.
type behind struct {
	other *walk
	env   venv
	line  int // of the COPY
}

// uvHome has the Pythons that uv installs for root:
// https://docs.astral.sh/uv/reference/storage/#python-versions
const uvHome = "/root/.local/share/uv/python"

// pythonsBehind judges environments whose Python does not come with them: bin/python is a link
// to it.
func (w *walk) pythonsBehind() {
	said := map[string]bool{}
	for _, b := range w.behind {
		python, dir := w.pythonOf(b)
		if said[b.env.path] || python == "" || w.has(python, dir) || strings.Contains(w.value("PYTHONPATH"), b.env.path+"/") { // its packages for another Python
			continue
		}
		said[b.env.path] = true // a second `uv sync` makes no other environment
		w.say("venv-moved", "python", b.line, values{
			"env": b.env.path, "before": strconv.Itoa(b.env.line), "python": python,
			"base": w.from.Ref, "from": strconv.Itoa(w.from.Line), "dir": dir,
		})
	}
}

// moved is an environment that a COPY brings from another stage to another path.
type moved struct {
	env  venv
	to   string
	line int // of the COPY
}

// environmentsMoved judges environments at another path: python alone works there.
func (w *walk) environmentsMoved() {
	for _, m := range w.moved {
		f := w.finding("venv-moved", "moved", m.line, values{"from": m.env.path, "to": m.to, "before": strconv.Itoa(m.env.line)})
		if s := w.started(); s != nil && pythonName.MatchString(path.Base(s.words[0].text)) {
			f.Severity, f.Because = packs.Note, "the image starts python, which works at another path"
		}
		w.add(f)
	}
}

// pythonOf returns the Python of an environment as it is in its stage, and the directory that
// has it; "" if it is not known.
func (w *walk) pythonOf(b behind) (python, dir string) {
	o := b.other
	if b.env.other || o.value("UV_PYTHON") != "" {
		return "", ""
	}
	has := w.officialPython(o.from.Ref)
	if b.env.uv {
		asked := o.pythonVersion()
		system := o.value("UV_PYTHON_DOWNLOADS") == "never" || o.value("UV_PYTHON_DOWNLOADS") == "0" || o.value("UV_PYTHON_PREFERENCE") == "only-system" || o.value("UV_NO_MANAGED_PYTHON") != ""
		if !system && (o.uvPython || has != "" && asked != "" && asked != has) {
			dir = path.Clean(cmp.Or(o.value("UV_PYTHON_INSTALL_DIR"), uvHome))
			return dir + "/…/bin/python" + asked, dir
		}
		if o.uvPython || asked != "" && asked != has {
			return "", ""
		}
	}
	if has == "" || b.env.python != "" && b.env.python != has {
		return "", ""
	}
	return "/usr/local/bin/python" + has, "/usr/local"
}

// officialTag matches the official images of Python, and those of uv that are built on them:
// https://docs.astral.sh/uv/guides/integration/docker/#available-images
var officialTag = regexp.MustCompile(`^(?:(?:docker\.io/|public\.ecr\.aws/docker/|mirror\.gcr\.io/)?(?:library/)?python:|ghcr\.io/astral-sh/uv:(?:[0-9.]+-)?python)(3\.\d+)(?:[.-]|$)`)

// officialPython returns the release of the Python of an official image, or of one that is built on it, or "".
func (k *Knowledge) officialPython(ref string) string {
	if m := officialTag.FindStringSubmatch(ref); m != nil {
		return m[1]
	}
	return ""
}

var pythonVersionFile = regexp.MustCompile(`^\s*(?:cpython@?)?(3\.\d+)(?:\.\d+)?\s*$`)

// pythonVersion returns the release that .python-version asks for, or "".
func (w *walk) pythonVersion() string {
	if !slices.ContainsFunc(w.copies, func(c copied) bool {
		return slices.ContainsFunc(c.from, func(src string) bool { return src == "." || src == "./" || path.Base(src) == ".python-version" })
	}) {
		return ""
	}
	text, ok := w.contextText(".python-version")
	if !ok {
		return ""
	}
	m := pythonVersionFile.FindStringSubmatch(string(text))
	if m == nil {
		return ""
	}
	return m[1]
}

// has reports whether the image has a Python of another stage, or may have it.
func (w *walk) has(python, dir string) bool {
	home := dir == "/usr/local"
	if home && w.officialPython(w.from.Ref) == minorOf.FindString(python) || home && !w.withoutPython() {
		return true
	}
	for _, to := range w.brought {
		to += "/"
		if to == "/" || to == "//" || strings.HasPrefix(dir+"/", to) || home && strings.HasPrefix(to, dir+"/bin/") || !home && strings.HasPrefix(to, dir+"/") {
			return true
		}
	}
	return slices.ContainsFunc(w.lines, func(line string) bool {
		return strings.Contains(line, "altinstall") || strings.Contains(line, "ln ") && strings.Contains(line, "python") || strings.Contains(line, "pyenv")
	}) || w.uvPython
}

// withoutPython reports whether the image below is one whose files of Python are known to be
// elsewhere than in /usr/local, or of another release.
func (w *walk) withoutPython() bool {
	ref := strings.TrimPrefix(strings.TrimPrefix(w.from.Ref, "docker.io/"), "library/")
	return w.officialPython(ref) != "" || packs.MatchAny(w.PythonElsewhere, ref)
}

// stub judges a link in a directory of the loader to a stub of the driver.
func (w *walk) stub(c command, args []string) {
	var paths []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			paths = append(paths, a)
		}
	}
	if len(paths) != 2 || !strings.Contains(paths[0], "/stubs/") || strings.Contains(paths[1], "/stubs") || !packs.MatchAny(w.DriverFiles, path.Base(paths[0])) {
		return
	}
	if name := path.Base(paths[1]); loadedStub.MatchString(paths[1]) && !slices.ContainsFunc(w.lines, func(line string) bool { return strings.Contains(line, "rm ") && strings.Contains(line, name) }) {
		w.say("driver-copied", "stub", c.line, values{"path": paths[1], "stub": paths[0]})
	}
}

// loadedStub matches the name by which programs load a library of the driver, in a directory
// that loaders search: without the number it serves the linker alone.
var loadedStub = regexp.MustCompile(`^/(?:usr/)?(?:local/)?(?:lib|lib64|lib/x86_64-linux-gnu|cuda[^/]*/lib64)/lib(?:cuda|nvidia-ml)\.so\.1$`)

// shellFile is a variable that a RUN appends to a file of interactive shells.
type shellFile struct {
	name, file string
	line       int
}

var shellLine = regexp.MustCompile(`export\s+(LD_LIBRARY_PATH|LD_PRELOAD)=[^&|;\n]*>>\s*"?((?:~|/root|\$HOME|\$\{HOME\}|/home/[^/\s]+|/etc)/\.?(?:bash\.)?(?:bashrc|bash_profile|profile|zshrc))\b`)

// shellFile keeps the variables that a RUN appends to such a file.
func (w *walk) shellFile(st *dockerfile.Step) {
	for _, m := range shellLine.FindAllStringSubmatch(strings.Join(st.Words, " "), 16) {
		w.shellFiles = append(w.shellFiles, shellFile{m[1], m[2], st.Line})
	}
}

// shells judges those variables if the container starts a program without a shell.
func (w *walk) shells() {
	st := w.cmd
	if w.entry != nil {
		st = w.entry
	}
	if st == nil || !st.JSON || len(st.Words) == 0 || len(w.shellFiles) == 0 {
		return
	}
	program := path.Base(st.Words[0])
	if !pythonName.MatchString(program) && !packs.MatchAny(w.Programs, program) {
		return
	}
	for _, f := range w.shellFiles {
		if slices.ContainsFunc(w.variables, func(s setting) bool { return s.value == f.name }) {
			continue
		}
		w.say("run-without-effect", "shell-file", f.line, values{"names": f.name, "file": f.file, "program": program, "start": strconv.Itoa(st.Line)})
	}
}
