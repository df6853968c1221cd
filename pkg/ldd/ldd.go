// Package ldd shows what a dynamic loader does with a file: as a tree for people, as
// JSON for scripts.
//
// It shows the results of package elfdeps and does not judge them. It does not know
// images, only the file system that it is given. The JSON has the fields of the loader
// cases in pkg/elfdeps/testdata/cases, so that recorded output of real loaders and
// predictions compare field by field.
package ldd

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// Run is a program to start, the actions of its process, and the details to report.
type Run struct {
	Exe string // path of the program
	// Args are the actions, in order. dlopen=FLAGS:FILE opens a file from the program,
	// from=LIB:FLAGS:FILE from the object that answers to LIB. sym=SYM, vsym=SYM:VERSION
	// and call=SYM look up a symbol from the program, hcall=K:SYM in the object that
	// action K opened.
	Args []string
	Env  elfdeps.Env
	// Search requests the searches, Hwcaps also the hardware directories in them
	// (glibc-hwcaps/x86-64-v3), which depend on the processor.
	Search, Hwcaps bool
	// Bindings are the symbols whose bindings are reported.
	Bindings []string
}

// Process is the result of a run, as JSON.
type Process struct {
	Loader  string   `json:"loader,omitempty"` // the interpreter
	Start   Start    `json:"start"`
	Objects []Object `json:"objects,omitempty"` // in load order, after all actions; absent when the program did not start
	Actions []Action `json:"actions,omitempty"`
	Trace   *Trace   `json:"trace,omitempty"`
	// Search has every search for a name, as LD_DEBUG=libs shows it.
	Search []Search `json:"search,omitempty"`
	// Bindings are those of Run.Bindings, as LD_DEBUG=bindings shows them.
	Bindings []Binding `json:"bindings,omitempty"`
	// Versions are the version checks, as LD_DEBUG=versions shows them, without those
	// of the C library and the loader.
	Versions []string `json:"versions,omitempty"`
	// Doubts name the facts that were assumed.
	Doubts []string `json:"doubts,omitempty"`
}

// Binding is a reference and the object that its symbol came from.
type Binding struct {
	From    string `json:"from"`
	Symbol  string `json:"symbol"`
	To      string `json:"to"`
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind,omitempty"` // "protected", or empty
}

// Search is one search. Its steps are sources, in brackets, and the files that were
// tried.
type Search struct {
	Name  string   `json:"name"`
	Steps []string `json:"steps"`
}

// Start is the result of the program's start: the exit status that the loader gives it,
// or 0, and the loader's messages.
type Start struct {
	Exit   int      `json:"exit"`
	Stderr []string `json:"stderr,omitempty"`
}

// Object is one object of the process. Path is the loader's own text, never cleaned; By
// is the object that requested it first, How the rule that found it.
type Object struct {
	Path  string   `json:"path"`
	Names []string `json:"names,omitempty"`
	By    string   `json:"by,omitempty"`
	How   string   `json:"how,omitempty"`
}

