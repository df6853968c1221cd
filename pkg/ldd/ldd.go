// Package ldd shows what a dynamic loader does with a file: to people as a tree,
// to scripts as JSON.
//
// It asks elfdeps and does not judge; and it does not know images, only the file
// system that it is given. The JSON is in the language of loader test cases: what
// a real loader was seen to print, and what is predicted here, compare field by
// field.
package ldd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Run is a process that is asked about.
type Run struct {
	Exe string // path of the program
	// Args are its arguments, each an action: dlopen=FLAGS:FILE, opened by the
	// program, or from=LIB:FLAGS:FILE, opened by the object that answers to LIB.
	Args []string
	Env  elfdeps.Env
	// Search asks for the searches, Hwcaps for the hardware directories in them
	// (glibc-hwcaps/x86-64-v3), which depend on the processor.
	Search, Hwcaps bool
}

// Process is what a run comes to, as JSON.
type Process struct {
	Loader  string   `json:"loader,omitempty"` // the interpreter
	Start   Start    `json:"start"`
	Objects []Object `json:"objects,omitempty"` // in load order, after all actions; absent when the program did not start
	Actions []Action `json:"actions,omitempty"`
	Trace   *Trace   `json:"trace,omitempty"`
	// Search has every search for a name, as LD_DEBUG=libs shows it.
	Search []Search `json:"search,omitempty"`
	// Versions are the version checks, as LD_DEBUG=versions shows them, less
	// those of the C library and the loader.
	Versions []string `json:"versions,omitempty"`
	// Doubts name what had to be assumed.
	Doubts []string `json:"doubts,omitempty"`
}

// Search is one search: in brackets the sources, and the files that were tried.
type Search struct {
	Name  string   `json:"name"`
	Steps []string `json:"steps"`
}

// Start is how the program's start ends as far as the loader goes.
type Start struct {
	Exit   int      `json:"exit"`
	Stderr []string `json:"stderr,omitempty"`
}

// Object is one object of the process. Path is the loader's own text, never
// cleaned; By and How tell who asked for it first and which rule found it.
type Object struct {
	Path  string   `json:"path"`
	Names []string `json:"names,omitempty"`
	By    string   `json:"by,omitempty"`
	How   string   `json:"how,omitempty"`
}

// Action is an argument and what came of it.
type Action struct {
	Action string  `json:"action"`
	OK     bool    `json:"ok"`
	Result *string `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Trace is the ldd view: what LD_TRACE_LOADED_OBJECTS or musl's --list prints.
type Trace struct {
	Exit    int      `json:"exit"`
	Objects []Line   `json:"objects"`
	Stderr  []string `json:"stderr,omitempty"`
}

// Line is one line of the ldd view; a Path of nil is "not found". A line that
// names no library ("statically linked") has its Text alone.
type Line struct {
	Name string
	Path *string
	Text string
}

// lineJSON is a line that names a library.
type lineJSON struct {
	Name string  `json:"name"`
	Path *string `json:"path"`
}

// MarshalJSON implements [json.Marshaler].
func (l Line) MarshalJSON() ([]byte, error) {
	if l.Text != "" {
		return json.Marshal(struct {
			Line string `json:"line"`
		}{l.Text})
	}
	return marshal(lineJSON{l.Name, l.Path})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *Line) UnmarshalJSON(b []byte) error {
	var v struct {
		lineJSON
		Line string `json:"line"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*l = Line{v.Name, v.Path, v.Line}
	return nil
}

// marshal is json.Marshal without the escapes that HTML would need.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// File is the ldd view of one file, as JSON.
type File struct {
	Path  string `json:"path"`
	Trace Trace  `json:"trace"`
}

// Replay starts a program, performs its actions and tells what a real process
// would have shown.
func Replay(fsys elfdeps.FS, r Run) (*Process, error) {
	exe, err := fsys.Find(r.Exe)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.Exe, err)
	case exe.Object == nil:
		return nil, fmt.Errorf("%s is no ELF file%s", r.Exe, because(exe.Fault))
	case exe.Object.Interp == "" && !exe.Object.Dynamic, exe.Object.Interp == "":
		return &Process{Start: Start{}, Trace: staticTrace()}, nil
	}
	l, err := elfdeps.NewLoader(fsys, exe.Object.Interp, r.Env)
	if err != nil {
		return &Process{Loader: exe.Object.Interp, Start: Start{Exit: 127, Stderr: []string{fmt.Sprintf("exec %s: %s", r.Exe, kernelText(err))}}}, nil
	}
	out := &Process{Loader: l.Path}
	p, err := l.StartLogged(r.Exe)
	if err := unexpected(err); err != nil {
		return nil, err
	}
	out.Start = Start{p.Status(), p.Stderr()}
	if truncated(p) {
		out.Start, out.Trace = Start{Exit: sigbus}, &Trace{Exit: sigbus, Objects: []Line{}}
		return out, nil
	}
	if out.Start.Exit == 0 {
		for _, a := range r.Args {
			out.Actions = append(out.Actions, act(p, a))
		}
		out.Objects = objects(p)
	}
	out.Versions = slices.DeleteFunc(p.VersionChecks(), func(line string) bool {
		return strings.Contains(line, "libc.so.6") || strings.Contains(line, "ld-linux")
	})
	for _, x := range p.Searches() {
		if !r.Search {
			break
		}
		if !r.Hwcaps {
			x.Steps = slices.DeleteFunc(x.Steps, hwcapRE.MatchString)
		}
		out.Search = append(out.Search, Search(x))
	}
	trace, err := traceOf(l, r.Exe)
	if err != nil {
		return nil, err
	}
	out.Trace = trace
	out.Doubts = slices.Sorted(slices.Values(l.Doubts))
	return out, nil
}

