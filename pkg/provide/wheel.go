package provide

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
)

// wheel is a wheel's file name, taken apart (binary distribution format, "File
// name convention").
type wheel struct {
	name      string // normalised
	version   string
	build     string
	python    []string
	abi       []string
	platforms []string
}

func parseWheel(file string) (wheel, error) {
	stem, ok := strings.CutSuffix(file, ".whl")
	parts := strings.Split(stem, "-")
	if !ok || len(file) > 512 || len(parts) != 5 && len(parts) != 6 || slices.Contains(parts, "") {
		return wheel{}, fmt.Errorf("%q is no wheel's name", file)
	}
	n := len(parts)
	w := wheel{
		name: normalize(parts[0]), version: parts[1],
		python: strings.Split(parts[n-3], "."), abi: strings.Split(parts[n-2], "."), platforms: strings.Split(parts[n-1], "."),
	}
	if n == 6 {
		w.build = parts[2]
	}
	if _, err := version.Parse(w.version); err != nil {
		return wheel{}, fmt.Errorf("%q is no wheel's name: %w", file, err)
	}
	return w, nil
}

var separators = regexp.MustCompile(`[-_.]+`)

// normalize returns a distribution's name in the spelling of indexes (PEP 503).
func normalize(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

var manylinux = regexp.MustCompile(`^manylinux_(\d{1,4})_(\d{1,4})_(\w+)$`)

// The names of PEP 513, 571 and 599, in those of PEP 600.
var oldManylinux = map[string]string{"manylinux1": "manylinux_2_5", "manylinux2010": "manylinux_2_12", "manylinux2014": "manylinux_2_17"}

// glibc returns the lowest glibc with which the wheel runs on a machine; ok is false if it
// does not run there. A wheel with compiled Python modules is for one Python, and does not
// count.
func (w *wheel) glibc(arch string) (least string, ok bool) {
	if !slices.Contains(w.abi, "none") {
		return "", false
	}
	machine := machines[arch].wheel
	for _, p := range w.platforms {
		if p == "linux_"+machine {
			return "2.0", true // the tag names none
		}
		for old, tag := range oldManylinux {
			if rest, found := strings.CutPrefix(p, old+"_"); found {
				p = tag + "_" + rest
			}
		}
		m := manylinux.FindStringSubmatch(p)
		if m == nil || m[3] != machine {
			continue
		}
		if v := m[1] + "." + m[2]; !ok || version.Compare(v, least) < 0 {
			least, ok = v, true
		}
	}
	return least, ok
}

// candidate is a wheel of an index that fits.
type candidate struct {
	link    *link
	wheel   wheel
	version version.Version
	glibc   string
}

// candidates returns the wheels of an index page that fit, the best first: the newest
// release, and of that the one for the latest glibc that the image has.
func (r *request) candidates(dist string, links []*link) (list []candidate, why string) {
	why = "has no wheel of " + dist + " for " + r.Arch
	for _, l := range links {
		w, err := parseWheel(l.name)
		if err != nil || w.name != dist {
			continue
		}
		glibc, ok := w.glibc(r.Arch)
		if !ok {
			continue
		}
		v, _ := version.Parse(w.version)
		switch {
		case !r.spec.allow(v) || !r.mayHave(v):
			why = "has no release of " + dist + " that fits"
		case l.yanked && r.Pin == "":
			why = fmt.Sprintf("has withdrawn %s %s", dist, w.version)
		case r.Glibc != "" && version.Compare(glibc, r.Glibc) > 0:
			why = fmt.Sprintf("has %s %s for glibc %s, later than the image's %s", dist, w.version, glibc, r.Glibc)
		default:
			list = append(list, candidate{l, w, v, glibc})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(b.version.Compare(a.version), version.Compare(b.glibc, a.glibc), version.CompareBuilds(b.wheel.build, a.wheel.build), strings.Compare(a.link.name, b.link.name))
	})
	return list, why
}

// mayHave reports whether a release may have the names. It compares the numbers of SONAMEs
// that are the first of the release: libcudnn.so.9, libnvrtc-builtins.so.12.4.
func (r *request) mayHave(v version.Version) bool {
	if r.lib == nil || !r.lib.SonameMajor {
		return true
	}
	release := v.Release()
	for _, n := range r.Names {
		_, number, ok := strings.Cut(n, ".so.")
		if !ok {
			continue
		}
		numbers := version.ParseRelease(number)
		if slices.Contains(r.lib.Frozen, number) {
			numbers = numbers.First(1)
		}
		if len(numbers) > len(release) || !numbers.Agrees(release) {
			return false
		}
	}
	return true
}
