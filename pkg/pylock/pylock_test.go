package pylock_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/pylock"
)

var update = flag.Bool("update", false, "write the want sections anew")

var parsers = map[string]func([]byte, pylock.Options) (*pylock.List, error){
	"uv": pylock.UV, "poetry": pylock.Poetry, "pixi": pylock.Pixi, "project": pylock.Project, "pylock": pylock.Pylock, "pdm": pylock.PDM, "pipfile": pylock.Pipfile,
	"conda": func(b []byte, _ pylock.Options) (*pylock.List, error) { return pylock.Conda(b) },
}

// TestTexts reads the files of testdata. Behind `want` stand options, and in it what is
// installed.
func TestTexts(t *testing.T) {
	for kind, parse := range parsers {
		name := filepath.Join("testdata", kind+".txtar")
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Files[1:] {
			f := &a.Files[i+1]
			got := written(parse(a.Files[0].Data, options(f.Name)))
			if *update {
				f.Data = []byte(got)
			} else if diff := cmp.Diff(string(f.Data), got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", kind, f.Name, diff)
			}
		}
		if *update {
			if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func options(text string) pylock.Options {
	o := pylock.Options{Markers: pylock.Linux()}
	for _, word := range strings.Fields(text)[1:] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "no-dev":
			o.NoDev = true
		case "extra":
			o.Extras = append(o.Extras, value)
		case "group":
			o.Groups = append(o.Groups, value)
		case "only":
			o.Only = append(o.Only, value)
		case "environment":
			o.Environment = value
		case "py":
			o.Markers["python_version"], o.Markers["python_full_version"] = value, value+".1"
		}
	}
	return o
}

func written(list *pylock.List, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, p := range list.Packages {
		words := []string{p.Name}
		for _, w := range []struct {
			text string
			is   bool
		}{{p.Version, p.Version != ""}, {"conda", p.Conda}, {"from " + p.Channel, p.Channel != ""}, {"small", p.Small}, {"maybe", p.Maybe}, {fmt.Sprint(p.Line), p.Line > 0}} {
			if w.is {
				words = append(words, w.text)
			}
		}
		fmt.Fprintln(&b, strings.Join(words, " "))
	}
	if len(list.Channels) > 0 {
		fmt.Fprintln(&b, "channels: "+strings.Join(list.Channels, " "))
	}
	for _, u := range list.Unknown {
		fmt.Fprintln(&b, "unknown: "+u)
	}
	for _, r := range list.Requirements {
		fmt.Fprintln(&b, "requires: "+r)
	}
	return b.String()
}

// TestBounds reads texts that would cost much.
func TestBounds(t *testing.T) {
	wide := "[dependency-groups]\n"
	for i := range 8 {
		wide += fmt.Sprintf("g%d = [%s]\n", i, strings.Repeat(fmt.Sprintf(`{include-group = "g%d"},`, (i+1)%8), 500))
	}
	for name, c := range map[string]struct{ kind, text string }{
		"brackets":    {"uv", "a = " + strings.Repeat("[", 1<<20)},
		"a long key":  {"uv", strings.Repeat("a.", 1<<20) + "a = 1"},
		"quoted":      {"poetry", strings.Repeat(`"a" . `, 1<<18) + "a = 1"},
		"yaml":        {"pixi", strings.Repeat("[", 1<<20)},
		"yaml keys":   {"conda", "dependencies: [a]\nx:\n" + strings.Repeat("  k", 1) + strings.Join(keys(3000), "")},
		"aliases":     {"conda", "a: &a [x,x]\nb: &b [*a,*a]\ndependencies: [*b,*b]\n"},
		"includes":    {"project", "[project]\nname = \"a\"\n" + wide},
		"values":      {"uv", "version = 1\na = [" + strings.Repeat("{},", 1<<19) + "]"},
		"yaml values": {"conda", "dependencies:\n" + strings.Repeat("- - - - a\n", 1<<18)},
		"same names":  {"uv", "version = 1\n[[package]]\nname = \"a\"\nsource = { virtual = \".\" }\ndependencies = [" + strings.Repeat(`{ name = "p" },`, 3000) + "]\n" + strings.Repeat("[[package]]\nname = \"p\"\n", 3000)},
		"size":        {"uv", strings.Repeat("#", pylock.MaxSize+1)},
	} {
		if _, err := parsers[c.kind]([]byte(c.text), pylock.Options{AllGroups: true}); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
}

func keys(n int) (list []string) {
	list = append(list, ": 1\n")
	for i := range n {
		list = append(list, fmt.Sprintf("  k%d: 1\n", i))
	}
	return list
}

// Keys are case-sensitive: uv, Poetry and pip take none of these for their own.
func TestKeysOfOtherCase(t *testing.T) {
	for kind, c := range map[string]struct{ text, want string }{
		"uv": {"version = 1\nVersion = 9\n[[package]]\nname = \"app\"\nsource = { virtual = \".\" }\ndependencies = [{ name = \"a\", Marker = \"sys_platform == 'win32'\" }]\n" +
			"[[package]]\nname = \"a\"\nVERSION = \"2\"\nversion = \"1\"\n[[Package]]\nname = \"b\"\n", "a 1"},
		"poetry": {"[[package]]\nname = \"a\"\nversion = \"1\"\nVersion = \"2\"\n[[paCkage]]\nname = \"b\"\nversion = \"1\"\n[metadata]\nlock-version = \"2.1\"\n", "a 1"},
		"pylock": {"lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nversion = \"1\"\nName = \"c\"\n[[Packages]]\nname = \"b\"\n", "a 1"},
	} {
		for range 20 { // the decoder's order is that of a map
			list, err := parsers[kind]([]byte(c.text), pylock.Options{AllGroups: true, Markers: pylock.Linux()})
			if err != nil || strings.Join(names(list), ", ") != c.want {
				t.Fatalf("%s: %+v, %v", kind, list, err)
			}
		}
	}
}

func TestCondaSpec(t *testing.T) {
	for text, want := range map[string]string{
		"pytorch": "pytorch ", "cudnn=8.9": "cudnn 8.9", "cudnn==8.9.7.29=h092f7fd_3": "cudnn 8.9.7.29", "numpy>=1.2": "numpy ",
		`"conda-forge::cuda-toolkit=12.4.*"`: "cuda-toolkit 12.4", "pytorch-cuda=12.1|12.4": "pytorch-cuda ", "Pillow = 10": "pillow 10",
	} {
		if p, ok := pylock.CondaSpec(text); !ok || p.Name+" "+p.Version != want {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

func names(list *pylock.List) (out []string) {
	for _, p := range list.Packages {
		out = append(out, p.Name+" "+p.Version)
	}
	return append(out, list.Requirements...)
}

// fuzz states for one parser: it ends without a panic, gives the same twice, names no package
// without a name, and installs no more with fewer groups than with all.
func fuzz(f *testing.F, kind string) {
	a, err := txtar.ParseFile(filepath.Join("testdata", kind+".txtar"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Files[0].Data)
	parse := parsers[kind]
	f.Fuzz(func(t *testing.T, text []byte) {
		all := pylock.Options{AllExtras: true, AllGroups: true, Markers: pylock.Linux()}
		one, err := parse(text, all)
		two, err2 := parse(bytes.Clone(text), all)
		if (err == nil) != (err2 == nil) || cmp.Diff(one, two) != "" {
			t.Fatalf("the same text gives two results: %v %v", err, err2)
		}
		less, err2 := parse(text, pylock.Options{NoDev: true, Markers: pylock.Linux()})
		if err != nil || err2 != nil {
			return
		}
		more := names(one)
		for _, n := range names(less) {
			if !slices.Contains(more, n) {
				t.Errorf("without groups and extras it installs %q too", n)
			}
		}
		for _, p := range one.Packages {
			if p.Name == "" || !p.Conda && p.Name != inventory.Normalize(p.Name) && kind != "pixi" {
				t.Errorf("a package named %q", p.Name)
			}
		}
	})
}

func FuzzUV(f *testing.F)      { fuzz(f, "uv") }
func FuzzPoetry(f *testing.F)  { fuzz(f, "poetry") }
func FuzzPixi(f *testing.F)    { fuzz(f, "pixi") }
func FuzzConda(f *testing.F)   { fuzz(f, "conda") }
func FuzzPylock(f *testing.F)  { fuzz(f, "pylock") }
func FuzzPDM(f *testing.F)     { fuzz(f, "pdm") }
func FuzzPipfile(f *testing.F) { fuzz(f, "pipfile") }
func FuzzProject(f *testing.F) { fuzz(f, "project") }