// sigbus is how a process ends that touches a page of a file beyond its end.
const sigbus = -7

// truncated reports whether a file is loaded that ends before its segments do;
// no loader notices (L39, case 109).
func truncated(p *elfdeps.Process) bool {
	return p.Status() == 0 && slices.ContainsFunc(p.Objects, (*elfdeps.Module).Truncated)
}

// hwcapRE fits files in the directories that are tried for the processor's sake.
var hwcapRE = regexp.MustCompile(`(?:^|/)(?:glibc-hwcaps/[^/]+|(?:tls|x86_64|atomics|aarch64)(?:/(?:tls|x86_64|atomics|aarch64))*)/[^/]+$`)

func because(fault string) string {
	if fault == "" {
		return ""
	}
	return ": " + fault
}

// kernelText is what execve's errno reads as.
func kernelText(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// unexpected leaves the loader's own errors out: they are in the process.
func unexpected(err error) error {
	var e *elfdeps.Error
	if err == nil || errors.As(err, &e) {
		return nil
	}
	return err
}

func staticTrace() *Trace {
	return &Trace{Objects: []Line{{Text: "statically linked"}}}
}

// act performs one action.
func act(p *elfdeps.Process, action string) Action {
	a := Action{Action: action}
	kind, arg, _ := strings.Cut(action, "=")
	var by *elfdeps.Module
	switch kind {
	case "dlopen":
	case "from":
		var lib string
		lib, arg, _ = strings.Cut(arg, ":")
		if by = p.Loaded(lib); by == nil {
			a.Error = fmt.Sprintf("nothing that is loaded answers to %s", lib)
			return a
		}
	default:
		a.Error = "imgcheck does not replay this action"
		return a
	}
	_, name, _ := strings.Cut(arg, ":") // flags decide on symbols only
	if _, err := p.Dlopen(by, name); err != nil {
		a.Error = err.Error()
		return a
	}
	a.OK, a.Result = true, new(string)
	return a
}

func objects(p *elfdeps.Process) []Object {
	var list []Object
	for _, m := range p.Objects {
		o := Object{Path: m.Path, Names: m.Names, How: m.How}
		if m.By != nil {
			o.By = m.By.String()
		}
		switch {
		case m.Main && p.Loader.Libc.Musl:
			o = Object{Path: m.File.Path}
		case m.Main:
			o = Object{Path: "(main)"}
		case p.Loader.Libc.Musl:
			o.Names = nil
		}
		list = append(list, o)
	}
	return list
}

func traceOf(l *elfdeps.Loader, exe string) (*Trace, error) {
	p, err := l.Trace(exe)
	if err := unexpected(err); err != nil {
		return nil, err
	}
	return traceView(p), nil
}

func traceView(p *elfdeps.Process) *Trace {
	t := &Trace{Exit: p.Status(), Stderr: p.Stderr(), Objects: []Line{}}
	if t.Exit != 0 && !p.Loader.Libc.Musl {
		return t
	}
	if !p.Loader.Libc.Musl && len(p.Program().Object.Needed) == 0 {
		return staticTrace() // whatever its filtees are (dl_main)
	}
	for _, x := range p.List() {
		line := Line{Name: x.Name}
		if x.Module != nil {
			line.Path = &x.Module.Path
		}
		t.Objects = append(t.Objects, line)
	}
	return t
}

// Files gives the processes in which the files of a file system are looked at.
type Files struct {
	FS  elfdeps.FS
	Env elfdeps.Env
	// Interps are tried for a library, which names no interpreter.
	Interps []string

	loaders map[string]*elfdeps.Loader
}

// Process is a file's, traced as `ld.so FILE` would: the file itself is the
// program. It is nil, without an error, for a static program.
func (f *Files) Process(path string) (*elfdeps.Process, error) {
	file, err := f.FS.Find(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case file.Object == nil:
		return nil, fmt.Errorf("%s is no ELF file%s", path, because(file.Fault))
	case !file.Object.Dynamic:
		return nil, nil
	}
	l, err := f.loader(file.Object)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p, err := l.TraceFile(path)
	if err := unexpected(err); err != nil {
		return nil, err
	}
	return p, nil
}

// Look is the ldd view of a file.
func (f *Files) Look(path string) (*File, error) {
	p, err := f.Process(path)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return &File{path, *staticTrace()}, nil
	}
	return &File{path, *traceView(p)}, nil
}

// loader is the interpreter that the object names, else the first that is there
// and for its machine.
func (f *Files) loader(o *elfdeps.Object) (*elfdeps.Loader, error) {
	interps := f.Interps
	if o.Interp != "" {
		interps = []string{o.Interp}
	} else if interps == nil {
		interps = elfdeps.Interpreters(o.Machine, o.Class())
	}
	for _, interp := range interps {
		if l, ok := f.loaders[interp]; ok && l != nil {
			return l, nil
		}
		l, err := elfdeps.NewLoader(f.FS, interp, f.Env)
		if err != nil {
			continue
		}
		if f.loaders == nil {
			f.loaders = map[string]*elfdeps.Loader{}
		}
		f.loaders[interp] = l
		return l, nil
	}
	return nil, fmt.Errorf("its loader is not there (%s)", strings.Join(interps, ", "))
}
