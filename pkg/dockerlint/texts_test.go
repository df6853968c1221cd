package dockerlint_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/buildchecks"
	"github.com/imgcheck/imgcheck/pkg/dockerlint"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
	"github.com/imgcheck/imgcheck/rules"
	"github.com/imgcheck/imgcheck/testdata/images"
)

var update = flag.Bool("update", false, "write the want sections anew")

func knowledge(t testing.TB) *dockerlint.Knowledge {
	t.Helper()
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	k, err := dockerlint.Load(set)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestTexts lints the Dockerfiles of testdata/dockerfiles. A line `base REF TEXT` of the head
// says which text image stands for an image; others are not known. `finding SEVERITY RULE
// LIBRARY MESSAGE` is a finding of the base above; `path` names the file; `adds` what is laid over the image; `target` is a GPU and driver of the policy; see also indexOf and unmet. Files below context/ are
// the build context. `want` has the findings and what is not predicted. A file named
// healthy-… is one that works: it gives no error and no warning, and -update cannot change
// that. Those named reported-… and healthy-used-… are written anew after a thread or a
// repository, which the first line names. Lines that have nothing to do with the fault are left
// out, and some that the source does not give, such as a tag or a stage, are filled in. Their
// bases are near text images, if any.
func TestTexts(t *testing.T) {
	k := knowledge(t)
	names, err := filepath.Glob("../../testdata/dockerfiles/*.txtar")
	if err != nil || len(names) < 25 {
		t.Fatal(len(names), err)
	}
	healthy := 0
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		a := txtar.Parse(data)
		file := lintText(t, k, a)
		got, want := written(file), ""
		for _, problem := range unmet(string(a.Comment), file) {
			t.Errorf("%s: %s", name, problem)
		}
		if strings.HasPrefix(filepath.Base(name), "healthy-") {
			healthy++
			for _, f := range file.Findings {
				if f.Severity != packs.Note {
					t.Errorf("%s: a false alarm, line %d: %s [%s]", name, f.Line, f.Message, f.Rule)
				}
			}
		}
		for i := range a.Files {
			if a.Files[i].Name == "want" {
				want = string(a.Files[i].Data)
				a.Files[i].Data = []byte(got)
			}
		}
		if *update {
			if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if healthy < 50 {
		t.Errorf("there are %d healthy Dockerfiles", healthy)
	}
}

func lintText(t *testing.T, k *dockerlint.Knowledge, a *txtar.Archive) *dockerlint.File {
	t.Helper()
	in := dockerlint.Input{Path: "Dockerfile"}
	bases := map[string]*dockerlint.Base{}
	last := ""
	for line := range strings.Lines(string(a.Comment)) {
		switch w := strings.Fields(line); {
		case len(w) > 1 && w[0] == "target":
			m, err := targets.Known().ParseMachine(w[1])
			if err != nil {
				t.Fatal(err)
			}
			in.Machines, in.Policy = append(in.Machines, m), ".imgcheck.yaml"
		case len(w) == 3 && w[0] == "base":
			last = w[1]
			bases[last] = baseOf(t, w[2])
		case len(w) > 4 && w[0] == "finding" && bases[last] != nil:
			bases[last].Findings = append(bases[last].Findings, dockerlint.BaseFinding{Severity: packs.Severity(w[1]), Rule: w[2], Library: w[3], GPU: true, Message: strings.Join(w[4:], " ")})
		}
	}
	if _, name, ok := strings.Cut(string(a.Comment), "\npath "); ok {
		in.Path, _, _ = strings.Cut(name, "\n")
	}
	if _, adds, ok := strings.Cut(string(a.Comment), "\nadds "); ok {
		in.Adds, _, _ = strings.Cut(adds, "\n")
	}
	files := map[string][]byte{}
	for _, f := range a.Files {
		if f.Name == "Dockerfile" {
			in.Text = f.Data
		}
		if name, ok := strings.CutPrefix(f.Name, "context/"); ok {
			files[name] = f.Data
		}
	}
	in.Wheel, in.Index = indexOf(string(a.Comment))
	if strings.Contains(string(a.Comment), "\nnewest ") {
		in.Newest = newestOf(string(a.Comment))
	}
	in.Context = func(name string) ([]byte, bool) { b, ok := files[name]; return b, ok }
	in.Base = func(ref, _ string) (*dockerlint.Base, string) {
		if b := bases[ref]; b != nil {
			return b, ""
		}
		return nil, "out of reach"
	}
	warnings, err := buildchecks.Run(context.Background(), in.Text, ocispec.Platform{OS: "linux", Architecture: "amd64"}, func(ref string) *buildchecks.Base {
		if b := bases[strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")]; b != nil {
			return &buildchecks.Base{Env: b.Env, Dir: b.Dir}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		in.Checks = append(in.Checks, dockerlint.Warning(w))
	}
	return dockerlint.Lint(in, k)
}

// unmet compares a lint with the lines `wish LINE SEVERITY RULE` of a Dockerfile from a report:
// the thread says that the image is broken there, or with `wish nothing` that it works. They
// are written before the first lint, and -update does not change them. `miss LINE RULE WHY`
// says why a lint cannot know it. Without a wish nothing is compared.
func unmet(comment string, file *dockerlint.File) (problems []string) {
	wishes, misses, wished := map[string]bool{}, map[string]bool{}, false
	for line := range strings.Lines(comment) {
		switch w := strings.Fields(line); {
		case len(w) == 2 && w[0] == "wish" && w[1] == "nothing":
			wished = true
		case len(w) == 4 && w[0] == "wish":
			wishes[w[1]+" "+w[2]+" "+w[3]], wished = true, true
		case len(w) > 3 && w[0] == "miss":
			misses[w[1]+" "+w[2]] = true
		}
	}
	if !wished {
		return nil
	}
	found := map[string]bool{}
	for _, f := range file.Findings {
		key := fmt.Sprintf("%d %s %s", f.Line, f.Severity, f.Rule)
		found[key] = true
		if f.Severity != packs.Note && !wishes[key] {
			problems = append(problems, "a false alarm: "+key)
		}
	}
	for key := range wishes {
		w := strings.Fields(key)
		switch missed := misses[w[0]+" "+w[2]]; {
		case !found[key] && !missed:
			problems = append(problems, "not found: "+key)
		case found[key] && missed:
			problems = append(problems, "no miss: "+key)
		}
	}
	slices.Sort(problems)
	return problems
}

// indexOf returns a package index of the lines `wheel NAME VERSION small|large REQUIREMENT,…`
// and `index URL`: all others do not exist; `at URL wheel …` is one of a named index. Without such lines none is asked.
func indexOf(comment string) (wheel func(name, spec string, from dockerlint.Indexes) (*dockerlint.Wheel, string), index func(string) (exists, known bool)) {
	wheels, urls := map[string]*dockerlint.Wheel{}, map[string]bool{}
	for line := range strings.Lines(comment) {
		w, at := strings.Fields(line), ""
		if len(w) > 2 && w[0] == "at" {
			at, w = w[1], w[2:]
		}
		switch {
		case len(w) > 3 && w[0] == "wheel":
			x := &dockerlint.Wheel{Version: w[2], Small: w[3] == "small"}
			if len(w) > 4 {
				x.Requires = strings.Split(strings.Join(w[4:], " "), ", ")
			}
			wheels[at+" "+w[1]] = x
		case len(w) == 2 && w[0] == "index":
			urls[w[1]] = true
		}
	}
	if len(wheels)+len(urls) == 0 {
		return nil, nil
	}
	return func(name, _ string, from dockerlint.Indexes) (*dockerlint.Wheel, string) {
		for _, url := range from.URLs {
			if x := wheels[url+" "+name]; x != nil {
				return x, ""
			}
		}
		return nil, "the index has no " + name
	}, func(url string) (bool, bool) { return urls[url], true }
}

// newestOf returns an index of the lines `newest NAME PYTHON RELEASE`: a release that has wheels
// for a Python, the newest last.
func newestOf(comment string) func(name, spec string, on dockerlint.Target, from dockerlint.Indexes) (string, string) {
	return func(name, spec string, on dockerlint.Target, from dockerlint.Indexes) (release, why string) {
		for line := range strings.Lines(comment) {
			w := strings.Fields(line)
			if len(w) != 4 || w[0] != "newest" || w[1] != name || w[2] != on.Python {
				continue
			}
			if ok, err := version.Satisfies(w[3], spec); spec == "" || err == nil && ok {
				release = w[3]
			}
		}
		if on.Python == "" {
			return "", "which Python the packages are for"
		}
		if release == "" {
			return "", "the index has no " + name + " for Python " + on.Python + " and glibc " + on.Glibc
		}
		return release, ""
	}
}

// baseOf reads a text image.
func baseOf(t *testing.T, name string) *dockerlint.Base {
	t.Helper()
	text, err := images.Text(name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	im, err := imagetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var read []*layers.Layer
	for i := range im.Layers {
		var b bytes.Buffer
		if err := im.LayerTar(i, &b); err != nil {
			t.Fatal(err)
		}
		l, err := layers.ReadLayer(&b, func(string, int64) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, l)
	}
	return dockerlint.NewBase(layers.Merge(read...), im.Config.Env, im.Config.WorkingDir)
}

func written(f *dockerlint.File) string {
	var b strings.Builder
	if f.Error != "" {
		fmt.Fprintf(&b, "error: %s\n", f.Error)
	}
	for _, x := range f.Findings {
		fmt.Fprintf(&b, "%d:%d: %s: %s [%s]\n", x.Line, x.Column, x.Severity, x.Message, x.Rule)
		if x.Because != "" && x.Severity == packs.Note && strings.ToLower(x.Rule) == x.Rule {
			fmt.Fprintf(&b, "  because: %s\n", x.Because)
		}
		for _, fix := range x.Fixes {
			fmt.Fprintf(&b, "  fix: %s\n", fix)
		}
	}
	for _, u := range f.Unknown {
		fmt.Fprintf(&b, "%d: not predicted: %s\n", u.Line, u.Why)
	}
	return b.String()
}

// FuzzLint states: a lint ends, places are in the file, texts have no placeholders left, and
// the same text gives the same result.
func FuzzLint(f *testing.F) {
	names, _ := filepath.Glob("../../testdata/dockerfiles/*.txtar")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(data).Files {
			if file.Name == "Dockerfile" {
				f.Add(file.Data)
			}
		}
	}
	k := knowledge(f)
	base := &dockerlint.Base{Env: []string{"LD_LIBRARY_PATH=/usr/local/nvidia/lib", "PATH=/bin"}, CUDA: []string{"12"}, Libraries: map[string]bool{}}
	base.Findings = []dockerlint.BaseFinding{{Rule: "missing-library", Severity: packs.Error, Message: "a: not found", Library: "a", Paths: []string{"usr/lib/b"}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		in := dockerlint.Input{Path: "Dockerfile", Text: text, Base: func(string, string) (*dockerlint.Base, string) { return base, "" }, Context: func(string) ([]byte, bool) { return text, true }}
		in.Wheel = func(name, _ string, _ dockerlint.Indexes) (*dockerlint.Wheel, string) {
			return &dockerlint.Wheel{Version: "1", Small: true, Requires: []string{name + "-a", "b[x]>1", string(text)}}, ""
		}
		in.Machines = []targets.Machine{{GPU: "V100", Arch: 70}, {GPU: "L4", Arch: 89, Driver: "550"}}
		got := dockerlint.Lint(in, k)
		lines := 1 + bytes.Count(text, []byte("\n"))
		for _, x := range got.Findings {
			if x.Line < 1 || x.Line > lines || x.EndLine < x.Line || x.Column < 1 || x.Message == "" || x.Rule == "" {
				t.Errorf("a place outside of the file: %+v", x)
			}
		}
		if diff := cmp.Diff(got, dockerlint.Lint(in, k)); diff != "" {
			t.Errorf("the same text gives two results:\n%s", diff)
		}
	})
}
