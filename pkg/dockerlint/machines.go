package dockerlint

import (
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/targets"
)

// Code says for which GPUs builds of torch have code.
type Code struct {
	Releases string   `yaml:"releases"` // PEP 440 specifiers
	Build    string   `yaml:"build"`
	Code     []uint32 `yaml:"code"` // 75 for 7.5
	PTX      uint32   `yaml:"ptx"`  // 0: none
	Sources  []string `yaml:"sources"`
}

// runs reports whether a GPU has code: of the same first number and not above it, or PTX.
func (c *Code) runs(arch uint32) bool {
	return arch == 0 || c.PTX > 0 && c.PTX <= arch || slices.ContainsFunc(c.Code, func(a uint32) bool { return a/10 == arch/10 && a <= arch })
}

// code returns the row of a build of torch, or nil.
func (k *Knowledge) code(release, build string) *Code {
	for _, c := range k.Architectures {
		if ok, err := version.Satisfies(release, c.Releases); c.Build == build && err == nil && ok {
			return c
		}
	}
	return nil
}

var (
	localBuild = regexp.MustCompile(`^([0-9.]+)\+(cu[0-9]+)$`)
	cudaBuild  = regexp.MustCompile(`^cu(\d+)\d$`)
)

// buildOf returns the release of a wheel of torch and its build, by its version or the only
// index of its install.
func buildOf(in *install, x *wheel) (release, build string) {
	if m := localBuild.FindStringSubmatch(x.release()); m != nil {
		return m[1], m[2]
	}
	index := x.index
	if index == "" && len(in.index) == 1 && len(in.extra) == 0 {
		index = in.index[0]
	}
	if m := torchIndex.FindStringSubmatch(index); m != nil && x.release() != "" && !strings.Contains(x.release(), "+") {
		return x.release(), m[1]
	}
	return "", ""
}

// onMachines judges the builds of torch that remain against the policy's targets.
func (w *walk) onMachines() {
	for _, python := range w.environments() {
		x := w.pinned(python)["torch"]
		if x == nil {
			x = w.newestTorch(python)
		}
		if x != nil {
			if release, build := buildOf(w.installs[x.order], x); build != "" {
				w.onEach(x, release, build)
			}
		}
	}
}

func (w *walk) onEach(x *wheel, release, build string) {
	for _, m := range w.machines {
		v := values{"version": release, "build": build, "gpu": m.Name(), "driver": m.Driver, "file": w.policy}
		clause := ""
		if c := w.code(release, build); c != nil && !c.runs(m.Arch) {
			clause = "gpu-none"
			if v["other"] = w.otherBuild(release, m.Arch); v["other"] != "" {
				clause = "gpu"
			}
		} else if major := cudaBuild.FindStringSubmatch(build); major != nil && m.Driver != "" {
			if needs := targets.Known().RuntimeDriver(major[1]); needs != "" && m.Before(needs) {
				clause, v["needs"] = "driver", needs
			}
		}
		if clause == "" {
			continue
		}
		f := w.finding("target-without-code", clause, x.line, v)
		f.Column = x.column
		if by := w.compat(); by != "" && clause == "driver" {
			f.Severity, f.Because = packs.Note, by
		}
		if by := w.changedBy(x.order); by != "" {
			f.Severity, f.Because = packs.Note, by
		}
		f.assume(x)
		w.add(f)
	}
}

// otherBuild returns the index of a release that has code for a GPU, or "".
func (w *walk) otherBuild(release string, arch uint32) string {
	for _, c := range w.Architectures {
		if w.code(release, c.Build) == c && c.runs(arch) {
			return "https://download.pytorch.org/whl/" + c.Build
		}
	}
	return ""
}

// compat names what may let an older driver serve CUDA 13, or is empty: the base's or an
// installed cuda-compat, https://docs.nvidia.com/deploy/cuda-compatibility/
func (w *walk) compat() string {
	if w.base == nil {
		return "the base image, which is not known, may have the package cuda-compat"
	}
	for dir := range w.base.Libraries {
		if strings.HasSuffix(dir, "/compat") {
			return "the base image has the package cuda-compat"
		}
	}
	for _, p := range w.adds {
		if strings.HasPrefix(p.name, "cuda-compat") {
			return "the image gets the package " + p.name
		}
	}
	return ""
}
