package dockerlint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/pkg/dockerfile"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

// Every clause that the code names is in the rules, and every clause of the rules is named.
func TestClauses(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Load(set)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			source.Write(b)
		}
	}
	named := regexp.MustCompile(`\.(?:say|finding)\("([a-z-]+)", "([a-z-]+)"`).FindAllStringSubmatch(source.String(), -1)
	if len(named) < 10 {
		t.Fatalf("the code names %d clauses", len(named))
	}
	for _, m := range named {
		if r := k.rules.Rule(m[1]); r == nil || r.Clauses[m[2]] == nil {
			t.Errorf("the code names %s/%s, which is in no rule", m[1], m[2])
		}
	}
	for _, r := range k.Own() {
		for id := range r.Clauses {
			if r.ID != BuildError && !strings.Contains(source.String(), `"`+id+`"`) {
				t.Errorf("%s/%s is never said", r.ID, id)
			}
		}
	}
}

// Every check of BuildKit's has a row, and every row has what a report shows.
func TestChecks(t *testing.T) {
	k, err := Load(new(packs.Packs))
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Checks) < 22 {
		t.Errorf("there are %d checks", len(k.Checks))
	}
	for _, c := range k.Checks {
		if c.Title == "" || len(c.Sources) == 0 || c.Severity == packs.Note && c.Because == "" {
			t.Errorf("%s: needs a title, sources, and for a note a reason", c.Name)
		}
	}
	var indexes []string
	for _, l := range slices.Concat(k.Indexes, k.Absent, k.Plain) {
		if len(l.Sources) == 0 || len(l.Names)+len(l.Packages) == 0 {
			t.Errorf("%v %v: needs names and sources", l.Names, l.Packages)
		}
		indexes = append(indexes, l.Names...)
	}
	for _, s := range k.SystemWithout {
		if len(s.Sources) == 0 || len(s.Libraries) == 0 || len(s.Packages) == 0 {
			t.Errorf("%v: needs libraries, packages and sources", s.Packages)
		}
	}
	if !k.without("curl", []string{"libGL.so.1"}) || k.without("ffmpeg", []string{"libGL.so.1"}) || k.without("curl", []string{"libGL.so.1", "libcudnn.so.9"}) || k.without("curl", nil) {
		t.Error("without: curl brings no libGL.so.1; of ffmpeg and of other libraries it is not known")
	}
	for _, r := range k.Releases {
		for _, b := range r.Builds {
			if !slices.Contains(indexes, b) || listed(k.Absent, b) || len(r.Sources) == 0 {
				t.Errorf("torch %s has %s, which is no index, or has no source", r.Release, b)
			}
		}
	}
	for _, c := range k.Architectures {
		if !slices.Contains(indexes, c.Build) || len(c.Code) == 0 || len(c.Sources) == 0 {
			t.Errorf("%s of %s: needs an index, code and sources", c.Build, c.Releases)
		}
	}
	for _, n := range k.Needs {
		if n.Package == "" || len(n.Sources) == 0 {
			t.Errorf("%s %s: needs a source", n.Package, n.Versions)
		}
	}
}

// A deep or long RUN is not read, and that is known.
func TestShellBounds(t *testing.T) {
	for name, run := range map[string]string{
		"parentheses": strings.Repeat("(", 3000) + "x" + strings.Repeat(")", 3000),
		"ifs":         strings.Repeat("if true; then ", 3000) + "x",
		"shells":      strings.Repeat("bash -c 'x'; ", 6000),
	} {
		r := &shellRun{vars: map[string]word{}, line: 1, whole: true}
		r.script(run)
		if r.whole || len(r.list) > maxCommands {
			t.Errorf("%s: %d commands were read as a whole", name, len(r.list))
		}
	}
}

// Comments that ignore rules, by thousands, are not all read, and that is known.
func TestManyComments(t *testing.T) {
	k, err := Load(new(packs.Packs))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("# imgcheck ignore=a b\n", maxComments+5) + "FROM a\n"
	f := Lint(Input{Path: "Dockerfile", Text: []byte(text)}, k)
	if len(f.Findings) != maxComments || !slices.ContainsFunc(f.Unknown, func(u Unknown) bool { return u.Line == maxComments+1 }) {
		t.Errorf("%d findings, %v", len(f.Findings), f.Unknown)
	}
}

