package targets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
	"github.com/imgcheck/imgcheck/rules"
)

// Tables is the knowledge about GPUs and drivers: the content of rules/targets.
type Tables struct {
	Architectures []*Architecture `yaml:"architectures"` // by number
	Branches      []*Branch       `yaml:"branches"`      // by number
	BranchSources []string        `yaml:"branch_sources"`
	PTX           []*PTXRelease   `yaml:"ptx"`
	PTXSources    []string        `yaml:"ptx_sources"`
	// Runtimes are the oldest drivers by the major release of the CUDA runtime.
	Runtimes       []*Runtime `yaml:"runtimes"`
	RuntimeSources []string   `yaml:"runtime_sources"`
	Features       []*Feature `yaml:"features"`
}

// Architecture is a compute capability and the GPUs that have it.
type Architecture struct {
	Arch     uint32   `yaml:"arch"` // 89 for 8.9
	Name     string   `yaml:"name"`
	Products []string `yaml:"products"`
	// Tegra is set for systems on a chip, for which NVIDIA does not promise that other
	// architectures' machine code runs.
	Tegra   bool     `yaml:"tegra"`
	Sources []string `yaml:"sources"`
}

// Branch is a branch of the driver, and the release of CUDA that it came with.
type Branch struct {
	Driver int    `yaml:"driver"`
	CUDA   string `yaml:"cuda"`
}

// PTXRelease is a version of PTX, and the release of CUDA that brought it.
type PTXRelease struct {
	ISA  string `yaml:"isa"`
	CUDA string `yaml:"cuda"`
}

// Runtime is a major release of the CUDA runtime, and the oldest driver that serves it.
type Runtime struct {
	CUDA   int    `yaml:"cuda"`
	Driver string `yaml:"driver"`
}

// Feature is something that GPU code needs of a driver.
type Feature struct {
	ID     string `yaml:"id"`
	Driver string `yaml:"driver"` // the first one that has it
	// Text is the error without it.
	Text    string   `yaml:"text"`
	Sources []string `yaml:"sources"`
}

// Known returns the tables of the program. They are embedded, so that tests find their
// errors.
var Known = sync.OnceValue(func() *Tables {
	t, err := load(rules.FS)
	if err != nil {
		panic("rules/targets: " + err.Error())
	}
	return t
})

func load(fsys fs.FS) (*Tables, error) {
	t := new(Tables)
	for _, name := range []string{"targets/gpus.yaml", "targets/drivers.yaml"} {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		d := yaml.NewDecoder(bytes.NewReader(b))
		d.KnownFields(true)
		if err := d.Decode(t); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return t, t.validate()
}

func (t *Tables) validate() error {
	if len(t.BranchSources) == 0 || len(t.PTXSources) == 0 || len(t.RuntimeSources) == 0 {
		return errors.New("branches, ptx and runtimes need sources")
	}
	last := uint32(0)
	for _, a := range t.Architectures {
		if a.Arch <= last || a.Name == "" || len(a.Products) == 0 || len(a.Sources) == 0 {
			return fmt.Errorf("architecture %d: needs a number above the one before, a name, products and sources", a.Arch)
		}
		last = a.Arch
	}
	driver := 0
	for _, b := range t.Branches {
		if b.Driver <= driver || b.CUDA == "" {
			return fmt.Errorf("branch %d: needs a number above the one before, and a release of CUDA", b.Driver)
		}
		driver = b.Driver
	}
	for _, p := range t.PTX {
		if p.ISA == "" || p.CUDA == "" {
			return fmt.Errorf("ptx %q: needs a version and a release of CUDA", p.ISA)
		}
	}
	for _, f := range t.Features {
		if f.ID == "" || f.Driver == "" || f.Text == "" || len(f.Sources) == 0 {
			return fmt.Errorf("feature %q: needs an id, a driver, a text and sources", f.ID)
		}
	}
	return nil
}

// Architecture returns the architecture of a number, or nil if it is not known.
func (t *Tables) Architecture(arch uint32) *Architecture {
	for _, a := range t.Architectures {
		if a.Arch == arch {
			return a
		}
	}
	return nil
}

// PTXDriver returns the first branch of the driver that compiles a version of PTX; ok is
// unset if the version is not known. A version that is older than all branches needs the
// first of them.
func (t *Tables) PTXDriver(v gpucode.ISA) (driver int, ok bool) {
	for _, p := range t.PTX {
		if p.ISA != v.String() {
			continue
		}
		for _, b := range t.Branches {
			if b.CUDA == p.CUDA {
				return b.Driver, true
			}
		}
		return t.Branches[0].Driver, true
	}
	return 0, false
}
