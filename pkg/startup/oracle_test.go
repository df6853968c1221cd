package startup

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/tools/txtar"
)

// stub is a program of the oracle's world: it writes down its name, directory, arguments
// and some variables.
const stub = `#!/bin/sh
{
	printf '%s' "${0##*/}"
	printf '\001%s' "$(pwd)" "$@"
	printf '\002%s\001%s\001%s\n' "${A-unset}" "${B-unset}" "${C-unset}" | tr '\n' '\003'
	echo
} >>"$ORACLE_LOG"
`

// stubs are the programs that scripts of the oracle start, and tools those that run as
// they are.
var (
	stubs = []string{"server", "tool", "helper"}
	tools = []string{"dirname", "basename", "readlink", "cat", "mkdir", "id", "tr", "pwd", "sh"}
)

// world is a directory with stubs, tools and files, at the same paths on this machine and
// in an image.
type world struct {
	dir   string
	log   string // outside of dir, where no script sees it
	files []txtar.File
}

func newWorld(t *testing.T) *world {
	t.Helper()
	for _, shell := range []string{"bash", "dash"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Fatalf("%s is missing: install the package %s", shell, shell)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{dir: dir, log: filepath.Join(t.TempDir(), "log")}
	for _, name := range stubs {
		w.add(t, "bin/"+name, stub, 0o755, "elf")
	}
	for _, name := range tools {
		p, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%s is missing: install the package coreutils", name)
		}
		if err := os.Symlink(p, filepath.Join(dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
		w.files = append(w.files, txtar.File{Name: dir + "/bin/" + name, Data: []byte("elf")})
	}
	for _, name := range []string{"work/a.txt", "work/b.txt", "work/.hidden", "work/sub/c.py", "work/sub/deep/d.conf"} {
		w.add(t, name, "x=1\n", 0o644, "x=1\n")
	}
	w.add(t, "work/lib.sh", "A=lib\nexport B=\"$1\"\nlibf() { tool libf \"$@\"; }\n", 0o644, "")
	return w
}

// add makes a file with one content here and another in the image, "" for the same.
func (w *world) add(t *testing.T, name, content string, mode os.FileMode, image string) {
	t.Helper()
	p := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if image == "" {
		image = content
	}
	w.files = append(w.files, txtar.File{Name: p, Data: []byte(image)})
}

// ran returns the lines that the stubs write when a shell runs a script.
func (w *world) ran(t *testing.T, shell, script string, args []string) []string {
	t.Helper()
	if err := os.WriteFile(w.log, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(shell, append([]string{script}, args...)...)
	c.Dir = filepath.Join(w.dir, "work")
	c.Env = []string{"PATH=" + w.dir + "/bin", "HOME=" + w.dir, "C=from image", "ORACLE_LOG=" + w.log}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Run() // the status is the script's own
	b, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// predicted is a line as a stub would write it. A pattern has holes.
type predicted struct {
	line    string
	certain bool
	re      *regexp.Regexp
}

// predict follows the same script.
func (w *world) predict(t *testing.T, shell, script, text string, args []string) ([]predicted, *Result) {
	t.Helper()
	path, _ := exec.LookPath(shell)
	files := append(slices.Clone(w.files), txtar.File{Name: script, Data: []byte(text)}, txtar.File{Name: path, Data: []byte("elf")})
	c := v1.Config{
		Entrypoint: append([]string{path, script}, args...), WorkingDir: w.dir + "/work",
		Env: []string{"PATH=" + w.dir + "/bin", "HOME=" + w.dir, "C=from image"},
	}
	r := Follow(testImage(t, files), c, testStarters(t))
	var list []predicted
	for _, p := range r.Programs {
		if !slices.Contains(stubs, filepath.Base(p.Path)) {
			continue
		}
		line := filepath.Base(p.Path) + "\x01" + p.Dir
		for _, a := range p.Args[1:] {
			line += "\x01" + a
		}
		line += "\x02"
		for i, name := range []string{"A", "B", "C"} {
			v, ok := p.Env[name]
			if !ok {
				v = "unset"
			}
			if i > 0 {
				line += "\x01"
			}
			line += v
		}
		line = strings.ReplaceAll(line+"\n", "\n", "\x03")
		var parts []string
		for part := range strings.SplitSeq(line, Hole) {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		list = append(list, predicted{line, p.Maybe == "" && Known(line), regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$")})
	}
	return list, r
}

// compare states the law: every program that runs is predicted, and every program that is
// predicted for certain runs, in that order. An equal program is predicted once.
func compareRuns(real []string, list []predicted) error {
	for _, line := range real {
		if line != "" && !slices.ContainsFunc(list, func(p predicted) bool { return p.re.MatchString(line) }) {
			return fmt.Errorf("it runs, and is not predicted: %q", line)
		}
	}
	at := -1
	for _, p := range list {
		if !p.certain {
			continue
		}
		i := slices.Index(real[at+1:], p.line)
		if i < 0 {
			return fmt.Errorf("it is predicted, and does not run, or earlier: %q", p.line)
		}
		at += 1 + i
	}
	return nil
}

func (w *world) check(t *testing.T, shell, name, text string, args []string) (known int, err error) {
	t.Helper()
	script := filepath.Join(w.dir, "work", name)
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	real := w.ran(t, shell, script, args)
	os.Remove(script) // which a later script would see
	list, r := w.predict(t, shell, script, text, args)
	if err := compareRuns(real, list); err != nil {
		var lines []string
		for _, p := range list {
			lines = append(lines, p.line)
		}
		return 0, fmt.Errorf("%s: %w\nreal\n%q\npredicted\n%q\nunknown %v", shell, err, real, lines, r.Unknown)
	}
	for _, p := range list {
		if p.certain {
			known++
		}
	}
	return known, nil
}

// TestShells compares the scripts of testdata/shell with the real bash and dash. The first
// line of a script names the shells, the second its arguments.
func TestShells(t *testing.T) {
	names, err := filepath.Glob("testdata/shell/*.sh")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d scripts are found", len(names))
	}
	w := newWorld(t)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(b), "\n", 3)
		shells := strings.Fields(strings.TrimPrefix(lines[0], "# shells:"))
		args := strings.Fields(strings.TrimPrefix(lines[1], "# args:"))
		for _, shell := range shells {
			known, err := w.check(t, shell, filepath.Base(name), string(b), args)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if known == 0 {
				t.Errorf("%s: %s: no program is certain", name, shell)
			}
		}
	}
}

// TestRandomScripts compares random scripts with the real bash and dash.
func TestRandomScripts(t *testing.T) {
	const scripts = 120
	w := newWorld(t)
	for _, shell := range []string{"bash", "dash"} {
		known, total := 0, 0
		for seed := range uint64(scripts) {
			g := &scriptMaker{r: rand.New(rand.NewPCG(seed, 7)), bash: shell == "bash"}
			text := g.script()
			n, err := w.check(t, shell, "random.sh", text, []string{"one", "two words", "--three=3"})
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			total++
			if n > 0 {
				known++
			}
		}
		if known < total*9/10 {
			t.Errorf("%s: of %d scripts only %d have a program that is certain", shell, total, known)
		}
	}
}

// scriptMaker makes random scripts that start stubs.
type scriptMaker struct {
	r     *rand.Rand
	bash  bool
	depth int
	loops int
	// called is the function that statements call: none in the function itself.
	called string
}

func (g *scriptMaker) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *scriptMaker) script() string {
	var b strings.Builder
	if g.r.IntN(4) == 0 {
		b.WriteString("set -e\n")
	}
	g.called = "true"
	b.WriteString("f() {\n" + g.block(2) + "\ttool f \"$@\"\n}\n")
	g.called = "f"
	b.WriteString(g.block(6))
	b.WriteString("exec server " + g.word() + " \"$A\" $B \"$@\"\n")
	return b.String()
}

func (g *scriptMaker) block(n int) string {
	g.depth++
	defer func() { g.depth-- }()
	var b strings.Builder
	for range 1 + g.r.IntN(n) {
		b.WriteString(g.statement() + "\n")
	}
	return b.String()
}

func (g *scriptMaker) name() string { return g.pick("A", "B", "C", "D") }

func (g *scriptMaker) statement() string {
	if g.depth > 3 {
		return g.simple()
	}
	switch g.r.IntN(14) {
	case 0:
		return "if " + g.condition() + "; then\n" + g.block(2) + "else\n" + g.block(2) + "fi"
	case 1:
		return "if " + g.condition() + "; then\n" + g.block(2) + "elif " + g.condition() + "; then\n" + g.block(1) + "fi"
	case 2:
		return "case " + g.word() + " in\n" + g.glob() + ") " + g.simple() + " ;;\n" + g.glob() + " | " + g.glob() + ")\n" + g.block(1) + ";;\n*) " + g.simple() + " ;;\nesac"
	case 3:
		return "for D in " + g.word() + " " + g.word() + "; do\n" + g.block(2) + g.pick("", "break\n", "continue\n") + "done"
	case 4:
		g.loops++
		n := fmt.Sprintf("N%d", g.loops)
		return n + "=0\nwhile [ \"$" + n + "\" -lt 2 ]; do\n" + n + "=$((" + n + "+1))\n" + g.block(1) + "done"
	case 5:
		return "(\n" + g.block(2) + ")"
	case 6:
		return g.condition() + " && " + g.simple()
	case 7:
		return g.condition() + " || {\n" + g.block(1) + "}"
	}
	return g.simple()
}

func (g *scriptMaker) simple() string {
	list := []string{
		g.name() + "=" + g.assigned(), "export " + g.pick("A", "B") + "=" + g.quotedWord(), "set -- " + g.word() + " \"$@\"",
		"if [ $# -gt 1 ]; then shift; fi", "tool " + g.word() + " " + g.word(), g.pick("A", "B") + "=" + g.quotedWord() + " helper " + g.word(),
		g.called + " " + g.word(), ": \"${" + g.name() + ":=" + g.literal() + "}\"", "unset " + g.name(), "cd " + g.pick("sub", "..", ".", "\"$PWD\"", "nowhere") + " 2>/dev/null || true",
		"export " + g.name(), ". " + "\"${0%/*}/lib.sh\"", "eval \"" + g.name() + "=" + g.pick("e", "'x y'", "\\\"\\$A\\\"") + "\"",
		g.name() + "=$(cat <<EOF\n" + g.pick("text $A", "${B:-none}", "a  b") + "\nEOF\n)",
	}
	if g.bash {
		list = append(list, g.name()+"+="+g.literal(), "arr=("+g.word()+" "+g.word()+")", "arr+=("+g.word()+")", "tool \"${arr[@]}\" ${#arr[@]}",
			"[[ $A == a* ]] && B=glob", "local_test() { local A="+g.quotedWord()+"; tool \"$A\"; }; local_test", "printf -v D '%s-%s' "+g.quotedWord()+" z")
	}
	return list[g.r.IntN(len(list))]
}

func (g *scriptMaker) literal() string {
	return g.pick("a", "x.py", "--opt", "a/b/c.tar.gz", "5", "abc")
}

func (g *scriptMaker) glob() string {
	return g.pick("a*", "*.py", "--*", "[a-c]*", "5", "\"$A\"", "?", "one", "*b*", "''")
}

func (g *scriptMaker) assigned() string {
	return g.pick(g.quotedWord(), "$B$A", "$D", "\"$1\"", "$#", "~/x")
}

func (g *scriptMaker) quotedWord() string {
	n := g.name()
	list := []string{
		g.literal(), "'single $A  x'", "\"$" + n + "\"", "\"${" + n + ":-d $A}\"", "\"${" + n + "-d}\"", "\"${" + n + ":+alt}\"", "\"${" + n + "+set}\"",
		"\"${" + n + "#*.}\"", "\"${" + n + "##*/}\"", "\"${" + n + "%.*}\"", "\"${" + n + "%%/*}\"", "\"${#" + n + "}\"", "\"${1#--}\"",
		"\"$(echo \"$" + n + "\" x)\"", "\"$(dirname \"/p/$" + n + "\")\"", "\"$(basename \"q/$" + n + "\" .py)\"", "\"$((1 + ${#" + n + "} * 2))\"", "\"pre$" + n + "post\"", "\"$*\"", "\"$#\"",
		"\"${PWD##*/}\"", "a\\ b", "\"\"",
	}
	if g.bash {
		list = append(list, "\"${"+n+"/a/Z}\"", "\"${"+n+"//b/}\"", "\"${"+n+":1:2}\"", "\"${"+n+"^^}\"", "\"${"+n+",,}\"", "\"${*:2}\"", "\"${arr[*]}\"", "\"${arr[0]}\"", "$'tab\\tx'", "\"${"+n+"/#a/S}\"", "\"${"+n+": -1}\"")
	}
	return list[g.r.IntN(len(list))]
}

func (g *scriptMaker) word() string {
	n := g.name()
	list := []string{g.quotedWord(), g.quotedWord(), "$" + n, "${" + n + ":-x y}", "$*", "\"$@\"", "${" + n + "%.*}", "*.txt", "\"$@\"post", "sub/*", "\"*\"", "${" + n + ":+\"q $A\"}"}
	if g.bash {
		list = append(list, "\"${@:2}\"", "\"${arr[@]}\"", "${arr[@]}")
	}
	return list[g.r.IntN(len(list))]
}

func (g *scriptMaker) condition() string {
	list := []string{
		"[ -n " + g.quotedWord() + " ]", "[ -z \"$" + g.name() + "\" ]", "[ " + g.quotedWord() + " = " + g.quotedWord() + " ]", "[ \"$#\" -gt 2 ]",
		"[ -f a.txt ]", "test -d sub", "! [ -e nowhere ]", "command -v tool >/dev/null", "command -v missing >/dev/null 2>&1", "true", "false",
		"[ \"${1#-}\" != \"$1\" ]", "[ -n \"$A\" -a \"$B\" != x ]", "[ -s a.txt ] && [ ! -x a.txt ]", "[ \"$(basename \"$PWD\")\" = sub ]",
	}
	if g.bash {
		list = append(list, "[[ $A == a* ]]", "[[ -n $A && $B != x* ]]", "[[ $A =~ ^a.c$ ]]", "(( $# > 1 ))", "[[ -v A ]]", "[[ \"$B\" < \"m\" ]]")
	}
	return list[g.r.IntN(len(list))]
}
