package lint

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// entry is the program that the image starts.
type entry struct {
	name    string        // argv[0], as the config gives it; empty when it gives none
	path    string        // its real path, of the ELF file in the end
	exe     *layers.Entry // nil when it is not there
	problem string        // the clause of broken-entrypoint for what the runtime or the kernel says instead of starting it
	values  values        // of that clause
	link    string        // a link of its name that leads nowhere
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Entrypoint returns the path of the ELF file that the image's ENTRYPOINT or CMD starts,
// through PATH and the interpreters of scripts. An error has the words of the packs.
func Entrypoint(img *Image, packs *Packs) (string, error) {
	w := &world{img: img, packs: packs}
	e := w.entry()
	switch {
	case e.name == "":
		return "", errors.New("the image has no ENTRYPOINT and no CMD: name a file")
	case e.problem != "":
		return "", errors.New(w.say(brokenEntrypoint, e.problem, e.values).Message)
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
			return w.withoutProgram(e, name)
		}
		file, _, _ := w.img.FS.Lookup(p)
		e.path, e.exe = "/"+file.Path, file
		if file.Mode&0o111 == 0 {
			e.problem, e.values = "denied", values{"quoted": strconv.Quote(p), "path": e.path}
			return e
		}
		if file.Object != nil || file.Fault != "" {
			return e
		}
		if file.Shebang == "" {
			e.problem, e.values = "no-format", values{"program": p}
			return e
		}
		name = shebangProgram(file.Shebang)
	}
	return e
}

// withoutProgram returns e with the problem that the program name is not found: argv[0],
// or the interpreter of a script.
func (w *world) withoutProgram(e entry, name string) entry {
	stem, returns := strings.CutSuffix(name, "\r")
	switch {
	case returns && e.exe != nil:
		program, _, _ := strings.Cut(e.exe.Shebang, " ")
		e.problem, e.values = "carriage-return", values{"path": e.path, "program": program, "name": stem}
		if path.Base(program) == "env" {
			e.problem = "env-carriage-return"
		}
		return e
	case strings.Contains(name, "/"):
		e.problem, e.values = "not-there", values{"name": name}
	default:
		e.problem, e.values = "not-on-path", values{"quoted": strconv.Quote(name)}
	}
	e.link = w.danglingProgram(name)
	return e
}

// danglingProgram returns the first link in PATH of a program's name that leads nowhere, or "".
func (w *world) danglingProgram(name string) string {
	for _, p := range w.candidates(name) {
		if e, _, ok := w.img.FS.Lstat(p); ok && e.Type == layers.Symlink {
			return p
		}
	}
	return ""
}

// shebangProgram returns the program that a script's first line starts; of env(1), its
// argument. The kernel splits the line at blanks and tabs only: a carriage return is part of
// the name.
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

// executable returns the path of a program: the name itself if it has a slash, else the
// first file of PATH that can be executed.
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

// candidates returns the paths at which a program of a name is looked for.
func (w *world) candidates(name string) []string {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/", w.env().Cwd, name)
		}
		return []string{name}
	}
	dirs := defaultPath
	for _, v := range w.env().Vars {
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

const brokenEntrypoint = "broken-entrypoint"

// entrypoint returns the finding about a program that fails before its libraries are
// loaded; what it misses of these is a cause as of any file.
func (w *world) entrypoint() []Finding {
	e := w.entry()
	clause, v := w.unstartable(e)
	if clause == "" {
		return nil
	}
	f := w.say(brokenEntrypoint, clause, v)
	w.also(&f, "not-started", nil)
	if len(f.Advice) == 0 {
		fix, v := w.programFix(e)
		w.also(&f, fix, v)
	}
	if e.path != "" {
		f.Subject, f.NeededBy, f.Affected = e.path, []File{w.file(e.path)}, []string{e.path}
	}
	return []Finding{f}
}

// unstartable returns the clause for an entry that does not start, or "" if it starts or
// was not examined, which is a finding of its own.
func (w *world) unstartable(e entry) (clause string, v values) {
	switch {
	case e.problem != "":
		return e.problem, e.values
	case e.exe == nil || e.exe.Object == nil:
		return "", nil
	case e.exe.Object.Machine != w.machine:
		return "other-machine", values{"path": e.path, "is": nameOf(e.exe.Object.Machine), "wants": nameOf(w.machine)}
	case e.exe.Object.Interp != "" && w.loader(e.exe.Object.Interp) == nil:
		return "no-interpreter", values{"path": e.path, "interpreter": e.exe.Object.Interp}
	}
	return "", nil
}

// programFix returns the clause with the fix for a program that is not found.
func (w *world) programFix(e entry) (clause string, v values) {
	if e.link != "" {
		link, _, _ := w.img.FS.Lstat(e.link)
		return "dangling", values{"target": link.Link, "link": e.link}
	}
	if p, ok := w.executable("python3"); ok && e.name == "python" && e.path == "" {
		return "python3", values{"path": p}
	}
	return "correct", nil
}

// interpreters returns the findings about programs whose loader is not there.
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
		list = append(list, w.interpreterFinding(interp, byInterp[interp]))
	}
	return list
}

// interpreterFinding returns the finding about programs whose loader is not there.
func (w *world) interpreterFinding(interp string, programs []string) Finding {
	clause := "not-there"
	if w.isFile(interp) {
		clause = "not-elf"
	}
	f := w.say("missing-interpreter", clause, values{"path": programs[0], "interpreter": interp})
	f.Subject, f.Affected = interp, programs
	python := false
	for _, p := range programs {
		if framework := w.pythonsOf(w.byPath[p]); framework != "" {
			python = true
			w.also(&f, "python", values{"framework": framework})
		}
	}
	switch {
	case w.primary == nil:
		w.also(&f, "no-loader", nil)
		if !python && !w.forGPU() {
			w.lower(&f, "not-for-gpu", nil)
		}
	case !python:
		w.lower(&f, "one-program", nil)
	}
	return f
}

// forGPU reports whether an image has a framework, or a file that asks for a GPU library.
func (w *world) forGPU() bool {
	return len(w.installs) > 0 || slices.ContainsFunc(w.objects, w.isRoot)
}
