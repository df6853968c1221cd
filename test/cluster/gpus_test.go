package cluster

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/Masterminds/semver"

	"github.com/imgcheck/imgcheck/pkg/contract"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

var drivers = []string{"470.256.02", "525.60.13", "535.54.03", "550.40.07", "550.54.14", "550.120", "551.23", "570.124.06", "575.51.03", "580.65.06", "590.44.01"}

// verdicts returns images whose verdicts are drawn from n.
func verdicts(n int) *contract.Image {
	img := &contract.Image{Ref: "registry.example/app:1"}
	for i, a := range targets.Known().Architectures {
		k := n*31 + i*i*7 + i*n
		img.Rows = append(img.Rows, &targets.Row{
			Arch: fmt.Sprintf("%d.%d", a.Arch/10, a.Arch%10), Products: a.Products,
			Verdict: []string{"runs", "fails", "compiles", "partly", "unsure"}[k%5], Driver: []string{"", "525", "550.54.14", "575", "580.65"}[k/5%5],
		})
	}
	return img
}

// admits reports whether a row's verdict admits a driver. Masterminds' semver is what NVIDIA's
// DRA driver writes its attributes with.
func admits(r *targets.Row, driver string) bool {
	has, needs := semver.MustParse(driver), semver.MustParse("0")
	if r.Driver != "" {
		needs = semver.MustParse(r.Driver)
	}
	return r.Verdict != "fails" && !has.LessThan(needs)
}

func emitted(t *testing.T, img *contract.Image, kind string, into ...any) {
	t.Helper()
	var b bytes.Buffer
	if err := img.Emit(&b, kind); err != nil {
		t.Fatal(err)
	}
	docs := bytes.Split(b.Bytes(), []byte("\n---\n"))
	if len(docs) != len(into) {
		t.Fatalf("%d documents, want %d", len(docs), len(into))
	}
	for i, doc := range docs {
		if err := yaml.UnmarshalStrict(doc, into[i]); err != nil {
			t.Fatalf("%v: %s", err, doc)
		}
	}
}

func TestDRA(t *testing.T) {
	for n := range 25 {
		img := verdicts(n)
		var class resourceapi.DeviceClass
		var claim resourceapi.ResourceClaimTemplate
		emitted(t, img, "dra", &class, &claim)
		if got := claim.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName; got != class.Name {
			t.Errorf("the claim is for %q, the class is %q", got, class.Name)
		}
		expression := class.Spec.Selectors[0].CEL.Expression
		if len(expression) > resourceapi.CELSelectorExpressionMaxLength {
			t.Errorf("the expression has %d bytes", len(expression))
		}
		compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(expression, cel.Options{})
		if compiled.Error != nil {
			t.Fatalf("%v: %s", compiled.Error, expression)
		}
		if compiled.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
			t.Errorf("the expression costs %d", compiled.MaxCost)
		}
		match := func(driver string, attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) bool {
			ok, _, err := compiled.DeviceMatches(context.Background(), cel.Device{Driver: driver, Attributes: attributes})
			if err != nil {
				t.Errorf("%v: %s", err, expression)
			}
			return ok
		}
		for _, r := range img.Rows {
			for _, driver := range drivers {
				attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					"type":                  {StringValue: ptr.To("gpu")},
					"cudaComputeCapability": {VersionValue: ptr.To(semver.MustParse(r.Arch).String())},
					"driverVersion":         {VersionValue: ptr.To(semver.MustParse(driver).String())},
				}
				if got, want := match("gpu.nvidia.com", attributes), admits(r, driver); got != want {
					t.Errorf("image %d on %s with %s: %v, want %v", n, r.Arch, driver, got, want)
				}
				if match("gpu.example.com", attributes) {
					t.Error("a device of another driver matches")
				}
			}
		}
		if match("gpu.nvidia.com", map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"type": {StringValue: ptr.To("vfio")}}) {
			t.Error("a device without a compute capability matches")
		}
	}
}

func TestNodeAffinity(t *testing.T) {
	for n := range 25 {
		img := verdicts(n)
		var affinity corev1.Affinity
		emitted(t, img, "nodeaffinity", &affinity)
		selector, err := nodeaffinity.NewNodeSelector(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range img.Rows {
			for _, driver := range drivers {
				major, minor, _ := strings.Cut(r.Arch, ".")
				parts := append(strings.Split(driver, "."), "")
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{
					"nvidia.com/gpu.compute.major": major, "nvidia.com/gpu.compute.minor": minor, "nvidia.com/cuda.driver-version.major": parts[0],
					"nvidia.com/cuda.driver-version.minor": parts[1], "nvidia.com/cuda.driver-version.revision": parts[2],
				}}}
				if got, want := selector.Match(node), admits(r, driver); got != want {
					t.Errorf("image %d on %s with %s: %v, want %v", n, r.Arch, driver, got, want)
				}
			}
		}
		if selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu"}}) {
			t.Error("a node without a GPU matches")
		}
	}
}
