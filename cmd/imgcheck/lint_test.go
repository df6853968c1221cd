package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestLintPolicy lints with a policy: severities, ignores by path and by rule, and the page of
// a rule for Dockerfiles.
func TestLintPolicy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	file := write("Dockerfile", "FROM scratch\nRUN export A=1\nRUN pip install torch --index-url https://download.pytorch.org/whl/cu122\n")
	lint := func(policy string) (int, string) {
		var out, errs bytes.Buffer
		status := run(context.Background(), []string{"imgcheck", "lint", "--offline", "--config", write("policy.yaml", policy), file}, &out, &errs)
		return status, out.String() + errs.String()
	}
	for _, c := range []struct {
		policy string
		status int
		want   string
	}{
		{"{}", exitFindings, "2:1: warning: the variables that this RUN exports end with it: A [run-without-effect]"},
		{"severities: {run-without-effect: error, index-absent: note}", exitFindings, "2:1: error: the variables"},
		{"severities: {index-absent: warning}", exitOK, "3:1: warning: PyTorch has no index cu122"},
		{"ignore: [{id: index-absent, reason: our mirror has it}]", exitOK, "0 errors, 1 warning"},
		{"ignore: [{id: index-absent, path: '**/Other', reason: our mirror has it}]", exitFindings, "1 error, 1 warning"},
		{"ignore: [{id: index-absent, path: '**/Dockerfile', reason: our mirror has it}]", exitOK, "0 errors, 1 warning"},
		{"ignore: [{id: index-absent, reason: our mirror has it, expires: 2020-01-01}]", exitFindings, "expired on 2020-01-01"},
		{"severities: {index-absnt: note}", exitFailed, `there is no rule "index-absnt": did you mean index-absent?`},
	} {
		if status, text := lint(c.policy); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s: status %d:\n%s", c.policy, status, text)
		}
	}
	for _, command := range []string{"rules", "explain"} {
		var out, errs bytes.Buffer
		if status := run(context.Background(), []string{"imgcheck", command, "index-absent"}, &out, &errs); status != exitOK || !strings.Contains(out.String(), "pip is given an index of PyTorch") {
			t.Errorf("%s: status %d: %s%s", command, status, &out, &errs)
		}
	}
}

// TestLintIndex lints with a package index on the loopback: its metadata says that a package
// brings no library, which a file of the base cannot know; --offline asks no server.
func TestLintIndex(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/simple/insightface/":
			w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
			fmt.Fprint(w, `{"files":[{"filename":"insightface-0.7.3-py3-none-any.whl","url":"/i.whl","size":1000,"core-metadata":true}]}`)
		case "/i.whl.metadata":
			fmt.Fprint(w, "Name: insightface\nRequires-Dist: numpy\n\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(file, []byte("FROM scratch\nRUN pip install insightface==0.7.3 onnxruntime-gpu==1.20.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--index", server.URL + "/simple"}, exitFindings, "2:36: error: onnxruntime-gpu 1.20.1 needs CUDA 12; the base scratch (line 1) has none"},
		{[]string{"--index", "none", "--all"}, exitOK, "because: insightface (line 2) may bring it"},
		{[]string{"--index", server.URL + "/simple", "--offline", "--all"}, exitOK, "because: insightface (line 2) may bring it"},
		{[]string{"--index", "pypi"}, exitFailed, "--index: \"pypi\" is no address of a package index"},
	} {
		asked = 0
		var out, errs bytes.Buffer
		status := run(context.Background(), slices.Concat([]string{"imgcheck", "lint", "--config", "none", "--no-cache"}, c.args, []string{file}), &out, &errs)
		if status != c.status || !strings.Contains(out.String()+errs.String(), c.want) || (asked > 0) != (c.status == exitFindings) {
			t.Errorf("%v: status %d, %d requests:\n%s%s", c.args, status, asked, &out, &errs)
		}
	}
}

