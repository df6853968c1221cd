package lint

import (
	"cmp"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// found is a copy of a library.
type found struct {
	version string // only the major version, such as "9", if no more is known
	path    string // of its file, or of the metadata of its package
	wheel   bool
}

// copiesIn returns the copies of a carrier's library that an environment can find: those of
// its wheels, of conda, and of the system.
func copiesIn(pass *Pass, p *inventory.Python, wheels replay.WheelSet, c *packs.Carrier) []found {
	var list []found
	for name, pkg := range wheels {
		if packs.MatchAny(c.Wheels, name) {
			list = append(list, found{pkg.Version, pkg.Path, true})
		}
	}
	for _, pkg := range pass.Inventory.Packages {
		switch {
		case pkg.Kind == inventory.Conda && pkg.Dir == p.Prefix && packs.MatchAny(c.Conda, pkg.Name):
			list = append(list, found{pkg.Version, pkg.Path, false})
		case (pkg.Kind == inventory.Deb || pkg.Kind == inventory.RPM) && packs.MatchAny(c.System, pkg.Name) && !packs.MatchAny(c.Except, pkg.Name):
			list = append(list, found{version.Upstream(pkg.Version), pkg.Path, false})
		}
	}
	for _, component := range pass.Inventory.Components {
		if component.Name == c.Family && component.From == "file name" {
			list = append(list, found{component.Version, component.Path, false})
		}
	}
	for major, names := range majorsOf(pass, c) {
		if slices.ContainsFunc(list, func(f found) bool { return packs.Numbers(f.version, 1) == major }) {
			continue
		}
		for _, file := range firstPresent(pass, names) {
			list = append(list, found{major, file, false})
		}
	}
	slices.SortFunc(list, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.version, b.version))
	})
	return list
}

// majorsOf returns the file names of a carrier's library by their major version.
func majorsOf(pass *Pass, c *packs.Carrier) map[string][]string {
	majors := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(pass.Files.Named)) {
		if major := packs.MajorOf(name); major != "" && packs.MatchAny(c.Files, name) {
			majors[major] = append(majors[major], name)
		}
	}
	return majors
}

// firstPresent returns the image's files with the first of the names that it has.
func firstPresent(pass *Pass, names []string) []string {
	for _, name := range names {
		if files := pass.Files.Present(name); len(files) > 0 {
			return files
		}
	}
	return nil
}

// ownCopy reports whether a framework has a carrier's library in its own directory.
func ownCopy(pass *Pass, pkg *inventory.Package, c *packs.Carrier) bool {
	return slices.ContainsFunc(pass.Evidence.Installs, func(in *replay.Install) bool {
		return in.ID == pkg.Name && in.Site == pkg.Dir && c.Own != "" && len(pass.Files.Glob(in.Home, c.Own)) > 0
	})
}

// copiesFor returns the copies of a carrier's library that a package may load. If its
// metadata requires a wheel with the library, it finds those of wheels first, by RPATH or a
// preload by full path.
func copiesFor(pass *Pass, p *inventory.Python, wheels replay.WheelSet, pkg *inventory.Package, c *packs.Carrier) []found {
	list := copiesIn(pass, p, wheels, c)
	requires := slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err == nil && packs.MatchAny(c.Wheels, r.Name)
	})
	if requires && slices.ContainsFunc(list, func(f found) bool { return f.wheel }) {
		list = slices.DeleteFunc(list, func(f found) bool { return !f.wheel })
	}
	return list
}

// fitsAny reports whether one of the copies has the major version of wants and a minor
// version that is as new. An unknown minor version counts as new enough.
func fitsAny(copies []found, wants version.Release) bool {
	return slices.ContainsFunc(copies, func(c found) bool {
		has := packs.ParseRelease(c.version)
		return packs.Numbers(c.version, 1) == wants.First(1).String() && !has.First(2).Before(wants.First(2))
	})
}
