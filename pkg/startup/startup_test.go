package startup

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/internal/imagetest"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/rules"
)

var update = flag.Bool("update", false, "write the want sections anew")

// base are the programs that every image of these tests has. Their runs are not printed.
var base = []string{
	"/bin/bash", "/bin/dash", "/usr/bin/dirname", "/usr/bin/basename", "/usr/bin/id", "/usr/bin/mkdir", "/usr/bin/cat", "/usr/bin/grep",
	"/usr/bin/sed", "/usr/bin/sleep", "/usr/bin/readlink", "/usr/bin/realpath", "/usr/bin/chown", "/usr/bin/chmod", "/usr/bin/ls",
	"/usr/bin/find", "/usr/bin/which", "/usr/bin/uname", "/usr/bin/rm", "/usr/bin/cp", "/usr/bin/ln", "/usr/bin/tr", "/usr/bin/hostname",
	"/usr/bin/nproc", "/usr/bin/date", "/usr/bin/head", "/usr/bin/tail", "/usr/bin/touch", "/usr/bin/awk", "/usr/bin/cut", "/usr/bin/tee",
	"/usr/bin/whoami", "/usr/bin/curl", "/usr/bin/wc", "/usr/bin/sort", "/usr/bin/git", "/usr/bin/xargs", "/usr/bin/stat", "/usr/bin/env",
}

const basePasswd = "root:x:0:0:root:/root:/bin/bash\napp:x:1000:1000::/home/app:/bin/bash\n"

