package lint

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// chosen is the build that a package takes of those that it brings.
type chosen struct {
	*Choice
	pkg     *inventory.Package
	release *ChoiceRelease
	cuda    string   // the version that decides, "12.4", or the variable's value
	by      string   // what decides: "build" or "override"
	path    string   // of the build that is taken
	builds  []string // paths of all builds
}

// choose returns the builds that installed packages take, and keeps them for the next
// call. Packages that bring no build or whose CUDA version is not known are left out.
func (w *world) choose() []chosen {
	if w.chosen != nil {
		return w.chosen
	}
	list := []chosen{}
	for _, c := range w.packs.Choices {
		for _, p := range w.inv.Packages {
			if p.Kind != inventory.Wheel || !matchAny(c.Dist, normal(p.Name)) {
				continue
			}
			got := chosen{Choice: c, pkg: p, release: c.releaseFor(p.Version), builds: w.glob(p.Dir, strings.ReplaceAll(c.File, "{cuda}", "[0-9]*"))}
			if i := slices.IndexFunc(w.inv.Builds, func(b *inventory.Build) bool { return b.Name == c.Of && b.Dir == p.Dir && b.CUDA != "" }); i >= 0 {
				got.cuda, got.by = numbers(w.inv.Builds[i].CUDA, 2), "build"
			}
			value, _ := w.getenv(c.Override)
			if value != "" {
				got.cuda, got.by = value, "override"
			}
			if got.cuda == "" || len(got.builds) == 0 || got.release == nil {
				continue
			}
			got.path = got.file(strings.ReplaceAll(got.cuda, ".", ""))
			if got.release.SameMajor && value == "" && !slices.Contains(got.builds, got.path) {
				got.path = cmp.Or(got.nearest(), got.path)
			}
			list = append(list, got)
		}
	}
	w.chosen = list
	return list
}

// file returns the path of the build for a version of CUDA, written as 124.
func (c *chosen) file(digits string) string {
	return path.Join(c.pkg.Dir, strings.ReplaceAll(c.File, "{cuda}", digits))
}

// nearest returns the path of the build for the next lower minor version, else for the
// next higher one, or "" if the package brings none of the major version.
func (c *chosen) nearest() string {
	major, minor, _ := strings.Cut(c.cuda, ".")
	wants, _ := strconv.Atoi(minor)
	lower, higher := -1, -1
	for n := range 100 {
		if slices.Contains(c.builds, c.file(major+strconv.Itoa(n))) {
			if n <= wants {
				lower = n
			} else if higher < 0 {
				higher = n
			}
		}
	}
	switch {
	case lower >= 0:
		return c.file(major + strconv.Itoa(lower))
	case higher >= 0:
		return c.file(major + strconv.Itoa(higher))
	}
	return ""
}

// releaseFor returns the behaviour of a version of the package, nil if it is not known.
func (c *Choice) releaseFor(version string) *ChoiceRelease {
	for i := range c.Releases {
		if fits, known := parseRelease(version).Within(c.Releases[i].Versions); fits && known {
			return &c.Releases[i]
		}
	}
	return nil
}

// values returns the values of the clauses about a choice.
func (c *chosen) values() values {
	return values{
		"package": c.pkg.Name, "version": c.pkg.Version, "name": path.Base(c.path), "of": c.Of, "cuda": c.cuda, "variable": c.Override, "value": c.cuda,
	}
}

// notChosen returns why a package does not take the build at a path, or "" if it takes it.
// known is false if the path is no build of a package.
func (w *world) notChosen(p string) (why string, known bool) {
	for _, c := range w.choose() {
		if slices.Contains(c.builds, p) {
			if c.path == p {
				return "", true
			}
			return w.phrase("taken-for-"+c.by, c.values()), true
		}
	}
	return "", false
}

// choiceMissing returns a finding for each package that does not bring the build that it
// takes.
func (w *world) choiceMissing() []Finding {
	var list []Finding
	for _, c := range w.choose() {
		if slices.Contains(c.builds, c.path) {
			continue
		}
		var names []string
		for _, b := range c.builds {
			names = append(names, path.Base(b))
		}
		v := c.values()
		v["builds"], v["effect"] = strings.Join(names, ", "), c.release.Effect
		v["error"] = fill(c.release.Error, values{"path": c.path, "name": path.Base(c.path)})
		f := w.say("build-not-there", c.by, v)
		w.also(&f, "others", v)
		f.Subject, f.Affected, f.Present = c.path, []string{c.pkg.Path}, w.filesOf(c.builds)
		f.NeededBy = []File{w.file(c.pkg.Path)}
		list = append(list, f)
	}
	return list
}

func (c *Choice) validate() error {
	if c.ID == "" || len(c.Dist) == 0 || c.Of == "" || !strings.Contains(c.File, "{cuda}") || c.Override == "" || len(c.Releases) == 0 || len(c.Sources) == 0 {
		return errors.New("needs an id, dist, of, a file with {cuda}, an override, releases and sources")
	}
	for _, r := range c.Releases {
		if err := version.CheckRange(r.Versions); err != nil {
			return err
		}
		if r.Effect == "" {
			return errors.New("releases: needs an effect")
		}
	}
	return patterns("", c.Dist)
}
