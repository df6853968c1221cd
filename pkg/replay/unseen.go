package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// Unseen are the files of Python packages that only the packages' own code can open, and
// of which no source in the image says who opens them: the source is absent, compiled, or
// says nothing. Such a file matters as much as its package does.
type Unseen struct {
	re     *replayer
	wanted *wanted
	needed map[string]bool      // names in DT_NEEDED
	opened map[string]bool      // files that a followed program opens
	within map[string][]*Object // objects in a package's directory, by that directory
}

// newUnseen indexes the objects of the image. The programs are those of its Starts.
func newUnseen(re *replayer) *Unseen {
	un := &Unseen{re: re, wanted: newWanted(re), needed: map[string]bool{}, opened: map[string]bool{}, within: map[string][]*Object{}}
	for _, o := range re.files.Objects {
		for _, n := range o.ELF.Needed {
			un.needed[path.Base(n)] = true
		}
		if _, unit := un.re.units.unitOf(o.Path); unit != "" {
			un.within[unit] = append(un.within[unit], o)
		}
	}
	for _, s := range re.ev.Starts {
		if s.Part != "" {
			continue // the import is of our making
		}
		un.addOpened(s.Tree)
		for _, file := range s.Mapped {
			un.opened[file] = true
		}
	}
	return un
}

// addOpened adds the files that a tree opens.
func (un *Unseen) addOpened(n *pyimport.Node) {
	if n == nil {
		return
	}
	if n.File != "" {
		un.opened[RealPath(un.re.img.FS, n.File)] = true
	}
	for _, below := range n.Nodes {
		un.addOpened(below)
	}
}

// Fails reports whether an object is such a file, and certain to fail for e: all of the
// package's files of its kind miss the same, and no process of the image can supply it. asked says whether somebody asked for the package, as far as that is known.
func (un *Unseen) Fails(o *Object, e *elfdeps.Error) (pkg string, asked inventory.Answer, ok bool) {
	_, unit := un.re.units.unitOf(o.Path)
	if unit == "" || !un.absent(o, e) || !un.isRoot(o) || un.re.units.hasSource(unit) {
		return "", inventory.Unknown, false
	}
	extension := false
	for _, other := range un.within[unit] {
		extension = extension || un.isRoot(other) && isExtension(other)
		if un.isVariant(other.Path) {
			return "", inventory.Unknown, false
		}
	}
	for _, other := range un.within[unit] {
		if un.isRoot(other) && isExtension(other) == extension && !slices.ContainsFunc(un.re.files.Real(other.Misses), func(m *elfdeps.Error) bool { return m.Name == e.Name && un.absent(other, m) }) {
			return "", inventory.Unknown, false
		}
	}
	return path.Base(unit), un.wanted.Asked(o.Path, ""), isExtension(o) == extension
}

// AskedFor returns the package that a file belongs to, or "" if it lies in none, and whether
// somebody asked for it.
func (un *Unseen) AskedFor(o *Object) (pkg string, asked inventory.Answer) {
	if _, unit := un.re.units.unitOf(o.Path); unit != "" {
		pkg = path.Base(unit)
	}
	return pkg, un.wanted.Asked(o.Path, "")
}

// isExtension reports whether an object is an extension module, by its name or its init
// function.
func isExtension(o *Object) bool {
	stem, _, _ := strings.Cut(path.Base(o.Path), ".")
	return IsPythonExtension(o.Path) || Defines(o.ELF, pyimport.InitFunction(stem))
}

// isRoot reports whether only the code of an object's package can open it: no file needs
// it, and neither the packs nor a followed program say who opens it, or that it may fail.
func (un *Unseen) isRoot(o *Object) bool {
	set := un.re.packs
	switch {
	case IsProgram(o.ELF), o.Loader == nil, un.needed[path.Base(o.Path)], o.ELF.Soname != "" && un.needed[o.ELF.Soname], un.opened[o.Path]:
		return false
	}
	return set.Family(o.Path) == nil && !set.FromDriver(o.Path) && un.re.ev.InstallOf(o.Path) == nil && !un.isVariant(o.Path)
}

