// Package cluster checks what imgcheck writes for clusters with the code that reads it there:
// Kubernetes' API server, its scheduler's node affinity, the CEL of device selectors, pod security,
// Argo's types, in-toto.
package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	intoto "github.com/in-toto/attestation/go/v1"
	kyverno "github.com/kyverno/api/api/policies.kyverno.io/v1"
	"google.golang.org/protobuf/encoding/protojson"

	argo "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/third_party/forked/golang/expansion"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/imgcheck/imgcheck/pkg/fleet"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// fleets are fleets with everything and with nothing.
func fleets() map[string]*fleet.Fleet {
	small := &fleet.Fleet{Name: "imgcheck", Images: []string{"ghcr.io/org/app:1", "ghcr.io/org/app@sha256:" + strings.Repeat("0", 64)}, Imgcheck: "ghcr.io/imgcheck/imgcheck:v1", Release: "latest", Schedule: "0 3 * * 1"}
	registry := *small
	registry.Namespace, registry.Queue, registry.Secret, registry.Reports, registry.Shards = "1234", "true", "null", "ghcr.io/org/reports", 2
	registry.Scan = []string{"--gpu", "RTX 4090", "--driver=535"}
	registry.Policy = "ignore:\n  - id: missing-library\n    reason: \"it runs on the CPU\"\n"
	claim := *small
	claim.Claim, claim.Name = "reports", strings.Repeat("a", 42)
	large := *small
	large.Images = nil
	for i := range 7800 {
		large.Images = append(large.Images, fmt.Sprintf("registry.example.com/organisation/application-%05d@sha256:%s", i, strings.Repeat("0", 64)))
	}
	return map[string]*fleet.Fleet{"small": small, "registry": &registry, "claim": &claim, "large": &large}
}

// documents returns the documents that a fleet is written in.
func documents(t *testing.T, f *fleet.Fleet, kind string) [][]byte {
	t.Helper()
	own := *f
	if kind != "cronjob" {
		own.Schedule = ""
	}
	var b bytes.Buffer
	if err := own.Write(&b, kind); err != nil {
		t.Fatal(err)
	}
	return bytes.Split(b.Bytes(), []byte("\n---\n"))
}

// create does what the API server does with an object that is created: strict decoding, defaults,
// preparation, validation and warnings.
func create(t *testing.T, text []byte, into, internal runtime.Object, s rest.RESTCreateStrategy) {
	t.Helper()
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	meta := into.(metav1.Object)
	if meta.GetNamespace() == "" {
		meta.SetNamespace("default") // as kubectl does
	}
	meta.SetUID("0")
	legacyscheme.Scheme.Default(into)
	if err := legacyscheme.Scheme.Convert(into, internal, nil); err != nil {
		t.Fatal(err)
	}
	ctx := genericapirequest.WithNamespace(t.Context(), meta.GetNamespace())
	s.PrepareForCreate(ctx, internal)
	for _, err := range s.Validate(ctx, internal) {
		t.Errorf("%v\n%.4000s", err, text)
	}
	for _, w := range s.WarningsOnCreate(ctx, internal) {
		t.Errorf("warning: %s", w)
	}
}

// restricted checks a pod against the strictest of Kubernetes' standards for pods.
func restricted(t *testing.T, template *corev1.PodTemplateSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	if r := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec)); !r.Allowed {
		t.Errorf("the pod is not restricted: %s", r.ForbiddenDetail())
	}
}

// expanded returns the arguments of a pod of a Job as a node expands them: with the variables of
// its container, and the one that the Job's controller adds.
func expanded(t *testing.T, template *corev1.PodTemplateSpec) []string {
	t.Helper()
	variables := map[string]string{"JOB_COMPLETION_INDEX": "3"}
	for _, v := range template.Spec.Containers[0].Env {
		variables[v.Name] = v.Value
		if v.ValueFrom != nil {
			variables[v.Name] = v.ValueFrom.FieldRef.FieldPath
		}
	}
	var args []string
	for _, a := range template.Spec.Containers[0].Args {
		args = append(args, expansion.Expand(a, expansion.MappingFuncFor(variables)))
	}
	if text := strings.Join(args, " "); strings.Contains(text, "$(") || !strings.Contains(text, " --shard=3/") {
		t.Errorf("arguments %q", args)
	}
	return args
}

// list checks that a ConfigMap has the list of a fleet, and that pods mount it.
func list(t *testing.T, text []byte, f *fleet.Fleet) {
	t.Helper()
	var c corev1.ConfigMap
	create(t, text, &c, &core.ConfigMap{}, configmap.Strategy)
	if got := strings.Fields(c.Data["images"]); !slices.Equal(got, f.Images) || c.Name != f.Run() && f.Shards > 0 {
		t.Errorf("%s has %d images", c.Name, len(got))
	}
}