// testImage makes a file system of a map from absolute paths to contents: "elf", "-> LINK",
// "dir", or text.
func testImage(t testing.TB, files []txtar.File) *layers.FS {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(name, body string) {
		h := &tar.Header{Name: strings.TrimPrefix(name, "/"), Mode: 0o644, Typeflag: tar.TypeReg}
		word := strings.TrimSpace(body)
		switch {
		case word == "elf":
			body = string((&imagetest.ELF{}).Bytes())
			h.Mode = 0o755
		case strings.HasPrefix(word, "elf needs="):
			body = string((&imagetest.ELF{Needed: []string{strings.TrimPrefix(word, "elf needs=")}}).Bytes())
			h.Mode = 0o755
		case word == "dir":
			h.Typeflag, h.Mode, body = tar.TypeDir, 0o755, ""
		case strings.HasPrefix(word, "-> "):
			h.Typeflag, h.Linkname, body = tar.TypeSymlink, word[3:], ""
		case strings.HasPrefix(body, "#!"):
			h.Mode = 0o755
		}
		h.Size = int64(len(body))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range base {
		add(name, "elf")
	}
	add("/bin/sh", "-> dash")
	add("/etc/passwd", basePasswd)
	for _, f := range files {
		add(f.Name, string(f.Data))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := layers.ReadLayer(&buf, Wants)
	if err != nil {
		t.Fatal(err)
	}
	return layers.Merge(l)
}

func testStarters(t testing.TB) *Starters {
	t.Helper()
	s, err := LoadStarters(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testConfig reads the lines of a text: entrypoint, cmd, env, workdir, user. Others are
// prose.
func testConfig(t testing.TB, text string) v1.Config {
	t.Helper()
	var c v1.Config
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "entrypoint":
			c.Entrypoint, err = testArgv(rest)
		case "cmd":
			c.Cmd, err = testArgv(rest)
		case "env":
			c.Env = append(c.Env, rest)
		case "workdir":
			c.WorkingDir = rest
		case "user":
			c.User = rest
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return c
}

// testArgv reads exec form or shell form.
func testArgv(s string) (argv []string, err error) {
	if !strings.HasPrefix(s, "[") {
		return []string{"/bin/sh", "-c", s}, nil
	}
	err = json.Unmarshal([]byte(s), &argv)
	return argv, err
}

// describe writes a result as text, without the programs of base and without shells.
func describe(r *Result) string {
	var b strings.Builder
	if p := r.Problem; p != nil {
		fmt.Fprintf(&b, "problem %s %q %s %s\n", p.Fault, p.Name, p.Path, p.Link)
	}
	skip := map[string]bool{"/bin/sh": true}
	for _, name := range base {
		skip[name] = true
	}
	for _, p := range r.Programs {
		if skip[p.Path] {
			continue
		}
		describeProgram(&b, p)
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&b, "unknown %s:%d: %s\n", u.File, u.Line, u.Why)
	}
	return b.String()
}

func describeProgram(b *strings.Builder, p Program) {
	fmt.Fprintf(b, "%q", p.Path)
	for _, a := range p.Args {
		fmt.Fprintf(b, " %q", Show(a))
	}
	for _, f := range []struct {
		name string
		is   bool
	}{{"main", p.Main}, {"service", p.Service}, {"caught", p.Caught}} {
		if f.is {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteString("\n")
	if p.Dir != "/" {
		fmt.Fprintf(b, "  in %s\n", Show(p.Dir))
	}
	if p.Maybe != "" {
		fmt.Fprintf(b, "  maybe %s\n", p.Maybe)
	}
	for _, name := range []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "CONDA_PREFIX", "VIRTUAL_ENV"} {
		if v, ok := p.Env[name]; ok {
			fmt.Fprintf(b, "  %s=%s\n", name, Show(v))
		}
	}
	if py := p.Python; py != nil {
		describePython(b, py)
	}
	var chain []string
	for _, l := range p.Chain {
		chain = append(chain, l.String())
	}
	fmt.Fprintf(b, "  %s\n", strings.Join(chain, " → "))
}

func describePython(b *strings.Builder, py *Python) {
	switch {
	case py.File != "":
		fmt.Fprintf(b, "  python file %s\n", py.File)
	case py.Module != "":
		fmt.Fprintf(b, "  python module %s\n", py.Module)
	case py.Code != "":
		fmt.Fprintf(b, "  python code %q\n", py.Code)
	case py.Stdin:
		b.WriteString("  python input\n")
	}
	for _, i := range py.Imports {
		fmt.Fprintf(b, "  imports %s%s\n", i.Module, i.File)
	}
	for _, p := range py.Path {
		fmt.Fprintf(b, "  path %s\n", p)
	}
}

// TestFollow compares the programs of images, most of which are modelled on real ones,
// with what a person expects.
func TestFollow(t *testing.T) {
	names, err := filepath.Glob("testdata/start/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no cases", err)
	}
	starters := testStarters(t)
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			a := txtar.Parse(b)
			var files []txtar.File
			want := -1
			for i, f := range a.Files {
				if f.Name == "want" {
					want = i
				} else {
					files = append(files, f)
				}
			}
			if want < 0 {
				a.Files = append(a.Files, txtar.File{Name: "want"})
				want = len(a.Files) - 1
			}
			got := describe(Follow(testImage(t, files), testConfig(t, string(a.Comment)), starters))
			if *update {
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.Files[want].Data), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestActivateNotKept: an activate script that is too large to be kept, beside a
// pyvenv.cfg, does what all such scripts do.
func TestActivateNotKept(t *testing.T) {
	fsys := testImage(t, []txtar.File{
		{Name: "/opt/venv/pyvenv.cfg", Data: []byte("home = /usr/bin\n")},
		{Name: "/opt/venv/bin/activate", Data: []byte(strings.Repeat("# more\n", maxScript/7+1))},
		{Name: "/opt/venv/bin/python", Data: []byte("elf")},
	})
	r := Follow(fsys, v1.Config{Cmd: []string{"/bin/sh", "-c", ". /opt/venv/bin/activate && exec python x.py"}}, testStarters(t))
	if n := len(r.Programs); n == 0 || r.Programs[n-1].Path != "/opt/venv/bin/python" || r.Programs[n-1].Env["VIRTUAL_ENV"] != "/opt/venv" {
		t.Errorf("it starts %+v", r)
	}
}
