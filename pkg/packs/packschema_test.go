package packs

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/imgcheck/imgcheck/rules"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

var updateSchema = flag.Bool("update-schema", false, "write docs/schema/rules-1.json")

// TestPackSchema checks that the JSON Schema of rule packs agrees with the types, that the
// packs fit it, and that bad ones do not.
func TestPackSchema(t *testing.T) {
	defs := map[string]any{}
	top := schemaOf(reflect.TypeFor[Sections](), defs).(map[string]any)
	doc := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://github.com/imgcheck/imgcheck/docs/schema/rules-1.json",
		"title": "imgcheck rule pack, version 1", "description": "A file of a directory that `--rules` names. Made from the types in pkg/packs, where each key is explained: go test ./pkg/packs -run TestPackSchema -update-schema",
		"$defs": defs,
	}
	for k, v := range defs[strings.TrimPrefix(top["$ref"].(string), "#/$defs/")].(map[string]any) {
		doc[k] = v
	}
	doc["type"] = []string{"object", "null"}
	delete(defs, "Sections")
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("..", "..", "docs", "schema", "rules-1.json")
	if *updateSchema {
		if err := os.WriteFile(name, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/schema/rules-1.json does not agree with the types (%v): go test ./pkg/packs -run TestPackSchema -update-schema", err)
	}
	schema, err := jsonschema.NewCompiler().Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(text []byte) error {
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	names, err := fs.Glob(rules.FS, "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no packs: %v", err)
	}
	for _, n := range names {
		text, err := fs.ReadFile(rules.FS, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	for _, bad := range []string{"rule: []", "rules: [{id: a, severity: bad}]", "rules: [{id: a, colour: red}]", "rules: [{severity: note}]", "families: [{id: a, match: lib}]", "[]"} {
		if valid([]byte(bad)) == nil {
			t.Errorf("the schema accepts %q", bad)
		}
	}
}

// schemaOf returns the schema of a type by its yaml tags. It adds structs to defs, by their
// names.
func schemaOf(t reflect.Type, defs map[string]any) any {
	switch {
	case t == reflect.TypeFor[Severity]():
		return map[string]any{"enum": []Severity{"", Error, Warning, Note}}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), defs)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), defs)}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), defs)}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return map[string]any{"type": "integer"}
	case t.Kind() == reflect.String:
		return map[string]any{"type": []string{"string", "number"}} // a version, unquoted
	case t.Kind() != reflect.Struct:
		panic(t)
	}
	ref := map[string]any{"$ref": "#/$defs/" + t.Name()}
	if defs[t.Name()] != nil {
		return ref
	}
	properties := map[string]any{}
	def := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	defs[t.Name()] = def
	for _, f := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if option == "inline" || name == "" || name == "-" {
			continue
		}
		properties[name] = schemaOf(f.Type, defs)
		if name == "id" {
			def["required"] = []string{"id"}
		}
	}
	return ref
}
