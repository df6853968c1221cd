package pysource

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// minFiles is the number of source files below which the comparison with CPython shows
// too little.
const minFiles = 5000

// maxFiles is the number of files that are compared.
const maxFiles = 6000

// debianPython are the directories of the source of Debian's Python packages.
var debianPython = []string{"/usr/lib/python3", "/usr/lib/python3.11", "/usr/lib/python3.12", "/usr/lib/python3.13", "/usr/lib/python3.14"}

// sources returns the .py files below directories of this machine, or below those that
// PYSOURCE_ROOTS names, separated by colons.
func sources(t testing.TB, roots ...string) []string {
	t.Helper()
	limit := maxFiles
	if s := os.Getenv("PYSOURCE_ROOTS"); s != "" {
		roots, limit = strings.Split(s, ":"), 1<<20
	}
	var list []string
	seen := map[string]bool{}
	for _, root := range roots {
		filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.HasSuffix(name, ".py") && !strings.ContainsAny(name, "\r\n ") && !seen[name] && len(list) < limit {
				seen[name] = true
				list = append(list, name)
			}
			return nil
		})
	}
	return list
}

// TestCPython: the statements of real files are those of CPython's own parser, each with
// its line and all expressions.
func TestCPython(t *testing.T) {
	if testing.Short() {
		t.Skip("runs python3 over thousands of files")
	}
	list := sources(t, "/usr/lib/python3", "/usr/lib", "/usr/share")
	cmd := exec.Command("python3", "testdata/dump.py")
	cmd.Stdin = strings.NewReader(strings.Join(list, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("running python3 (Debian: python3): %v", err)
	}
	r := bufio.NewReader(out)
	read, wrong := 0, 0
	for range list {
		name, want, ok := readDump(t, r)
		if !ok {
			continue
		}
		read++
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		parsed := Parse(b)
		got := dump(parsed)
		if parsed.Partial != "" {
			got, want = got[:max(0, len(got)-1)], want[:max(0, min(len(want), len(got)-1))]
		}
		if diff := firstDiff(got, want, b); diff != "" {
			if wrong++; wrong < 20 {
				t.Errorf("%s:\n%s", name, diff)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d of them Python 3, %d differ", len(list), read, wrong)
	if read < minFiles {
		t.Errorf("only %d files of Python 3: test/deps.sh installs Debian packages that have more", read)
	}
}

// readDump reads the dump of one file; ok is false if CPython did not parse it.
func readDump(t *testing.T, r *bufio.Reader) (name string, lines []string, ok bool) {
	t.Helper()
	head, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("python3 stopped: %v", err)
	}
	name, count, _ := strings.Cut(strings.TrimSpace(head), " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatalf("%q: %v", head, err)
	}
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return name, lines, n >= 0
}

// firstDiff returns the first line that differs. Where a file has \N{NAME} in strings,
// whose value only Unicode's tables know, lines with "bad" are not compared; the texts of
// strings are not in a file of another encoding than UTF-8.
func firstDiff(got, want []string, source []byte) string {
	named := bytes.Contains(source, []byte(`\N{`))
	if m := otherCoding.Find(source[:min(len(source), 200)]); m != nil {
		got, want = withoutStrings(got), withoutStrings(want)
	}
	for i := range max(len(got), len(want)) {
		g, w := "(end)", "(end)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w && ascii(g) != ascii(w) && !(named && strings.Contains(g, "bad")) {
			return "got  " + g + "\nwant " + w
		}
	}
	return ""
}

// ascii replaces what is not ASCII: CPython normalizes names (PEP 3131).
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 0x7f {
			return '?'
		}
		return r
	}, s)
}

var (
	otherCoding = regexp.MustCompile(`coding[:=][ \t]*(?:[a-tv-zA-TV-Z]|us-ascii|utf-16)`)
	stringDump  = regexp.MustCompile(`\b[sb][0-9a-f]*\b`)
)

func withoutStrings(lines []string) []string {
	var list []string
	for _, l := range lines {
		list = append(list, stringDump.ReplaceAllString(l, "s"))
	}
	return list
}
