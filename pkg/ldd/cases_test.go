package ldd

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// probe is the section of a loader case that says how to run its program.
type probe struct {
	Exe     string            `json:"exe"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"`
	UID     int               `json:"uid"`
	Proc    *bool             `json:"proc"`
	Search  json.RawMessage   `json:"search"` // true, or the names
	Hwcaps  bool              `json:"search_hwcaps"`
	Symbols []string          `json:"bindings"`
	Patch   map[string]string `json:"patch"`
	Interp  string            `json:"interp"`
}

// TestCases replays the loader cases of elfdeps through the merged file system of images, and
// compares the JSON with the recorded results of real loaders.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("../elfdeps/testdata/cases/*.txtar")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d cases: %v", len(files), err)
	}
	searches := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			if testCase(t, file) {
				searches++
			}
		})
	}
	if searches < 30 {
		t.Errorf("only %d cases compared their searches", searches)
	}
}

// calls are the cases whose program calls an undefined function that is bound lazily, which a
// replay does not know.
var calls = []string{"141"}

// testCase reports whether the case's searches were compared.
func testCase(t *testing.T, file string) bool {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	p := probe{Exe: "/app/main"}
	var want Process
	for name, to := range map[string]any{"probe": &p, "expected": &want} {
		if err := json.Unmarshal([]byte(im.Sections[name]), to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(p.Patch) > 0 || p.Interp != "" {
		return false // with edited bytes, or a loader called by hand: elfdeps tests those
	}
	run := Run{Exe: p.Exe, Args: p.Args, Search: p.Search != nil, Hwcaps: p.Hwcaps, Bindings: p.Symbols}
	run.Env = elfdeps.Env{Cwd: p.Cwd, UID: p.UID, GID: p.UID, NoProc: p.Proc != nil && !*p.Proc, CPU: 4}
	for _, k := range slices.Sorted(maps.Keys(p.Env)) {
		run.Env.Vars = append(run.Env.Vars, k+"="+p.Env[k])
	}
	fsys := merged(t, im)
	got, err := Replay(fsys, run)
	if err != nil {
		t.Fatal(err)
	}
	drawn(t, fsys, run, got)
	clear(got, &want)
	if want.Search == nil {
		got.Search = nil
	} else {
		got.Search = named(t, got.Search, p.Search)
	}
	d := cmp.Diff(&want, got, cmpopts.EquateEmpty())
	if slices.Contains(calls, filepath.Base(file)[:3]) {
		if d == "" {
			t.Error("agrees now: remove it from the list")
		}
		return false
	}
	if d != "" {
		t.Errorf("-loader +imgcheck:\n%s", d)
	}
	return want.Search != nil
}

// drawn checks that the drawing of a run has the loaded objects and the errors of its JSON.
func drawn(t *testing.T, fsys elfdeps.FS, run Run, p *Process) {
	t.Helper()
	var b bytes.Buffer
	if err := Draw(&b, fsys, run, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, o := range p.Objects {
		if o.How != "" && o.How != "interpreter" && o.How != "vdso" {
			want = append(want, o.Path)
		}
	}
	for _, a := range p.Actions {
		want = append(want, a.Action)
		if a.Error != "" {
			want = append(want, a.Error)
		}
	}
	if p.Start.Exit > 0 {
		want = append(want, fmt.Sprintf("exit status %d", p.Start.Exit))
	}
	for _, w := range want {
		if !strings.Contains(b.String(), plain.Text(w)) {
			t.Errorf("no %q in the drawing:\n%s", w, &b)
		}
	}
}

// merged returns the text image's file system, read through the tar of a layer.
func merged(t *testing.T, im *imagetest.Image) *layers.FS {
	t.Helper()
	var list []*layers.Layer
	for n := range im.Layers {
		var b bytes.Buffer
		if err := im.LayerTar(n, &b); err != nil {
			t.Fatal(err)
		}
		l, err := layers.ReadLayer(&b, func(name string, _ int64) bool { return strings.HasPrefix(name, "etc/") })
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	return layers.Merge(list...)
}

// clear removes the fields that the expectation lacks, and those that are known only by
// running the program: its exit status and the results of its functions.
func clear(got, want *Process) {
	got.Loader, want.Loader, got.Doubts = "", "", nil
	if want.Bindings == nil {
		got.Bindings = nil
	}
	if want.Versions == nil {
		got.Versions = nil
	}
	if want.Trace == nil {
		got.Trace = nil
	}
	if want.Objects == nil {
		got.Objects = nil
	}
	for i := range got.Objects {
		got.Objects[i].By, got.Objects[i].How = "", ""
	}
	var actions []Action
	for _, a := range want.Actions {
		if kind, _, _ := strings.Cut(a.Action, "="); kind != "dlopen" && kind != "from" {
			continue
		}
		a.Result = nil
		actions = append(actions, a)
	}
	want.Actions = actions
	actions = nil
	for _, a := range got.Actions {
		if kind, _, _ := strings.Cut(a.Action, "="); kind == "dlopen" || kind == "from" {
			a.Result = nil
			actions = append(actions, a)
		}
	}
	got.Actions = actions
	if want.Start.Exit > 0 && want.Start.Exit < 97 && want.Start.Stderr == nil {
		want.Start.Exit = 0 // the program's own
	}
	if want.Start.Exit == 97 { // the kernel refused the program
		want.Start = Start{127, []string{strings.TrimPrefix(want.Start.Stderr[0], "enter: ")}}
	}
	if want.Start.Exit == 0 && want.Start.Stderr == nil && want.Objects == nil && want.Actions == nil {
		got.Start = want.Start // the case looks at the ldd view alone
	}
}

// named returns the searches for the names that the case records.
func named(t *testing.T, list []Search, names json.RawMessage) []Search {
	t.Helper()
	var only []string
	if json.Unmarshal(names, &only) != nil {
		return list // true
	}
	return slices.DeleteFunc(list, func(s Search) bool { return !slices.Contains(only, s.Name) })
}

// BenchmarkAll looks at each of 3,000 files, as `ldd --all` does for an indexed root. The goal
// is 2 s.
func BenchmarkAll(b *testing.B) {
	const n = 3000
	fsys := manyFiles(n)
	for b.Loop() {
		files := Files{FS: fsys}
		for i := range n {
			if _, err := files.Look(fmt.Sprintf("/usr/lib/x86_64-linux-gnu/lib%d.so", i)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// manyFiles returns a file system like Debian's: n libraries in groups of 60, each of which
// needs up to ten before it.
func manyFiles(n int) *layers.FS {
	l := &layers.Layer{}
	add := func(path string, o *elfdeps.Object) {
		copy(o.Ident[:], elf.ELFMAG)
		o.Ident[elf.EI_CLASS], o.Ident[elf.EI_DATA], o.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
		o.Type, o.Machine, o.Version, o.Dynamic, o.Stack = elf.ET_DYN, elf.EM_X86_64, 1, true, elfdeps.StackNoExec
		l.Entries = append(l.Entries, &layers.Entry{Path: path, Size: 10000, Mode: 0o755, Inode: len(l.Entries) + 1, Object: o})
	}
	dir := func(path string) {
		l.Entries = append(l.Entries, &layers.Entry{Path: path, Type: layers.Dir, Mode: 0o755})
	}
	dir("lib64")
	add("lib64/ld-linux-x86-64.so.2", &elfdeps.Object{Soname: "ld-linux-x86-64.so.2", Libc: &elfdeps.Libc{
		Release: "2.36", SystemDirs: []string{"/lib/x86_64-linux-gnu/", "/usr/lib/x86_64-linux-gnu/", "/lib/", "/usr/lib/"},
	}})
	dir("usr")
	dir("usr/lib")
	dir("usr/lib/x86_64-linux-gnu")
	for i := range n {
		o := &elfdeps.Object{Soname: fmt.Sprintf("lib%d.so", i)}
		for k := 1; k <= 10 && i%60-k*k/2 >= 0; k++ {
			o.Needed = append(o.Needed, fmt.Sprintf("lib%d.so", i-k*k/2))
		}
		add(fmt.Sprintf("usr/lib/x86_64-linux-gnu/lib%d.so", i), o)
	}
	return layers.Merge(l)
}
