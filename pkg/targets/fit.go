package targets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/gpucode"
)

// Settings are the variables of a process's environment that decide how the driver uses GPU
// code (CUDA C++ Programming Guide, CUDA Environment Variables).
type Settings struct {
	ForceJIT   bool // CUDA_FORCE_PTX_JIT=1: machine code is not used
	DisableJIT bool // CUDA_DISABLE_PTX_JIT=1: PTX is not compiled
}

// Outcome says how a machine uses the GPU code of a file.
type Outcome string

// The outcomes, from the best to the worst. Those from NoCode on are failures: no kernel of the
// file can be launched, but for a few.
const (
	Fits       Outcome = "runs"     // machine code for the GPU
	FitsByJIT  Outcome = "compiles" // some of it is PTX, which the driver compiles at its first use
	FitsPartly Outcome = "partly"   // some containers have code for other GPUs and not for this one
	Unsure     Outcome = "unsure"   // it perhaps runs, or the file was not read whole
	NoCode     Outcome = "no-code"  // no container has code for the GPU
	JITOff     Outcome = "jit-disabled"
	PTXTooNew  Outcome = "ptx-too-new" // the driver cannot compile the PTX
	NoZstd     Outcome = "no-zstd"     // the driver cannot unpack the code
)

// Fails reports whether the code cannot be used.
func (o Outcome) Fails() bool { return slices.Contains(failing, o) }

// Fit is the use that a machine has for the containers of one file.
type Fit struct {
	Outcome Outcome
	// Containers are those of the file from which a driver launches, Lack those that the
	// machine cannot use although they have code for the GPU, or for several generations of
	// others, and Reason is the outcome that they would give by themselves.
	Containers, Lack int
	Reason           Outcome
	// PTX is the newest PTX that has to be compiled, or 0.
	PTX gpucode.ISA
	// Driver is the first driver that can use the code that the GPU gets, as far as PTX and
	// compression decide it, and Why the fact that does; empty if nothing does.
	Driver, Why string
	// Linked reports that the file is unsure because the driver perhaps compiles and links its
	// relocatable PTX.
	Linked bool
}

// Fit returns the use that a machine has for a file's code. It reports false if the file has
// no code that is launched by itself: none at all, or a cubin or fatbin, which a program may
// have beside others for other GPUs. name is the file's base name.
//
// Not each container is for every GPU. One with code for a single generation is for that one on
// purpose: flash attention for sm_90a. And some libraries choose their kernels by the GPU that
// they run on ([Tables.Chooses]): of cuBLASLt's 581 containers in CUDA 12.4 a V100 can use 153.
// Of these a twentieth is enough; when all kernels but those in a few containers were made
// unusable, on an H200, cuBLAS, cuSOLVER and cuSPARSE could not be initialized.
func (t *Tables) Fit(name string, c *gpucode.Code, m Machine, s Settings) (Fit, bool) {
	var f Fit
	if c == nil || c.Form != gpucode.Sections || m.Arch == 0 {
		return f, false
	}
	bad, doubtful, compiles := map[Outcome]int{}, 0, 0
	lack, drivers := map[Outcome]int{}, map[need]int{}
	kernels := slices.ContainsFunc(c.Groups, func(g gpucode.Group) bool { return g.Section != gpucode.RelocatableSection && !Empty(g) })
	for _, g := range c.Groups {
		if g.Section == gpucode.RelocatableSection || !launched(g.Entries) || kernels && Empty(g) {
			continue
		}
		n := int(g.Containers)
		f.Containers += n
		choice := t.Choose(usable(g.Entries, s), m.Arch)
		f.PTX = max(f.PTX, choice.compiled())
		if choice.Use != None {
			drivers[t.need(choice)] += n
		}
		switch out := t.served(choice, m, s); {
		case out.Fails():
			if bad[out] += n; choice.Use != None || majors(g.Entries) > 1 {
				lack[out] += n
			}
		case choice.Use == Doubtful:
			doubtful += n
		case choice.Use == Compiles:
			compiles += n
		}
	}
	all, worst := most(bad)
	f.Lack, f.Reason = most(lack)
	good, enough := f.Containers-all, f.Containers
	chooses := t.Chooses(name)
	if chooses {
		enough = f.Containers/20 + 1
	}
	f.Driver, f.Why = oldest(drivers, enough)
	switch {
	case f.Containers == 0:
		return f, false
	case good == 0 || chooses && good < enough:
		f.Outcome, f.Linked = worst, worst == NoCode && t.linked(c, m, s)
		switch {
		case c.Partial != "" || f.Linked:
			f.Outcome = Unsure
		case worst == NoCode && s.DisableJIT && t.linked(c, m, Settings{ForceJIT: s.ForceJIT}):
			f.Outcome = JITOff
		}
	case f.Lack > 0 && !chooses:
		f.Outcome = FitsPartly
	case doubtful > 0 && !(chooses && good-doubtful >= enough): // cuFFT's containers for a Jetson are not for others
		f.Outcome = Unsure
	case compiles > 0:
		f.Outcome = FitsByJIT
	default:
		f.Outcome = Fits
	}
	return f, true
}

