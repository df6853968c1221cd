package contract

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/targets"
)

// drivers are releases as machines have them: with zeros in front, without a revision.
var drivers = []string{
	"450.80.02", "470.256.02", "525.60.13", "525.147.05", "535.54.03", "535.183.01", "545.23.08", "550.40.07", "550.54.09", "550.54.14", "550.54.15",
	"550.120", "550.54", "551.23", "560.28.03", "565.57.01", "570.124.06", "575.51.03", "580.65.06", "580.159.04", "590.44.01", "600.10",
}

// images returns verdicts: of each kind alone, and drawn at random.
func images() []*Image {
	known := targets.Known().Architectures
	rows := func(of func(i int) (verdict, driver string)) *Image {
		img := &Image{Ref: "registry.example/app:1"}
		for i, a := range known {
			r := &targets.Row{Arch: fmt.Sprintf("%d.%d", a.Arch/10, a.Arch%10), Products: a.Products}
			r.Verdict, r.Driver = of(i)
			img.Rows = append(img.Rows, r)
		}
		return img
	}
	list := []*Image{
		rows(func(int) (string, string) { return "runs", "" }),
		rows(func(int) (string, string) { return "runs", "550.54.14" }),
		rows(func(i int) (string, string) { return []string{"fails", "runs"}[min(1, i/7)], "525" }),
		rows(func(i int) (string, string) { return []string{"runs", "fails"}[min(1, i/12)], "580" }),
		rows(func(i int) (string, string) { return "compiles", []string{"", "575"}[i%2] }),
		rows(func(i int) (string, string) { return []string{"partly", "unsure", "fails"}[i%3], "550.54" }),
	}
	compat := rows(func(i int) (string, string) { return []string{"fails", "runs"}[min(1, i/7)], "525" })
	compat.Compat = "/usr/local/cuda-12.4/compat"
	list = append(list, compat)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		list = append(list, rows(func(int) (string, string) {
			return []string{"fails", "runs", "compiles", "partly", "unsure"}[random.IntN(5)], []string{"", "450", "525", "550.54.14", "575", "580.65", "580.65.06"}[random.IntN(7)]
		}))
	}
	return list
}

// admits reports whether a row's verdict admits a driver.
func admits(img *Image, r *targets.Row, driver string) bool {
	if r.Verdict == "fails" {
		return false
	}
	has, err1 := parseRelease(driver)
	needs, err2 := parseRelease(r.Driver)
	if err1 != nil || err2 != nil {
		panic("a release that is none")
	}
	return img.Compat != "" || compareReleases(has, needs) >= 0
}

// labels returns GPU Feature Discovery's labels for a machine (internal/lm/nvml.go).
func labels(arch, driver string) map[string]string {
	major, minor, _ := strings.Cut(arch, ".")
	parts := append(strings.Split(driver, "."), "")
	return map[string]string{labelMajor: major, labelMinor: minor, labelDriver: parts[0], labelRelease: parts[1], labelRevision: parts[2]}
}

// TestConditions evaluates what Emit writes for each image, GPU and driver, and compares it
// with the verdicts.
func TestConditions(t *testing.T) {
	for n, img := range images() {
		affinity, compat, vars := readAffinity(t, emitted(t, img, "nodeaffinity")), readNFD(t, emitted(t, img, "nfd")), variables(t, img)
		for i, r := range img.Rows {
			for _, driver := range drivers {
				want := admits(img, r, driver)
				if got := affine(t, affinity, labels(r.Arch, driver)); got != want {
					t.Errorf("image %d, nodeAffinity on %s with %s: got %v", n, r.Arch, driver, got)
				}
				if got := compatible(t, compat, labels(r.Arch, driver)); got != want {
					t.Errorf("image %d, NFD on %s with %s: got %v", n, r.Arch, driver, got)
				}
				cuda := targets.Known().CUDA(targets.Machine{Driver: driver})
				if targets.Known().Architectures[i].Tegra {
					want = admitsCUDA(img, r, cuda)
				}
				machine := map[string]string{"arch": r.Arch, "driver": driver, "cuda": cuda}
				if got := required(t, vars, machine); got != want {
					t.Errorf("image %d, NVIDIA_REQUIRE on %s with %s: got %v of %v", n, r.Arch, driver, got, vars)
				}
			}
		}
		if affine(t, affinity, map[string]string{}) || compatible(t, compat, map[string]string{}) {
			t.Errorf("image %d: a node without a GPU is admitted", n)
		}
	}
}

