package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"
)

// TestLintFormats lints the Dockerfiles of testdata/dockerfiles without their bases: the JSON
// is valid by its schema, twice the same, and another project reads the SARIF, whose places
// are in the files.
func TestLintFormats(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schema", "lint-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join("..", "..", "testdata", "dockerfiles", "*.txtar"))
	if err != nil || len(names) < 25 {
		t.Fatal(len(names), err)
	}
	dir := t.TempDir()
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)+".Dockerfile"), a.Files[0].Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lint := func(format string) []byte {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"imgcheck", "lint", "--offline", "--config", "none", "--fail-on", "never", "-f", format, dir}, &out, &errs); status != exitOK {
			t.Fatalf("status %d: %s", status, &errs)
		}
		return out.Bytes()
	}
	text := lint("json")
	if !bytes.Equal(text, lint("json")) {
		t.Error("two lints differ")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
	log, err := sarif.FromBytes(lint("sarif"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(log.Runs[0].Results); n < 20 {
		t.Errorf("the SARIF has %d results", n)
	}
	for _, r := range log.Runs[0].Results {
		if at := r.Locations[0].PhysicalLocation; at.Region.StartLine == nil || *at.Region.StartLine < 1 || *log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != *r.RuleID {
			t.Errorf("a result without a place or a rule: %v", r.Message)
		}
	}
}
