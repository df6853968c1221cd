package dockerlint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pylock"
)

// replacesTorch judges a torch that takes the place of NVIDIA's own, for which packages of the
// base are built.
func (w *walk) replacesTorch() {
	if !packs.Match("nvcr.io/nvidia/{pytorch,nemo}:*", w.from.Ref) {
		return
	}
	for _, in := range w.installs {
		for i := range in.wheels {
			x := &in.wheels[i]
			if x.name != "torch" || x.version == "" || in.elsewhere || in.maybe || x.maybe || in.python != "" && strings.Contains(in.python, "/") {
				continue
			}
			if w.base != nil && (w.base.Wheels["torch"] == "" || w.base.Wheels["torch"] == x.version) {
				continue
			}
			f := w.finding("wheels-do-not-fit", "base", x.line, values{"version": x.version, "base": w.from.Ref, "from": strconv.Itoa(w.from.Line)})
			f.Column = x.column
			w.add(f)
			return
		}
	}
}

// offPath judges libraries of CUDA's in wheels, which a package that does not know them needs, and
// that no variable of the file names.
func (w *walk) offPath() {
	if w.judged != nil || w.saysHere([]string{"LD_LIBRARY_PATH", "ld.so.conf", "ldconfig", "LD_PRELOAD", "preload_dlls"}) {
		return
	}
	elsewhere := 0 // the line of another stage that sets the path
	for _, b := range w.behind {
		for _, s := range b.other.variables {
			if s.value == "LD_LIBRARY_PATH" {
				elsewhere = s.line
			}
		}
	}
	if elsewhere == 0 && w.says([]string{"LD_LIBRARY_PATH", "ld.so.conf", "ldconfig", "LD_PRELOAD", "preload_dlls"}) {
		return
	}
	var x, of *wheel
	for _, in := range w.installs {
		for i := range in.wheels {
			switch y := &in.wheels[i]; {
			case in.elsewhere || y.maybe:
			case slices.ContainsFunc(w.ByPath, func(l *Listed) bool { return slices.Contains(l.Packages, y.name) }):
				x = y
			case packs.Match("nvidia-{cudnn,cublas}-cu1[1-3]", y.name):
				of = y
			case packs.MatchAny([]string{"torch", "tensorflow", "jax", "jaxlib", "paddlepaddle-gpu", "vllm"}, y.name):
				return // it loads them, or brings its own
			}
		}
	}
	if x == nil || of == nil || w.libraries() != nil && len(w.libraries().CUDNN) > 0 {
		return
	}
	f := w.finding("wheel-needs-library", "off-path", x.line, values{"package": x.name, "of": of.name})
	if elsewhere > 0 {
		f = w.finding("wheel-needs-library", "off-path-stage", x.line, values{"package": x.name, "of": of.name, "line": strconv.Itoa(elsewhere), "from": strconv.Itoa(w.from.Line)})
	}
	f.Column = x.column
	w.add(f)
}

// mixes judges packages that are built for one CUDA beside a torch that is built for another, or
// for none. A torch of an index stays where a later package of PyPI requires its release.
func (w *walk) mixes() {
	for _, python := range w.environments() {
		list := w.pinned(python)
		torch := list["torch"]
		if torch == nil {
			continue
		}
		build := torchBuild(w.installs[torch.order], torch)
		if build == "" {
			continue
		}
		major := "none"
		if m := cudaBuild.FindStringSubmatch(build); m != nil {
			major = m[1]
		}
		for _, name := range sortedNames(list) {
			w.mix(list[name], torch, build, major)
		}
	}
}

// newerMKL judges conda's torch, of the channel pytorch, where conda-forge gives the newest MKL.
func (w *walk) newerMKL() {
	if w.says([]string{"nomkl", "openblas"}) {
		return
	}
	for _, in := range w.installs {
		if in.maybe || !strings.HasPrefix(in.python, "conda:") {
			continue
		}
		i := slices.IndexFunc(in.condas, func(p pylock.Package) bool { return p.Name == "pytorch" })
		if i < 0 || in.locked {
			continue
		}
		torch := in.condas[i]
		pytorch, forge := slices.Index(in.channels, "pytorch"), slices.Index(in.channels, "conda-forge")
		if torch.Channel != "" && torch.Channel != "pytorch" || torch.Channel == "" && (pytorch < 0 || forge >= 0 && forge < pytorch) || forge < 0 {
			continue
		}
		if ok, err := version.Satisfies(torch.Version, "<2.3"); torch.Version == "" || err != nil || !ok {
			continue
		}
		if slices.ContainsFunc(w.condas, func(p systemPackage) bool { return p.name == "mkl" || p.name == "blas" || p.name == "libblas" }) ||
			slices.ContainsFunc(w.installs, func(o *install) bool {
				return o != in && slices.ContainsFunc(o.wheels, func(x wheel) bool { return x.name == "torch" || x.name == "mkl" })
			}) {
			continue
		}
		f := w.finding("wheels-do-not-fit", "mkl", in.line, values{"version": torch.Version})
		f.Column = in.column
		w.add(f)
	}
}

