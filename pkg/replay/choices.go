package replay

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Chosen is the build that a package takes of several that it brings.
type Chosen struct {
	*packs.Choice
	Pkg     *inventory.Package
	Release *packs.ChoiceRelease // the row for the package's version
	cuda    string               // the version that decides, "12.4", or the variable's value
	By      string               // "build" or "override": a build of the framework, or the variable, decides
	Path    string               // of the build that is taken; the file may not exist
	Builds  []string             // paths of all builds, at least one
}

// Choose returns the builds that installed packages take. Packages that bring no build or
// whose CUDA version is not known are left out.
func (pa *Packages) Choose() []Chosen { return pa.chosen() }

func (pa *Packages) choose() []Chosen {
	var list []Chosen
	for _, c := range pa.packs.Choices {
		for _, p := range pa.inv.Packages {
			if p.Kind != inventory.Wheel || !packs.MatchAny(c.Dist, packs.Normal(p.Name)) {
				continue
			}
			if got, ok := pa.chosenBy(p, c); ok {
				list = append(list, got)
			}
		}
	}
	return list
}

// chosenBy returns the build that a package takes by one choice.
func (pa *Packages) chosenBy(p *inventory.Package, c *packs.Choice) (_ Chosen, ok bool) {
	got := Chosen{Choice: c, Pkg: p, Release: c.ReleaseFor(p.Version), Builds: pa.files.Glob(p.Dir, strings.ReplaceAll(c.File, "{cuda}", "[0-9]*"))}
	if i := slices.IndexFunc(pa.inv.Builds, func(b *inventory.Build) bool { return b.Name == c.Of && b.Dir == p.Dir && b.CUDA != "" }); i >= 0 {
		got.cuda, got.By = packs.Numbers(pa.inv.Builds[i].CUDA, 2), "build"
	}
	value, _ := pa.config.Getenv(c.Override)
	if value != "" {
		got.cuda, got.By = value, "override"
	}
	if got.cuda == "" || len(got.Builds) == 0 || got.Release == nil {
		return got, false
	}
	got.Path = got.file(strings.ReplaceAll(got.cuda, ".", ""))
	if got.Release.SameMajor && value == "" && !slices.Contains(got.Builds, got.Path) {
		got.Path = cmp.Or(got.nearest(), got.Path)
	}
	return got, true
}

// file returns the path of the build for a version of CUDA, written as 124.
func (c *Chosen) file(digits string) string {
	return path.Join(c.Pkg.Dir, strings.ReplaceAll(c.File, "{cuda}", digits))
}

// nearest returns the path of the build for the next lower minor version, else for the
// next higher one, or "" if the package has none for the major version.
func (c *Chosen) nearest() string {
	major, minor, _ := strings.Cut(c.cuda, ".")
	wants, _ := strconv.Atoi(minor)
	lower, higher := -1, -1
	for n := range 100 {
		if slices.Contains(c.Builds, c.file(major+strconv.Itoa(n))) {
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

// Values returns the values for the clauses about a choice.
func (c *Chosen) Values() packs.Values {
	return packs.Values{
		"package": c.Pkg.Name, "version": c.Pkg.Version, "name": path.Base(c.Path), "of": c.Of, "cuda": c.cuda, "variable": c.Override, "value": c.cuda,
	}
}

// NotChosen returns why a package does not take the build at a path, or "" if it takes
// it. known is false if the path is not a build of a package.
func (pa *Packages) NotChosen(p string) (why string, known bool) {
	for _, c := range pa.Choose() {
		if slices.Contains(c.Builds, p) {
			if c.Path == p {
				return "", true
			}
			return pa.packs.Phrase("taken-for-"+c.By, c.Values()), true
		}
	}
	return "", false
}
