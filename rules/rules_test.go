package rules_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/rules"
)

var update = flag.Bool("update", false, "write docs/rules anew")

const dir = "../docs/rules"

// docs/rules is equal to the pages made from the packs (`go test ./rules -update`).
func TestDocs(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	want := pages(set)
	if *update {
		write(t, want)
	}
	have, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range have {
		if _, ok := want[filepath.Base(file)]; !ok {
			t.Errorf("%s belongs to no rule: go test ./rules -update", file)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%v: go test ./rules -update", err)
			continue
		}
		if diff := cmp.Diff(want[name], string(b)); diff != "" {
			t.Errorf("docs/rules/%s differs from the packs (-want +got): go test ./rules -update\n%s", name, diff)
		}
	}
}

// pages returns the files of docs/rules by their names.
func pages(set *packs.Packs) map[string]string {
	m := map[string]string{}
	lint := dockerfileRules()
	var index strings.Builder
	index.WriteString("# Rules\n\nMade from the packs in [rules/](../../rules) by `go test ./rules -update`; `imgcheck rules` prints the same.\n\n| rule | severity | what it says |\n|---|---|---|\n")
	for _, r := range set.SortedRules() {
		m[r.ID+".md"] = r.Page()
		fmt.Fprintf(&index, "| [%s](%s.md) | %s | %s |\n", r.ID, r.ID, r.Weight(), r.Title)
	}
	index.WriteString("\n## Rules for Dockerfiles\n\n`imgcheck lint` has these, beside BuildKit's own checks ([lint.md](../lint.md)).\n\n| rule | severity | what it says |\n|---|---|---|\n")
	for _, r := range lint {
		m[r.ID+".md"] = r.Page()
		fmt.Fprintf(&index, "| [%s](%s.md) | %s | %s |\n", r.ID, r.ID, r.Weight(), r.Title)
	}
	m["README.md"] = index.String()
	return m
}

// dockerfileRules returns the rules of rules/dockerlint.
func dockerfileRules() []*packs.Rule {
	dir, err := fs.Sub(rules.FS, "dockerlint")
	if err != nil {
		panic(err)
	}
	set, err := packs.LoadPacks(dir)
	if err != nil {
		panic(err)
	}
	return set.SortedRules()
}

// write replaces the files of docs/rules.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	old, err := filepath.Glob(dir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each rule has all that its page needs.
func TestRulesAreWhole(t *testing.T) {
	set, err := packs.LoadPacks(rules.FS)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range set.Rules {
		if strings.TrimSpace(r.Doc) == "" || len(r.Sources) == 0 || r.Title == "" || strings.HasSuffix(r.Title, ".") {
			t.Errorf("rule %s: needs a doc, sources and a title without a period", r.ID)
		}
	}
}
