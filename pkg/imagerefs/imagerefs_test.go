package imagerefs

import (
	"fmt"
	"regexp"
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
`, []Ref{{"busybox:1", 8, "", ""}, {"ghcr.io/org/app:1", 11, "", ""}, {"b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 16, "", ""}}},
		"no manifest":      {"app.yaml", "containers: [{image: a}]", nil},
		"no pods":          {"a.yml", "apiVersion: v1\nkind: ConfigMap\ndata: {image: a}", nil},
		"kustomize":        {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: $(IMG)}]}", []Ref{{"", 3, "$(IMG) comes from a template", ""}}},
		"template":         {"templates/a.yaml", "apiVersion: v1\nkind: Pod\n{{- if .x }}\nspec:\n{{ end }}", nil},
		"a template after": {"a.yaml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{- if .x }}\nkind: Pod\n{{ end }}\n", []Ref{{"a", 3, "", ""}}},
		"a template between": {"a.yaml", "--- # {{ one }}\napiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{- if .x }}\nkind: Pod\n---\napiVersion: v1\nkind: Pod\nspec:\n  x: |\n    ---\n  containers: [{image: b}, {image: 'c:{{ .tag }}'}]\n---", []Ref{
			{"a", 4, "", ""}, {"b", 14, "", ""}, {"", 14, "c:{{ .tag }} comes from a template", ""},
		}},
		"directives":   {"a.yaml", "%YAML 1.2\n---\napiVersion: v1\nkind: Pod\nspec: {containers: [{image: a}]}\n---\n{{ x }}: {{ y }}: z\n", []Ref{{"a", 5, "", ""}}},
		"our schemes":  {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: 'docker:27-cli'}, {image: 'dir:/etc'}]}", []Ref{{"docker:27-cli", 3, "", ""}, {"", 3, `"dir:/etc" is not a reference`, ""}}},
		"no reference": {"a.yml", "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: 'A B'}]}", []Ref{{"", 3, `"A B" is not a reference`, ""}}},
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
`, []Ref{{"a:2", 5, "", ""}, {"", 6, "b:$TAG: the variable TAG has no default", ""}, {"", 7, "built is built here", ""}, {"shared:1", 3, "", ""}, {"", 10, `"e:" is not a reference`, ""}}},
		"old compose": {"deploy/docker-compose.prod.yml", "services: {a: {image: a}}", []Ref{{"a", 1, "", ""}}},
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
chart: {repository: https://charts.example, tag: v1}
`, []Ref{{"ghcr.io/org/app:1.2", 4, "", ""}, {"proxy:3", 8, "", ""}, {"init:1", 9, "", ""}, {"job@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 11, "", ""}, {"", 12, "none has no tag here: the chart's version gives it", ""}}},
		"compose of others": {"compose_gpu.yaml", "services:\n  a:\n    image: ${A:-${B:-c}}\n    platform: linux/arm64\n  b: {<<: {image: x, build: .}, image: 'y$$z'}\n  c: {image: '$D'}\n", []Ref{
			{"c", 3, "", "linux/arm64"}, {"", 5, "y$$z is built here", ""}, {"fromenv", 6, "", ""},
		}},
		"argo": {"wf.json", `{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
"spec": {"templates": [{"container": {"image": "a:1"}}, {"script": {"image": "b:{{inputs.parameters.tag}}"}}]}}`, []Ref{{"a:1", 2, "", ""}, {"", 2, "b:{{inputs.parameters.tag}} comes from a template", ""}}},
		"tekton":          {"task.yaml", "apiVersion: tekton.dev/v1\nkind: Task\nspec:\n  stepTemplate: {image: t:1}\n  steps:\n  - image: s:1\n", []Ref{{"t:1", 4, "", ""}, {"s:1", 6, "", ""}}},
		"nim":             {"nim.yaml", "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nspec:\n  image:\n    repository: nvcr.io/nim/meta/llama\n    tag: '1.3.3'\n", []Ref{{"nvcr.io/nim/meta/llama:1.3.3", 5, "", ""}}},
		"spark":           {"s.yaml", "apiVersion: sparkoperator.k8s.io/v1beta2\nkind: SparkApplication\nspec: {image: a:1, driver: {image: b:1}}\n", []Ref{{"a:1", 3, "", ""}, {"b:1", 3, "", ""}}},
		"kserve":          {"isvc.yaml", "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec:\n  predictor:\n    model:\n      modelFormat: {name: x}\n      image: a:1\n    containers: [{image: b:1}]\n", []Ref{{"b:1", 8, "", ""}, {"a:1", 7, "", ""}}},
		"an image volume": {"pod.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{image: a:1}]\n  volumes:\n  - name: model\n    image: {reference: models/llama:1, pullPolicy: Always}\n", []Ref{{"a:1", 4, "", ""}, {"models/llama:1", 7, "", ""}}},
		"flux": {"release.yaml", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  chart: {spec: {chart: a, version: 1.0.0, image: no:1}}\n  values:\n    image: {repository: ghcr.io/org/app, tag: '2'}\n    sidecar: {image: b, imageTag: '3'}\n  postRenderers:\n  - kustomize: {images: [{name: x, newName: y, newTag: '4'}]}\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {images: [{name: c, newTag: '5'}]}\n", []Ref{
			{"ghcr.io/org/app:2", 6, "", ""}, {"b:3", 7, "", ""}, {"y:4", 9, "", ""}, {"c:5", 13, "", ""},
		}},
		"argo cd": {"app.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nspec:\n  sources:\n  - kustomize:\n      images: ['a:1', 'old=ghcr.io/org/b:2', 'c=*:3', 'old=d']\n  - helm:\n      values: |\n        image:\n          repository: e\n          tag: '4'\n      valuesObject: {image: 'f:5'}\n  - helm: {values: 'image: g:6'}\n  - helm: {values: 'a: b: c'}\n", []Ref{
			{"a:1", 6, "", ""},
			{"ghcr.io/org/b:2", 6, "", ""},
			{"", 6, "c=*:3 is not known here: the manifests give the rest", ""},
			{"", 6, "old=d is not known here: the manifests give the rest", ""},
			{"e:4", 10, "", ""},
			{"f:5", 12, "", ""},
			{"g:6", 13, "", ""},
			{"", 14, "values was not understood: yaml: mapping values are not allowed in this context", ""},
		}},
		"argo cd parameters": {"app.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nspec:\n  template:\n    spec:\n      source:\n        helm:\n          parameters:\n          - name: image.repository\n            value: ghcr.io/org/app\n          - {name: image.tag, value: '2', forceString: true}\n          - {name: worker.image, value: 'org/worker:3'}\n          - {name: sidecar.image.tag, value: '4'}\n          - {name: replicas, value: '5'}\n          - {name: 'annotations.a\\.b/c', value: 'no:1'}\n", []Ref{
			{"ghcr.io/org/app:2", 10, "", ""}, {"org/worker:3", 12, "", ""}, {"", 13, "4 is the tag of an image that the chart names", ""},
		}},
		"helmfile":     {"helmfile.yaml", "releases:\n- name: a\n  chart: c/a\n  values:\n  - image: {repository: a, tag: '1'}\n  set:\n  - {name: image.registry, value: ghcr.io}\n  - {name: image.repository, value: b}\n  - {name: image.tag, value: 2}\n", []Ref{{"a:1", 5, "", ""}, {"ghcr.io/b:2", 8, "", ""}}},
		"helm_release": {"main.tf", "resource \"helm_release\" \"a\" {\n  set {\n    name = \"image.repository\"\n    value = \"a\"\n  }\n  set {\n    name = \"image.tag\"\n    value = \"1\"\n  }\n}\n", []Ref{{"a:1", 4, "", ""}}},
		"a list of manifests": {"all.json", `[{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "a:1"}]}},
{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "b:1"}]}}]`, []Ref{{"a:1", 1, "", ""}, {"b:1", 2, "", ""}}},
		"a task": {"task.json", `{"family": "x", "containerDefinitions": [{"name": "a", "image": "a:1"}]}`, []Ref{{"a:1", 1, "", ""}}},
		"its containers": {"ecs/container-definitions.json", `[{"name": "a", "image": "a:1"},
{"name": "b", "image": "${app_image}"}]`, []Ref{{"a:1", 1, "", ""}, {"", 2, "${app_image} comes from a template", ""}}},
		"terraform's JSON": {"ecs.tf", `resource "aws_ecs_task_definition" "a" {
  container_definitions = <<-EOF
    [
      {
        "name": "x", "cpu": ${var.cpu},
        "image": "a:1"
      },
      {"image": "b:${local.tag}"},
      {"image": "${lookup(var.images, "c")}"}
    ]
  EOF
}
resource "aws_ecs_task_definition" "b" {
  container_definitions = file("b.json")
}
locals { tag = "2" }
`, []Ref{{"a:1", 6, "", ""}, {"b:2", 8, "", ""}, {"", 9, "$(lookupvar.imagesc) comes from a template", ""}, {"", 14, "${file(\"b.json\")} is not read", ""}}},
		"more of terraform": {"more.tf", `locals {
  machine               = { image = "ami-0123" }
  container_definitions = jsonencode([{ name = "a", image = "local:1" }])
}
resource "aws_ecs_task_definition" "a" {
  container_definitions = jsonencode(concat([merge({ name = "a" }, { image = "a:1" })], local.others))
}
resource "aws_batch_job_definition" "b" {
  container_properties = <<CONTAINER
{"image": "b:1", "command": ["ls"]}
CONTAINER
}
resource "kubectl_manifest" "c" {
  yaml_body = <<YAML
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: c:1
YAML
}
resource "helm_release" "d" {
  values = [<<EOF
image:
  repository: d
  tag: "1"
EOF
  ]
}
module "e" {
  source                = "terraform-aws-modules/ecs/aws//modules/service"
  container_definitions = { app = { image = "e:1" } }
}
`, []Ref{{"d:1", 25, "", ""}, {"local:1", 3, "", ""}, {"a:1", 6, "", ""}, {"", 6, "${local.others} is not read", ""}, {"b:1", 10, "", ""}, {"c:1", 19, "", ""}, {"e:1", 32, "", ""}}},
		"KServe": {"isvc.yaml", "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nspec:\n  predictor:\n    model:\n      image: a:1\n---\napiVersion: serving.kserve.io/v1alpha1\nkind: ClusterStorageContainer\nspec: {container: {image: b:1}}\n", []Ref{{"a:1", 6, "", ""}, {"b:1", 10, "", ""}}},
		"a kustomization": {"k/kustomization.yaml", "images:\n- name: app\n  newName: ghcr.io/org/app\n  newTag: '2'\n- name: only\n  digest: sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n- name: nothing\n- name: old\n  newName: moved\n", []Ref{
			{"ghcr.io/org/app:2", 3, "", ""}, {"only@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 5, "", ""}, {"", 9, "moved has no tag here: the manifests give it", ""},
		}},
		"skaffold": {"skaffold.yaml", "apiVersion: skaffold/v4beta6\nkind: Config\nbuild: {artifacts: [{image: app}]}\n", []Ref{{"", 3, "app is built here", ""}}},
		"workflow": {".github/workflows/ci.yml", "jobs:\n  a:\n    container: x:1\n    services: {db: {image: y:1}}\n    steps:\n    - uses: docker://z:1\n    - uses: actions/checkout@v4\n  b:\n    container: {image: 'w:${{ matrix.v }}', credentials: {}}\n", []Ref{
			{"x:1", 3, "", ""}, {"y:1", 4, "", ""}, {"", 9, "w:${{ matrix.v }} comes from a template", ""}, {"z:1", 6, "", ""},
		}},
		"gitlab": {".gitlab-ci.yml", "variables: {TAG: '1', V: {value: v, description: d}}\nimage: a:$TAG\njob:\n  image: {name: 'b:${V}', entrypoint: ['']}\n  services: [c:1, {name: d:1, alias: e}]\nother: {image: $CI_REGISTRY_IMAGE}\n", []Ref{
			{"a:1", 2, "", ""}, {"b:v", 4, "", ""}, {"c:1", 5, "", ""}, {"d:1", 5, "", ""}, {"", 6, "$CI_REGISTRY_IMAGE: the variable CI_REGISTRY_IMAGE has no default", ""},
		}},
		"cloud build":    {"cloudbuild.yaml", "steps: [{name: 'gcr.io/x:$_T'}]\nimages: [built:1]\nsubstitutions: {_T: '9'}\n", []Ref{{"gcr.io/x:9", 1, "", ""}, {"", 2, "built:1 is built here", ""}}},
		"a devcontainer": {".devcontainer/devcontainer.json", "{\n  // comment\n  \"image\": \"mcr.microsoft.com/x:1\",\n}", []Ref{{"mcr.microsoft.com/x:1", 3, "", ""}}},
		"bake":           {"docker-bake.hcl", "target \"a\" {\n  contexts = {\n    b = \"docker-image://nvidia/cuda:12\"\n    c = \"target:d\"\n  }\n}\n", []Ref{{"nvidia/cuda:12", 3, "", ""}}},
		"ray":            {"cluster.yaml", "cluster_name: x\nprovider: {type: aws}\ndocker: {image: r:1, worker_image: s:1}\n", []Ref{{"r:1", 3, "", ""}, {"s:1", 3, "", ""}}},
		"sky":            {"task.yaml", "resources:\n  image_id: docker:nvcr.io/x:1\nrun: x\n", []Ref{{"nvcr.io/x:1", 2, "", ""}}},
		"sky of a cloud": {"task.yaml", "resources:\n  image_id: ami-1234\n", nil},
		"fly":            {"fly.toml", "[build]\n  image = 'a:1'\n", []Ref{{"a:1", 2, "", ""}}},
		"terraform": {"infra/main.tf", "variable \"tag\" { default = \"2\" }\nresource \"aws_ecs_task_definition\" \"a\" {\n  container_definitions = jsonencode([{image = \"a:${var.tag}\"}])\n}\nresource \"kubernetes_deployment\" \"b\" {\n  spec {\n    template {\n      spec {\n        container {\n          image = var.none\n        }\n      }\n    }\n  }\n}\nresource \"digitalocean_droplet\" \"c\" { image = \"ubuntu-22-04\" }\n", []Ref{
			{"a:2", 3, "", ""}, {"", 10, "${var.none} comes from a template", ""},
		}},
		"slurm": {"train.sbatch", "#!/bin/bash\n#SBATCH --container-image=nvcr.io#nvidia/pytorch:24.01-py3\nsrun -n 2 --container-image docker://a:1 \\\n  --container-image=$IMAGE\nsrun --container-image=/x/y.sqsh\n", []Ref{{"nvcr.io/nvidia/pytorch:24.01-py3", 2, "", ""}, {"a:1", 3, "", ""}, {"", 4, "$IMAGE depends on a variable", ""}}},
		"enroot": {"train.sh", "srun --container-image='docker://$oauthtoken@nvcr.io#nvidia/a:1' x\nsrun --container-image=b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa x\nsrun --container-image=dockerd://c:1 x\n", []Ref{
			{"nvcr.io/nvidia/a:1", 1, "", ""}, {"b@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 2, "", ""}, {"", 3, "dockerd://c:1 is in no registry", ""},
		}},
		"a NIM cache":        {"cache.yaml", "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMCache\nspec:\n  source:\n    ngc: {modelPuller: 'nvcr.io/nim/x:1', pullSecret: s}\n", []Ref{{"nvcr.io/nim/x:1", 5, "", ""}}},
		"terraform in JSON":  {"main.tf.json", "{\"resource\": {\"docker_container\": {\"a\": {\n  \"image\": \"a:1\"}}}}", []Ref{{"a:1", 2, "", ""}}},
		"apptainer":          {"app.def", "Bootstrap: docker\nFrom: nvidia/cuda:12\n", []Ref{{"nvidia/cuda:12", 2, "", ""}}},
		"another bootstrap":  {"app.def", "Bootstrap: localimage\nFrom: x.sif\n", nil},
		"a run of apptainer": {"run.sh", "apptainer exec --nv docker://a:1 python x.py\n", []Ref{{"a:1", 1, "", ""}}},
		"bitnami":            {"values.yaml", "image: {registry: docker.io, name: bitnami/x, tag: 1-debian}\nother:\n  image: y\n  imageTag: '3'\n", []Ref{{"docker.io/bitnami/x:1-debian", 1, "", ""}, {"y:3", 3, "", ""}}},
		"no format":          {"package.json", `{"image": "a", "kind": "x"}`, nil},
		"another file":       {"config.yaml", "image: a\nservices: {a: {image: b}}", nil},
		"alias loop":         {"values.yaml", "a: &a\n  b: *a\nimage: x", []Ref{{"x", 3, "", ""}}},
		"empty":              {"values.yaml", "", nil},
		"a list":             {"values.yaml", "- image: a", []Ref{{"a", 1, "", ""}}},
	} {
		got, err := Of(x.file, []byte(x.text), map[string]string{"D": "fromenv"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for text, want := range map[string]string{"a: b: c": "mapping values", "a: b: c\n---\n{{": "mapping values", strings.Repeat("#long\n", 200_000): "larger than 1024 KiB"} {
		if _, err := Of("values.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
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
		"many templates":    {"a.yaml", "# apiVersion, kind\n" + strings.Repeat("---\n", n/4) + "{{", "it has 200000 or more values, or names 1000 or more images"},
		"nothing but depth": {"values.yaml", strings.Repeat("[", n), "exceeded max depth of 10000"},
	} {
		refs, err := Of(tt.file, []byte(tt.text), nil)
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
		refs, err := Of(file, []byte(text), nil)
		if err != nil && refs != nil {
			t.Error("images beside an error")
		}
		for _, r := range refs {
			if (r.Image == "") == (r.Why == "") || r.Line < 1 || r.Line > 1+len(breaks.FindAllString(text, -1)) {
				t.Errorf("%+v", r)
			}
		}
	})
}

// breaks matches what ends a line for yaml.v3 (YAML 1.1).
var breaks = regexp.MustCompile("[\n\r\u0085\u2028\u2029]")

// TestFormats: each format says its files, where its images are, and its source.
func TestFormats(t *testing.T) {
	for _, f := range formats {
		if f.Name == "" || len(f.Files) == 0 || len(f.Images)+len(f.Parts)+len(f.Built) == 0 || len(f.Sources) == 0 {
			t.Errorf("%+v is not whole", f)
		}
	}
	for _, s := range scripts {
		if s.Name == "" || len(s.Files) == 0 || s.expression.NumSubexp() != 1 || len(s.Sources) == 0 {
			t.Errorf("%+v is not whole", s)
		}
	}
	for file, want := range map[string]string{"a/compose.yaml": "a/.env", "values.yaml": ""} {
		if got := EnvFile(file); got != want {
			t.Errorf("EnvFile(%q) is %q", file, got)
		}
	}
	for file, want := range map[string]bool{"compose.yaml": true, ".GITLAB-ci.yml": true, "a/values.yaml": true, "tsconfig.json": false, "run.sh": false} {
		if Certain(file) != want {
			t.Errorf("Certain(%q) is %v", file, !want)
		}
	}
}
