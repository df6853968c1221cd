package fix

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// change returns the command that the first fix of a finding names, which changes a file, the PATH or
// the image's command, or nil if it names none, or the image cannot be changed like that.
func (m *maker) change(now *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 {
		return nil
	}
	c, ok := f.Advice[0].Change()
	if !ok {
		return nil
	}
	i := &install{manager: "run", step: Step{Kind: "install", Path: c.Path, StandIn: true}}
	e, _, found := now.FS.Lookup(c.Path)
	switch {
	case c.Does == "path":
		return m.onPath("PATH", c.Path)
	case c.Does == "python-path":
		return m.onPath("PYTHONPATH", c.Path)
	case c.Does == "command":
		return m.commanded(c.Path, strings.Fields(c.Target))
	case c.Does == "python" && !found && m.pythonLike(c.Target) != "":
		python := m.pythonLike(c.Target)
		i.command = "ln -sf " + Shell(python) + " " + Shell(c.Path)
		i.step.files = []file{linkFile(c.Path, python)}
	case c.Does == "link" && !found && c.Target != "":
		i.command = "ln -s " + Shell(c.Target) + " " + Shell(c.Path)
		if dir := path.Dir(c.Path); !isThere(now, dir) {
			i.command = "mkdir -p " + Shell(dir) + " && " + i.command
		}
		i.step.files = []file{linkFile(c.Path, c.Target)}
	case !found || e.Type != layers.Regular:
		return nil
	case c.Does == "executable":
		i.command = "chmod +x " + Shell(c.Path)
		n := file{File: patch.File{Path: c.Path, Mode: e.Mode.Perm() | 0o111, UID: e.UID, GID: e.GID, Size: e.Size}, object: e.Object, content: e.Content, shebang: e.Shebang, of: e}
		i.step.files = []file{n}
	case c.Does == "unix-lines" && int64(len(e.Content)) == e.Size:
		i.command = fmt.Sprintf(`sed -i 's/\r$//' %s`, Shell(c.Path))
		text := string(bytes.ReplaceAll(e.Content, []byte("\r\n"), []byte("\n")))
		text = strings.TrimSuffix(text, "\r")
		n := textFile(c.Path, text)
		n.Mode, n.of, n.shebang = e.Mode.Perm(), e, strings.TrimSuffix(e.Shebang, "\r")
		i.step.files = []file{n}
	case c.Does == "unconfigure":
		return m.withoutDir(now, e, c)
	default:
		return nil
	}
	return i
}

// onPath returns the change that puts a directory first on PATH or PYTHONPATH, or nil if the image sets
// no PATH.
func (m *maker) onPath(variable, dir string) *install {
	if !plainWord(dir) || getVar(environment(m.base), variable) == "" && variable == "PATH" {
		return nil
	}
	return &install{manager: "run", step: editStep("install", packs.Edit{Variable: variable, Op: "prepend", Value: dir})}
}

// pathLines returns an instruction for each variable that installs put directories on, which has all of
// them: of two instructions, the second would take the place of the first. Without the variable the
// directories are its whole value: Python takes an empty element for the working directory.
func (m *maker) pathLines(installs []install) (lines []string) {
	var names []string
	dirs := map[string][]string{}
	for _, i := range installs {
		if v := i.step.Variable; v != "" {
			names = addNew(names, v)
			dirs[v] = append([]string{i.step.edit.Value}, dirs[v]...)
		}
	}
	for _, v := range names {
		line := "ENV " + v + "=" + strings.Join(dirs[v], ":")
		if getVar(environment(m.base), v) != "" {
			line += ":$" + v
		}
		lines = append(lines, line)
	}
	return lines
}

// commanded returns the instructions that replace a word of the image's command, or nil if it has no
// such word, or is a line for a shell.
func (m *maker) commanded(old string, words []string) *install {
	if m.base.Config == nil || len(words) == 0 {
		return nil
	}
	c := m.base.Config.Config
	a := &argv{slices.Clone(c.Entrypoint), slices.Clone(c.Cmd)}
	is := func(w string) bool { return w == old || path.Join("/", c.WorkingDir, w) == old }
	var lines []string
	if at := slices.IndexFunc(a.entrypoint, is); at >= 0 {
		a.entrypoint = slices.Replace(a.entrypoint, at, at+1, words...)
		lines = append(lines, "ENTRYPOINT "+list(a.entrypoint))
		if len(a.cmd) > 0 { // ENTRYPOINT takes away the CMD of the base
			lines = append(lines, "CMD "+list(a.cmd))
		}
	} else if at := slices.IndexFunc(a.cmd, is); at >= 0 {
		a.cmd = slices.Replace(a.cmd, at, at+1, words...)
		lines = append(lines, "CMD "+list(a.cmd))
	}
	if len(lines) == 0 || strings.ContainsFunc(strings.Join(lines, ""), unicode.IsControl) {
		return nil
	}
	return &install{manager: "run", lines: lines, step: Step{Kind: "install", argv: a}}
}

// pythonLike returns the interpreter of the image that has the release in the path of an absent one:
// 3.12 in …/cpython-3.12.8-linux-x86_64-gnu/bin/python3.12. It returns "" if there is none.
func (m *maker) pythonLike(absent string) string {
	release := pythonRelease.FindString(path.Base(absent))
	if release == "" {
		return ""
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin"} {
		if e, _, ok := m.base.FS.Lookup(path.Join(dir, release)); ok && e.Object != nil && e.Mode&0o111 != 0 {
			return path.Join(dir, release)
		}
	}
	return ""
}

// pythonRelease matches the name of an interpreter with its release.
var pythonRelease = regexp.MustCompile(`^python3\.\d+$`)
