package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Dist is an installed distribution.
type Dist struct{ Name, Version string }

// Cuda is the major version of CUDA that a distribution is for by its name
// (cupy_cuda12x, jax_cuda13_plugin); empty when it does not tell.
func (d Dist) Cuda() string {
	_, rest, _ := strings.Cut(d.Name, "_cuda")
	return packs.ParseRelease(rest).First(1).String()
}

// DistributionsAt are the distributions that a directory of Python packages tells by its
// dist-info directories, or a conda prefix by the files of its conda-meta.
func (pa *Packages) DistributionsAt(dir string) []Dist {
	if list, ok := pa.dists.Load(dir); ok {
		return list.([]Dist)
	}
	var list []Dist
	seen := map[string]bool{}
	for e := range pa.img.FS.Below(dir) {
		rest := strings.TrimPrefix("/"+e.Path, strings.TrimSuffix(dir, "/")+"/")
		first, _, below := strings.Cut(rest, "/")
		name, isDist := strings.CutSuffix(first, ".dist-info")
		if !isDist || seen[name] || !below && !e.IsDir() {
			continue
		}
		seen[name] = true
		if project, version, ok := strings.Cut(name, "-"); ok {
			list = append(list, Dist{packs.Normal(project), version})
		}
	}
	for e := range pa.img.FS.Below(dir + "/conda-meta") {
		// NAME-VERSION-BUILD.json
		parts := strings.Split(strings.TrimSuffix(path.Base(e.Path), ".json"), "-")
		if n := len(parts); n >= 3 && strings.HasSuffix(e.Path, ".json") {
			list = append(list, Dist{packs.Normal(strings.Join(parts[:n-2], "-")), parts[n-2]})
		}
	}
	pa.dists.Store(dir, list)
	return list
}

// distAround is a distribution that is installed in the directory of packages that
// holds a path, or in its conda prefix, the first of the named ones; empty when none
// is. names may be patterns.
func (pa *Packages) distAround(p string, names []string) Dist {
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		base := path.Base(dir)
		if base != "site-packages" && base != "dist-packages" && !pa.isConda(dir) {
			continue
		}
		for _, d := range pa.DistributionsAt(dir) {
			if packs.MatchAny(names, d.Name) {
				return d
			}
		}
	}
	return Dist{}
}

// DistOf is the distribution that brings a library.
func (pa *Packages) DistOf(real string) Dist {
	for _, rel := range pa.packs.Releases {
		if packs.MatchAny(rel.Match, path.Base(real)) {
			if d := pa.distAround(real, rel.Dist); d.Name != "" {
				return d
			}
		}
	}
	return Dist{}
}

func (pa *Packages) isConda(dir string) bool {
	_, _, ok := pa.img.FS.Lookup(dir + "/conda-meta")
	return ok
}