// Action is an argument of a [Run] and its result.
type Action struct {
	Action string  `json:"action"`
	OK     bool    `json:"ok"`
	Result *string `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Trace is ldd's list, which LD_TRACE_LOADED_OBJECTS or musl's --list prints.
type Trace struct {
	Exit    int      `json:"exit"`
	Objects []Line   `json:"objects"`
	Stderr  []string `json:"stderr,omitempty"`
}

// Line is one line of ldd's list; a nil Path means "not found". A line that names no
// library ("statically linked") has only Text.
type Line struct {
	Name string
	Path *string
	Text string
}

// lineJSON is the JSON of a line that names a library.
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

// marshal encodes as json.Marshal does, without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// File is ldd's list for one file, as JSON.
type File struct {
	Path  string `json:"path"`
	Trace Trace  `json:"trace"`
	// Unresolved are the lines that ldd -r prints for undefined references; nil unless
	// symbols are requested.
	Unresolved *[]string `json:"unresolved,omitempty"`
	// Unknown are the objects whose symbols could not be read.
	Unknown []string `json:"unknown,omitempty"`
	// Named are the libraries that the file may open by a name in its read-only data; nil
	// unless they are requested and it imports dlopen.
	Named *Named `json:"named,omitempty"`
}

// begun is a run whose program the kernel and the loader have started or refused.
type begun struct {
	interp  string           // PT_INTERP of the program
	loader  *elfdeps.Loader  // nil for a static program and for a refused one
	process *elfdeps.Process // nil without a loader
	static  bool             // the program needs no loader
	refused string           // the message for a program that the kernel refuses
}

// begin starts the program of a run.
func begin(fsys elfdeps.FS, r Run) (*begun, error) {
	exe, err := elfFile(fsys, r.Exe)
	if err != nil {
		return nil, err
	}
	if exe.Interp == "" {
		return &begun{static: true}, static(r.Exe, exe)
	}
	l, err := elfdeps.NewLoader(fsys, exe.Interp, r.Env)
	if err != nil {
		return &begun{interp: exe.Interp, refused: fmt.Sprintf("exec %s: %s", r.Exe, kernelText(err))}, nil
	}
	p, err := l.StartLogged(r.Exe)
	if err = unexpected(err); err != nil {
		return nil, err
	}
	if !truncated(p) { // the end of a truncated file is missing, not unexamined
		err = examined(r.Exe, exe)
	}
	return &begun{interp: exe.Interp, loader: l, process: p}, err
}

// notStarted is a shell's exit status for a program that the kernel refuses.
const notStarted = 127

// Replay starts a program, performs its actions and returns the output that a real
// process would have.
func Replay(fsys elfdeps.FS, r Run) (*Process, error) {
	run, err := begin(fsys, r)
	switch {
	case err != nil:
		return nil, err
	case run.static:
		return &Process{Trace: staticTrace()}, nil
	case run.refused != "":
		return &Process{Loader: run.interp, Start: Start{Exit: notStarted, Stderr: []string{run.refused}}}, nil
	}
	l, p := run.loader, run.process
	out := &Process{Loader: l.Path, Start: Start{p.Status(), p.Stderr()}}
	if truncated(p) {
		out.Start, out.Trace = Start{Exit: sigbus}, &Trace{Exit: sigbus, Objects: []Line{}}
		return out, nil
	}
	if out.Start.Exit == 0 {
		var opened []*elfdeps.Module
		for _, arg := range r.Args {
			d := act(p, arg, opened)
			opened = append(opened, d.opened)
			out.Actions = append(out.Actions, d.json(arg))
		}
		out.Objects = objects(p)
		for _, symbol := range r.Bindings {
			out.Bindings = append(out.Bindings, bindings(p, symbol, r)...)
		}
	}
	out.Versions = slices.DeleteFunc(p.VersionChecks(), func(line string) bool {
		return strings.Contains(line, "libc.so.6") || strings.Contains(line, "ld-linux")
	})
	out.Search = searches(p, r)
	trace, err := traceOf(l, r.Exe)
	if err != nil {
		return nil, err
	}
	out.Trace = trace
	out.Doubts = slices.Sorted(slices.Values(l.Doubts))
	return out, nil
}

// searches returns the searches of a process that r requests.
func searches(p *elfdeps.Process, r Run) []Search {
	if !r.Search {
		return nil
	}
	var list []Search
	for _, x := range p.Searches() {
		if !r.Hwcaps {
			x.Steps = slices.DeleteFunc(x.Steps, hwcapRE.MatchString)
		}
		list = append(list, Search(x))
	}
	return list
}

// sigbus is the exit of a process that touches a page behind the end of its file: killed
// by signal 7.
const sigbus = -7

// truncated reports whether the process has loaded a file that ends before its segments
// do. No loader notices.
func truncated(p *elfdeps.Process) bool {
	return p.Status() == 0 && slices.ContainsFunc(p.Objects, (*elfdeps.Module).Truncated)
}

// hwcapRE matches files in the directories for hardware capabilities.
var hwcapRE = regexp.MustCompile(`(?:^|/)(?:glibc-hwcaps/[^/]+|(?:tls|x86_64|atomics|aarch64)(?:/(?:tls|x86_64|atomics|aarch64))*)/[^/]+$`)

// elfFile returns the ELF object at path.
func elfFile(fsys elfdeps.FS, path string) (*elfdeps.Object, error) {
	f, err := fsys.Find(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case f.Object == nil && f.Fault != "":
		return nil, fmt.Errorf("%s could not be examined: %s", path, f.Fault)
	case f.Object == nil:
		return nil, fmt.Errorf("%s is not an ELF file", path)
	}
	return f.Object, nil
}

// examined returns an error with the reason why it is unknown how o is loaded, if it is.
func examined(path string, o *elfdeps.Object) error {
	if why := o.Unexamined(); why != "" {
		return fmt.Errorf("%s could not be examined: %s", path, why)
	}
	return nil
}

// static returns an error for a file without an interpreter or a dynamic section that is
// no static program.
func static(path string, o *elfdeps.Object) error {
	switch {
	case o.Fault != "":
		return fmt.Errorf("%s cannot be loaded: %s", path, o.Fault)
	case o.Type != elf.ET_EXEC && o.Type != elf.ET_DYN:
		return fmt.Errorf("%s is neither a program nor a library, but %s", path, o.Type)
	}
	return examined(path, o)
}

// kernelText returns the text of an errno of execve.
func kernelText(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// unexpected returns err unless it is one of the loader's own errors, which the process
// has.
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

// done is the result of an action.
type done struct {
	opened *elfdeps.Module // by dlopen; nil when that failed
	in     *elfdeps.Module // the object that defines the symbol
	err    error
}

// CheckAction returns an error for an argument of a [Run] that is not written correctly.
func CheckAction(action string) error {
	kind, arg, _ := strings.Cut(action, "=")
	parts := strings.SplitN(arg, ":", 3)
	ok := false
	switch kind {
	case "dlopen":
		ok = len(parts) >= 2 && areFlags(parts[0])
	case "from":
		ok = len(parts) == 3 && parts[0] != "" && areFlags(parts[1])
	case "sym", "call":
		ok = arg != ""
	case "vsym", "hcall":
		ok = len(parts) >= 2 && parts[0] != "" && parts[1] != ""
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%q is not an action: write it like dlopen=N:libx.so.1, from=libx.so.1:NG:liby.so.1 or sym=name", action)
}

func (d done) ok() bool { return d.opened != nil || d.in != nil }

func (d done) json(action string) Action {
	a := Action{Action: action, OK: d.ok()}
	if d.err != nil {
		a.Error = d.err.Error()
	}
	if d.opened != nil { // the results of functions are not predicted
		a.Result = new(string)
	}
	return a
}

// act performs one action. opened are the objects that the actions before it opened, nil
// for actions that opened none.
func act(p *elfdeps.Process, action string, opened []*elfdeps.Module) (d done) {
	kind, arg, _ := strings.Cut(action, "=")
	var by *elfdeps.Module
	switch kind {
	case "from":
		var lib string
		lib, arg, _ = strings.Cut(arg, ":")
		if by = p.Loaded(lib); by == nil {
			d.err = fmt.Errorf("no loaded object answers to %s", lib)
			return d
		}
		fallthrough
	case "dlopen":
		flags, name, _ := strings.Cut(arg, ":")
		d.opened, d.err = p.DlopenFlags(by, name, openFlags(flags))
	case "call", "sym", "hcall", "vsym":
		if d.in, d.err = look(p, kind, arg, opened); d.in == nil && d.err == nil {
			d.err = errors.New("cannot be predicted: the symbols of some objects are not known")
		}
	default:
		d.err = errors.New("unknown action")
	}
	return d
}

// look calls dlsym or dlvsym, for the program or (hcall=K:SYM) for the object that action
// K opened.
func look(p *elfdeps.Process, kind, arg string, opened []*elfdeps.Module) (*elfdeps.Module, error) {
	name, rest, _ := strings.Cut(arg, ":")
	if kind == "vsym" {
		return p.VSym(nil, name, rest)
	}
	var handle *elfdeps.Module
	if kind == "hcall" {
		k, err := strconv.Atoi(name)
		if err != nil || k < 0 || k >= len(opened) || opened[k] == nil {
			return nil, fmt.Errorf("action %s opened no library", name)
		}
		handle, name = opened[k], rest
	}
	return p.Sym(handle, name)
}

// bindings returns the bindings of all references to symbol, in order, then those of the
// program's own actions.
func bindings(p *elfdeps.Process, symbol string, r Run) []Binding {
	name := func(m *elfdeps.Module) string {
		if m.Path == "" {
			return r.Exe
		}
		return m.Path
	}
	var list []Binding
	add := func(b Binding) {
		if !slices.Contains(list, b) {
			list = append(list, b)
		}
	}
	for _, b := range p.Bindings(symbol) {
		kind := ""
		if b.Protected {
			kind = "protected"
		}
		add(Binding{name(b.From), b.Symbol, name(b.To), b.Version, kind})
	}
	for _, action := range r.Args {
		kind, arg, _ := strings.Cut(action, "=")
		wanted, version, _ := strings.Cut(arg, ":")
		if wanted != symbol || !slices.Contains([]string{"call", "sym", "vsym"}, kind) {
			continue
		}
		if m, err := look(p, kind, arg, nil); m != nil && err == nil {
			add(Binding{From: r.Exe, Symbol: symbol, To: name(m), Version: version})
		}
	}
	return list
}

// flagLetters are the flags of dlopen, by their letters in actions.
var flagLetters = map[rune]elfdeps.Flags{
	'N': elfdeps.Now, 'L': elfdeps.Lazy, 'G': elfdeps.Global, 'D': elfdeps.DeepBind, 'O': elfdeps.NoLoad, 'K': elfdeps.NoDelete,
}

func openFlags(letters string) (f elfdeps.Flags) {
	for _, letter := range letters {
		f |= flagLetters[letter]
	}
	return f
}

func areFlags(letters string) bool {
	unknown := func(letter rune) bool { _, ok := flagLetters[letter]; return !ok }
	return letters != "" && !strings.ContainsFunc(letters, unknown)
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
		return staticTrace() // even with filtees (dl_main, elf/rtld.c)
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

// Files traces the files of a file system.
type Files struct {
	FS  elfdeps.FS
	Env elfdeps.Env
	// Symbols requests undefined references.
	Symbols bool
	// Names requests the libraries that files may open by a name in their read-only data.
	Names bool
	// Interps are tried for a library, which names no interpreter.
	Interps []string

	loaders map[string]*elfdeps.Loader
}

// Process traces the file at path as `ld.so FILE` would: the file itself is the program.
// It returns nil without an error for a static program.
func (f *Files) Process(path string) (*elfdeps.Process, error) {
	o, err := elfFile(f.FS, path)
	if err != nil {
		return nil, err
	}
	if !o.Dynamic {
		return nil, static(path, o)
	}
	if err := examined(path, o); err != nil {
		return nil, err
	}
	l, err := f.loader(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p, err := l.TraceFile(path)
	if err := unexpected(err); err != nil {
		return nil, err
	}
	return p, nil
}

// Look returns ldd's list for the file at path.
func (f *Files) Look(path string) (*File, error) {
	p, err := f.Process(path)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return &File{Path: path, Trace: *staticTrace()}, nil
	}
	file := &File{Path: path, Trace: *traceView(p)}
	if f.Symbols && (file.Trace.Exit == 0 || p.Loader.Libc.Musl) {
		lines := unresolvedLines(p)
		file.Unresolved = &lines
		for _, m := range p.Unknown() {
			file.Unknown = append(file.Unknown, m.String())
		}
	}
	if f.Names {
		file.Named = NamedLibraries(p)
	}
	return file, nil
}

// unresolvedLines returns the lines that ldd -r prints below the libraries.
func unresolvedLines(p *elfdeps.Process) []string {
	lines := []string{}
	for _, u := range p.Unresolved(nil) {
		lines = append(lines, u.String())
	}
	return lines
}

// loader returns the interpreter that o names, else the first one for its machine that
// exists.
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
	return nil, fmt.Errorf("its loader does not exist (%s)", strings.Join(interps, ", "))
}