// isVariant reports whether the packs say of a file that it may fail, or that it is one of
// several.
func (un *Unseen) isVariant(file string) bool {
	_, known := un.re.packages.NotChosen(file)
	return known || un.re.packs.Optional.For(file) != nil || un.re.packs.AnyOf.For(file) != nil
}

// absent reports whether an object misses a library, or a version of one, that nothing in
// the image has where a process could come by it: no file outside of the packages, which
// may open their own by path, and none that another object finds.
func (un *Unseen) absent(o *Object, e *elfdeps.Error) bool {
	files := un.re.files
	switch {
	case e.Unknown:
		return false
	case IsVersion(e):
		return e.Kind == elfdeps.VersionError && e.By != nil && e.By.Real() == o.Path && len(files.NewerCopies(e.Subject, e.Name)) == 0
	case !e.Missing(), files.packs.FromDriver(e.Name), un.forGPU(o, e.Name):
		return false
	}
	for _, p := range slices.Concat(files.Present(e.Name), files.Otherwise(e.Name)) {
		if strings.Contains(p, "-packages/") || un.opened[RealPath(files.img.FS, p)] {
			return false
		}
	}
	return !slices.ContainsFunc(files.Objects, func(other *Object) bool {
		return other != o && slices.Contains(other.ELF.Needed, e.Name) && !slices.ContainsFunc(other.Misses, func(m *elfdeps.Error) bool { return m.Name == e.Name })
	})
}

// forGPU reports whether a library is one that the framework which an object relies on has
// in its builds for a GPU, and the image has a build without: that is a fault of its own.
func (un *Unseen) forGPU(o *Object, library string) bool {
	host := un.re.hostOf(o)
	if host == nil || !packs.MatchAny(host.Serves, library) {
		return false
	}
	b := un.re.packages.buildOfInstall(host)
	return b != nil && b.CUDA == ""
}

// Asked reports whether somebody asked for the package of a framework, as far as that is
// known. silent reports that no source in the image says what the package opens, so that
// the plan of the packs is the only one who knows.
func (un *Unseen) Asked(in *Install) (asked inventory.Answer, silent bool) {
	file := path.Join(in.Home, "__init__.py")
	_, unit := un.re.units.unitOf(file)
	if unit == "" || un.re.units.hasSource(unit) {
		return inventory.Unknown, false
	}
	return un.wanted.Asked(file, in.Installed.Name), true
}

// Wanted reports whether somebody asked for a framework: the image's author, or its program.
// Where no record says so, it is wanted unless it is often a mere dependency.
func (un *Unseen) Wanted(in *Install) bool {
	asked := un.wanted.Asked(path.Join(in.Home, "__init__.py"), in.Installed.Name)
	if pkg := un.wanted.wheelAt(in.Site, in.Installed.Name); asked == inventory.Unknown && pkg != nil {
		asked = pkg.Asked // no Python looks into the directory
	}
	return asked == inventory.Yes || asked == inventory.Unknown && !in.Aside
}

// judgeSymbols judges the symbols that files miss of which no source says who opens them:
// by who asked for the package, and as nothing where another variant of the file can be
// loaded.
func (un *Unseen) judgeSymbols(list []Unbound) {
	failed := map[string]bool{}
	for _, u := range list {
		failed[u.Path] = true
	}
	for i := range list {
		u := &list[i]
		_, unit := un.re.units.unitOf(u.Path)
		if !u.unseen || u.judge > noRun || unit == "" {
			continue
		}
		serves := func(o *Object) bool {
			return !failed[o.Path] && len(un.re.files.Real(o.Misses)) == 0 && withoutDigits(o.Path) == withoutDigits(u.Path)
		}
		if v := (packs.Values{"package": path.Base(unit)}); slices.ContainsFunc(un.within[unit], serves) {
			u.Verdict = un.re.packs.Unproved("not-root")
		} else if asked := un.wanted.Asked(u.Path, ""); asked == inventory.No {
			u.Verdict = un.re.packs.Verdict("package-of-others", v)
		} else if asked == inventory.Unknown {
			u.Verdict = un.re.packs.Verdict("package-perhaps", v)
		}
	}
}

// withoutDigits returns a path without the digits, which tell the variants of a file apart.
func withoutDigits(p string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, p)
}