// condaOnCPU judges packages of conda-forge that have a build for GPUs, which conda chooses only where it
// sees a driver.
func (w *walk) condaOnCPU() {
	if !strings.Contains(w.from.Ref, "cuda") && len(w.machines) == 0 || w.says([]string{"CONDA_OVERRIDE_CUDA", "__cuda", "cuda_version"}) {
		return
	}
	if slices.ContainsFunc(w.condas, func(p systemPackage) bool { return packs.MatchAny(gpuChoosing, p.name) }) ||
		slices.ContainsFunc(w.installs, func(in *install) bool {
			return slices.ContainsFunc(in.wheels, func(x wheel) bool { return isFramework(w, x.name) })
		}) {
		return
	}
	for _, in := range w.installs {
		forge := slices.DeleteFunc(slices.Clone(in.channels), func(c string) bool { return c == "nodefaults" })
		if in.maybe || in.locked || len(forge) == 0 || slices.ContainsFunc(forge, func(c string) bool { return c != "conda-forge" && c != "defaults" }) || forge[0] != "conda-forge" {
			continue
		}
		for _, p := range in.condas {
			if !listed(w.CondaBuilds, p.Name) || p.Channel != "" && p.Channel != "conda-forge" || strings.ContainsAny(p.Spec, "[ ") || strings.Contains(strings.TrimLeft(p.Spec, "=<>!~"), "=") {
				continue
			}
			v := values{"package": p.Name, "gpu": p.Name + "=*=*cuda*", "cuda": "12"}
			if version, known := w.scope.Get("CUDA_VERSION"); known && version != "" {
				v["cuda"] = packs.Numbers(version, 2)
			} else if m := cudaOfTag.FindStringSubmatch(w.from.Ref); m != nil {
				v["cuda"] = m[1]
			}
			f := w.finding("conda-cpu-build", "build", in.line, v)
			f.Column = in.column
			w.add(f)
			return
		}
	}
}

// cudaOfTag matches the release of CUDA in the tag of an image.
var cudaOfTag = regexp.MustCompile(`cuda[-:]?(\d+\.\d+)`)

// gpuChoosing are packages of conda that choose the builds for GPUs, or bring such a package.
var gpuChoosing = []string{"*-gpu", "*cuda*", "cudnn", "libtorch", "magma*"}

// Built says for which CUDA PyPI's releases of packages are built.
type Built struct {
	Packages []string `yaml:"packages"`
	Versions string   `yaml:"versions"` // PEP 440 specifiers
	CUDA     string   `yaml:"cuda"`     // the major version
	// Torch is set if the versions are those of the torch that goes with it, by the packs' pairs.
	Torch   bool     `yaml:"torch"`
	Sources []string `yaml:"sources"`
}

func (w *walk) mix(x, torch *wheel, build, major string) {
	in := w.installs[x.order]
	if x.order <= torch.order || in.others() || x.index != "" || strings.Contains(x.version, "+") || x.binary || x.ofProject() {
		return
	}
	release, _, _ := strings.Cut(torch.version, "+")
	for _, r := range w.PyPIBuilds {
		if !slices.Contains(r.Packages, x.name) || r.CUDA == major {
			continue
		}
		of := x.version
		if r.Torch {
			of = release
			if !w.pairFits(x, release) {
				continue
			}
		}
		if ok, err := version.Satisfies(of, r.Versions); err != nil || !ok {
			continue
		}
		f := w.finding("wheels-do-not-fit", "build", x.line, values{"package": x.name, "version": x.version, "cuda": r.CUDA, "installed": torch.version, "build": build, "where": torch.place(x)})
		f.Column = x.column
		if by := w.changedBy(max(x.order, torch.order)); by != "" {
			f.Severity, f.Because = packs.Note, by
		} else if base := w.libraries(); !r.Torch && (base == nil || slices.Contains(base.CUDA, r.CUDA)) {
			f.Severity, f.Because = packs.Note, "the base may have the libraries of CUDA "+r.CUDA
		}
		w.add(f)
		return
	}
}

// pairFits reports whether a release goes with one of torch, so that pip leaves this as it is.
func (w *walk) pairFits(x *wheel, torch string) bool {
	for _, p := range w.Packs.Pairs {
		if p.Package == x.name && p.For == "torch" {
			return p.Versions[packs.Numbers(torch, 2)] == packs.Numbers(x.version, 2)
		}
	}
	return false
}

var anyTorchIndex = regexp.MustCompile(`^https?://download\.pytorch\.org/whl/(?:test/)?(cpu|cu\d+)/?$`)

// torchBuild returns the build of a torch, by its version or the only index of its install:
// "cpu", "cu118".
func torchBuild(in *install, x *wheel) string {
	if _, local, ok := strings.Cut(x.version, "+"); ok {
		if local == "cpu" || cudaBuild.MatchString(local) {
			return local
		}
		return ""
	}
	index := x.index
	if index == "" && len(in.index) == 1 && len(in.extra) == 0 {
		index = in.index[0]
	}
	if m := anyTorchIndex.FindStringSubmatch(index); m != nil && x.version != "" {
		return m[1]
	}
	return ""
}
