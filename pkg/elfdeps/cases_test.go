package elfdeps

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// probe is the section of a case that says how to run its program.
type probe struct {
	Exe   string            `json:"exe"`
	Args  []string          `json:"args"`
	Env   map[string]string `json:"env"`
	Cwd   string            `json:"cwd"`
	UID   int               `json:"uid"`
	Proc  *bool             `json:"proc"`
	Trace *bool             `json:"trace"`
	// Interp is the loader that is called by hand for musl's --list.
	Interp string `json:"interp"`
	Loader string `json:"loader"`
	again  bool   // the loader has started a process before
	// Patch edits files in ways that their text form does not have: OFFSET=BYTE, trunc=SIZE,
	// verneed=VERSION.
	Patch map[string]string `json:"patch"`
	// Bindings are the names whose bindings were recorded.
	Bindings []string `json:"bindings"`
}

// outcome is the result that a loader had or should have.
type outcome struct {
	Start   *started  `json:"start,omitempty"`
	Objects []object  `json:"objects,omitempty"`
	Actions []action  `json:"actions,omitempty"`
	Trace   *traceOut `json:"trace,omitempty"`
	// Bindings are those that LD_DEBUG=bindings showed, including dlsym's.
	Bindings []bound `json:"bindings,omitempty"`
}

type bound struct {
	From    string `json:"from"`
	Symbol  string `json:"symbol"`
	To      string `json:"to"`
	Version string `json:"version,omitempty"`
	Kind    string `json:"kind,omitempty"`
}

type started struct {
	Exit   int      `json:"exit"`
	Stderr []string `json:"stderr,omitempty"`
}

type object struct {
	Path  string   `json:"path"`
	Names []string `json:"names,omitempty"`
}

type action struct {
	Action string `json:"action"`
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
}

type traceOut struct {
	Exit    int      `json:"exit"`
	Objects []traced `json:"objects"`
	Stderr  []string `json:"stderr,omitempty"`
}

type traced struct {
	Name string  `json:"name,omitempty"`
	Path *string `json:"path"`
	Line string  `json:"line,omitempty"`
}

// TestSpecCases replays worlds with recorded results of real loaders.
func TestSpecCases(t *testing.T) {
	eachText(t, "testdata/cases", specCase)
}