func TestJob(t *testing.T) {
	for name, f := range fleets() {
		t.Run(name, func(t *testing.T) {
			docs := documents(t, f, "job")
			if len(docs) != 2 {
				t.Fatalf("%d documents", len(docs))
			}
			list(t, docs[0], f)
			var j batchv1.Job
			create(t, docs[1], &j, &batch.Job{}, job.Strategy)
			restricted(t, &j.Spec.Template)
			expanded(t, &j.Spec.Template)
			if j.Labels["kueue.x-k8s.io/queue-name"] != f.Queue || (j.Spec.Suspend != nil && *j.Spec.Suspend) != (f.Queue != "") {
				t.Errorf("labels %v, suspended %v", j.Labels, j.Spec.Suspend)
			}
		})
	}
}

func TestCronJob(t *testing.T) {
	for name, f := range fleets() {
		t.Run(name, func(t *testing.T) {
			docs := documents(t, f, "cronjob")
			if len(docs) != 2 {
				t.Fatalf("%d documents", len(docs))
			}
			list(t, docs[0], f)
			var c batchv1.CronJob
			create(t, docs[1], &c, &batch.CronJob{}, cronjob.Strategy)
			restricted(t, &c.Spec.JobTemplate.Spec.Template)
			args := expanded(t, &c.Spec.JobTemplate.Spec.Template)
			if to := "--report-to=ghcr.io/org/reports:metadata.labels['" + batchv1.JobNameLabel + "']-3"; f.Reports != "" && !slices.Contains(args, to) {
				t.Errorf("no %s in %q", to, args)
			}
			// the Job that it makes
			j := batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: *c.Spec.JobTemplate.ObjectMeta.DeepCopy(), Spec: c.Spec.JobTemplate.Spec}
			j.Name, j.Namespace = c.Name+"-29000000", c.Namespace
			text, err := yaml.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			create(t, text, &batchv1.Job{}, &batch.Job{}, job.Strategy)
		})
	}
}

func TestArgo(t *testing.T) {
	for name, f := range fleets() {
		if f.Claim != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			docs := documents(t, f, "argo")
			if len(docs) != 2 {
				t.Fatalf("%d documents", len(docs))
			}
			list(t, docs[0], f)
			var w argo.Workflow
			if err := yaml.UnmarshalStrict(docs[1], &w); err != nil {
				t.Fatalf("%v\n%s", err, docs[1])
			}
			names := map[string]bool{}
			for _, one := range w.Spec.Templates {
				names[one.Name] = true
				if one.Container == nil {
					continue
				}
				container := *one.Container
				container.Name = "main"
				if len(container.Command) == 0 || w.Spec.AutomountServiceAccountToken != nil {
					t.Error("Argo's own container needs a token, and its executor a command")
				}
				restricted(t, &corev1.PodTemplateSpec{Spec: corev1.PodSpec{SecurityContext: w.Spec.SecurityContext, Containers: []corev1.Container{container}, Volumes: w.Spec.Volumes}})
				mounted := map[string]bool{}
				for _, v := range w.Spec.Volumes {
					mounted[v.Name] = true
				}
				for _, m := range container.VolumeMounts {
					if !mounted[m.Name] {
						t.Errorf("%s mounts %s, which is no volume", one.Name, m.Name)
					}
				}
			}
			for _, one := range w.Spec.Templates {
				if one.DAG == nil {
					continue
				}
				for _, task := range one.DAG.Tasks {
					if !names[task.Template] {
						t.Errorf("there is no template %s", task.Template)
					}
				}
			}
			if !names[w.Spec.Entrypoint] {
				t.Errorf("there is no template %s", w.Spec.Entrypoint)
			}
		})
	}
}

// TestDeploy builds the base and the overlay of deploy, and creates what comes out.
func TestDeploy(t *testing.T) {
	for dir, images := range map[string]int{"base": 1, "example": 2} {
		t.Run(dir, func(t *testing.T) {
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../deploy/"+dir)
			if err != nil {
				t.Fatal(err)
			}
			var c corev1.ConfigMap
			var j batchv1.CronJob
			for _, r := range built.Resources() {
				text, err := r.AsYAML()
				if err != nil {
					t.Fatal(err)
				}
				switch r.GetKind() {
				case "ConfigMap":
					create(t, text, &c, &core.ConfigMap{}, configmap.Strategy)
				case "CronJob":
					create(t, text, &j, &batch.CronJob{}, cronjob.Strategy)
				default:
					t.Errorf("%s %s", r.GetKind(), r.GetName())
				}
			}
			listed := 0
			for line := range strings.Lines(c.Data["images"]) {
				if !strings.HasPrefix(line, "#") {
					listed++
				}
			}
			pod := j.Spec.JobTemplate.Spec.Template
			if listed != images || len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].ConfigMap == nil || pod.Spec.Volumes[0].ConfigMap.Name != c.Name || c.Name == "imgcheck" {
				t.Errorf("%d images in %s, mounted %+v", listed, c.Name, pod.Spec.Volumes)
			}
			restricted(t, &pod)
			expanded(t, &pod)
		})
	}
}

