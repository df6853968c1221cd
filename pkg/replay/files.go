package replay

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Files is an index of the files of an image by their names, and of its ELF files by
// SONAME as well.
type Files struct {
	img   *Image
	packs *packs.Packs

	// Arch is the architecture of the image. The fields below are about files of that
	// architecture only, apart from Count, ELF and Static.
	Arch
	// Objects are the dynamic ELF files, by path; static programs are not among them.
	Objects []*Object
	ByPath  map[string]*Object // by real path
	// Named are the paths of ELF files and of all symbolic links, by file name. A link may
	// lead nowhere (see [Files.Usable]).
	Named    map[string][]string
	Sonames  map[string][]string // the paths of files with another file name, by SONAME
	bySoname map[string][]*Object
	// scripts are the names of files for linkers that are no ELF files: archives, and texts in the place of libraries.
	scripts map[string]bool

	Count  int // of all files and directories
	ELF    int // of all ELF files
	Static int // of all static ELF files

	globs sync.Map // pattern → []string, see Glob
	// names are the keys of Named, sorted; ofStem are the objects by their SONAME without
	// the number. Both are made by the first call.
	names  func() []string
	ofStem func() map[string][]*Object
}

// newFiles indexes the files of an image.
func newFiles(img *Image, set *packs.Packs) *Files {
	fi := &Files{
		img: img, packs: set, ByPath: map[string]*Object{}, Named: map[string][]string{},
		Sonames: map[string][]string{}, bySoname: map[string][]*Object{}, scripts: map[string]bool{},
	}
	fi.names = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(fi.Named)) })
	fi.ofStem = sync.OnceValue(fi.stems)
	fi.Arch = fi.architecture()
	for e := range img.FS.All() {
		fi.Count++
		if e.Type == layers.Symlink {
			fi.Named[path.Base(e.Path)] = append(fi.Named[path.Base(e.Path)], "/"+e.Path)
		}
		if e.Object != nil {
			fi.addELF(e)
		} else if name := path.Base(e.Path); e.Type == layers.Regular && strings.HasPrefix(name, "lib") && (strings.HasSuffix(name, ".a") || strings.HasSuffix(name, ".so")) {
			fi.scripts[name] = true
		}
	}
	return fi
}

// links reports whether a linker that is given -lNAME may find a file: one of that name is somewhere.
func (fi *Files) links(name string) bool {
	return slices.ContainsFunc([]string{"lib" + name + ".so", "lib" + name + ".a"}, func(file string) bool {
		return len(fi.Named[file]) > 0 || fi.scripts[file]
	})
}

// addELF adds an ELF file to the index.
func (fi *Files) addELF(e *layers.Entry) {
	o, abs := e.Object, "/"+e.Path
	fi.ELF++
	if o.Fault == "" && len(o.Unread) == 0 && (!o.Dynamic || isStatic(o)) {
		fi.Static++
	}
	if (Arch{o.Machine, o.Class()}) != fi.Arch {
		return
	}
	fi.Named[path.Base(abs)] = append(fi.Named[path.Base(abs)], abs)
	if s := o.Soname; s != "" && s != path.Base(abs) {
		fi.Sonames[s] = append(fi.Sonames[s], abs)
	}
	if o.Dynamic && !isStatic(o) {
		object := &Object{Path: abs, ELF: o}
		fi.Objects = append(fi.Objects, object)
		fi.ByPath[abs] = object
		fi.bySoname[o.Soname] = append(fi.bySoname[o.Soname], object)
	}
}

// IsRoot reports whether an object is expected to be loaded, since it needs a GPU library
// itself. The files of frameworks and the entrypoint are roots as well; the rules know
// those from the evidence.
func (fi *Files) IsRoot(o *Object) bool {
	return slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return fi.packs.Family(n) != nil })
}

// Present returns the usable files called name, which may be in directories where the
// loader does not search.
func (fi *Files) Present(name string) []string { return fi.Usable(fi.Named[path.Base(name)]) }

// Otherwise returns the usable files that are the library under another file name: they
// have the SONAME, or are libx.so.8 where libx.so is wanted.
func (fi *Files) Otherwise(name string) []string {
	base := path.Base(name)
	list := slices.Clone(fi.Sonames[base])
	if strings.HasSuffix(base, ".so") {
		names := fi.names()
		at, _ := slices.BinarySearch(names, base+".")
		for ; at < len(names) && strings.HasPrefix(names[at], base+"."); at++ {
			list = append(list, fi.Named[names[at]]...)
		}
	}
	return fi.Usable(list)
}