// linked reports whether the driver perhaps links a file's relocatable code for a machine: it has
// PTX that the driver can compile, and no container without usable code. Machine code of that
// kind was linked when the file was built; a container with other machine code than the file's
// is of CUDA's device runtime, which nvcc puts into programs with PTX alone.
func (t *Tables) linked(c *gpucode.Code, m Machine, s Settings) bool {
	built := map[string]bool{}
	for _, g := range c.Groups {
		for _, e := range g.Entries {
			if g.Section != gpucode.RelocatableSection && e.Kind == gpucode.SASS {
				built[e.Name()] = true
			}
		}
	}
	compiles := false
	for _, g := range c.Groups {
		other := func(e gpucode.Entry) bool { return e.Kind == gpucode.SASS && !built[e.Name()] }
		if g.Section != gpucode.RelocatableSection || slices.ContainsFunc(g.Entries, other) {
			continue
		}
		choice := t.Choose(usable(g.Entries, s), m.Arch)
		if t.served(choice, m, s) != Fits {
			return false
		}
		compiles = compiles || choice.Use == Compiles
	}
	return compiles
}

// Empty reports whether containers have no kernel: nvcc links each program with several
// architectures to one more container of machine code, which has none where nothing is
// relocatable. Its cubins are not compressed and are small (872 bytes in CUDA 12.4, 1,456 to 1,640 in
// 13.0); the smallest kernel takes 2,700.
func Empty(g gpucode.Group) bool {
	entries := int64(0)
	for _, e := range g.Entries {
		if e.Kind != gpucode.SASS || e.Flags&(gpucode.LZ4|gpucode.Zstd) != 0 {
			return false
		}
		entries += int64(e.Count)
	}
	return g.Bytes > 0 && g.Bytes < 2048*entries*int64(g.Containers)
}

// most returns the number of all containers, and the outcome that most of them have; of equal
// numbers the one that is a container's own fault, in the order of the outcomes.
func most(count map[Outcome]int) (all int, worst Outcome) {
	for _, o := range failing {
		if all += count[o]; count[o] > count[worst] {
			worst = o
		}
	}
	return all, worst
}

// usable returns the entries that the driver looks at.
func usable(entries []gpucode.Entry, s Settings) []gpucode.Entry {
	if !s.ForceJIT {
		return entries
	}
	var list []gpucode.Entry
	for _, e := range entries {
		if e.Kind != gpucode.SASS {
			list = append(list, e)
		}
	}
	return list
}

// compiled returns the PTX that a driver compiles for a choice, or 0.
func (c Choice) compiled() gpucode.ISA {
	if c.Use != Compiles {
		return 0
	}
	return c.Entry.ISA
}

// served returns the outcome of one container: NoCode, JITOff, PTXTooNew, NoZstd, or Fits.
func (t *Tables) served(c Choice, m Machine, s Settings) Outcome {
	switch zstd := t.Feature("zstd"); {
	case c.Use == None:
		return NoCode
	case c.Use == Compiles && s.DisableJIT:
		return JITOff
	case zstd != nil && c.Entry.Flags&gpucode.Zstd != 0 && m.Before(zstd.Driver):
		return NoZstd
	}
	driver, known := t.PTXDriver(c.compiled())
	if known && m.Before(fmt.Sprint(driver)) || c.Use == Compiles && t.newerPTX(c.compiled(), m) {
		return PTXTooNew
	}
	return Fits
}

// need is a driver that some code needs, and the fact that decides it.
type need struct{ driver, why string }

// need returns the first driver that can use a choice, by its PTX and its compression.
func (t *Tables) need(c Choice) need {
	var n need
	if driver, ok := t.PTXDriver(c.compiled()); ok {
		n = need{fmt.Sprint(driver), "PTX " + c.Entry.ISA.String()}
	}
	if zstd := t.Feature("zstd"); zstd != nil && c.Entry.Flags&gpucode.Zstd != 0 && newer(zstd.Driver, n.driver) {
		n = need{zstd.Driver, "code that is compressed with zstd"}
	}
	return n
}

// oldest returns the oldest driver that can use enough of the containers, which are counted
// by their needs. If none can, it is the newest that any of them needs.
func oldest(drivers map[need]int, enough int) (driver, why string) {
	order := slices.SortedFunc(maps.Keys(drivers), func(a, b need) int {
		return cmp.Or(version.ParseRelease(a.driver).Compare(version.ParseRelease(b.driver)), strings.Compare(a.why, b.why))
	})
	sum := 0
	for _, n := range order {
		driver, why = n.driver, n.why
		if sum += drivers[n]; sum >= enough {
			break
		}
	}
	return driver, why
}

// newer reports whether one release is newer than another; "" is older than all.
func newer(a, b string) bool {
	return version.ParseRelease(a).Compare(version.ParseRelease(b)) > 0
}

// Chooses reports whether a library, by its file name, chooses its kernels by the GPU that it
// runs on, and so has containers for single GPUs.
func (t *Tables) Chooses(name string) bool {
	return matches(t.Choosing.Match, name)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return doublestar.MatchUnvalidated(p, name) })
}
