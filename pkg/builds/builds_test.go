package builds_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/imgcheck/imgcheck/pkg/builds"
)

func written(list []builds.Build, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	var lines []string
	for _, b := range list {
		s := fmt.Sprintf("%d %s: %s in %s", b.Line, b.Name, b.Dockerfile, b.Context)
		if b.Target != "" {
			s += " target " + b.Target
		}
		for _, k := range slices.Sorted(maps.Keys(b.Args)) {
			s += " " + k + "=" + b.Args[k]
		}
		if b.Inline != "" {
			s += fmt.Sprintf(" inline at %d: %q", b.InlineLine, b.Inline)
		}
		if b.Why != "" {
			s += " (" + b.Why + ")"
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

func TestOf(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"compose.yaml", "include: [gpu.yaml]\nservices:\n  a: {extends: {file: base.yaml, service: gpu}}\n  b: {build: ., extends: a}\n  c: {build: c}\n", `3 a:  in  (the file that it extends is not read: other files are not read)
4 b:  in  (the file that it extends is not read: other files are not read)
5 c: c/Dockerfile in c
1 include:  in  (other files are not read)`},
		{"compose.gpu.yaml", `
x-build: &common
  target: runtime
services:
  web: {image: nginx}
  a: {build: ./a}
  b:
    build:
      <<: *common
      context: ${DIR:-b}
      dockerfile: ../docker/Dockerfile.gpu
      args:
        CUDA: "12.4.1"
        FLAVOR: ${FLAVOR-runtime}
        TOKEN: ${TOKEN}
        HOST:
  c:
    build:
      context: .
      args: [A=1, B]
      dockerfile_inline: |
        FROM scratch
        RUN x
  d: {build: "https://github.com/org/app.git"}
  e: {build: {context: "${DIR}"}}
`, `6 a: a/Dockerfile in ./a
9 b: docker/Dockerfile.gpu in b target runtime CUDA=12.4.1 FLAVOR=runtime
19 c: Dockerfile in . A=1 inline at 22: "FROM scratch\nRUN x\n"
24 d:  in https://github.com/org/app.git (its context is https://github.com/org/app.git)
25 e:  in ${DIR} (its context is ${DIR})`},
		{".devcontainer/devcontainer.json", `{
	// comments
	"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"A": "1"},}, /* and commas */
}`, "3 devcontainer: Dockerfile in .. A=1"},
		{".devcontainer.json", `{"dockerFile": "docker/Dockerfile", "context": "."}`, "1 devcontainer: docker/Dockerfile in ."},
		{"devcontainer.json", `{"image": "debian"}`, ""},
		{
			"docker-bake.json", `{"target": {"app": {"context": "app", "target": "final", "args": {"A": "1", "B": null}}, "inline": {"dockerfile-inline": "FROM scratch\n"}}}`,
			"1 app: app/Dockerfile in app target final A=1\n1 inline:  in . (its Dockerfile is not a block of lines)",
		},
		{"docker-bake.hcl", `variable "CUDA" { default = "12.4.1" }
group "default" { targets = ["a"] }
target "_common" {
  context = "app"
  args = { CUDA = CUDA, PY = "3.12" }
}
target "a" {
  inherits = ["_common"]
  dockerfile = "Dockerfile.gpu"
  args = { PY = "3.13", SHA = env.SHA }
}
target "loop" { inherits = ["loop"] }
target "none" { inherits = ["else"] }
target "m" {
  name = "m-${x}-${item.flavor}"
  matrix = {
    x = ["1", "2"]
    item = [{ flavor = "cpu", base = "ubuntu:22.04" }, { flavor = "gpu", base = CUDA }]
  }
  context = item.flavor
  target = "${item.flavor}-final"
  args = { X = x, BASE = item.base, UP = upper(x), PAIR = "${x}/${item.flavor}" }
}
target "many" { matrix = { x = XS } }
target "f" { context = lower("X") }
`, `3 _common: app/Dockerfile in app CUDA=12.4.1 PY=3.12
7 a: app/Dockerfile.gpu in app CUDA=12.4.1 PY=3.13
12 loop:  in  (what it inherits is not known)
13 none:  in  (what it inherits is not known)
14 m-1-cpu: cpu/Dockerfile in cpu target cpu-final BASE=ubuntu:22.04 PAIR=1/cpu X=1
14 m-1-gpu: gpu/Dockerfile in gpu target gpu-final BASE=12.4.1 PAIR=1/gpu X=1
14 m-2-cpu: cpu/Dockerfile in cpu target cpu-final BASE=ubuntu:22.04 PAIR=2/cpu X=2
14 m-2-gpu: gpu/Dockerfile in gpu target gpu-final BASE=12.4.1 PAIR=2/gpu X=2
24 many:  in  (its matrix has too many builds, or values that are not known)
25 f:  in ${lower("X")} (its context is ${lower("X")})`},
		{"docker-bake.hcl", "target {", "error: line 1: it is no HCL"},
		{"compose.yaml", "services: [" + strings.Repeat("[", 1000), "error: its values nest too deeply"},
		{"compose.yaml", "a: [", "error: it is no YAML"},
		{"compose.yaml", "a: &a [*a]\nservices: *a", ""},
	} {
		if diff := cmp.Diff(c.want, written(builds.Of(c.file, []byte(c.text)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.file, diff)
		}
	}
	for file, want := range map[string]bool{"compose_gpu.yaml": true, "docker-compose.yml": true, "a/docker-bake.hcl": true, ".devcontainer/x/devcontainer.json": true, "composer.json": false, "values.yaml": false, "decompose.yaml": false} {
		if builds.Named(file) != want {
			t.Errorf("%s: %t", file, !want)
		}
	}
}

func TestFeatures(t *testing.T) {
	list, err := builds.Of("devcontainer.json", []byte(`{"build": {"dockerfile": "Dockerfile"}, "features": {"ghcr.io/devcontainers/features/nvidia-cuda:1": {"installCudnn": true}, "ghcr.io/devcontainers/features/node:1": {}}}`))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if diff := cmp.Diff([]string{"ghcr.io/devcontainers/features/nvidia-cuda:1", "ghcr.io/devcontainers/features/node:1"}, list[0].Features); diff != "" {
		t.Error(diff)
	}
}

// FuzzOf states: a text ends in builds or an error, twice the same, and each build has a place
// in the file and a Dockerfile, a text or a reason.
func FuzzOf(f *testing.F) {
	f.Add("compose.yaml", []byte("services:\n  a:\n    build: {context: ., args: {A: 1}}\n"))
	f.Add("docker-bake.json", []byte(`{"target": {"a": {"args": {"A": "1"}}}}`))
	f.Add("docker-bake.hcl", []byte("target \"a\" {\n  name = \"a-${x}\"\n  matrix = { x = [\"1\", \"2\"] }\n  args = { X = x }\n}\n"))
	f.Add("docker-bake.hcl", []byte("target \"a\" {\n  inherits = [\"b\"]\n}\ntarget \"b\" {\n  args = {A = \"1\"}\n}\n"))
	f.Add("devcontainer.json", []byte(`{"build": {"dockerfile": "a"}} // x`))
	f.Fuzz(func(t *testing.T, file string, text []byte) {
		one, err := builds.Of(file, text)
		two, err2 := builds.Of(file, text)
		if (err == nil) != (err2 == nil) || cmp.Diff(one, two) != "" {
			t.Fatal("the same text gives two results")
		}
		lines := 1 + strings.Count(strings.ReplaceAll(string(text), "\r", "\n"), "\n")
		for _, b := range one {
			if b.Line < 1 || b.Line > lines+1 || b.Dockerfile == "" && b.Why == "" {
				t.Errorf("%+v of %d lines", b, lines)
			}
		}
	})
}
