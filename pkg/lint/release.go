package lint

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// release is the numbers of a version; nil if they are not known.
type release = version.Release

// parseRelease is [version.ParseRelease]. Much of this package has variables that are
// named version.
func parseRelease(s string) release { return version.ParseRelease(s) }

// exactly writes the first n numbers of r, or "" if it has fewer.
func exactly(r release, n int) string {
	if len(r) < n {
		return ""
	}
	return r.First(n).String()
}

// dist is an installed distribution.
type dist struct{ name, version string }

// cuda is the major version of CUDA that a distribution is for by its name
// (cupy_cuda12x, jax_cuda13_plugin); empty when it does not tell.
func (d dist) cuda() string {
	_, rest, _ := strings.Cut(d.name, "_cuda")
	return parseRelease(rest).First(1).String()
}

// distsAt are the distributions that a directory of Python packages tells by its
// dist-info directories, or a conda prefix by the files of its conda-meta.
func (w *world) distsAt(dir string) []dist {
	if list, ok := w.dists[dir]; ok {
		return list
	}
	var list []dist
	seen := map[string]bool{}
	for e := range w.img.FS.Below(dir) {
		rest := strings.TrimPrefix("/"+e.Path, strings.TrimSuffix(dir, "/")+"/")
		first, _, below := strings.Cut(rest, "/")
		name, isDist := strings.CutSuffix(first, ".dist-info")
		if !isDist || seen[name] || !below && !e.IsDir() {
			continue
		}
		seen[name] = true
		if project, version, ok := strings.Cut(name, "-"); ok {
			list = append(list, dist{normal(project), version})
		}
	}
	for e := range w.img.FS.Below(dir + "/conda-meta") {
		// NAME-VERSION-BUILD.json
		parts := strings.Split(strings.TrimSuffix(path.Base(e.Path), ".json"), "-")
		if n := len(parts); n >= 3 && strings.HasSuffix(e.Path, ".json") {
			list = append(list, dist{normal(strings.Join(parts[:n-2], "-")), parts[n-2]})
		}
	}
	w.dists[dir] = list
	return list
}

// normal is a distribution's name as dist-info directories have it (PEP 503, 427).
func normal(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}

// distAround is a distribution that is installed in the directory of packages that
// holds a path, or in its conda prefix, the first of the named ones; empty when none
// is. names may be patterns.
func (w *world) distAround(p string, names []string) dist {
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		base := path.Base(dir)
		if base != "site-packages" && base != "dist-packages" && !w.isConda(dir) {
			continue
		}
		for _, d := range w.distsAt(dir) {
			if matchAny(names, d.name) {
				return d
			}
		}
	}
	return dist{}
}

// distOf is the distribution that brings a library.
func (w *world) distOf(real string) dist {
	for _, rel := range w.packs.Releases {
		if matchAny(rel.Match, path.Base(real)) {
			if d := w.distAround(real, rel.Dist); d.name != "" {
				return d
			}
		}
	}
	return dist{}
}

func (w *world) isConda(dir string) bool {
	_, _, ok := w.img.FS.Lookup(dir + "/conda-meta")
	return ok
}

// releaseOf is the version of a library, from its file name, else from that of a
// link that leads to it, else from the distribution that has it. A SONAME's one
// number is none.
func (w *world) releaseOf(real string) release {
	if r := nameRelease(path.Base(real)); len(r) > 1 {
		return r
	}
	if w.changed(real) {
		return nameRelease(path.Base(w.twin(real)))
	}
	return parseRelease(w.distOf(real).version)
}

// nameRelease returns the release in a file's name. libnvrtc.so.11.2 and
// libcudart.so.11.0 are SONAMEs of many releases, and have none.
func nameRelease(name string) release {
	r := version.OfFile(name)
	if len(r) == 2 && r[0] == 11 && !strings.Contains(name, "builtins") {
		return nil
	}
	return r
}
