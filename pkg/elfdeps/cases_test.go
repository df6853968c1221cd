package elfdeps

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/imgcheck/imgcheck/internal/imagetest"
)

// probe says how a case runs its program.
type probe struct {
	Exe   string            `json:"exe"`
	Args  []string          `json:"args"`
	Env   map[string]string `json:"env"`
	Cwd   string            `json:"cwd"`
	UID   int               `json:"uid"`
	Proc  *bool             `json:"proc"`
	Trace *bool             `json:"trace"`
	// Interp is the loader that is called by hand for the ldd view of musl.
	Interp string `json:"interp"`
	Loader string `json:"loader"`
	// Patch edits files that the text form cannot say: OFFSET=BYTE,
	// trunc=SIZE, verneed=VERSION.
	Patch map[string]string `json:"patch"`
}

// outcome is what a loader did, or what it should have.
type outcome struct {
	Start   *started  `json:"start,omitempty"`
	Objects []object  `json:"objects,omitempty"`
	Actions []action  `json:"actions,omitempty"`
	Trace   *traceOut `json:"trace,omitempty"`
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

// TestSpecCases replays worlds whose outcome real loaders have shown.
func TestSpecCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { specCase(t, file) })
	}
}

func specCase(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	p := probe{Exe: "/app/main"}
	var want outcome
	for name, to := range map[string]any{"probe": &p, "expected": &want} {
		if err := json.Unmarshal([]byte(im.Sections[name]), to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	fsys := imageTree(t, im, func(path string, b []byte) []byte { return patched(t, b, p.Patch[path]) })
	got := p.run(t, fsys, &want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s-want +got:\n%s", b[:strings.IndexByte(string(b), '\n')+1], diff)
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

// run does what want has an outcome of.
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
	proc, err := l.Start(p.Exe)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatal(err)
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
	for _, a := range want.Actions {
		a.Action = strings.TrimSpace(a.Action)
		got.Actions = append(got.Actions, do(t, proc, a))
	}
	if want.Objects != nil {
		got.Objects = objects(proc)
	}
}

// do replays one action of the program; only those that open something are
// the loader's.
func do(t *testing.T, p *Process, a action) action {
	t.Helper()
	kind, arg, _ := strings.Cut(a.Action, "=")
	var by *Module
	switch kind {
	case "from":
		var lib string
		lib, arg, _ = strings.Cut(arg, ":")
		if by = p.Loaded(lib); by == nil {
			t.Fatalf("%s: nothing answers to %s", a.Action, lib)
		}
	case "dlopen":
	default:
		return a
	}
	_, name, _ := strings.Cut(arg, ":")
	_, err := p.Dlopen(by, name)
	got := action{Action: a.Action, OK: err == nil}
	if err != nil {
		got.Error = err.Error()
	}
	return got
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