// TestTegra checks the variables where the toolkit knows no driver, but CUDA's release and
// the architecture (internal/modifier/csv.go): a condition on the driver is an error there.
func TestTegra(t *testing.T) {
	for n, img := range images() {
		vars := variables(t, img)
		for _, r := range img.Rows {
			if a := targets.Known().Architectures; !a[slices.Index(img.Rows, r)].Tegra {
				continue
			}
			for _, cuda := range []string{"11.4", "12.6", "13.0"} {
				if got := required(t, vars, map[string]string{"arch": r.Arch, "cuda": cuda}); got != admitsCUDA(img, r, cuda) {
					t.Errorf("image %d on %s with CUDA %s: got %v of %v", n, r.Arch, cuda, got, vars)
				}
			}
		}
	}
}

// admitsCUDA reports whether a row's verdict admits a driver of which only CUDA's release is
// known.
func admitsCUDA(img *Image, r *targets.Row, cuda string) bool {
	needs := targets.Known().CUDA(targets.Machine{Driver: r.Driver})
	return r.Verdict != "fails" && (r.Driver == "" || img.Compat != "" || number(cuda) >= number(needs))
}

func number(cuda string) int {
	major, minor, _ := strings.Cut(cuda, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return 100*a + b
}

// TestNewGPU checks that the runtime refuses a GPU that is newer than all known ones only if
// the newest known one fails.
func TestNewGPU(t *testing.T) {
	for n, img := range images() {
		vars := variables(t, img)[:1] // NVIDIA_REQUIRE_ARCH
		want := img.Rows[len(img.Rows)-1].Verdict != "fails"
		if got := required(t, vars, map[string]string{"arch": "99.0"}); got != want {
			t.Errorf("image %d: got %v of %v", n, got, vars)
		}
	}
}

func TestNothingToEmit(t *testing.T) {
	failing := &Image{Rows: []*targets.Row{{Arch: "9.0", Verdict: "fails"}}}
	for _, kind := range Kinds {
		for img, want := range map[*Image]error{{}: errNoCode, failing: errNoGPU} {
			var b bytes.Buffer
			if err := img.Emit(&b, kind); err != want || b.Len() > 0 {
				t.Errorf("%s: got %v and %q, want %v", kind, err, b.String(), want)
			}
		}
	}
	if err := failing.Emit(nil, "helm"); err == nil {
		t.Error("a kind that is none is taken")
	}
}

func emitted(t *testing.T, img *Image, kind string) []byte {
	t.Helper()
	var b, again bytes.Buffer
	if err := img.Emit(&b, kind); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	if err := img.Emit(&again, kind); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Fatalf("%s: two times, two texts (%v)", kind, err)
	}
	return b.Bytes()
}

func variables(t *testing.T, img *Image) []Variable {
	t.Helper()
	vars, err := img.Require()
	if err != nil {
		t.Fatal(err)
	}
	return vars
}

