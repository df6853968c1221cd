package lint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// adviseProgram adds where a program is, or which package has it, that a statement runs and that is not
// on PATH.
func (pass *Pass) adviseProgram(x *Finding, f *replay.StartFailure) {
	if f.Program == "" || strings.Contains(f.Program, "/") {
		return
	}
	v := packs.Values{"program": f.Program}
	pass.also(x, "no-program", v)
	if v["dir"] = pass.directoryOf(f.Program); v["dir"] != "" {
		pass.also(x, "program-elsewhere", v)
		return
	}
	if row := packs.PackagesWith(pass.Packs.Programs, f.Program); row != nil {
		v["apt"], v["apk"] = row.Apt, row.Apk
		pass.also(x, "program", v)
		x.Advice[len(x.Advice)-1].Packages = row
	}
}

// directoryOf returns the first directory of programs (bin) that has one of a name, or "".
func (pass *Pass) directoryOf(program string) string {
	for e := range pass.Image.FS.All() {
		if dir, name := path.Split("/" + e.Path); name == program && path.Base(dir) == "bin" && e.Mode&0o111 != 0 && !e.IsDir() {
			return path.Clean(dir)
		}
	}
	return ""
}

// maxNumber limits the numbers of the SONAMEs that are tried for a name that find_library looks for.
const maxNumber = 99

// adviseLibrary adds which package has a library that a program has searched by its name without a
// number, as ctypes.util.find_library does.
func (pass *Pass) adviseLibrary(x *Finding, f *replay.StartFailure) {
	if f.Library == "" {
		return
	}
	pass.also(x, "no-library", packs.Values{"library": f.Library})
	for n := range maxNumber + 1 {
		if list := pass.Packs.LibraryAdvice("lib"+f.Library+".so."+strconv.Itoa(n), ""); len(list) > 0 {
			x.advise(list...)
			return
		}
	}
}

// adviseOwners adds that two packages have the file which imports a module that is not there: it may be
// the file of the wrong one (PyMuPDF and another package both have `fitz/__init__.py`). It reports whether it has.
func (pass *Pass) adviseOwners(x *Finding, v packs.Values) bool {
	if len(x.Affected) == 0 {
		return false
	}
	file := replay.RealPath(pass.Image.FS, x.Affected[0])
	p, _, wheels := pass.Packages.OwnerOf(file)
	var owners []*inventory.Package
	for _, pkg := range wheels.Sorted() {
		if _, ok := pkg.Files[file]; ok {
			owners = append(owners, pkg)
		}
	}
	if len(owners) != 2 {
		return false
	}
	v["file"], v["package"], v["other"] = belowSite(p, file), owners[0].Name, owners[1].Name
	v["version"], v["other-version"] = owners[0].Version, owners[1].Version
	pass.also(x, "two-owners", v)
	return true
}

// saidRelease matches a requirement in the text of an exception: `grpcio>=1.81.0`.
var saidRelease = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9._-]*)((?:(?:[<>=!~]=|[<>])[0-9][0-9A-Za-z.]*[0-9A-Za-z],?)+)`)

// maxSaid limits the requirements of one text.
const maxSaid = 8

// noMetadata matches the text of importlib.metadata's exception: the name of a distribution, alone
// before Python 3.10 (Lib/importlib/metadata, PackageNotFoundError.__str__).
var noMetadata = regexp.MustCompile(`^(?:No package metadata was found for )?([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)$`)

// adviseMetadata adds what to install if the program asks for the release of a distribution that is
// not installed.
func (pass *Pass) adviseMetadata(x *Finding, f *replay.StartFailure) {
	m := noMetadata.FindStringSubmatch(f.Failure.Text)
	if f.Type != "importlib.metadata.PackageNotFoundError" || m == nil {
		return
	}
	pass.also(x, "no-metadata", packs.Values{"requirement": m[1], "python": path.Base(replay.RealPath(pass.Image.FS, f.Start.Python))})
}

// adviseSaid adds the release of an installed package that the text of an exception asks for, if
// nothing else is known.
func (pass *Pass) adviseSaid(x *Finding, f *replay.StartFailure) {
	if len(x.Advice) > 0 || len(x.Affected) == 0 {
		return
	}
	for _, m := range saidRelease.FindAllStringSubmatch(f.Failure.Text, maxSaid) {
		r, err := inventory.ParseRequirement(m[1] + strings.TrimSuffix(m[2], ","))
		if err != nil {
			continue
		}
		p, pkg := pass.onlyWheel(r.Name)
		if pkg == nil {
			continue
		}
		if fits, known := packs.ParseRelease(pkg.Version).Within(r.Specifiers); fits || !known {
			continue
		}
		pass.also(x, "release-said", packs.Values{
			"requirement": r.Name + r.Specifiers, "package": pkg.Name, "version": pkg.Version, "place": topOf(p, pkg),
			"python": path.Base(replay.RealPath(pass.Image.FS, f.Start.Python)),
		})
		return
	}
}

// onlyWheel returns the wheel of a name, and its Python, if only one Python of the image has it.
func (pass *Pass) onlyWheel(name string) (of *inventory.Python, pkg *inventory.Package) {
	for _, p := range pass.Inventory.Pythons {
		switch w := pass.Inventory.Wheels(p)[name]; {
		case w == nil:
		case pkg != nil && pkg != w:
			return nil, nil
		default:
			of, pkg = p, w
		}
	}
	return of, pkg
}

// topOf returns the first file of a wheel that makes a package at the top of its directory of packages,
// below that directory, or "".
func topOf(p *inventory.Python, pkg *inventory.Package) string {
	for _, file := range slices.Sorted(maps.Keys(pkg.Files)) {
		if place := belowSite(p, file); path.Base(place) == "__init__.py" && strings.Count(place, "/") == 1 {
			return place
		}
	}
	return ""
}

// belowSite returns the path of a file below the directory of packages of a Python that has it, or "".
func belowSite(p *inventory.Python, file string) string {
	for _, site := range p.Sites {
		if rest, ok := strings.CutPrefix(file, site+"/"); ok {
			return rest
		}
	}
	return ""
}
