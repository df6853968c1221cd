package fix

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
	"github.com/imgcheck/imgcheck/pkg/source"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

// root is the text of a Debian that has only the loader and libc.
const root = `-- 0/lib --
symlink usr/lib
-- 0/lib64 --
symlink usr/lib64
-- 0/usr/lib64/ld-linux-x86-64.so.2 --
symlink ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
-- 0/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 --
elf x86_64 soname=ld-linux-x86-64.so.2
rodata "ld.so (Debian GLIBC 2.36-9+deb12u9) stable release version 2.36.\x00"
rodata "/lib/x86_64-linux-gnu/\x00/usr/lib/x86_64-linux-gnu/\x00/lib/\x00/usr/lib/\x00"
-- 0/usr/lib/x86_64-linux-gnu/libc.so.6 --
elf x86_64 soname=libc.so.6
needed ld-linux-x86-64.so.2
`

// library returns the text of a library at a path of a text image.
func library(at, soname string, needed ...string) string {
	s := fmt.Sprintf("-- %s --\nelf x86_64 soname=%s\nneeded libc.so.6\n", at, soname)
	for _, n := range needed {
		s += "needed " + n + "\n"
	}
	return s
}

// program returns the text of a program at a path of a text image.
func program(at string, needed ...string) string {
	return strings.Replace(library(at, "", needed...), "soname=", "interp=/lib64/ld-linux-x86-64.so.2", 1) + "flags1 pie\n"
}

// loadPacks reads the packs once, since that would take most of the tests' time.
var loadPacks = sync.OnceValues(func() (*packs.Packs, error) { return packs.LoadPacks(rules.FS) })

