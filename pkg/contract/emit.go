package contract

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// Kinds are the forms of conditions.
var Kinds = []string{"nodeaffinity", "dra", "require", "nfd"}

// Emit writes the conditions of the verdicts in one of Kinds.
func (img *Image) Emit(w io.Writer, kind string) error {
	write := map[string]func() ([]byte, error){
		"nodeaffinity": img.nodeAffinity, "dra": img.dra, "require": img.requireLines, "nfd": img.NFD,
	}[kind]
	if write == nil {
		return fmt.Errorf("there is no kind %q: say %s", kind, strings.Join(Kinds, ", "))
	}
	b, err := write()
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// header returns comment lines: the image, and the remarks.
func (img *Image) header(says ...string) string {
	var b strings.Builder
	for _, line := range slices.Concat(says, img.remarks()) {
		fmt.Fprintf(&b, "# %s\n", plain.Line(line))
	}
	return b.String()
}

// document returns comment lines and documents of YAML.
func document(header string, docs ...any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(header)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, d := range docs {
		if err := e.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.Close()
}

// expression is a requirement on a label, in the form of Kubernetes' NodeSelectorRequirement.
type expression struct {
	Key      string   `yaml:"key"`
	Operator string   `yaml:"operator"`
	Values   []string `yaml:"values,flow"`
}

// The labels of GPU Feature Discovery (k8s-device-plugin, internal/lm: resource.go, nvml.go).
const (
	labelMajor    = "nvidia.com/gpu.compute.major"
	labelMinor    = "nvidia.com/gpu.compute.minor"
	labelDriver   = "nvidia.com/cuda.driver-version.major"
	labelRelease  = "nvidia.com/cuda.driver-version.minor"
	labelRevision = "nvidia.com/cuda.driver-version.revision"
)

// terms returns alternatives, in each of which all expressions hold. Drivers are compared by
// Gt and Lt: as numbers, since a revision is 03 as well as 3, and absent in 550.120.
func terms(list []condition) [][]expression {
	var all [][]expression
	for _, c := range list {
		majors, minors := c.byMajor()
		for _, major := range majors {
			gpu := []expression{in(labelMajor, major), in(labelMinor, minors[major]...)}
			for _, driver := range driverTerms(c.driver) {
				all = append(all, slices.Concat(gpu, driver))
			}
		}
	}
	return all
}

func in(key string, values ...int) expression {
	e := expression{Key: key, Operator: "In"}
	for _, v := range values {
		e.Values = append(e.Values, fmt.Sprint(v))
	}
	return e
}

func above(key string, n int) expression { return expression{key, "Gt", []string{fmt.Sprint(n)}} }
func below(key string, n int) expression { return expression{key, "Lt", []string{fmt.Sprint(n)}} }

// driverTerms returns alternatives for a driver that is not older than a release.
func driverTerms(r release) [][]expression {
	switch {
	case r == release{}:
		return [][]expression{nil}
	case r[1] == 0 && r[2] == 0:
		return [][]expression{{above(labelDriver, r[0]-1)}}
	case r[2] == 0:
		return [][]expression{{above(labelDriver, r[0])}, {in(labelDriver, r[0]), above(labelRelease, r[1]-1)}}
	}
	return [][]expression{
		{above(labelDriver, r[0])},
		{in(labelDriver, r[0]), above(labelRelease, r[1])},
		{in(labelDriver, r[0]), above(labelRelease, r[1]-1), below(labelRelease, r[1]+1), above(labelRevision, r[2]-1)},
	}
}

// nodeAffinity returns the affinity of a Kubernetes pod over the labels of GPU Feature
// Discovery.
func (img *Image) nodeAffinity() ([]byte, error) {
	list, err := img.conditions()
	if err != nil {
		return nil, err
	}
	type term struct {
		MatchExpressions []expression `yaml:"matchExpressions"`
	}
	var selector struct {
		Terms []term `yaml:"nodeSelectorTerms"`
	}
	for _, t := range terms(list) {
		selector.Terms = append(selector.Terms, term{t})
	}
	header := img.header("spec.affinity of a pod: nodes whose GPU and driver serve "+img.Ref+",", "by the labels of GPU Feature Discovery; GPUs that imgcheck does not know are not among them")
	return document(header, map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": selector}})
}

// CEL returns the expression over the attributes of a device of NVIDIA's DRA driver
// (cmd/gpu-kubelet-plugin/deviceinfo.go): GPUs and their MIG parts; those that are passed
// through to a virtual machine have no compute capability.
func (img *Image) CEL() (string, error) {
	list, err := img.conditions()
	if err != nil {
		return "", err
	}
	const gpu = `device.attributes["gpu.nvidia.com"]`
	var any []string
	for _, c := range list {
		majors, minors := c.byMajor()
		for _, major := range majors {
			s := fmt.Sprintf("%s.cudaComputeCapability.major() == %d && %s.cudaComputeCapability.minor() in [%s]", gpu, major, gpu, numbers(minors[major]))
			if c.driver != (release{}) {
				s += fmt.Sprintf(" && %s.driverVersion.compareTo(semver(%q)) >= 0", gpu, c.driver.semver())
			}
			any = append(any, "  "+s)
		}
	}
	return `device.driver == "gpu.nvidia.com" && "cudaComputeCapability" in ` + gpu + " && (\n" + strings.Join(any, " ||\n") + ")", nil
}

func numbers(list []int) string {
	var s []string
	for _, n := range list {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ", ")
}

// dra returns a DeviceClass with the expression, and a ResourceClaimTemplate for a GPU of it.
func (img *Image) dra() ([]byte, error) {
	cel, err := img.CEL()
	if err != nil {
		return nil, err
	}
	const name = "imgcheck-gpu"
	type object = map[string]any
	class := object{
		"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": object{"name": name},
		"spec": object{"selectors": []any{object{"cel": object{"expression": cel}}}},
	}
	claim := object{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": object{"name": name},
		"spec": object{"spec": object{"devices": object{"requests": []any{object{"name": "gpu", "exactly": object{"deviceClassName": name}}}}}},
	}
	return document(img.header("devices of NVIDIA's DRA driver that serve "+img.Ref), class, claim)
}
