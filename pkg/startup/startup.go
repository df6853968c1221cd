// Package startup follows the entrypoint and command of an image to the programs that
// run: through shell scripts, `#!` lines, and starters such as tini, env, gosu, torchrun,
// conda run and supervisord. Nothing is executed.
//
// It knows how Docker combines ENTRYPOINT and CMD, the shell's words and variables as far
// as they are known (mvdan.cc/sh parses them), and the options of starters, which are data
// (rules/startup). It ends where a program runs: pkg/pyimport follows those of
// Python. The image is started without options, volumes or variables of its user, so
// a variable that neither the image nor a script sets is unset.
//
// Nothing is guessed: the output of a program, say, or a file that is made at run time, is a
// [Hole] in a value, or listed as [Unknown]. A program that runs only under a condition
// that is not known is marked with the condition ([Program.Maybe]).
package startup

import (
	"fmt"
	"maps"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Hole stands for an unknown part of an argument or a value. An argument that is a Hole
// alone stands for any number of arguments, also none. No value of a process can contain
// its byte.
const Hole = "\x00"

// Known reports whether a value has no [Hole].
func Known(s string) bool { return !strings.Contains(s, Hole) }

// Show returns a value for people: an ellipsis stands for each [Hole].
func Show(s string) string { return strings.ReplaceAll(s, Hole, "…") }

// The kinds of programs whose arguments are understood.
const (
	KindPython = "python"
	KindNode   = "node"
	KindJava   = "java"
	KindShell  = "shell"
)

// Program is a program that the image's start reaches, in the order of the start.
type Program struct {
	Path string   // the ELF file, with links not followed; "" if it was not found
	Args []string // argv, with argv[0]; see [Hole]
	// Env has what the image and its scripts export; see [Hole].
	Env  map[string]string
	Dir  string // working directory; see [Hole]
	Home string // home directory of the user that runs it; "" if it is not known
	// Loader is the dynamic loader that runs it by hand (`ld.so PROGRAM`), "" for the one that
	// the ELF file names.
	Loader string
	// Kind is how the program is known: [KindPython] and so on, "" for others.
	Kind string
	// Python is what an interpreter of Python runs; nil for other programs.
	Python *Python
	// File is the script that a shell or Node runs, or Java's archive; "" for none.
	File string
	// Main is the container's own process: its end is the container's end. Helpers that a
	// script runs and goes on after are not.
	Main bool
	// Service reports that a supervisor or a script runs it beside others: its end is not the
	// container's end, yet the container is for it.
	Service bool
	// Caught reports that the script goes on if the program fails (`|| true`, `if`, `&`,
	// no `set -e`).
	Caught bool
	// Maybe is the condition that is not known under which it runs, or "".
	Maybe string
	// Chain says how the start gets here, first step first.
	Chain []Link
}

// Python describes a run of an interpreter: its program and its options. Of File, Module,
// Code and Stdin one is set; none for an interactive interpreter, and for one that is Embedded.
type Python struct {
	File   string // absolute; a directory or zip file with a __main__.py is one, too
	Module string // of -m
	Code   string // of -c, or of a here-document
	Stdin  bool   // the program comes from an input that is not known
	// Args is sys.argv from its second element.
	Args []string
	// Isolated, NoSite, NoUserSite, IgnoreEnv, SafePath and Optimized are -I, -S, -s, -E, -P and -O.
	Isolated, NoSite, NoUserSite, IgnoreEnv, SafePath, Optimized bool
	// Imports are the modules that the program imports because its arguments name them,
	// after its own imports: gunicorn's application, pytest's files.
	Imports []Import
	// Embedded reports that another program holds the interpreter, which runs Imports only, and Adds are
	// the modules that this program has itself, or to which it adds names.
	Embedded bool
	Adds     []string
	// Path are the directories that the program itself puts first on sys.path before it
	// imports them. PathKnown means that it puts no others there, unless a file of Imports sets
	// one of PathNames.
	Path      []string
	PathKnown bool
	PathNames []string
	// ChdirName is the name by which such a file sets the working directory, which then comes first on
	// sys.path; AppName the one by which it sets MODULE:ATTRIBUTE, which is imported last. "" for none.
	ChdirName, AppName string
}

// Import is a module that the arguments of a program name.
type Import struct {
	Module string // dotted; "" for a file
	File   string // absolute path of a Python file that is executed; "" for a module
	Link   Link
	// Settings reports that it sets ChdirName and AppName.
	Settings bool
	// Celery reports that Module is what the option --app of Celery takes, MODULE:ATTRIBUTE too, and
	// Worker that the program imports the modules of its tasks.
	Celery, Worker bool
}

// Link is one step of a chain.
type Link struct {
	What string // as in a command line: `ENTRYPOINT ["/entrypoint.sh"]`, `exec "$@"`
	File string // the script that has it; "" for the config
	Line int    // 0 for the config
}

// String returns the link as text: `exec "$@" (/entrypoint.sh:14)`.
func (l Link) String() string {
	switch {
	case l.File == "":
		return Show(l.What)
	case l.Line == 0:
		return Show(l.What) + " (" + l.File + ")"
	}
	return fmt.Sprintf("%s (%s:%d)", Show(l.What), l.File, l.Line)
}

// Unknown is a part of the start that could not be followed.
type Unknown struct {
	File string
	Line int
	Why  string
}

// Fault is the reason why the container's program does not start.
type Fault string

// The reasons, by the errors of runc and of the kernel (execve(2)).
const (
	NotFound       Fault = "not-found"       // a path without a file
	NotOnPath      Fault = "not-on-path"     // a name that no directory of PATH has
	Denied         Fault = "denied"          // a file without permission to execute it
	NoFormat       Fault = "no-format"       // neither an ELF file nor a script with `#!`
	CarriageReturn Fault = "carriage-return" // the interpreter's name ends with a carriage return
)

// Problem is a program that does not start.
type Problem struct {
	Fault Fault
	Name  string // that was started: argv[0], or the interpreter of a script
	Path  string // the file that was found last: the program, or the script; "" for none
	// Interpreter is the first word of a `#!` line that ends with a carriage return.
	Interpreter string
	// Link is a symbolic link of the program's name that leads nowhere, or "".
	Link string
}

// Result lists the programs of an image's start, and its gaps.
type Result struct {
	// Programs are in the order of the start.
	Programs []Program
	Unknown  []Unknown
	// Problem is why the container's first program does not start; nil if it does, or if
	// the config names none.
	Problem *Problem
	// Absent is a program that is not there when a script or a starter runs it, and with which
	// the container ends, for certain; nil if there is none.
	Absent *Absent
	// AbsentScript is a Python file that is not there, with which the container ends; nil if
	// there is none.
	AbsentScript *Absent
	// Services are commands of supervised services that are certain not to be there.
	Services []*Absent
	// Path is the file of the first program, or of the script that it is, links followed;
	// "" if none was found.
	Path string
}

// Bounds of the work for one image, which may be hostile.
const (
	maxPrograms = 256
	maxUnknown  = 256
	maxSteps    = 200_000
	maxDepth    = 48        // of programs that start programs, scripts that source scripts, statements in statements
	maxValue    = 128 << 10 // bytes of a value
	maxArgs     = 4096
)

// Follow returns the programs that a container of the image starts.
func Follow(fsys *layers.FS, config v1.Config, starters *Starters) *Result {
	w := &walk{fs: fsys, starters: starters, res: &Result{}, seen: map[string]int{}, written: map[string]bool{}}
	argv, chain := command(config)
	if len(argv) == 0 || argv[0] == "" {
		return w.res
	}
	u := findUser(fsys, config.User)
	p := proc{env: environment(config.Env, u), dir: absolute(config.WorkingDir, "/"), user: u}
	w.exec(p, argv, via{chain: chain, main: true})
	return w.res
}

// Execve is a program that a program of the start becomes, or starts, by its own execve.
type Execve struct {
	Argv []string
	Env  map[string]string
	Dir  string // "" for that of the program
	Link Link
	// Maybe is the condition that is not known under which it does so, or "".
	Maybe string
	// Beside reports that the program goes on meanwhile; Checked that the failure of the one that it
	// starts is its own.
	Beside, Checked bool
}

// Become returns the programs that an execve of a program leads to.
func Become(fsys *layers.FS, starters *Starters, from *Program, x Execve) []Program {
	w := &walk{fs: fsys, starters: starters, res: &Result{}, seen: map[string]int{}, written: map[string]bool{}}
	v := via{chain: from.Chain, main: from.Main, service: from.Service, caught: from.Caught || x.Beside && !x.Checked, maybe: from.Maybe, shell: true}
	if v.maybe == "" {
		v.maybe = x.Maybe
	}
	p := proc{env: x.Env, dir: from.Dir, user: user{home: from.Home}}
	if x.Dir != "" {
		p.dir = x.Dir
	}
	w.exec(p, x.Argv, v.then(x.Link))
	return w.res.Programs
}

// command returns ENTRYPOINT followed by CMD, as Docker combines them, and the steps of
// the chain for both.
func command(config v1.Config) (argv []string, chain []Link) {
	for _, part := range []struct {
		name string
		argv []string
	}{{"ENTRYPOINT", config.Entrypoint}, {"CMD", config.Cmd}} {
		if len(part.argv) == 0 {
			continue
		}
		for _, a := range part.argv {
			argv = append(argv, withoutHoles(a))
		}
		chain = append(chain, Link{What: part.name + " " + instruction(part.argv)})
	}
	return argv[:min(len(argv), maxArgs)], chain
}

// withoutHoles cuts a string of the config off at a NUL byte, which ends a C string.
func withoutHoles(s string) string {
	s, _, _ = strings.Cut(s, Hole)
	return s[:min(len(s), maxValue)]
}

// instruction returns an argv as in a Dockerfile, in shell form if it is `/bin/sh -c TEXT`.
func instruction(argv []string) string {
	if len(argv) == 3 && argv[0] == "/bin/sh" && argv[1] == "-c" {
		return short(argv[2])
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = fmt.Sprintf("%q", a)
	}
	return short("[" + strings.Join(words, ", ") + "]")
}

// short returns the first line of a text, cut off where it is too long for a chain.
func short(s string) string {
	const most = 160
	line, more, _ := strings.Cut(strings.TrimSpace(s), "\n")
	line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "\\"))
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + " …"
	}
	if strings.TrimSpace(more) != "" {
		return line + " …"
	}
	return line
}

// defaultPath is the PATH of a container whose image sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of a container: those of the image, PATH, HOME
// (runc sets it from /etc/passwd) and HOSTNAME, which is not known.
func environment(list []string, u user) map[string]string {
	env := map[string]string{"PATH": defaultPath, "HOSTNAME": Hole}
	for _, line := range list {
		if name, value, ok := strings.Cut(withoutHoles(line), "="); ok && name != "" {
			env[name] = value
		}
	}
	if env["HOME"] == "" {
		env["HOME"] = u.home
		if u.home == "" {
			env["HOME"] = Hole
		}
	}
	return env
}

// proc holds the state that a process inherits.
type proc struct {
	env   map[string]string
	dir   string
	user  user
	stdin *string // what it reads; nil if that is not known
}

func (p proc) with(name, value string) proc {
	p.env = maps.Clone(p.env)
	p.env[name] = value
	return p
}
