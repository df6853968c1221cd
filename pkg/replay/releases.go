package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// NamedFor returns the path of the library that the loader finds when the Python of a
// distribution opens it by its name alone.
func (lo *Loaders) NamedFor(p *inventory.Package, name string) (string, bool) {
	if lo.Primary == nil {
		return "", false
	}
	m, err := lo.ProgramFor(p.Dir+"/"+name, lo.Primary).Dlopen(nil, name)
	if err != nil {
		return "", false
	}
	return m.Path, true
}

// ChangedSize returns the size of a GPU library, and whether it is another than a RECORD
// says.
func (fi *Files) ChangedSize(file string, listed inventory.Listed) (size int64, changed bool) {
	if listed.Size < 0 || !strings.Contains(path.Base(file), ".so") || fi.packs.Family(file) == nil {
		return 0, false
	}
	e, _, ok := fi.img.FS.Lookup(file)
	if !ok || e.Object == nil || e.Size == listed.Size { // of no bytes, or no ELF file: the replay tells
		return 0, false
	}
	return e.Size, true
}

// Twin returns another file of the image with the SONAME and the size of a library, and
// a release in its name, or "".
func (fi *Files) Twin(real string) string {
	e, _, ok := fi.img.FS.Lookup(real)
	if !ok || e.Object == nil || e.Object.Soname == "" {
		return ""
	}
	for _, other := range slices.Sorted(slices.Values(fi.Sonames[e.Object.Soname])) {
		o, _, ok := fi.img.FS.Lookup(other)
		if ok && "/"+o.Path != real && o.Size == e.Size && len(nameRelease(path.Base(o.Path))) > 1 {
			return "/" + o.Path
		}
	}
	return ""
}

// changed reports whether a file is not the one that its wheel has installed, by
// its size.
func (pa *Packages) changed(real string) bool {
	if pa.inv == nil {
		return false
	}
	if pa.changedFiles == nil {
		pa.changedFiles = map[string]bool{}
		for _, pkg := range pa.EachWheel() {
			for file, listed := range pkg.Files {
				if _, changed := pa.files.ChangedSize(file, listed); changed {
					pa.changedFiles[file] = true
				}
			}
		}
	}
	return pa.changedFiles[real]
}

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
	if list, ok := pa.dists[dir]; ok {
		return list
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
	pa.dists[dir] = list
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

// ReleaseOf is the version of a library, from its file name, else from that of a
// link that leads to it, else from the distribution that has it. A SONAME's one
// number is none.
func (pa *Packages) ReleaseOf(real string) packs.ReleaseNumbers {
	if r := nameRelease(path.Base(real)); len(r) > 1 {
		return r
	}
	if pa.changed(real) {
		return nameRelease(path.Base(pa.files.Twin(real)))
	}
	return packs.ParseRelease(pa.DistOf(real).Version)
}

// nameRelease returns the release in a file's name. libnvrtc.so.11.2 and
// libcudart.so.11.0 are SONAMEs of many releases, and have none.
func nameRelease(name string) packs.ReleaseNumbers {
	r := version.OfFile(name)
	if len(r) == 2 && r[0] == 11 && !strings.Contains(name, "builtins") {
		return nil
	}
	return r
}
