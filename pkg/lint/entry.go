package lint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// entry is the program that the image starts.
type entry struct {
	name    string        // argv[0], as the config gives it; empty when it gives none
	path    string        // its real path, of the ELF file in the end
	exe     *layers.Entry // nil when it is not there
	problem string        // what the runtime or the kernel says instead of starting it
	link    string        // a link of its name that leads nowhere
	returns bool          // the script's first line ends in a carriage return
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Entrypoint is the ELF file that the image's ENTRYPOINT or CMD comes to, through
// PATH and the interpreters of scripts.
func Entrypoint(img *Image) (string, error) {
	e := (&world{img: img}).entry()
	switch {
	case e.name == "":
		return "", errors.New("the image has no ENTRYPOINT and no CMD: name a file")
	case e.problem != "":
		return "", errors.New(e.problem)
	}
	return e.path, nil
}

// entry follows ENTRYPOINT and CMD to an ELF file: through PATH, and through
// the interpreters of scripts.
func (w *world) entry() entry {
	if w.img.Config == nil {
		return entry{}
	}
	c := w.img.Config.Config
	argv := append(append([]string{}, c.Entrypoint...), c.Cmd...)
	if len(argv) == 0 || argv[0] == "" {
		return entry{}
	}
	e := entry{name: argv[0]}
	name := argv[0]
	for range 5 { // the kernel follows four scripts (fs/exec.c)
		p, ok := w.executable(name)
		if !ok {
			e.problem, e.link = missingExecutable(name), w.danglingProgram(name)
			if strings.HasSuffix(name, "\r") {
				e.problem, e.link, e.returns = fmt.Sprintf("exec %s: no such file or directory", e.path), "", true
				if program, _, _ := strings.Cut(e.exe.Shebang, " "); path.Base(program) == "env" {
					e.problem = fmt.Sprintf("%s: '%s\\r': No such file or directory", program, strings.TrimSuffix(name, "\r"))
				}
			}
			return e
		}
		file, _, _ := w.img.FS.Lookup(p)
		e.path, e.exe = "/"+file.Path, file
		if file.Mode&0o111 == 0 {
			e.problem = fmt.Sprintf("exec: %q: permission denied", p)
			return e
		}
		if file.Object != nil || file.Fault != "" {
			return e
		}
		if file.Shebang == "" {
			e.problem = fmt.Sprintf("exec %s: exec format error", p)
			return e
		}
		name = shebangProgram(file.Shebang)
	}
	return e
}

func missingExecutable(name string) string {
	if strings.Contains(name, "/") {
		return fmt.Sprintf("exec %s: no such file or directory", name)
	}
	return fmt.Sprintf("exec: %q: executable file not found in $PATH", name)
}

// danglingProgram is the first link of a program's name in PATH that leads nowhere.
func (w *world) danglingProgram(name string) string {
	for _, p := range w.candidates(name) {
		if e, _, ok := w.img.FS.Lstat(p); ok && e.Type == layers.Symlink {
			return p
		}
	}
	return ""
}

// shebangProgram is what a script's first line starts; env(1) is looked through. The
// kernel splits it at blanks and tabs alone: a carriage return belongs to the name.
func shebangProgram(line string) string {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == 0 })
	if len(words) == 0 {
		return ""
	}
	if path.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return words[0]
}

// executable is the path of a program: as it stands when it has a slash, else
// the first of PATH that can be executed.
func (w *world) executable(name string) (string, bool) {
	list := w.candidates(name)
	var plain string
	for _, p := range list {
		if e, _, ok := w.img.FS.Lookup(p); ok && e.Type == layers.Regular {
			if e.Mode&0o111 != 0 || len(list) == 1 {
				return p, true
			}
			plain = cmp.Or(plain, p)
		}
	}
	return plain, plain != ""
}

// candidates are the paths at which a program of a name is looked for.
func (w *world) candidates(name string) []string {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/", w.img.Config.Config.WorkingDir, name)
		}
		return []string{name}
	}
	dirs := defaultPath
	for _, v := range w.img.Config.Config.Env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			dirs = rest
		}
	}
	var list []string
	for dir := range strings.SplitSeq(dirs, ":") {
		if name != "" {
			list = append(list, path.Join("/", dir, name))
		}
	}
	return list
}