// Stages that many targets are built on, or copy from, do not multiply the work.
func TestWork(t *testing.T) {
	k, err := Load(new(packs.Packs))
	if err != nil {
		t.Fatal(err)
	}
	base := "FROM a AS base\n" + strings.Repeat("RUN true\n", 4000)
	for name, text := range map[string]string{
		"targets": base + strings.Repeat("FROM base\nRUN true\n", 500),
		"copies":  base + "FROM b\n" + strings.Repeat("COPY --from=base /x /x\n", 5000),
	} {
		f, err := dockerfile.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(name, err)
		}
		l := &linter{Knowledge: k, file: new(File), lines: lines([]byte(text)), parsed: f, work: new(int), room: new(maxContext), made: map[int]*walk{}}
		l.targets()
		if name == "copies" && *l.work != 9000 || len(l.file.Unknown) == 0 {
			t.Errorf("%s: %d instructions were followed", name, *l.work)
		}
	}
}

// Files of the context that are read many times, by instructions and by one another, end at
// a limit, and what is not read is known.
func TestContextIsBounded(t *testing.T) {
	k, err := Load(new(packs.Packs))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"many.txt": strings.Repeat("-r a.txt\n", 1900), "a.txt": strings.Repeat("-r b.txt\n", 1900), "b.txt": strings.Repeat("-r empty.txt\n", 1900),
		"empty.txt": "", "constraints.txt": strings.Repeat("-c large.txt\n", 20_000), "large.txt": "#" + strings.Repeat("x", 1<<20),
		"uv.lock": "=" + strings.Repeat("x", 1<<20),
	}
	for name, c := range map[string]struct{ run, unknown string }{
		"files of files": {"RUN pip install -r many.txt\n", "what empty.txt requires: "},
		"constraints":    {"RUN pip install -r constraints.txt\n", "the constraints of large.txt: "},
		"instructions":   {strings.Repeat("RUN uv sync\n", 1000), "what uv.lock installs: "},
	} {
		read := 0
		in := Input{Path: "Dockerfile", Text: []byte("FROM a\nWORKDIR /a\nCOPY . .\n" + c.run), Context: func(name string) ([]byte, bool) {
			text, ok := files[name]
			read += max(len(text), minContext)
			return []byte(text), ok
		}}
		f := Lint(in, k)
		want := c.unknown + "the file's instructions read more than 64 MiB of the context"
		if read > maxContext+1<<20 || !slices.ContainsFunc(f.Unknown, func(u Unknown) bool { return u.Why == want }) {
			t.Errorf("%s: %d bytes were read, and of %d unknown places none is: %s", name, read, len(f.Unknown), want)
		}
	}
}

// TestFilesOfKeys has a Dockerfile of others name files of keys and passwords as requirements,
// to have them in the report of a pull request. The report shows what has the form of a requirement.
func TestFilesOfKeys(t *testing.T) {
	k, err := Load(new(packs.Packs))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"id_rsa":     "-----BEGIN PRIVATE KEY-----\nMIISECRETkAg/EAAoIBAQ\nCXSECRET+qqEn/nk68==\nSECRET/x\n",
		"creds.json": "{\n  \"private_key\": \"-----BEGIN\\nSECRET\\n\",\n  \"client_email\": \"SECRET@x.iam\"\n}\n",
		".npmrc":     "//registry.example/:_authToken=SECRET\n",
		".env":       "TOKEN=SECRET\nexport X=SECRET\nHOOK=https://hooks.example/SECRET\nDB=user;SECRET\n",
		".pypirc":    "[pypi]\npassword = SECRET\npassword: SECRET\n",
		"good.txt":   "torch==2.6.0\nnumpy[x]>=2,<3; python_version > '3'\ngit+https://host.example/a/b\nc @ https://host.example/c\n./own\n",
	}
	for name, want := range map[string][]string{
		"id_rsa": {"the requirement at id_rsa:2", "the requirement at id_rsa:3", "the requirement at id_rsa:4"}, "creds.json": {"the requirement at creds.json:2"},
		".npmrc": {"the requirement at .npmrc:1"}, ".env": {"the requirement at .env:1", "the requirement at .env:3", "the requirement at .env:4"}, ".pypirc": {"the requirement at .pypirc:2"},
		"good.txt": {"the requirements of git+https://host.example/a/b", "the requirements of c @ https://host.example/c", "the requirements of ./own"},
	} {
		for _, option := range []string{"-r", "-c"} {
			f := Lint(Input{Path: "Dockerfile", Text: []byte("FROM a\nWORKDIR /a\nCOPY . .\nRUN pip install x " + option + " " + name + "\n"), Context: func(name string) ([]byte, bool) {
				text, ok := files[name]
				return []byte(text), ok
			}}, k)
			var got []string
			for _, u := range f.Unknown {
				got = append(got, u.Why)
			}
			if all := strings.Join(got, "\n"); strings.Contains(all, "SECRET") {
				t.Errorf("%s %s is shown:\n%s", option, name, all)
			}
			for _, w := range want {
				if option == "-r" && !slices.Contains(got, w) {
					t.Errorf("%s: %q does not say %q", name, got, w)
				}
			}
		}
	}
}