// TestLintBuilds lints the builds that a Compose file, bake's JSON and a devcontainer.json say.
func TestLintBuilds(t *testing.T) {
	dir := t.TempDir()
	a := txtar.Parse([]byte(`
-- app/compose.yaml --
services:
  gpu:
    build:
      context: .
      dockerfile: gpu.df
      target: final
      args: {CUDA: cu122}
  inline:
    build:
      context: .
      dockerfile_inline: |
        FROM scratch
        RUN export A=1
  outside:
    build: {context: ., dockerfile: /etc/passwd}
  above:
    build: ../../..
  absent:
    build: ./absent
  extended:
    extends: {file: parts/base.yml, service: gpu}
include:
  - parts/more.yml
  - parts/link.yml
  - ../../../outside.yml
-- app/parts/base.yml --
services:
  gpu: {build: {context: ., dockerfile: ext.df, args: {NAME: cu120}}}
-- app/parts/more.yml --
services:
  more:
    build:
      context: .
      dockerfile_inline: |
        FROM scratch
        RUN export B=1
-- app/parts/ext.df --
FROM scratch
ARG NAME
RUN pip install torch --index-url https://download.pytorch.org/whl/$NAME
-- app/compose.override.yaml --
services:
  extended: {build: {args: {NAME: cu114}}}
  gpu: {build: {args: {CUDA: cu123}}}
-- outside.yml --
services:
  secret: {build: {context: ., dockerfile_inline: x}}
-- app/gpu.df --
ARG CUDA=cu121
FROM scratch AS other
RUN export OTHER=1
FROM scratch AS final
ARG CUDA
RUN pip install torch --index-url https://download.pytorch.org/whl/${CUDA}
FROM scratch
-- app/docker-bake.json --
{"target": {"default": {"dockerfile": "Dockerfile", "args": {"NAME": "cu123"}}}}
-- app/Dockerfile --
FROM scratch
ARG NAME=cu121
RUN pip install torch --index-url https://download.pytorch.org/whl/$NAME
-- app/docker-bake.hcl --
variable "CUDA" { default = "cu125" }
target "base" {
  args = { NAME = CUDA }
}
target "a" {
  inherits   = ["base"]
  dockerfile = "other.df"
}
target "m" { matrix = { x = XS } }
-- app/other.df --
FROM scratch
ARG NAME
RUN pip install torch --index-url https://download.pytorch.org/whl/$NAME
-- app/.devcontainer/devcontainer.json --
{"build": {"dockerfile": "Dockerfile" /* here */}}
-- app/.devcontainer/Dockerfile --
FROM scratch
RUN cd /x
`))
	for _, f := range a.Files {
		p := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "outside.yml")
	if err := errors.Join(os.WriteFile(outside, []byte("services: {secret: {build: x}}"), 0o644), os.Symlink(outside, filepath.Join(dir, "app/parts/link.yml"))); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := run(context.Background(), []string{"imgcheck", "lint", "--offline", "--config", "none", "--all", filepath.Join(dir, "app")}, &out, &errs)
	text := strings.ReplaceAll(out.String(), dir+"/", "")
	for _, want := range []string{
		"app/gpu.df:6:1: error: PyTorch has no index cu122",
		"app/compose.yaml:13:1: warning: the variables that this RUN exports end with it: A",
		"app/compose.yaml:15:1: not predicted: the build of outside: its Dockerfile /etc/passwd is outside of the repository",
		"app/compose.yaml:17:1: not predicted: the build of above: its context ../../.. is outside of the repository",
		"app/compose.yaml:19:1: not predicted: the build of absent: its Dockerfile app/absent/Dockerfile is not read:",
		"outside.yml is not read: it is outside of the repository",
		"app/compose.yaml:24:1: not predicted: the build of include: app/parts/link.yml is not read: ",
		"app/parts/more.yml:7:1: warning: the variables that this RUN exports end with it: B",
		"app/parts/ext.df:3:1: error: PyTorch has no index cu120",
		"app/gpu.df:6:1: error: PyTorch has no index cu123",
		"app/docker-bake.hcl:9:1: not predicted: the build of m: its matrix has too many builds, or values that are not known",
		"app/other.df:3:1: error: PyTorch has no index cu125",
		"app/.devcontainer/Dockerfile:2:1: warning: the directory that this RUN changes to ends with it",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "OTHER") || strings.Contains(text, "secret") || strings.Count(text, "app/Dockerfile:3:1: error: PyTorch has no index cu123") != 1 || status != exitFindings {
		t.Errorf("status %d", status)
	}
	if t.Failed() {
		t.Log(text, errs.String())
	}
}

