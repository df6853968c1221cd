package replay

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Dist is an installed distribution. Its name is normalized; the version is that of its
// metadata.
type Dist struct{ Name, Version string }

// Cuda returns the major version of CUDA in the name of a distribution (cupy_cuda12x,
// jax_cuda13_plugin), or "".
func (d Dist) Cuda() string {
	_, rest, _ := strings.Cut(d.Name, "_cuda")
	return packs.ParseRelease(rest).First(1).String()
}

// DistributionsAt returns the distributions that are installed in a site-packages
// directory, by its dist-info directories, or in a conda prefix, by the files of its
// conda-meta. Callers must not change the list.
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

// distAround returns the first distribution with one of the names, which may be patterns,
// in the site-packages directories and conda prefixes around a path. It returns the zero
// Dist if there is none.
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

// surelyLacks reports whether none of the distributions around a path has one of the names, which may
// be patterns. It is false if no distributions are known there.
func surelyLacks(pa *Packages, p string, names []string) bool {
	return pa.distAround(p, names).Name == "" && pa.distAround(p, []string{"*"}).Name != ""
}

// DistOf returns the distribution that brings a library, or the zero Dist: the wheel whose RECORD
// lists it, else the first one around it.
func (pa *Packages) DistOf(real string) Dist {
	for _, rel := range pa.packs.Releases {
		if packs.MatchAny(rel.Match, path.Base(real)) {
			if _, pkg, _ := pa.OwnerOf(real); pkg != nil && packs.MatchAny(rel.Dist, packs.Normal(pkg.Name)) {
				return Dist{packs.Normal(pkg.Name), pkg.Version}
			}
			if d := pa.distAround(real, rel.Dist); d.Name != "" {
				return d
			}
		}
	}
	return Dist{}
}

// isConda reports whether a directory is a conda prefix.
func (pa *Packages) isConda(dir string) bool {
	_, _, ok := pa.img.FS.Lookup(dir + "/conda-meta")
	return ok
}