func specCase(t *testing.T, file string) {
	b, im := readImage(t, file)
	p := probe{Exe: "/app/main"}
	var want outcome
	for name, to := range map[string]any{"probe": &p, "expected": &want} {
		if err := json.Unmarshal([]byte(im.Sections[name]), to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	fsys := imageTree(t, im, func(path string, b []byte) []byte { return patched(t, b, p.Patch[path]) })
	for _, again := range []string{"", "the second time, when objects and loaders remember what they came to:\n"} {
		p.again = again != ""
		got := p.run(t, fsys, &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s%s-want +got:\n%s", b[:strings.IndexByte(string(b), '\n')+1], again, diff)
		}
	}
}

func patched(t *testing.T, b []byte, patch string) []byte {
	for word := range strings.FieldsSeq(patch) {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		switch off, err := strconv.Atoi(key); {
		case key == "trunc":
			b = b[:min(n, len(b))]
		case key == "verneed":
			b = edited(b, edit{sectionAt(t, b, ".gnu.version_r"), uint64(n), 2})
		case err == nil:
			b = edited(b, edit{off, uint64(n), 1})
		default:
			t.Fatalf("unknown patch %q", word)
		}
	}
	return b
}

// run performs the parts of the probe whose outcome want has.
func (p *probe) run(t *testing.T, fsys FS, want *outcome) outcome {
	t.Helper()
	env := Env{Cwd: p.Cwd, UID: p.UID, GID: p.UID, NoProc: p.Proc != nil && !*p.Proc, CPU: 4}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		env.Vars = append(env.Vars, k+"="+p.Env[k])
	}
	exe, err := fsys.Find(p.Exe)
	if err != nil {
		t.Fatal(err)
	}
	var got outcome
	if want.Start != nil || want.Actions != nil || want.Objects != nil {
		p.start(t, fsys, exe.Object.Interp, env, want, &got)
	}
	if want.Trace != nil && exe.Object.Interp != "" {
		got.Trace = p.trace(t, fsys, exe.Object.Interp, env)
	} else {
		got.Trace = want.Trace
	}
	return got
}

func (p *probe) start(t *testing.T, fsys FS, interp string, env Env, want, got *outcome) {
	t.Helper()
	if interp == "" {
		*got = *want // a static program: nothing is loaded
		return
	}
	l, err := NewLoader(fsys, interp, env)
	if err != nil {
		got.Start = &started{97, []string{"enter: exec " + p.Exe + ": " + errnoText(errno(err))}}
		return
	}
	if p.again {
		l.Trace(p.Exe)
	}
	proc, err := l.Start(p.Exe)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	if want.Start != nil && want.Start.Exit == 127 && proc.Status() == 0 {
		p.callAll(t, proc)
	}
	if want.Start != nil {
		got.Start = &started{proc.Status(), proc.Stderr()}
		if proc.Status() != 0 {
			return
		}
		if want.Start.Exit > 0 && want.Start.Exit < 100 && len(want.Start.Stderr) == 0 {
			got.Start.Exit = want.Start.Exit // the program's own
		}
	}
	var opened []*Module
	for _, a := range want.Actions {
		a.Action = strings.TrimSpace(a.Action)
		m, after := do(t, proc, a, opened)
		opened = append(opened, m)
		got.Actions = append(got.Actions, after)
	}
	got.Bindings = bindings(proc, p.Exe, want)
	if want.Objects != nil {
		got.Objects = objects(proc)
	}
}

// callAll calls the functions that the program calls, and those that their objects call.
func (p *probe) callAll(t *testing.T, proc *Process) {
	t.Helper()
	for _, arg := range p.Args {
		name, ok := strings.CutPrefix(arg, "call=")
		if !ok {
			continue
		}
		m, err := proc.Sym(nil, name)
		if err != nil {
			t.Fatal(err)
		}
		s := m.Object.Symbols
		s.References(func(i int, lazy bool) {
			if _, err := proc.Call(m, s.At(i).Name); err != nil && proc.Status() == 0 {
				t.Fatalf("%v, and the program goes on", err)
			}
		})
	}
}

// do replays one action of the program. opened are the handles of those before.
func do(t *testing.T, p *Process, a action, opened []*Module) (*Module, action) {
	t.Helper()
	kind, arg, _ := strings.Cut(a.Action, "=")
	var by, m *Module
	var err error
	got := action{Action: a.Action}
	switch kind {
	case "from", "dlopen":
		if kind == "from" {
			var lib string
			lib, arg, _ = strings.Cut(arg, ":")
			if by = p.Loaded(lib); by == nil {
				t.Fatalf("%s: no object answers to %s", a.Action, lib)
			}
		}
		flags, name, _ := strings.Cut(arg, ":")
		m, err = p.DlopenFlags(by, name, openFlags(flags))
		got.OK = m != nil
	case "call", "sym", "hcall", "vsym":
		var handle *Module
		name, version, _ := strings.Cut(arg, ":")
		if kind == "hcall" {
			i, _ := strconv.Atoi(name)
			handle, name = opened[i], version
		}
		if kind == "vsym" {
			m, err = p.VSym(nil, name, version)
		} else {
			m, err = p.Sym(handle, name)
		}
		if m == nil && err == nil {
			return nil, a // the world has no symbols
		}
		got.OK, m = m != nil, nil
	default:
		t.Fatalf("unknown action %s", a.Action)
	}
	if err != nil {
		got.Error = err.Error()
	}
	return m, got
}

func openFlags(letters string) (f Flags) {
	for letter, flag := range map[string]Flags{"N": Now, "L": Lazy, "G": Global, "D": DeepBind, "O": NoLoad, "K": NoDelete} {
		if strings.Contains(letters, letter) {
			f |= flag
		}
	}
	return f
}

// bindings returns the bindings of want as p has them. It takes the program's own from want:
// they are dlsym's, which the actions compare.
func bindings(p *Process, exe string, want *outcome) []bound {
	var list []bound
	for _, w := range want.Bindings {
		if w.From == exe {
			list = append(list, w)
			continue
		}
		for _, b := range p.Bindings(w.Symbol) {
			if p.file(b.From) != w.From {
				continue
			}
			g := bound{From: w.From, Symbol: w.Symbol, To: p.file(b.To), Version: b.Version}
			if b.Protected {
				g.Kind = "protected"
			}
			if !slices.Contains(list, g) {
				list = append(list, g)
			}
		}
	}
	return list
}

func objects(p *Process) []object {
	var list []object
	for _, m := range p.Objects {
		switch {
		case p.Loader.Libc.Musl && m.Main:
			list = append(list, object{Path: m.File.Path})
		case p.Loader.Libc.Musl:
			list = append(list, object{Path: m.Path})
		case m.Main:
			list = append(list, object{Path: "(main)"})
		default:
			list = append(list, object{m.Path, m.Names})
		}
	}
	return list
}

func (p *probe) trace(t *testing.T, fsys FS, interp string, env Env) *traceOut {
	t.Helper()
	l, err := NewLoader(fsys, interp, env)
	if err != nil {
		t.Fatal(err)
	}
	if p.again {
		l.Trace(p.Exe)
	}
	proc, err := l.Trace(p.Exe)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	out := &traceOut{Exit: proc.Status(), Stderr: proc.Stderr(), Objects: []traced{}}
	if out.Exit != 0 && !l.Libc.Musl {
		return out
	}
	for _, x := range proc.List() {
		line := traced{Name: x.Name}
		if x.Module != nil {
			line.Path = &x.Module.Path
		}
		out.Objects = append(out.Objects, line)
	}
	if len(proc.Objects[0].Object.Needed) == 0 && !l.Libc.Musl {
		out.Objects = []traced{{Line: "statically linked"}}
	}
	return out
}
