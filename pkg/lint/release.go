package lint

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// release is a version as its numbers: 2.6.0+cu124 is 2, 6, 0. nil is unknown.
type release []int

// parseRelease reads the numbers at the beginning of a text; nil when there are
// none.
func parseRelease(s string) release {
	var r release
	for part := range strings.SplitSeq(s, ".") {
		end := 0
		for end < len(part) && part[end] >= '0' && part[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			break
		}
		r = append(r, n)
		if end < len(part) {
			break
		}
	}
	return r
}

func (r release) String() string {
	var parts []string
	for _, n := range r {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ".")
}

// upTo is the first n numbers; empty when it has fewer.
func (r release) upTo(n int) string {
	if len(r) < n {
		return ""
	}
	return r[:n].String()
}

// compare compares the numbers that both have: 9.1 is no older than 9.1.0.
func (r release) compare(o release) int {
	n := min(len(r), len(o))
	return slices.Compare(r[:n], o[:n])
}

// constraint is one of >=2.0,<2.7.
type constraint struct {
	op string
	to release
}

func parseVersions(s string) ([]constraint, error) {
	var list []constraint
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		i := strings.IndexFunc(part, func(c rune) bool { return c >= '0' && c <= '9' })
		if i < 0 || !slices.Contains([]string{">=", "<", "=="}, part[:i]) {
			return nil, fmt.Errorf("versions: %q is not >=, < or == and a version", part)
		}
		list = append(list, constraint{part[:i], parseRelease(part[i:])})
	}
	return list, nil
}

func validVersions(s string) error {
	_, err := parseVersions(s)
	return err
}

// within reports whether a version fits a text that was checked, and whether
// that is known.
func (r release) within(versions string) (fits, known bool) {
	list, _ := parseVersions(versions)
	if len(list) == 0 {
		return true, true
	}
	if r == nil {
		return false, false
	}
	for _, c := range list {
		cmp := r.compare(c.to)
		if c.op == ">=" && cmp < 0 || c.op == "<" && cmp >= 0 || c.op == "==" && cmp != 0 {
			return false, true
		}
	}
	return true, true
}

// dist is an installed distribution.
type dist struct{ name, version string }

// cuda is the major version of CUDA that a distribution is for by its name
// (cupy_cuda12x, jax_cuda13_plugin); empty when it does not tell.
func (d dist) cuda() string {
	_, rest, _ := strings.Cut(d.name, "_cuda")
	return parseRelease(rest).upTo(1)
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

// nameRelease is what follows .so in a file name; a name whose numbers are those
// of the SONAME (libnvrtc.so.11.2, libcudart.so.11.0) tells no release.
func nameRelease(name string) release {
	_, after, ok := strings.Cut(name, ".so.")
	if !ok {
		return nil
	}
	r := parseRelease(after)
	if len(r) == 2 && r[0] == 11 && !strings.Contains(name, "builtins") {
		return nil
	}
	return r
}
