package imagerefs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	for name, x := range map[string]struct {
		file, text string
		want       []Ref
	}{
		"deployment": {"k8s/app.yaml", `
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      initContainers:
      - image: busybox:1
      containers:
      - name: a
        image: ghcr.io/org/app:1
      - image: ghcr.io/org/app:1
---
apiVersion: batch/v1
kind: CronJob
spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: "b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}}}}}
`, []Ref{{"busybox:1", 8, ""}, {"ghcr.io/org/app:1", 11, ""}, {"b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 16, ""}}},
		"no manifest":      {"app.yaml", "containers: [{image: a}]", nil},
		"no pods":          {"a.yml", "apiVersion: v1\nkind: ConfigMap\ndata: {image: a}", nil},
		"kustomize":        {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: $(IMG)}]}", []Ref{{"", 3, "$(IMG) comes from a template"}}},
		"template":         {"templates/a.yaml", "apiVersion: v1\nkind: Pod\n{{- if .x }}\nspec:\n{{ end }}", nil},
		"a template after": {"a.yaml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{- if .x }}\nkind: Pod\n{{ end }}\n", []Ref{{"a", 3, ""}}},
		"a template between": {"a.yaml", "--- # {{ one }}\napiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{- if .x }}\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nspec:\n  x: |\n    ---\n  containers: [{image: b}, {image: 'c:{{ .tag }}'}]\n---", []Ref{
			{"a", 4, ""}, {"b", 14, ""}, {"", 14, "c:{{ .tag }} comes from a template"},
		}},
		"directives":   {"a.yaml", "%YAML 1.2\n---\napiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{ x }}: {{ y }}: z\n", []Ref{{"a", 5, ""}}},
		"our schemes":  {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: 'docker:27-cli'}, {image: 'dir:/etc'}]}", []Ref{{"docker:27-cli", 3, ""}, {"", 3, `"dir:/etc" is not a reference`}}},
		"no reference": {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: 'A B'}]}", []Ref{{"", 3, `"A B" is not a reference`}}},
		"compose": {"compose.yaml", `
x-base: &base
  image: shared:1
services:
  a: {image: "a:${TAG:-2}"}
  b: {image: "b:$TAG"}
  c: {image: built, build: .}
  d:
    <<: *base
  e: {image: "e:${TAG-}"}
  f: {build: .}
`, []Ref{{"a:2", 5, ""}, {"", 6, "b:$TAG: the variable TAG has no default"}, {"", 7, "built is built here"}, {"shared:1", 3, ""}, {"", 10, `"e:" is not a reference`}}},
		"old compose": {"deploy/docker-compose.prod.yml", "services: {a: {image: a}}", []Ref{{"a", 1, ""}}},
		"values": {"chart/values-prod.yaml", `
image:
  registry: ghcr.io
  repository: org/app
  tag: "1.2"
  pullPolicy: Always
sidecar:
  image: proxy:3
initImage: init:1
jobs:
- image: {repository: job, digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
other: {image: {repository: none, tag: ""}}
repository: https://charts.example
`, []Ref{{"ghcr.io/org/app:1.2", 4, ""}, {"proxy:3", 8, ""}, {"init:1", 9, ""}, {"job@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 11, ""}, {"", 12, "none has no tag here: the chart's version gives it"}}},
		"another file": {"config.yaml", "image: a\nservices: {a: {image: b}}", nil},
		"alias loop":   {"values.yaml", "a: &a\n  b: *a\nimage: x", []Ref{{"x", 3, ""}}},
		"empty":        {"values.yaml", "", nil},
		"a list":       {"values.yaml", "- image: a", []Ref{{"a", 1, ""}}},
	} {
		got, err := Of(x.file, []byte(x.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, want := range map[string]string{"a: b: c": "mapping values", "a: b: c\n---\n{{": "mapping values", strings.Repeat("#long\n", 200_000): "larger than 1024 KiB"} {
		if _, err := Of("values.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// TestHostile: files that are made to be slow stay within the limits, and the skipped
// parts are reported.
func TestHostile(t *testing.T) {
	const n = maxSize - 100
	numbered := func(head, form string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < n-100; i++ {
			fmt.Fprintf(&b, form, i)
		}
		return b.String()
	}
	pod := "apiVersion: v1\nkind: Pod\ncontainers:\n"
	for name, tt := range map[string]struct{ file, text, want string }{
		"many images":       {"a.yaml", numbered(pod, "- {image: a%d}\n"), "it has 200000 or more values, or names 1000 or more images"},
		"many references":   {"a.yaml", numbered(pod, "- {image: A%d}\n"), "it has 200000 or more values, or names 1000 or more images"},
		"a large mapping":   {"a.yaml", numbered("x: &x {", "k%d: 0,")[:n/2] + ": 0}\n" + pod + strings.Repeat("- *x\n", n/20), "it has 200000 or more values, or names 1000 or more images"},
		"merged":            {"compose.yaml", numbered("x: &x {", "k%d: 0,")[:n/2] + ": 0}\nservices:\n" + strings.Repeat(" s: {<<: *x}\n", n/40), "it has 200000 or more values, or names 1000 or more images"},
		"many variables":    {"compose.yaml", "services: {a: {image: '" + strings.Repeat("$a", n/2-30) + "'}}", ""},
		"variables in one":  {"compose.yaml", "services: {a: {image: '" + strings.Repeat("${a:-", n/5-30) + "'}}", ""},
		"many templates":    {"a.yaml", strings.Repeat("---\n", n/4) + "{{", "it has 200000 or more values, or names 1000 or more images"},
		"nothing but depth": {"values.yaml", strings.Repeat("[", n), "exceeded max depth of 10000"},
	} {
		refs, err := Of(tt.file, []byte(tt.text))
		switch {
		case tt.want == "" && (err != nil || len(refs) != 1 || refs[0].Why != "the reference has more than 4096 bytes"):
			t.Errorf("%s: %d references, error %v", name, len(refs), err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %d references, error %v", name, len(refs), err)
		}
	}
}

// FuzzOf states that each image has either a reference or a reason, and a line of the
// file.
func FuzzOf(f *testing.F) {
	f.Add("values.yaml", "image: {repository: a, tag: b}\nx: &a [*a]")
	f.Add("compose.yml", "services: {a: {<<: [&b {image: c}], image: '${A:-b}'}}")
	f.Add("a.yaml", "apiVersion: 1\nkind: Pod\ncontainers: [{image: a}]\n---\n{{")
	f.Add("a.yaml", "apiVersion: 1\nkind: Pod\ncontainers: [{image: a}]")
	f.Fuzz(func(t *testing.T, file, text string) {
		refs, err := Of(file, []byte(text))
		if err != nil && refs != nil {
			t.Error("images beside an error")
		}
		for _, r := range refs {
			if (r.Image == "") == (r.Why == "") || r.Line < 1 || r.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%+v", r)
			}
		}
	})
}
