package replay

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Entry is the program that the image starts.
type Entry struct {
	Name    string        // argv[0] in the config; empty without one
	Path    string        // the real path of the last file that was found: the ELF file, or a script
	exe     *layers.Entry // the file at Path; nil if no file was found
	Problem string        // the clause for the error of the runtime or the kernel; empty if there is none
	Values  packs.Values  // of that clause
	Link    string        // a symbolic link of the program's name that leads nowhere, or ""
}

// Entry follows ENTRYPOINT and CMD to an ELF file: through PATH, and through the
// interpreters of scripts.
func (co *Config) Entry() Entry {
	if co.img.Config == nil {
		return Entry{}
	}
	c := co.img.Config.Config
	argv := append(append([]string{}, c.Entrypoint...), c.Cmd...)
	if len(argv) == 0 || argv[0] == "" {
		return Entry{}
	}
	e := Entry{Name: argv[0]}
	name := argv[0]
	for range 5 { // the kernel follows four scripts (fs/exec.c)
		p, ok := co.Executable(name)
		if !ok {
			return co.withoutProgram(e, name)
		}
		file, _, _ := co.img.FS.Lookup(p)
		e.Path, e.exe = "/"+file.Path, file
		if file.Mode&0o111 == 0 {
			e.Problem, e.Values = "denied", packs.Values{"quoted": strconv.Quote(p), "path": e.Path}
			return e
		}
		if file.Object != nil || file.Fault != "" {
			return e
		}
		if file.Shebang == "" {
			e.Problem, e.Values = "no-format", packs.Values{"program": p}
			return e
		}
		name = shebangProgram(file.Shebang)
	}
	return e
}

// withoutProgram returns e with the problem that name is not found: argv[0], or the
// interpreter of a script.
func (co *Config) withoutProgram(e Entry, name string) Entry {
	stem, returns := strings.CutSuffix(name, "\r")
	switch {
	case returns && e.exe != nil:
		program, _, _ := strings.Cut(e.exe.Shebang, " ")
		e.Problem, e.Values = "carriage-return", packs.Values{"path": e.Path, "program": program, "name": stem}
		if path.Base(program) == "env" {
			e.Problem = "env-carriage-return"
		}
		return e
	case strings.Contains(name, "/"):
		e.Problem, e.Values = "not-there", packs.Values{"name": name}
	default:
		e.Problem, e.Values = "not-on-path", packs.Values{"quoted": strconv.Quote(name)}
	}
	e.Link = co.danglingProgram(name)
	return e
}

// danglingProgram returns the first symbolic link among the candidates for a program that
// leads nowhere, or "".
func (co *Config) danglingProgram(name string) string {
	for _, p := range co.candidates(name) {
		if e, _, ok := co.img.FS.Lstat(p); ok && e.Type == layers.Symlink {
			return p
		}
	}
	return ""
}

// shebangProgram returns the program that a script's first line starts, or for env(1) its
// argument. The kernel splits the line at blanks and tabs only, so that a carriage return
// is part of the name.
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

// Executable returns the path of a program: the name itself if it has a slash, else the
// first executable file in PATH, else the first regular file there.
func (co *Config) Executable(name string) (string, bool) {
	list := co.candidates(name)
	var plain string
	for _, p := range list {
		if e, _, ok := co.img.FS.Lookup(p); ok && e.Type == layers.Regular {
			if e.Mode&0o111 != 0 || len(list) == 1 {
				return p, true
			}
			plain = cmp.Or(plain, p)
		}
	}
	return plain, plain != ""
}

// defaultPath is the PATH of a container whose image sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// candidates returns the paths that are tried for a program: the name itself if it has a
// slash, else the name in each directory of PATH.
func (co *Config) candidates(name string) []string {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = path.Join("/", co.Env().Cwd, name)
		}
		return []string{name}
	}
	if name == "" {
		return nil
	}
	dirs, ok := co.Getenv("PATH")
	if !ok {
		dirs = defaultPath
	}
	var list []string
	for dir := range strings.SplitSeq(dirs, ":") {
		list = append(list, path.Join("/", dir, name))
	}
	return list
}

// Unstartable returns the clause for an entry that does not start, with its values. It
// returns "" if the entry starts, or was not examined, which is a finding of its own.
func (lo *Loaders) Unstartable(e Entry) (clause string, v packs.Values) {
	switch {
	case e.Problem != "":
		return e.Problem, e.Values
	case e.exe == nil || e.exe.Object == nil:
		return "", nil
	case e.exe.Object.Machine != lo.files.Machine:
		return "other-machine", packs.Values{"path": e.Path, "is": NameOf(e.exe.Object.Machine), "wants": NameOf(lo.files.Machine)}
	case e.exe.Object.Interp != "" && lo.Loader(e.exe.Object.Interp) == nil:
		return "no-interpreter", packs.Values{"path": e.Path, "interpreter": e.exe.Object.Interp}
	}
	return "", nil
}
