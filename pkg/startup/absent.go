package startup

import (
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Absent is a program that is not there.
type Absent struct {
	Name  string // as it is run
	Error string // as the shell says it, or the kernel
	File  string // the script that runs it, or ""
	Link  string // a symbolic link of its name that leads nowhere, or ""
	Chain []Link
	// Tried are the paths that were looked at.
	Tried []string
	// Near is a file of the same name in the directory where a Python file is looked for, or
	// below it; "" if there is none.
	Near string
}

// absent returns the program that is not there, or nil if that is not certain: if it is run
// under a condition that is not known, if a script may have made it, or if a machine may
// have it.
func (w *walk) absent(name string, p proc, v via) *Absent {
	if v.first() || v.unsure || v.maybe != "" || w.changed {
		return nil
	}
	a := &Absent{Name: name, Error: v.says, Chain: v.chain, Tried: candidates(name, p)}
	if !strings.Contains(name, "/") && w.sketched(a.Tried) {
		return nil
	}
	for _, c := range a.Tried {
		if w.written[c] || isAtRunTime(c) {
			return nil
		}
	}
	if a.Error == "" {
		a.Error = "exec " + name + ": No such file or directory"
	}
	a.File, _ = v.at()
	a.Link = w.dangling(a.Tried)
	return a
}

// leastPrograms is the number of files that the directories of PATH have at least in an image
// with a shell: Alpine's have 300.
const leastPrograms = 20

// sketched reports whether the directories of some paths have so few files that they are
// a part of an image: of those it is not known which others they have.
func (w *walk) sketched(paths []string) bool {
	n := 0
	for _, p := range paths {
		e, _, ok := w.fs.Lookup(path.Dir(p))
		if !ok || !e.IsDir() {
			continue
		}
		for range w.fs.In("/" + e.Path) {
			if n++; n >= leastPrograms {
				return false
			}
		}
	}
	return true
}

// dangling returns the first of some paths that is a symbolic link, or "". None has a file.
func (w *walk) dangling(paths []string) string {
	for _, p := range paths {
		if e, _, ok := w.fs.Lstat(p); ok && e.Type == layers.Symlink {
			return p
		}
	}
	return ""
}

// ends notes the absent program with which the container ends. a may be nil.
func (w *walk) ends(a *Absent) {
	if w.res.Absent == nil {
		w.res.Absent = a
	}
}

// endsWith notes the program that the shell did not find last, if the shell ends with that.
func (s *shell) endsWith(f flow) {
	ended := f == aborts || f == goesOn && s.status == failed && s.code == "127"
	if ended && s.lacks != nil && s.v.main && !s.v.caught && s.maybe() == "" {
		s.w.ends(s.lacks)
	}
}

// notFound returns the error of the shell for a program that is not there: dash's is "NAME:
// LINE: PROGRAM: not found" (shellexec, exec.c), bash's has words of its own (execute_cmd.c).
func (s *shell) notFound(n syntax.Node, name string, p proc, replace bool) string {
	line := s.link(n).Line
	if s.text.file == "" {
		line = int(n.Pos().Line())
	}
	exec := ""
	if replace {
		exec = "exec: "
	}
	slash := strings.Contains(name, "/")
	switch {
	case !s.bash:
		return fmt.Sprintf("%s: %d: %s%s: not found", s.name, line, exec, name)
	case replace && slash:
		return fmt.Sprintf("%s: line %d: %s: No such file or directory", s.name, line, absolute(name, p.dir))
	case slash:
		return fmt.Sprintf("%s: line %d: %s: No such file or directory", s.name, line, name)
	case replace:
		return fmt.Sprintf("%s: line %d: exec: %s: not found", s.name, line, name)
	}
	return fmt.Sprintf("%s: line %d: %s: command not found", s.name, line, name)
}

// changes notes that a program has run which may make others.
func (s *shell) changes(argv []string) {
	if !harmless[path.Base(argv[0])] {
		s.w.changed = true
	}
}

// harmless are programs that make no files that can be run.
var harmless = set("cat", "ls", "grep", "egrep", "fgrep", "head", "tail", "dirname", "basename", "readlink", "realpath", "stat", "test", "[",
	"which", "id", "whoami", "groups", "echo", "printf", "chmod", "chown", "chgrp", "wc", "sort", "uniq", "cut", "tr", "sed", "diff", "cmp", "ldconfig", "sleep",
	"uname", "hostname", "nproc", "date", "du", "df", "free", "file", "sha256sum", "md5sum", "mkdir", "touch", "rm", "rmdir", "true", "false", "seq", "expr",
	"getent", "useradd", "groupadd", "usermod", "groupmod", "adduser", "addgroup", "ps", "kill", "pgrep", "lscpu", "mktemp", "tty", "stty", "locale", "numactl")
