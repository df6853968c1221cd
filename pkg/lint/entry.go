package lint

import (
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
			e.problem = missingExecutable(name)
			return e
		}
		file, _, _ := w.img.FS.Lookup(p)
		e.path, e.exe = "/"+file.Path, file
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

// shebangProgram is what a script's first line starts; env(1) is looked through.
func shebangProgram(line string) string {
	words := strings.Fields(line)
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
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/", w.img.Config.Config.WorkingDir, name)
		}
		return name, w.isFile(name)
	}
	dirs := defaultPath
	for _, v := range w.img.Config.Config.Env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			dirs = rest
		}
	}
	for dir := range strings.SplitSeq(dirs, ":") {
		p := path.Join("/", dir, name)
		if name != "" && w.isFile(p) {
			return p, true
		}
	}
	return "", false
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
		message = fmt.Sprintf("exec %s: exec format error (it is for %s)", e.path, e.exe.Object.Machine)
	case e.exe.Object.Interp != "" && w.loader(e.exe.Object.Interp) == nil:
		message = fmt.Sprintf("exec %s: no such file or directory (its interpreter %s is not there)", e.path, e.exe.Object.Interp)
	default:
		return nil
	}
	f := Finding{
		Rule: "broken-entrypoint", Severity: w.packs.Rule("broken-entrypoint").Severity, Message: message,
		Effects: []Effect{{Text: "the container does not start"}},
		Fixes:   []string{"correct ENTRYPOINT or CMD, or add what is missing; a program linked with musl needs Alpine, one linked with glibc needs Debian, Ubuntu, Fedora or the like"},
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
		list = append(list, Finding{
			Rule: "missing-interpreter", Severity: w.packs.Rule("missing-interpreter").Severity,
			Message: fmt.Sprintf("exec %s: no such file or directory (its interpreter %s is not there)", paths[0], interp), Affected: paths,
		})
	}
	return list
}
