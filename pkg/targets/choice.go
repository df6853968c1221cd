package targets

import (
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// Use says how a driver uses a container of GPU code.
type Use int

// The uses of a container on a GPU.
const (
	None     Use = iota // no entry serves: `no kernel image is available for execution on the device`
	Compiles            // PTX is compiled at its first use
	Doubtful            // machine code that NVIDIA does not promise to run there
	Runs                // machine code for the GPU
)

// Choice is the entry of a container that a driver takes.
type Choice struct {
	Use   Use
	Entry gpucode.Entry // of any Use but None
}

// Choose returns which of a container's entries a driver takes for a GPU of an
// architecture: machine code of the same major number and no higher minor one (specific
// code of that architecture only), else PTX of an architecture that is not above it. The
// highest that serves counts. Whether the driver can compile the PTX or unpack the entry
// is another question. (CUDA C++ Programming Guide, Application Compatibility; NVIDIA's
// Compatibility Guides. The first cases of TestChoose were measured on an H200 with driver 580.)
func (t *Tables) Choose(entries []gpucode.Entry, arch uint32) Choice {
	var best [Runs + 1]Choice
	for _, e := range entries {
		use := t.use(e, arch)
		if b := &best[use]; use != None && (b.Use == None || e.Arch > b.Entry.Arch) {
			*b = Choice{use, e}
		}
	}
	order := []Use{Runs, Doubtful, Compiles}
	if !t.tegra(arch) { // PTX serves, whatever becomes of the code for a system on a chip
		order = []Use{Runs, Compiles, Doubtful}
	}
	for _, use := range order {
		if best[use].Use != None {
			return best[use]
		}
	}
	return Choice{}
}

// use returns the use of one entry.
func (t *Tables) use(e gpucode.Entry, arch uint32) Use {
	sister := e.Arch/10 == arch/10 && e.Arch <= arch
	switch {
	case e.Flags&gpucode.Specific != 0 && e.Arch != arch, e.Flags&gpucode.Family != 0 && !sister:
		return None
	case e.Kind == gpucode.PTX && e.Arch <= arch:
		return Compiles
	case e.Kind != gpucode.SASS || !sister:
		return None
	case e.Arch != arch && (e.Flags&gpucode.Unsure != 0 || t.tegra(e.Arch) || t.tegra(arch)):
		return Doubtful
	}
	return Runs
}

func (t *Tables) tegra(arch uint32) bool {
	a := t.Architecture(arch)
	return a != nil && a.Tegra
}

// Needed reports which of a container's entries GPUs of the architectures need: those that a
// driver takes ([Tables.Choose]) and those beside them that are as good for it, and everything
// that is neither machine code nor PTX. An entry with the same architecture and other flags
// stays, too: which of sm_90 and sm_90a a driver takes was not measured.
func (t *Tables) Needed(entries []gpucode.Entry, archs []uint32) []bool {
	needed := make([]bool, len(entries))
	for i, e := range entries {
		needed[i] = !e.Strippable()
	}
	for _, arch := range archs {
		c := t.Choose(entries, arch)
		for i, e := range entries {
			use := t.use(e, arch)
			switch {
			case use == None:
			case c.Use == Doubtful || use == Doubtful: // then all that perhaps runs
				needed[i] = true
			case use == c.Use && e.Arch == c.Entry.Arch:
				needed[i] = true
			}
		}
	}
	return needed
}

// ServesBuilder reports whether TensorRT's builder can take the kernels of a resource
// ([gpucode.Resource]) on a GPU: those of its own architecture, or of an older one of its
// generation, as sm_86 on an Orin (https://github.com/OE4T/meta-tegra/issues/2240); PTX serves all.
func ServesBuilder(resource string, arch uint32) bool {
	of, err := strconv.ParseUint(strings.TrimRight(resource, "af"), 10, 32)
	return err != nil || uint32(of)/10 == arch/10 && uint32(of) <= arch
}