func (w *world) isFile(p string) bool {
	e, _, ok := w.img.FS.Lookup(p)
	return ok && e.Type == layers.Regular
}

// entrypoint are the findings about a program that does not get as far as its
// libraries; those are causes like any other.
func (w *world) entrypoint() []Finding {
	e := w.entry()
	if e.name == "" {
		return nil
	}
	message := e.problem
	switch {
	case message != "":
	case e.exe == nil || e.exe.Object == nil:
		return nil // not examined, and said so elsewhere
	case e.exe.Object.Machine != w.machine:
		message = fmt.Sprintf("exec %s: exec format error (it is for %s)", e.path, nameOf(e.exe.Object.Machine))
	case e.exe.Object.Interp != "" && w.loader(e.exe.Object.Interp) == nil:
		message = fmt.Sprintf("exec %s: no such file or directory (its interpreter %s is not there)", e.path, e.exe.Object.Interp)
	default:
		return nil
	}
	f := Finding{
		Rule: "broken-entrypoint", Severity: w.packs.Rule("broken-entrypoint").Severity, Message: message,
		Effects: []Effect{{Text: "the container does not start"}},
		Fixes:   []string{"correct ENTRYPOINT or CMD, or add what is missing"},
	}
	switch {
	case e.problem == "" && e.exe.Object.Machine != w.machine:
		f.Fixes = []string{"take the program's build for " + nameOf(w.machine)}
	case e.problem == "":
		f.Fixes = []string{"a program linked with musl needs Alpine, one linked with glibc needs Debian, Ubuntu, Fedora or the like: build it for the image's libc, or take another base image"}
	case e.returns:
		f.Fixes = []string{fmt.Sprintf("write %s with line feeds alone (`sed -i 's/\\r$//'`, `*.sh text eol=lf` in .gitattributes): the carriage return at the end of its first line counts as a part of the interpreter's name", e.path)}
	case strings.HasSuffix(e.problem, ": permission denied"):
		f.Fixes = []string{fmt.Sprintf("make it executable: COPY --chmod=0755, or RUN chmod +x %s", e.path)}
	case e.name == "python" && e.path == "" && e.link == "":
		if p, ok := w.executable("python3"); ok {
			f.Fixes = []string{fmt.Sprintf("say python3, which the image has as %s, or `apt-get install -y python-is-python3`", p)}
		}
	case e.link != "":
		link, _, _ := w.img.FS.Lstat(e.link)
		f.Fixes = []string{fmt.Sprintf("bring %s: %s is a link to it, and it is not there (a virtual environment that is copied needs its Python at the same path)", link.Link, e.link)}
	}
	if e.path != "" {
		f.NeededBy = []File{w.file(e.path)}
		f.Affected = []string{e.path}
	}
	return []Finding{f}
}

// interpreters are the findings about programs that name a loader which is not
// there.
func (w *world) interpreters() []Finding {
	byInterp := map[string][]string{}
	start := w.entry().path
	for _, o := range w.objects {
		if o.path != start && o.elf.Interp != "" && o.loader == nil && isProgram(o.elf) {
			byInterp[o.elf.Interp] = append(byInterp[o.elf.Interp], o.path)
		}
	}
	var list []Finding
	for _, interp := range slices.Sorted(maps.Keys(byInterp)) {
		paths := byInterp[interp]
		f := Finding{
			Rule: "missing-interpreter", Severity: w.packs.Rule("missing-interpreter").Severity,
			Message: fmt.Sprintf("exec %s: no such file or directory (its interpreter %s is not there)", paths[0], interp), Affected: paths,
		}
		if w.isFile(interp) {
			f.Message = fmt.Sprintf("exec %s: its interpreter %s is no ELF file", paths[0], interp)
		}
		for _, p := range paths {
			if framework := w.pythonsOf(w.byPath[p]); framework != "" {
				f.Severity = Error
				f.effect(Effect{Text: "Python does not start: " + framework + " cannot be imported"})
			}
		}
		list = append(list, f)
	}
	return list
}
