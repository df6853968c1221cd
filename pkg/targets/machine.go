package targets

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/nearest"
	"github.com/imgcheck/imgcheck/internal/version"
)

// Machine is a GPU and a driver for which an image is judged. The zero value is any
// machine.
type Machine struct {
	// GPU is its name as people know it, L4, or sm_89 for any of an architecture; "" is
	// any GPU.
	GPU string `json:"gpu,omitempty"`
	// Arch is the GPU's architecture, 89 for 8.9; 0 is any.
	Arch uint32 `json:"arch,omitempty"`
	// Driver is the release of the driver, 535.183.01 or the first numbers of it; "" is one
	// that is new enough for everything.
	Driver string `json:"driver,omitempty"`
}

// String returns the machine as people read it: "L4 (sm_89) with driver 535".
func (m Machine) String() string {
	s := m.Name()
	if m.Driver != "" {
		s += " with driver " + m.Driver
	}
	return s
}

// Name returns the GPU with its architecture: "L4 (sm_89)".
func (m Machine) Name() string {
	switch sm := fmt.Sprintf("sm_%d", m.Arch); {
	case m.Arch == 0:
		return "any GPU"
	case m.GPU == "" || m.GPU == sm:
		return sm
	default:
		return m.GPU + " (" + sm + ")"
	}
}

var (
	archName   = regexp.MustCompile(`^(?:sm_?|compute_?|cc)?([0-9]{2,3})[af]?$`)
	capability = regexp.MustCompile(`^(?:cc)?([0-9]{1,2})\.([0-9])$`)
	release    = regexp.MustCompile(`^[0-9]{3}(\.[0-9]{1,4}){0,2}$`)
)

// maxName limits the name of a GPU, in bytes: the nearest known one is looked for.
const maxName = 100

// Machine returns the machine with a GPU, by its name (L4, "RTX 4090", "NVIDIA
// A100-SXM4-80GB"), its architecture (sm_89) or its compute capability (8.9), and with a
// driver. Either may be empty. It returns an error for what the tables do not know: an
// architecture is never guessed.
func (t *Tables) Machine(gpu, driver string) (Machine, error) {
	m := Machine{Driver: strings.TrimSpace(driver)}
	if m.Driver != "" && !release.MatchString(m.Driver) {
		return m, fmt.Errorf("%q is no release of NVIDIA's driver: write it like 535.183.01, or 535", driver)
	}
	name := strings.TrimSpace(gpu)
	switch {
	case name == "":
		return m, nil
	case len(name) > maxName:
		return m, fmt.Errorf("a GPU's name has at most %d bytes, not %d", maxName, len(name))
	}
	if arch, ok := archOf(name); ok {
		if t.Architecture(arch) == nil {
			return m, fmt.Errorf("imgcheck does not know the architecture sm_%d: it knows %s", arch, t.archNames())
		}
		m.Arch, m.GPU = arch, fmt.Sprintf("sm_%d", arch)
		return m, nil
	}
	a, product := t.product(name)
	if a == nil {
		return m, fmt.Errorf("imgcheck does not know the GPU %q: say its compute capability, like 8.9 (`nvidia-smi --query-gpu=compute_cap --format=csv`)%s", gpu, t.hint(name))
	}
	m.Arch, m.GPU = a.Arch, product
	return m, nil
}

// archOf returns the architecture that a name like sm_89 or 8.9 says.
func archOf(name string) (uint32, bool) {
	name = strings.ToLower(name)
	if m := capability.FindStringSubmatch(name); m != nil {
		major, _ := strconv.Atoi(m[1])
		minor, _ := strconv.Atoi(m[2])
		return uint32(10*major + minor), true
	}
	if m := archName.FindStringSubmatch(name); m != nil {
		n, _ := strconv.Atoi(m[1])
		return uint32(n), true
	}
	return 0, false
}

// vendor are words in front of a product that name no GPU.
var vendor = regexp.MustCompile(`(?i)^(nvidia|geforce|tesla|quadro|jetson|agx|drive)[ -]?`)

