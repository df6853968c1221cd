package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/imgcheck/imgcheck/pkg/dockerline"
	"github.com/imgcheck/imgcheck/pkg/imports"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/scan"
)

// TestJSONSchema validates every image's JSON report against the published schema, and
// checks that two scans give the same bytes, but for the overview that one of them has.
func TestJSONSchema(t *testing.T) {
	schema := publishedSchema(t, "report-1.json")
	for _, name := range texts(t) {
		_, ref := shelfText(t, name)
		again, err := scanImage(t.Context(), ref, scan.Options{Overview: true})
		if err != nil {
			t.Fatal(err)
		}
		overview, err := jsonschema.UnmarshalJSON(bytes.NewReader(jsonReport(t, again)))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(overview); err != nil {
			t.Errorf("%s, with an overview: %v", name, err)
		}
		if again.Sizes == nil {
			t.Errorf("%s has no overview", name)
		}
		again.GPUs, again.Sizes = nil, nil
		first, second := jsonReport(t, scanOf(t, name, false)), jsonReport(t, again)
		if !bytes.Equal(first, second) {
			t.Errorf("%s: two scans differ", name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	located := *scanOf(t, "soname-link-missing.txtar", false)
	located.Image.Layers = []report.Layer{{Index: 1, Dockerfile: &dockerline.Line{File: "Dockerfile", Line: 1, EndLine: 2, Instruction: "FROM a", Stage: "b", Base: true}}}
	located.Image.NoDockerfile, located.Image.End = "reason", &dockerline.End{File: "Dockerfile", From: 1, Line: 2, Column: 3}
	located.Image.Layers[0].Dockerfile.EndColumn = 4
	located.Copied = []report.Copied{{Path: "/x", Layer: 1, From: []dockerline.Source{{Stage: "a", Path: "/y", Lines: []dockerline.Line{{File: "Dockerfile", Line: 1, EndLine: 2, Instruction: "RUN x"}}, More: 1}}}}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(jsonReport(t, &located)))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

// TestSetSchema validates the JSON of several images, one of which was not scanned, against the
// published schema.
func TestSetSchema(t *testing.T) {
	schema := publishedSchema(t, "reports-1.json")
	var list []report.Scanned
	for _, name := range []string{"ort-no-cudnn.txtar", "ort-no-cudnn.txtar", "torch-healthy.txtar"} {
		list = append(list, report.Scanned{Ref: name, Platform: "linux/amd64", Report: scanOf(t, name, false)})
	}
	list = append(list, report.Scanned{Ref: "gone", Error: "is not there"})
	var b bytes.Buffer
	set := report.NewSet("v1", list)
	set.Shard = report.NewShard(1, 2, []string{"a"})
	if err := report.SetJSON(&b, set, report.Options{}); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
}

// TestDiffSchema validates the JSON of a comparison against the published schema.
func TestDiffSchema(t *testing.T) {
	schema := publishedSchema(t, "diff-1.json")
	healthy, broken := scanOf(t, "torch-healthy.txtar", false), scanOf(t, "ort-no-cudnn.txtar", false)
	for _, d := range []*report.Diff{report.Compare(healthy, broken), report.Compare(broken, healthy), report.Compare(broken, broken)} {
		var b bytes.Buffer
		if err := report.DiffFormats["json"](&b, d, report.Options{}); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Error(err)
		}
	}
}

// publishedSchema returns a published schema, which may refer to those of a report and of a GPU.
func publishedSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	dir := filepath.Join("..", "..", "docs", "schema")
	compiler := jsonschema.NewCompiler()
	for _, other := range []string{"report-1.json", "gpus-1.json"} {
		if other == name {
			continue
		}
		f, err := os.Open(filepath.Join(dir, other))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestImportsSchema validates the lines of `imgcheck imports --format json`.
func TestImportsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schema", "imports-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, modules := range map[string][]string{
		"imports-program.txtar": nil, "imports-unknown.txtar": nil, "imports-asked.txtar": {"os", "no.such"}, "stacks/comfyui.txtar": nil, "stacks/nemo.broken.txtar": {"torch"},
	} {
		_, ref := shelfText(t, name)
		starts, err := scan.Imports(t.Context(), ref, scan.Options{}, "", modules)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var b bytes.Buffer
		if err := imports.JSON(&b, starts); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b.Bytes()) {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestGPUsSchema validates the lines of `imgcheck gpus --format json`, and checks that the
// schema refuses others.
func TestGPUsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schema", "gpus-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	valid := func(line []byte) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(doc)
	}
	lines := 0
	for _, name := range texts(t) {
		if !strings.HasPrefix(name, "gpu-") {
			continue
		}
		_, ref := shelfText(t, name)
		img, err := scan.GPUs(t.Context(), ref, scan.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var b bytes.Buffer
		if err := gpusJSON(&b, img.Rows); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b.Bytes()) {
			if err := valid(line); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			lines++
		}
	}
	if lines == 0 {
		t.Error("no image has a line")
	}
	for _, line := range []string{`{"arch":"8.9","products":["L4"],"verdict":"works"}`, `{"arch":"89","products":["L4"],"verdict":"runs"}`, `{"arch":"8.9","products":["L4"],"verdict":"runs","more":1}`} {
		if valid([]byte(line)) == nil {
			t.Errorf("%s is valid", line)
		}
	}
}

func jsonReport(t *testing.T, doc *report.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := report.JSON(&b, doc, report.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