// statement returns the statement about an image with a finding, in JSON.
func statement(t *testing.T, severity packs.Severity) []byte {
	t.Helper()
	var findings []lint.Finding
	if severity != "" {
		findings = []lint.Finding{{Rule: "missing-library", Severity: severity, Message: "libx is missing"}}
	}
	d := report.New(report.Image{Ref: "ghcr.io/org/app:1", Digest: "sha256:" + strings.Repeat("0", 64), Platform: "linux/amd64"}, &lint.Result{Findings: findings, Stats: lint.Stats{ELF: 1}})
	d.Imgcheck = "v1.0.0"
	s, err := report.NewStatement(d, "ghcr.io/org/app", []targets.Machine{{GPU: "L4", Arch: 89}}, report.Descriptor{Name: ".imgcheck.yaml", Digest: map[string]string{"sha256": strings.Repeat("1", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStatement reads statements with in-toto's own types, which know no other fields.
func TestStatement(t *testing.T) {
	for severity, want := range map[packs.Severity]string{"": "PASSED", packs.Note: "PASSED", packs.Warning: "WARNED", packs.Error: "FAILED"} {
		var s intoto.Statement
		if err := protojson.Unmarshal(statement(t, severity), &s); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		predicate, err := protojson.Marshal(s.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		var r testresult.TestResult
		if err := protojson.Unmarshal(predicate, &r); err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Configuration {
			if err := d.Validate(); err != nil {
				t.Error(err)
			}
		}
		if r.Result != want || len(r.Configuration) != 2 {
			t.Errorf("%s, want %s", &r, want)
		}
	}
}

// TestPolicy evaluates the expressions of deploy/kyverno as Kyverno does: with its functions, of
// which extractPayload gives the statement, as cosign's AttestationToPayloadJSON makes it.
func TestPolicy(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kyverno/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var p kyverno.ImageValidatingPolicy
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	if a := p.Spec.Attestations; len(a) != 1 || a[0].InToto == nil || a[0].InToto.Type != report.PredicateType {
		t.Fatalf("%+v", a)
	}
	foreign := []byte(`{"predicate": {"result": "PASSED", "configuration": [{"name": "another"}]}}`)
	for _, c := range []struct {
		name     string
		signed   map[string][]byte
		messages []string
	}{
		{"passed", map[string][]byte{"a": statement(t, ""), "b": statement(t, packs.Warning)}, nil},
		{"failed", map[string][]byte{"a": statement(t, ""), "b": statement(t, packs.Error)}, []string{"an image fails in imgcheck"}},
		{"none", map[string][]byte{"a": statement(t, "")}, []string{"an image has no signed statement of imgcheck"}},
		{"another test", map[string][]byte{"a": statement(t, ""), "b": foreign}, []string{"an image fails in imgcheck"}},
	} {
		env, err := cel.NewEnv(
			cel.Variable("images", cel.MapType(cel.StringType, cel.ListType(cel.StringType))), cel.Variable("attestations", cel.MapType(cel.StringType, cel.StringType)),
			cel.Variable("attestors", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)),
			cel.Function("verifyAttestationSignatures", cel.Overload("verify", []*cel.Type{cel.StringType, cel.StringType, cel.ListType(cel.DynType)}, cel.IntType, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
				if c.signed[args[0].Value().(string)] == nil {
					return types.Int(0)
				}
				return types.Int(1)
			}))),
			cel.Function("extractPayload", cel.Overload("extract", []*cel.Type{cel.StringType, cel.StringType}, cel.DynType, cel.BinaryBinding(func(image, _ ref.Val) ref.Val {
				var payload map[string]any
				if err := json.Unmarshal(c.signed[image.Value().(string)], &payload); err != nil {
					return types.WrapErr(err)
				}
				return types.DefaultTypeAdapter.NativeToValue(payload)
			}))),
		)
		if err != nil {
			t.Fatal(err)
		}
		in := map[string]any{
			"images": map[string][]string{"containers": {"a"}, "initContainers": {"b"}}, "attestations": map[string]string{"imgcheck": "imgcheck"},
			"attestors": map[string]string{"ci": "ci"}, "variables": map[string]any{},
		}
		evaluate := func(expression string) ref.Val {
			ast, issues := env.Compile(expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			program, err := env.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			out, _, err := program.Eval(in)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		for _, v := range p.Spec.Variables {
			in["variables"].(map[string]any)[v.Name] = evaluate(v.Expression)
		}
		var messages []string
		for _, v := range p.Spec.Validations {
			if evaluate(v.Expression) != types.True {
				messages = append(messages, v.Message)
			}
		}
		if !slices.Equal(messages, c.messages) {
			t.Errorf("%s: %q, want %q", c.name, messages, c.messages)
		}
	}
}