// product returns the architecture of a product, and the product's name. The longest name
// that the tables have counts: L40S before L4. Behind it may stand what differs within a
// product, such as -SXM4-80GB; a series like RTX 40 has two digits more.
func (t *Tables) product(name string) (*Architecture, string) {
	for vendor.MatchString(name) {
		name = vendor.ReplaceAllString(name, "")
	}
	asked := plainName(name)
	var best *Architecture
	var found string
	for _, a := range t.Architectures {
		for _, p := range slices.Concat(a.Products, a.Also) {
			if len(p) > len(found) && isProduct(asked, plainName(p)) {
				best, found = a, p
			}
		}
	}
	if isSeries(found) {
		found = name // RTX 4090 says more than RTX 40
	}
	return best, found
}

// plainName returns a name in small letters, with one space for each separator and after the
// name of a series: RTX4090 and RTX-4090 are the same.
func plainName(s string) string {
	s = strings.ToLower(s)
	s = strings.NewReplacer("-", " ", "_", " ").Replace(s)
	for _, p := range []string{"rtx", "gtx", "pro"} {
		s = strings.ReplaceAll(s, p, p+" ")
	}
	return strings.Join(strings.Fields(s), " ")
}

// isSeries reports whether a product stands for a series: RTX 40.
func isSeries(product string) bool {
	name := plainName(product)
	prefix, number, _ := strings.Cut(name, " ")
	return (prefix == "rtx" || prefix == "gtx") && len(number) == 2
}

func isProduct(asked, product string) bool {
	rest, ok := strings.CutPrefix(asked, product)
	switch {
	case !ok:
		return false
	case rest == "" || rest[0] == ' ':
		return true
	}
	series := isSeries(product) && len(rest) >= 2 && digits(rest[:2])
	return series && (len(rest) == 2 || rest[2] == ' ' || rest[2] == 't' || rest[2] == 's' || rest[2] == 'd')
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// hint returns "; or did you mean X?" for a product that begins with the same letter, or "".
func (t *Tables) hint(name string) string {
	near := nearest.Of(name, t.products())
	if near == "" || !strings.EqualFold(near[:1], name[:1]) {
		return ""
	}
	return "; or did you mean " + near + "?"
}

// products returns the names of all known GPUs.
func (t *Tables) products() []string {
	var list []string
	for _, a := range t.Architectures {
		list = append(append(list, a.Products...), a.Also...)
	}
	return list
}

func (t *Tables) archNames() string {
	var list []string
	for _, a := range t.Architectures {
		list = append(list, fmt.Sprintf("sm_%d", a.Arch))
	}
	return strings.Join(list, " ")
}

// Before reports whether the machine's driver is older than a release of which it knows all
// numbers: 535 may be any release of that branch, and is not older than 535.183.
func (m Machine) Before(driver string) bool {
	has, needs := version.ParseRelease(m.Driver), version.ParseRelease(driver)
	return m.Driver != "" && has.Before(needs)
}

// CUDA returns the release of CUDA that came with the machine's driver, "12.4" for 550, or ""
// if the driver is not known.
func (t *Tables) CUDA(m Machine) string {
	branch := 0
	fmt.Sscan(m.Driver, &branch)
	cuda := ""
	for _, b := range t.Branches {
		if b.Driver <= branch {
			cuda = b.CUDA
		}
	}
	return cuda
}

// Text returns the machine as ParseMachine reads it.
func (m Machine) Text() string {
	if m.Driver == "" {
		return m.GPU
	}
	return m.GPU + "@" + m.Driver
}

// ParseMachine returns the machine of a text GPU, GPU@DRIVER or @DRIVER.
func (t *Tables) ParseMachine(s string) (Machine, error) {
	gpu, driver, _ := strings.Cut(s, "@")
	if strings.TrimSpace(gpu+driver) == "" {
		return Machine{}, errors.New("a target is a GPU, a driver or both: L4, L4@535.183.01 or @535.183.01")
	}
	return t.Machine(gpu, driver)
}