func embedded(t testing.TB) *packs.Packs {
	t.Helper()
	p, err := loadPacks()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read returns a text image, and its result, as a scan does.
func read(t testing.TB, text string) (*replay.Image, *lint.Result) {
	t.Helper()
	im, err := imagetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var list []*layers.Layer
	var infos []source.Layer
	for n := range im.Layers {
		r, w := io.Pipe()
		go func() { w.CloseWithError(im.LayerTar(n, w)) }()
		l, err := layers.ReadLayer(r, func(string, int64) bool { return true })
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		list, infos = append(list, l), append(infos, source.Layer{Digest: fmt.Sprint("sha256:", n)})
	}
	img := &replay.Image{FS: layers.Merge(list...), Config: &v1.ConfigFile{Architecture: "amd64", OS: "linux", Config: im.Config}}
	img.FS.Layers = infos
	res, err := lint.Run(context.Background(), img, embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	return img, res
}

// plan returns the plan for a text image.
func plan(t testing.TB, text string, o Options) *Plan {
	t.Helper()
	img, res := read(t, text)
	p, err := Find(context.Background(), img, embedded(t), res, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantSteps(t *testing.T, p *Plan, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, p.Texts(), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		b, _ := json.MarshalIndent(p, "", " ")
		t.Errorf("steps (-want +got):\n%s\n%s", diff, b)
	}
}

// The link that is missing comes with those of the parts beside it, which no file has asked
// for yet, but not with those of a wheel's private copy.
func TestSubLibrariesAreLinkedToo(t *testing.T) {
	p := plan(t, "env LD_LIBRARY_PATH=/opt/cudnn\nentrypoint [\"/app/infer\"]\n"+root+
		library("1/opt/cudnn/libcudnn.so.9.1.0", "libcudnn.so.9")+
		library("1/opt/cudnn/libcudnn_ops.so.9.1.0", "libcudnn_ops.so.9")+
		library("1/opt/cudnn/libcudnn_graph.so.9.1.0", "libcudnn_graph.so.9")+
		"-- 1/opt/cudnn/libcudnn_graph.so.9 --\nsymlink libcudnn_graph.so.9.1.0\n"+
		library("1/opt/cudnn/libcudnn_engines_precompiled.so.9", "libcudnn_engines_precompiled.so.9")+
		library("1/opt/cudnn/libcudnn_engines_runtime_compiled.so.9", "libcudnn_engines_runtime_compiled.so.9")+
		library("1/opt/cudnn/libcudnn_heuristic.so.9", "libcudnn_heuristic.so.9")+
		library("1/opt/cudnn/libcudnn_adv.so.9", "libcudnn_adv.so.9")+
		library("1/opt/cudnn/libcudnn_cnn.so.9", "libcudnn_cnn.so.9")+
		library("1/opt/cudnn/libcublas.so.12.4", "libcublas.so.12")+
		program("1/app/infer", "libcudnn.so.9"), Options{})
	wantSteps(t, p, "link /opt/cudnn/libcudnn.so.9 -> libcudnn.so.9.1.0", "link /opt/cudnn/libcudnn_ops.so.9 -> libcudnn_ops.so.9.1.0")
	if !p.Complete() {
		t.Errorf("findings are left: %v", p.After.Findings)
	}
}

// No step uses a library that is not for others: a stub, one that the driver's mounts cover,
// one that a wheel has vendored.
func TestNeverFromStubs(t *testing.T) {
	for _, at := range []string{
		"usr/local/cuda/lib64/stubs/libcublas.so.12", "usr/local/nvidia/lib64/libcublas.so.12", "opt/x.libs/libcublas.so.12", "opt/cuda/compat/libcublas.so.12",
	} {
		p := plan(t, "entrypoint [\"/app/infer\"]\n"+root+library("1/"+at, "libcublas.so.12")+program("1/app/infer", "libcublas.so.12"), Options{})
		for _, s := range p.Steps {
			if strings.HasPrefix("/"+at, s.Path) || strings.Contains(s.Link, at) {
				t.Errorf("%s: %s", at, s.Text)
			}
		}
	}
	p := plan(t, "entrypoint [\"/app/infer\"]\nenv LD_LIBRARY_PATH=/opt/lib\n"+root+library("1/opt/lib/libcublas-0123abcd.so.12.4", "libcublas.so.12")+program("1/app/infer", "libcublas.so.12"), Options{})
	for _, s := range p.Steps {
		if s.Kind == "link" {
			t.Errorf("a private copy: %s", s.Text)
		}
	}
}

// A program of CUDA 11 that asks for a name without a version gets the library of CUDA 11,
// not that of CUDA 12, which comes first.
func TestLinksOfTheSameCUDA(t *testing.T) {
	text := func(cublas string) string {
		return "entrypoint [\"/app/infer\"]\nenv LD_LIBRARY_PATH=/opt/a:/opt/b\n" + root +
			library("1/opt/a/libcufft.so.11", "libcufft.so.11") + library("1/opt/b/libcufft.so.10", "libcufft.so.10") +
			library("1/opt/b/"+cublas, cublas) + program("1/app/infer", cublas, "libcufft.so")
	}
	wantSteps(t, plan(t, text("libcublas.so.11"), Options{}), "link /opt/b/libcufft.so -> libcufft.so.10")
	wantSteps(t, plan(t, text("libcublas.so.12"), Options{}), "link /opt/a/libcufft.so -> libcufft.so.11")
}

// A directory that has the missing library is not added to the path if it also has a copy
// of another library that breaks a program.
func TestNothingBreaks(t *testing.T) {
	p := plan(t, "entrypoint [\"/app/infer\"]\n"+root+
		strings.Replace(library("1/opt/a/libcudart.so.12", "libcudart.so.12"), "needed", "needed", 1)+
		library("1/opt/a/libx.so.1", "libx.so.1", "libgone.so.1")+
		library("0/usr/lib/libx.so.1", "libx.so.1")+
		program("1/app/other", "libx.so.1")+
		program("1/app/infer", "libcudart.so.12"), Options{})
	for _, s := range p.Steps {
		if s.Variable == libraryPath {
			t.Errorf("it breaks /app/other: %s", s.Text)
		}
	}
	tried := p.Outcomes[0].Tried
	if len(tried) == 0 || !strings.Contains(tried[0].Why, "breaks /app/other: libgone.so.1") {
		t.Errorf("tried: %+v", tried)
	}
}

// A step that a later one makes superfluous is left out.
func TestPrune(t *testing.T) {
	img, res := read(t, "entrypoint [\"/app/infer\"]\n"+root+library("1/opt/a/libcudart.so.12", "libcudart.so.12")+program("1/app/infer", "libcudart.so.12"))
	p := newPlanner(img, embedded(t), res, Options{Trials: 9})
	p.groups = []group{{steps: []Step{appendPath("/opt/none")}, key: "k"}, {steps: []Step{appendPath("/opt/a")}, key: "missing libcudart.so.12"}}
	var err error
	if p.now, err = p.simulate(context.Background(), p.groups); err != nil {
		t.Fatal(err)
	}
	if err := p.prune(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantSteps(t, p.plan(), "append /opt/a to LD_LIBRARY_PATH")
}

// The search stops at the limit on trials, and each finding that is left says so.
func TestBound(t *testing.T) {
	text := "entrypoint [\"/app/infer\"]\n" + root
	var needed []string
	for i := range 9 {
		name := fmt.Sprintf("libnpp%s.so.12", []string{"c", "ial", "icc", "idei", "if", "ig", "im", "ist", "isu"}[i])
		needed = append(needed, name)
		text += library(fmt.Sprintf("1/opt/%d/%s", i, name), name)
	}
	p := plan(t, text+program("1/app/infer", needed...), Options{Trials: 4})
	if p.Trials > 4 || !p.Truncated {
		t.Errorf("%d trials, truncated: %v", p.Trials, p.Truncated)
	}
	if why := p.Outcomes[8].Why; !strings.Contains(why, "4 changes were tried") {
		t.Errorf("the last finding: %q", why)
	}
	if p = plan(t, text+program("1/app/infer", needed...), Options{}); !p.Complete() || len(p.Steps) != 9 {
		t.Errorf("with more trials: %v", p.Texts())
	}
	defer func(was int) { fullTrials = was }(fullTrials)
	fullTrials = 3 // the image has 12 ELF files
	if p = plan(t, text+program("1/app/infer", needed...), Options{}); p.Trials > 6 || !p.Truncated || len(p.Steps) == 0 {
		t.Errorf("with very many ELF files: %d trials, truncated: %v, %d steps", p.Trials, p.Truncated, len(p.Steps))
	}
}

// Ordinary images have all trials, and none has no trial.
func TestTrialsOf(t *testing.T) {
	for _, tt := range []struct{ trials, elf, want int }{{24, 0, 24}, {24, 16_384, 24}, {64, 8_000, 64}, {24, 49_152, 8}, {64, 32_768, 32}, {2, 100_000, 1}} {
		if got := trialsOf(tt.trials, tt.elf); got != tt.want {
			t.Errorf("%d trials for %d files: got %d, want %d", tt.trials, tt.elf, got, tt.want)
		}
	}
}

// For every text image, the same image has the same plan; the plan lists all findings that
// lint has for the image with the plan's steps; and a plan with steps makes the image strictly
// better.
func TestLaw(t *testing.T) {
	entries, _ := images.FS.ReadDir(".")
	var steps, behind atomic.Int64
	t.Run("images", func(t *testing.T) {
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			t.Run(strings.TrimSuffix(e.Name(), ".txtar"), func(t *testing.T) {
				t.Parallel()
				p := lawful(t, e.Name())
				steps.Add(int64(len(p.Steps)))
				behind.Add(int64(len(p.Behind)))
			})
		}
	})
	if steps.Load() == 0 || behind.Load() == 0 {
		t.Errorf("of all images: %d steps, %d findings behind others", steps.Load(), behind.Load())
	}
}

// lawful returns the plan of a text image, for which it checks the law.
func lawful(t *testing.T, name string) *Plan {
	t.Helper()
	data, err := images.Text(name)
	if err != nil {
		t.Fatal(err)
	}
	img, res := read(t, string(data))
	p, err := Find(context.Background(), img, embedded(t), res, Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := json.Marshal(p)
	if p, err = Find(context.Background(), img, embedded(t), res, Options{}); err != nil {
		t.Fatal(err)
	}
	if second, _ := json.Marshal(p); !bytes.Equal(first, second) {
		t.Errorf("two plans differ:\n%s\n%s", first, second)
	}
	d := newDraft(img, p.Steps)
	again, err := lint.Run(context.Background(), d.image(), embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(messages(p.After), messages(again)); diff != "" {
		t.Error(diff)
	}
	listed := map[string]bool{}
	for _, c := range p.Outcomes {
		listed[c.Message] = true
	}
	for _, b := range p.Behind {
		listed[b.Message] = true
	}
	for _, f := range again.Findings {
		if f.Severity != packs.Note && !listed[f.Message] {
			t.Errorf("the plan does not list %s", f.Message)
		}
	}
	if len(p.Steps) > 0 {
		if err := Better(res, again, img.FS, nil); err != nil {
			t.Error(err)
		}
	}
	return p
}

// messages returns the findings in a comparable form.
func messages(r *lint.Result) []string {
	var list []string
	for _, f := range r.Findings {
		list = append(list, fmt.Sprint(f.Severity, f.Rule, f.Message))
	}
	return list
}

// TestBetter has cases on either side of each condition of Better.
func TestBetter(t *testing.T) {
	var there []layers.Entry
	for _, name := range []string{"a", "b", "c"} {
		there = append(there, layers.Entry{Path: name})
	}
	img := &replay.Image{FS: layers.Merge(layers.NewLayer(there))}
	missing := lint.Finding{Rule: "missing-library", Kind: packs.Missing, Cause: "missing libcudart.so.12", Severity: packs.Error, Message: "libcudart.so.12: cannot open shared object file: No such file or directory", Library: "libcudart.so.12", NeededBy: []replay.File{{Path: "/a"}}, Affected: []string{"/a", "/b"}}
	fewer, path := missing, missing
	fewer.Affected = []string{"/a"}
	path.Rule = "library-not-on-path"
	warned, noted := missing, missing
	warned.Severity, noted.Severity = packs.Warning, packs.Note
	later := missing
	later.Library, later.Cause, later.Message, later.Later = "libnvrtc.so.12", "missing libnvrtc.so.12", "libnvrtc.so.12: cannot open shared object file: No such file or directory", true
	hidden := noted
	hidden.Library, hidden.Cause, hidden.Message = "libown.so", "missing libown.so", "libown.so: cannot open shared object file: No such file or directory"
	hidden.Present = []replay.File{{Path: "/lib/b"}}
	aside := hidden
	aside.Present = []replay.File{{Path: "/b"}}
	brought := hidden
	brought.NeededBy = []replay.File{{Path: "/new"}}
	undefined := func(severity packs.Severity, files ...string) lint.Finding {
		return lint.Finding{Rule: "undefined-symbol", Kind: packs.Symbol, Subject: files[0], Cause: files[0] + " misses x", Severity: severity, Message: files[0] + ": undefined symbol: x", Symbol: "x", NeededBy: []replay.File{{Path: files[0]}}, Affected: files}
	}
	list := func(f ...lint.Finding) []lint.Finding { return f }
	env := lint.Finding{Rule: "gpu-hidden", Cause: "no GPU", Severity: packs.Warning, Message: "no GPU"}
	const traded = "another finding takes its place: /a: undefined symbol: x"
	for name, tt := range map[string]struct {
		before, after []lint.Finding
		want          string
	}{
		"gone":                     {list(missing), nil, ""},
		"fewer files":              {list(missing), list(fewer), ""},
		"lighter":                  {list(missing), list(warned), ""},
		"a note is left":           {list(missing), list(noted), ""},
		"of the image as such":     {list(env), nil, ""},
		"one of two":               {list(missing, undefined(packs.Error, "/a")), list(undefined(packs.Error, "/a")), ""},
		"a warning in its place":   {list(missing), list(undefined(packs.Warning, "/a")), ""},
		"the same by another rule": {list(missing), list(path), "nothing that was wrong is gone"},
		"nothing":                  {nil, nil, "nothing that was wrong is gone"},
		"a note less":              {list(noted), nil, "nothing that was wrong is gone"},
		// The library is found now but lacks the symbols: fewer files, fewer findings, but
		// the files fail as before.
		"symbols for a library":               {list(missing), list(undefined(packs.Error, "/a")), traded},
		"symbols for two libraries":           {list(missing, path, env), list(undefined(packs.Error, "/a")), traded},
		"symbols for one of the files":        {list(missing), list(fewer, undefined(packs.Error, "/a", "/b")), traded},
		"a warning in the place of a warning": {list(warned), list(undefined(packs.Warning, "/a")), traded},
		// The file is loaded now, and misses a library that it opens later.
		"what is opened later":        {list(missing), list(later), ""},
		"loading for opening":         {list(later), list(missing), "another finding takes its place: libcudart.so.12: cannot open shared object file: No such file or directory"},
		"more weight":                 {list(warned, env), list(missing), "another finding takes its place: libcudart.so.12: cannot open shared object file: No such file or directory"},
		"another of a file that went": {list(missing), list(undefined(packs.Error, "/c")), "it breaks /c: undefined symbol: x"},
		"a note of a file that went":  {list(missing), list(undefined(packs.Note, "/c")), "it breaks /c: undefined symbol: x"},
		// The change hides a library that the file has found, behind a finding that it resolves.
		"a library that it found":  {list(missing), list(hidden), "it breaks /a: libown.so: cannot open shared object file: No such file or directory"},
		"a library beside it":      {list(missing), list(aside), ""},
		"a library of what is new": {list(missing), list(brought), ""},
		"another of the image":     {list(missing), list(env), "it breaks no GPU"},
		// Findings of new files are additional ones.
		"more findings of what is new": {list(missing), list(undefined(packs.Error, "/new"), undefined(packs.Error, "/newer")), "there are more errors than before: 2, not 1"},
		"more warnings":                {list(warned), list(undefined(packs.Warning, "/new"), undefined(packs.Warning, "/newer")), "there are more warnings than before: 2, not 1"},
		"as many of what is new":       {list(missing), list(undefined(packs.Error, "/new")), ""},
	} {
		got := ""
		if err := Better(&lint.Result{Findings: tt.before}, &lint.Result{Findings: tt.after}, img.FS, nil); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Variables keep their places when they are set and unset.
func TestSetVar(t *testing.T) {
	vars := []string{"A=1", "P=old", "B=2"}
	if got := setVar(vars, "P", "new"); !slices.Equal(got, []string{"A=1", "P=new", "B=2"}) {
		t.Errorf("set: %v", got)
	}
	if got := setVar(vars, "P", ""); !slices.Equal(got, []string{"A=1", "B=2"}) {
		t.Errorf("unset: %v", got)
	}
	if got := setVar(vars, "Q", "3"); !slices.Equal(got, []string{"A=1", "P=old", "B=2", "Q=3"}) {
		t.Errorf("a new one: %v", got)
	}
}

// The reason of a finding that stays is that no source has the library. A source that fails
// ends the search.
func TestNoSource(t *testing.T) {
	text := "entrypoint [\"/app/infer\"]\n" + root + program("1/app/infer", "libcudnn.so.9")
	none := func(_ context.Context, w provide.Want) (*provide.Found, error) {
		if !slices.Contains(w.Names, "libcudnn.so.9") || w.Pin != "9.1.0.70" || w.Glibc != "2.36" {
			t.Errorf("wanted: %+v", w)
		}
		return nil, &provide.NotFoundError{Want: w}
	}
	p := plan(t, text, Options{Find: none, Pins: map[string]string{"cudnn": "9.1.0.70"}})
	wantSteps(t, p)
	if !strings.Contains(p.Outcomes[0].Why, "nowhere to take libcudnn.so.9") {
		t.Errorf("why: %q", p.Outcomes[0].Why)
	}
	img, res := read(t, text)
	broken := fmt.Errorf("the index does not answer")
	if _, err := Find(context.Background(), img, embedded(t), res, Options{Find: func(context.Context, provide.Want) (*provide.Found, error) { return nil, broken }}); err == nil || !strings.Contains(err.Error(), broken.Error()) {
		t.Errorf("error %v", err)
	}
}

// A plan with a stand-in cannot be carried out.
func TestStandIn(t *testing.T) {
	p := plan(t, "entrypoint [\"/app/infer\"]\n"+root+program("1/app/infer", "libcudnn.so.9"), Options{})
	wantSteps(t, p, "add libcudnn.so.9 and 2 libraries that come with it to /opt/imgcheck/lib", "append /opt/imgcheck/lib to LD_LIBRARY_PATH")
	if !p.StandIn() || !p.Complete() {
		t.Errorf("stand-in %v, complete %v", p.StandIn(), p.Complete())
	}
	if _, err := p.Change(); err == nil || !strings.Contains(err.Error(), "name one with --from") {
		t.Errorf("error %v", err)
	}
}

// Each kind of change that a rule may name has a function.
func TestKinds(t *testing.T) {
	for _, m := range packs.StepKinds {
		if kinds[m] == nil {
			t.Errorf("no function for %q", m)
		}
	}
}

// The plan asks for the release of a library's other parts, else for the versions that the
// asking package requires.
func TestVersions(t *testing.T) {
	const site = "1/usr/lib/python3/dist-packages"
	part := "entrypoint [\"/app/infer\"]\n" + root + program("1/app/infer", "libcudnn.so.9") +
		library("1/usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0", "libcudnn.so.9") + "-- 1/usr/lib/x86_64-linux-gnu/libcudnn.so.9 --\nsymlink libcudnn.so.9.1.0\n"
	wheel := "entrypoint [\"/app/infer\"]\n" + root + program("1/app/infer", "libcudnn.so.9") +
		library(site+"/nvidia/cudnn/lib/libcudnn.so.9", "libcudnn.so.9") + "-- " + site + "/nvidia_cudnn_cu12-9.19.0.56.dist-info/METADATA --\nName: nvidia-cudnn-cu12\nVersion: 9.19.0.56\n"
	wheel = strings.Replace(wheel, "entrypoint", "env LD_LIBRARY_PATH=/usr/lib/python3/dist-packages/nvidia/cudnn/lib\nenv CUDA_VERSION=12.4.1\nentrypoint", 1)
	asks := "env CUDA_VERSION=12.4.1\n" + root + library(site+"/onnxruntime/capi/libonnxruntime_providers_cuda.so", "libonnxruntime_providers_cuda.so", "libcudnn.so.9") +
		library(site+"/onnxruntime/capi/onnxruntime_pybind11_state.so", "state.so") +
		"-- " + site + "/onnxruntime_gpu-1.20.1.dist-info/METADATA --\nName: onnxruntime-gpu\nVersion: 1.20.1\nRequires-Dist: nvidia-cudnn-cu12 (>=9.1,<10) ; extra == 'cudnn'\nRequires-Dist: numpy (>=1.2)\n"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"the name of another part":  {part, []string{"==9.1.0.*"}},
		"the wheel of another part": {wheel, []string{"==9.19.0.56"}},
		"what the package requires": {asks, []string{">=9.1,<10"}},
	} {
		var got [][]string
		plan(t, tt.text, Options{Find: func(_ context.Context, w provide.Want) (*provide.Found, error) {
			got = append(got, w.Versions)
			return nil, &provide.NotFoundError{Want: w}
		}})
		if len(got) == 0 || !slices.Equal(got[0], tt.want) {
			t.Errorf("%s: asked for %v, want %v", name, got, tt.want)
		}
	}
}

// A program in a directory whose name looks like a place with a result gets the same plan
// as in any other.
func TestBrackets(t *testing.T) {
	steps := func(dir string) string {
		at := "1" + dir + "/infer"
		text := "entrypoint [\"" + dir + "/infer\"]\n" + root + program(at, "libcudart.so.12") + "runpath $ORIGIN\n"
		return strings.ReplaceAll(strings.Join(plan(t, text, Options{}).Texts(), "\n"), dir, "DIR")
	}
	const want = "add libcudart.so.12 to DIR"
	for _, dir := range []string{"/opt/tool", "/opt/tool (1)"} {
		if got := steps(dir); got != want {
			t.Errorf("in %s: %q, want %q", dir, got, want)
		}
	}
}

// An added library resolves a finding for all affected files, and the path alone for none
// (94 of 1,028 ELF files of Debian's python3-torch-cuda, whose package does not depend on
// cuDNN).
func TestCounts(t *testing.T) {
	text := "entrypoint [\"/app/infer\"]\n" + root + library("1/usr/lib/x86_64-linux-gnu/libtorch_cuda.so.2.6", "libtorch_cuda.so.2.6", "libcudnn.so.9")
	for i := range 92 {
		name := fmt.Sprintf("libop%d.so", i)
		text += library("1/usr/lib/x86_64-linux-gnu/"+name, name, "libtorch_cuda.so.2.6")
	}
	p := plan(t, text+program("1/app/infer", "libtorch_cuda.so.2.6"), Options{})
	wantSteps(t, p, "add libcudnn.so.9 and 2 libraries that come with it to /opt/imgcheck/lib", "append /opt/imgcheck/lib to LD_LIBRARY_PATH")
	c := p.Outcomes[0]
	if c.Of != 94 || c.Resolves != 94 {
		t.Errorf("resolves %d of %d", c.Resolves, c.Of)
	}
	if diff := cmp.Diff([]Attempt{{Text: "a search path alone"}}, c.Tried); diff != "" {
		t.Error(diff)
	}
}