// readAffinity returns the expressions of a node affinity's terms.
func readAffinity(t *testing.T, text []byte) (terms [][]expression) {
	t.Helper()
	var doc struct {
		NodeAffinity struct {
			Required struct {
				Terms []struct {
					MatchExpressions []expression `yaml:"matchExpressions"`
				} `yaml:"nodeSelectorTerms"`
			} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `yaml:"nodeAffinity"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, term := range doc.NodeAffinity.Required.Terms {
		terms = append(terms, term.MatchExpressions)
	}
	return terms
}

// affine evaluates a node affinity as Kubernetes does (component-helpers, nodeaffinity, and
// apimachinery, labels.Requirement.Matches): Gt and Lt compare integers.
func affine(t *testing.T, terms [][]expression, labels map[string]string) bool {
	t.Helper()
	for _, term := range terms {
		all := len(term) > 0
		for _, e := range term {
			value, ok := labels[e.Key]
			has, err := strconv.ParseInt(value, 10, 64)
			limit, _ := strconv.ParseInt(e.Values[0], 10, 64)
			switch e.Operator {
			case "In":
				all = all && ok && slices.Contains(e.Values, value)
			case "Gt":
				all = all && ok && err == nil && has > limit
			case "Lt":
				all = all && ok && err == nil && has < limit
			default:
				t.Fatalf("operator %q", e.Operator)
			}
		}
		if all {
			return true
		}
	}
	return false
}

// readNFD returns the alternatives of a specification's rule.
func readNFD(t *testing.T, text []byte) (alternatives []map[string]matchExpression) {
	t.Helper()
	var doc specification
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil || doc.Version != "v1alpha1" || len(doc.Compatibilities) != 1 || len(doc.Compatibilities[0].Rules) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, any := range doc.Compatibilities[0].Rules[0].MatchAny {
		if len(any.MatchFeatures) != 1 || any.MatchFeatures[0].Feature != "local.label" {
			t.Fatalf("another feature than local.label: %s", text)
		}
		alternatives = append(alternatives, any.MatchFeatures[0].MatchExpressions)
	}
	return alternatives
}

// compatible evaluates a rule as Node Feature Discovery does (pkg/apis/nfd/nodefeaturerule):
// a label that is no number fails the rule where one is expected, and every alternative is
// evaluated.
func compatible(t *testing.T, alternatives []map[string]matchExpression, labels map[string]string) bool {
	t.Helper()
	matched := false
	for _, one := range alternatives {
		all := true
		for key, e := range one {
			value, ok := labels[key]
			all = ok && matches(t, e, value) && all
		}
		matched = matched || all
	}
	return matched
}

func matches(t *testing.T, e matchExpression, value string) bool {
	t.Helper()
	integer := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s of %q: not a number", e.Op, s)
		}
		return n
	}
	switch e.Op {
	case "In":
		return slices.Contains(e.Value, value)
	case "InRegexp":
		return regexp.MustCompile(e.Value[0]).MatchString(value)
	case "Gt":
		return integer(value) > integer(e.Value[0])
	case "GtLt":
		return integer(value) > integer(e.Value[0]) && integer(value) < integer(e.Value[1])
	}
	t.Fatalf("operator %q", e.Op)
	return false
}

// required evaluates NVIDIA_REQUIRE_* as libnvidia-container does (src/cli/dsl.c). A property
// that machine lacks is an error, as in the toolkit's mode for systems on a chip.
func required(t *testing.T, vars []Variable, machine map[string]string) bool {
	t.Helper()
	for _, v := range vars {
		if !slices.ContainsFunc(strings.Split(v.Value, " "), func(alternative string) bool {
			for _, condition := range strings.Split(alternative, ",") {
				if len(condition) >= 128 { // EXPR_MAX
					t.Fatalf("%q is longer than libnvidia-container reads", condition)
				}
				i := strings.IndexAny(condition, "<>=!")
				if i < 1 {
					t.Fatalf("%q in %s: no condition", condition, v.Name)
				}
				value := strings.TrimLeft(condition[i:], "<>=!")
				order, ok := compareVersions(machine[condition[:i]], value)
				if !ok {
					return false
				}
				switch op := strings.TrimSuffix(condition[i:], value); op {
				case "=":
					ok = order == 0
				case "<":
					ok = order < 0
				case ">=":
					ok = order >= 0
				default:
					t.Fatalf("operator %q", op)
				}
				if !ok {
					return false
				}
			}
			return true
		}) {
			return false
		}
	}
	return true
}

// compareVersions compares numbers between dots. A version without a number has zero for it.
func compareVersions(a, b string) (order int, ok bool) {
	if a == "" || b == "" {
		return 0, false
	}
	x, err1 := parseRelease(a)
	y, err2 := parseRelease(b)
	return compareReleases(x, y), err1 == nil && err2 == nil
}

// TestAtLeast compares the regular expressions with the numbers that they stand for.
func TestAtLeast(t *testing.T) {
	for n := range 130 {
		re := regexp.MustCompile("^0*(" + strings.Join(atLeast(n), "|") + ")$")
		for m := range 2100 {
			for _, text := range []string{strconv.Itoa(m), fmt.Sprintf("%02d", m)} {
				if re.MatchString(text) != (m >= n) {
					t.Fatalf("%s for %d", re, m)
				}
			}
		}
	}
}
