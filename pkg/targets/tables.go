package targets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/imgcheck/imgcheck/internal/glob"
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
	// CUDASources are those of From and Until of architectures.
	CUDASources []string `yaml:"cuda_sources"`
	// Choosing are the libraries that choose their kernels by the GPU.
	Choosing Choosing   `yaml:"choosing"`
	Errors   []*Refusal `yaml:"outcomes"`
	Effects  []*Effect  `yaml:"effects"`
	// Partly is the effect of a file some of whose containers cannot be used.
	Partly *Effect   `yaml:"partly"`
	TooOld []*Effect `yaml:"too_old"`
}

// Architecture is a compute capability and the GPUs that have it.
type Architecture struct {
	Arch     uint32   `yaml:"arch"` // 89 for 8.9
	Name     string   `yaml:"name"`
	Products []string `yaml:"products"`
	Also     []string `yaml:"also"` // further names, which tables do not show
	Sold     bool     `yaml:"sold"`
	// From and Until are the first and last releases of CUDA that make code for it: "11.8";
	// empty if they are older than all that the tables know, or there is none.
	From  string `yaml:"from"`
	Until string `yaml:"until"`
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

// Choosing are patterns of the file names of libraries.
type Choosing struct {
	Match   []string `yaml:"match"`
	Sources []string `yaml:"sources"`
}

// Refusal is the driver's error for an [Outcome] that fails.
type Refusal struct {
	ID      Outcome  `yaml:"id"`
	Text    string   `yaml:"text"`
	Sources []string `yaml:"sources"`
}

// Effect says what fails in a process that meets a refusal.
type Effect struct {
	Libraries []string `yaml:"libraries"` // patterns of file names; none for TooOld
	// With are patterns of file names of the process: the row is for a process in which all
	// code of such a file fails as well. It counts in place of the rows without.
	With []string `yaml:"with"`
	// Framework is the ID of a framework of the packs; "" for other processes.
	Framework string `yaml:"framework"`
	// Severity is warning for code that only some programs need, note for code without which
	// nothing is known to fail, else empty. A note has neither Effect nor Error.
	Severity string `yaml:"severity"`
	// Effect and Error are templates: {name} is the file's name, {text} the driver's error,
	// {found} the number of the driver's CUDA.
	Effect  string   `yaml:"effect"`
	Error   string   `yaml:"error"`
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
	for _, name := range []string{"targets/gpus.yaml", "targets/drivers.yaml", "targets/libraries.yaml"} {
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
	return t.validateLibraries()
}

// failing are the outcomes that the driver has an error for.
var failing = []Outcome{NoCode, JITOff, PTXTooNew, NoZstd}

func (t *Tables) validateLibraries() error {
	if len(t.CUDASources) == 0 || len(t.Choosing.Match) == 0 || len(t.Choosing.Sources) == 0 {
		return errors.New("architectures' releases of CUDA and choosing need sources, choosing a match")
	}
	patterns := slices.Clone(t.Choosing.Match)
	for _, o := range failing {
		if r := t.refusal(o); r == nil || r.Text == "" || len(r.Sources) == 0 {
			return fmt.Errorf("outcome %q: needs a text and sources", o)
		}
	}
	for _, e := range slices.Concat(t.Effects, t.TooOld, []*Effect{t.Partly}) {
		if e == nil || len(e.Sources) == 0 || !slices.Contains(weights, e.Severity) || (e.Effect == "" || e.Error == "") != (e.Severity == "note") {
			return fmt.Errorf("effect %+v: needs sources, an effect and an error, but for a note, and no severity but warning and note", e)
		}
		patterns = append(append(patterns, e.Libraries...), e.With...)
	}
	for _, p := range patterns {
		if err := glob.Check(p); err != nil {
			return fmt.Errorf("%q %w", p, err)
		}
	}
	return nil
}

// Feature returns a feature by its ID, or nil.
func (t *Tables) Feature(id string) *Feature {
	for _, f := range t.Features {
		if f.ID == id {
			return f
		}
	}
	return nil
}

func (t *Tables) refusal(o Outcome) *Refusal {
	for _, r := range t.Errors {
		if r.ID == o {
			return r
		}
	}
	return nil
}

// Text returns the driver's error for an outcome that fails, or "".
func (t *Tables) Text(o Outcome) string {
	if r := t.refusal(o); r != nil {
		return r.Text
	}
	return ""
}

// RuntimeDriver returns the oldest driver for the major release of a CUDA runtime, or "" if
// that is not known.
func (t *Tables) RuntimeDriver(major string) string {
	for _, r := range t.Runtimes {
		if fmt.Sprint(r.CUDA) == major {
			return r.Driver
		}
	}
	return ""
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

// newerPTX reports whether a version of PTX is newer than a driver compiles, though the tables do
// not know it: it is newer than all that they know, and the driver is of a branch that they know.
func (t *Tables) newerPTX(v gpucode.ISA, m Machine) bool {
	newest, last := t.PTX[len(t.PTX)-1], t.Branches[len(t.Branches)-1]
	return m.Driver != "" && newer(v.String(), newest.ISA) && m.Before(fmt.Sprint(last.Driver+1))
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