// Usable returns the paths that lead to an ELF file of the image's machine other than a
// stub, sorted.
func (fi *Files) Usable(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		if e, _, ok := fi.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == fi.Machine && !IsStub("/"+e.Path) {
			seen[p] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Others returns the files of a library in another major version, sorted.
func (fi *Files) Others(name string) []File {
	base, _, ok := strings.Cut(path.Base(name), ".so.")
	if !ok || strings.Contains(base, "builtins") {
		return nil
	}
	seen := map[string]bool{}
	for _, o := range fi.ofStem()[base] {
		if o.ELF.Soname != name && !IsStub(o.Path) {
			seen[o.Path] = true
		}
	}
	var list []File
	for _, p := range slices.Sorted(maps.Keys(seen)) {
		list = append(list, fi.img.File(p))
	}
	return list
}

// stems returns the objects whose SONAME has a number, by what is before it.
func (fi *Files) stems() map[string][]*Object {
	list := map[string][]*Object{}
	for _, o := range fi.Objects {
		if s, _, ok := strings.Cut(o.ELF.Soname, ".so."); ok {
			list[s] = append(list[s], o)
		}
	}
	return list
}

// Own returns the files of a library that a framework has in its directory, or beside a
// file that it opens by full path.
func (fi *Files) Own(in *Install, soname string) []string {
	var list []string
	for _, o := range fi.bySoname[soname] {
		if strings.HasPrefix(o.Path, in.Home+"/") || slices.ContainsFunc(in.opens, func(p string) bool { return path.Dir(p) == path.Dir(o.Path) }) {
			list = append(list, o.Path)
		}
	}
	return list
}

// Definers returns the files of a library, except the one at not, that define a symbol.
func (fi *Files) Definers(name, not, symbol string) []File {
	var list []File
	for _, p := range fi.filesNamed(name) {
		if e, _, ok := fi.img.FS.Lookup(p); ok && p != not && Defines(e.Object, symbol) {
			list = append(list, fi.img.File(p))
		}
	}
	return list
}

// NewerCopies returns the other copies of the library at found that define a version. It
// returns none for versions of glibc, whose parts and loader must be of one release.
func (fi *Files) NewerCopies(found, version string) []File {
	e, _, ok := fi.img.FS.Lookup(found)
	if !ok || e.Object == nil || strings.HasPrefix(version, "GLIBC_") {
		return nil
	}
	var list []File
	for _, p := range fi.filesNamed(path.Base(e.Object.Soname)) {
		c, _, ok := fi.img.FS.Lookup(p)
		if ok && c.Object != nil && p != "/"+e.Path && slices.Contains(c.Object.VersionDefs, version) {
			list = append(list, fi.img.File(p))
		}
	}
	return list
}

// filesNamed returns the real paths of ELF files of the image's machine that have name as
// their file name or SONAME, sorted.
func (fi *Files) filesNamed(name string) []string {
	seen := map[string]bool{}
	for _, p := range slices.Concat(fi.Named[name], fi.Sonames[name]) {
		if e, _, ok := fi.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == fi.Machine {
			seen["/"+e.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// NamesLike returns the names of ELF files and links that match a pattern, sorted.
func (fi *Files) NamesLike(pattern string) []string {
	var list []string
	for name := range fi.Named {
		if packs.Match(pattern, name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// hasAny reports whether the image has a file with one of the names, or had one that a
// layer has deleted.
func (fi *Files) hasAny(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(fi.Named[n]) > 0 || len(fi.img.Removed(n)) > 0 })
}

// hasOther reports whether the image has a library of one of the names with another
// number after .so.
func (fi *Files) hasOther(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		stem, _, ok := strings.Cut(path.Base(n), ".so")
		return ok && len(fi.NamesLike(stem+".so.*")) > 0
	})
}

// UsersOf returns the files that need one of libraries (names up to .so), without the
// driver's own.
func (fi *Files) UsersOf(libraries []string) []string {
	var list []string
	for _, o := range fi.Objects {
		if fi.packs.FromDriver(o.Path) {
			continue
		}
		if slices.ContainsFunc(o.ELF.Needed, func(n string) bool {
			base, _, _ := strings.Cut(n, ".so")
			return slices.Contains(libraries, base)
		}) {
			list = append(list, o.Path)
		}
	}
	return list
}

// OpenersOf returns the files that import dlopen and have one of the libraries in their
// read-only data, or whose own name matches one of the patterns: they may open it when it
// is used. libraries are names without `.so` and what follows. Libraries of the driver
// are left out.
func (fi *Files) OpenersOf(libraries, patterns []string) []string {
	var list []string
	for _, o := range fi.Objects {
		names := o.ELF.Named != nil && slices.ContainsFunc(o.ELF.Named.Names, func(n string) bool {
			base, _, ok := strings.Cut(path.Base(n), ".so")
			return ok && slices.Contains(libraries, base)
		})
		if (names || packs.MatchAny(patterns, path.Base(o.Path))) && !fi.packs.FromDriver(o.Path) {
			list = append(list, o.Path)
		}
	}
	return list
}

// HasLibraries reports whether a directory holds a library of the image's machine.
func (fi *Files) HasLibraries(dir string) bool {
	return slices.ContainsFunc(fi.Objects, func(o *Object) bool { return path.Dir(o.Path) == dir && !IsProgram(o.ELF) })
}

// InWheelDir reports whether a path, relative to a site-packages directory, is in a
// directory where wheels have their libraries (nvidia, torch.libs).
func (fi *Files) InWheelDir(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	return below && fi.packs.WheelDirs.Has(top)
}

// IsCopy reports whether a module is a GPU library of the image, not the driver's.
func (fi *Files) IsCopy(m Loaded) bool {
	return m.File != nil && fi.packs.Family(m.Object.Soname) != nil && fi.ByPath[m.Real()] != nil
}