// TestLintManyBuilds checks that a Dockerfile which many builds take is not linted for all of
// them, and that this is said.
func TestLintManyBuilds(t *testing.T) {
	dir := t.TempDir()
	var bake strings.Builder
	bake.WriteString(`{"target": {"t0": {}`)
	for i := range 12 {
		fmt.Fprintf(&bake, `, "t%d": {}`, i+1)
	}
	bake.WriteString("}}")
	text := "FROM scratch\n" + strings.Repeat("#\n", maxAgain/20)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "docker-bake.json"), []byte(bake.String()), 0o644), os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	run(context.Background(), []string{"imgcheck", "lint", "--offline", "--config", "none", "--all", dir}, &out, &errs)
	if n := strings.Count(out.String(), "its Dockerfile is not linted for it, because"); n != 3 { // the first, and nine more
		t.Errorf("%d builds are left out:\n%s%s", n, out.String(), errs.String())
	}
}

// TestLintBase lints Dockerfiles over a base image in a registry whose scan has errors: they
// are at the FROM, unless an instruction may fix them, and the second lint takes the base from
// the cache. The rules of the SARIF are those of the results.
func TestLintBase(t *testing.T) {
	_, ref := shelfText(t, "deleted-by-layer.txtar")
	scanned := scanOf(t, "deleted-by-layer.txtar", true)
	if scanned.Summary.Errors == 0 {
		t.Fatal("the image has no errors")
	}
	t.Setenv("IMGCHECK_CACHE", t.TempDir())
	dir := t.TempDir()
	lint := func(name, text string, args ...string) (int, string) {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("FROM "+ref+"\n"+text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		status := run(context.Background(), slices.Concat([]string{"imgcheck", "lint", "--config", "none", "--index", "none"}, args, []string{p}), &out, &errs)
		return status, out.String() + errs.String()
	}
	f := scanned.Findings[0]
	status, text := lint("Dockerfile", "ENV NVIDIA_VISIBLE_DEVICES=all\nCOPY app.py /app/\n")
	if want := ":1:1: error: the base " + ref + ": " + oneLine(f.Message); status != exitFindings || !strings.Contains(text, want) || !strings.Contains(text, "["+f.Rule+"]") {
		t.Errorf("status %d, no %q:\n%s", status, want, text)
	}
	if again, second := lint("Dockerfile", "ENV NVIDIA_VISIBLE_DEVICES=all\nCOPY app.py /app/\n"); again != status || second != text {
		t.Errorf("from the cache:\n%s", second)
	}
	if status, text := lint("mended.Dockerfile", "RUN ./install-cuda.sh\n", "--all"); status != exitOK || !strings.Contains(text, "because: line 2 may fix it, which is not known: the effect of install-cuda.sh") {
		t.Errorf("mended: status %d\n%s", status, text)
	}
	_, text = lint("Dockerfile", "ENV NVIDIA_VISIBLE_DEVICES=all\n", "-f", "sarif")
	text, _, _ = strings.Cut(text, "\nimgcheck: ") // progress
	log, err := sarif.FromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range log.Runs[0].Results {
		if *log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != *r.RuleID {
			t.Errorf("the result of %s names the rule %s", *r.RuleID, *log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID)
		}
	}
}
