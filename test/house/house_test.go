// Package house checks what docs/architecture.md says of the packages against the
// packages themselves, and rules of the source that no linter has.
package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/imgcheck/imgcheck/"
	doc    = "docs/architecture.md"
)

// pkg is a package as `go list` describes it.
type pkg struct {
	ImportPath string
	Imports    []string
}

// packages returns the packages of the module, by their directories.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	all := map[string]pkg{}
	for _, p := range goList[pkg](t, "-json=ImportPath,Imports", module+"...") {
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	return all
}

var (
	row    = regexp.MustCompile("(?m)^\\| (`.*`) \\| .* \\| .* \\| (.*) \\|$")
	quoted = regexp.MustCompile("`([^`]+)`")
)

// TestRooms checks that every package has a row in the table of rooms, and that the row
// has the packages that it imports.
func TestRooms(t *testing.T) {
	text, err := os.ReadFile("../../" + doc)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{} // by place
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		for _, place := range quoted.FindAllStringSubmatch(m[1], -1) {
			imports[strings.TrimSuffix(place[1], "/")] = m[2]
		}
	}
	all := packages(t)
	checked := 0
	for dir, p := range all {
		if !strings.HasPrefix(dir, "pkg/") && !strings.HasPrefix(dir, "internal/") || strings.Count(dir, "/") > 1 {
			continue
		}
		checked++
		says, ok := imports[dir]
		if !ok {
			t.Errorf("%s has no row for %s", doc, dir)
			continue
		}
		if has := ours(p); says != has {
			t.Errorf("%s: %s imports %q, and the row says %q", doc, dir, has, says)
		}
	}
	if checked < 20 {
		t.Errorf("only %d packages were found", checked)
	}
}

// TestFiles checks that every file that the document names is there.
func TestFiles(t *testing.T) {
	text, err := os.ReadFile("../../" + doc)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{} // by name and by path
	err = filepath.WalkDir("../..", func(name string, e fs.DirEntry, err error) error {
		there[e.Name()], there[strings.TrimPrefix(filepath.ToSlash(name), "../../")] = true, true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
		if strings.HasSuffix(m[1], ".go") {
			named++
			if !there[m[1]] {
				t.Errorf("%s names %s, which is not there", doc, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d files are named", named)
	}
}

// ours returns the packages of the module that a package imports, without internal, as
// the table has them.
func ours(p pkg) string {
	var list []string
	for _, i := range p.Imports {
		if dir, ok := strings.CutPrefix(i, module); ok && !strings.HasPrefix(dir, "internal/") {
			list = append(list, strings.TrimPrefix(dir, "pkg/"))
		}
	}
	if len(list) == 0 {
		return "none"
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
