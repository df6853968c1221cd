package replay

import (
	"debug/elf"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Files are the image's files by their names, and its ELF files by SONAME as well.
type Files struct {
	img   *Image
	packs *packs.Packs

	Machine  elf.Machine // of the image
	Class    elf.Class
	Objects  []*Object           // dynamic ELF files of that machine, by path
	ByPath   map[string]*Object  // by real path
	Named    map[string][]string // file name → paths that have it
	Sonames  map[string][]string // SONAME → paths of files with another name
	bySoname map[string][]*Object

	Count, ELF int // files, and ELF files, of the image
	Static     int // of ELF

	globs sync.Map // pattern → paths that fit it, see glob
}

// newFiles goes through the image once.
func newFiles(img *Image, set *packs.Packs) *Files {
	fi := &Files{
		img: img, packs: set, ByPath: map[string]*Object{}, Named: map[string][]string{},
		Sonames: map[string][]string{}, bySoname: map[string][]*Object{},
	}
	fi.Machine, fi.Class = fi.architecture()
	for e := range img.FS.All() {
		fi.Count++
		if e.Type == layers.Symlink {
			fi.Named[path.Base(e.Path)] = append(fi.Named[path.Base(e.Path)], "/"+e.Path)
		}
		if e.Object != nil {
			fi.addELF(e)
		}
	}
	return fi
}

func (fi *Files) addELF(e *layers.Entry) {
	o, abs := e.Object, "/"+e.Path
	fi.ELF++
	if o.Fault == "" && len(o.Unread) == 0 && (!o.Dynamic || isStatic(o)) {
		fi.Static++
	}
	if o.Machine != fi.Machine || o.Class() != fi.Class {
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

// IsRoot reports whether an object is one that we expect to be loaded: it asks
// for a GPU library itself. Frameworks and the entrypoint are judged beside.
func (fi *Files) IsRoot(o *Object) bool {
	return slices.ContainsFunc(o.ELF.Needed, func(n string) bool { return fi.packs.Family(n) != nil })
}

// Present are the files of the image that bear a name, where the loader did not
// come; links that lead nowhere do not count.
func (fi *Files) Present(name string) []string { return fi.Usable(fi.Named[path.Base(name)]) }

// Otherwise are the files that are the library under another file name: by
// their SONAME, or as libx.so.8 for who asks for libx.so.
func (fi *Files) Otherwise(name string) []string {
	base := path.Base(name)
	list := slices.Clone(fi.Sonames[base])
	if strings.HasSuffix(base, ".so") {
		for other, paths := range fi.Named {
			if strings.HasPrefix(other, base+".") {
				list = append(list, paths...)
			}
		}
	}
	return fi.Usable(list)
}

// Usable leaves those of paths that lead to an ELF file of the image's machine,
// sorted.
func (fi *Files) Usable(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		if e, _, ok := fi.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == fi.Machine && !IsStub("/"+e.Path) {
			seen[p] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Others are the files that are a library in another major version.
func (fi *Files) Others(name string) []File {
	base, _, ok := strings.Cut(path.Base(name), ".so.")
	if !ok || strings.Contains(base, "builtins") {
		return nil
	}
	seen := map[string]bool{}
	for _, o := range fi.Objects {
		if s, _, ok := strings.Cut(o.ELF.Soname, ".so."); ok && s == base && o.ELF.Soname != name && !IsStub(o.Path) {
			seen[o.Path] = true
		}
	}
	var list []File
	for _, p := range slices.Sorted(maps.Keys(seen)) {
		list = append(list, fi.img.File(p))
	}
	return list
}

// Own are the files of a library that a framework brings along or opens by its
// full path.
func (fi *Files) Own(in *Install, soname string) []string {
	var list []string
	for _, o := range fi.bySoname[soname] {
		if strings.HasPrefix(o.Path, in.Home+"/") || slices.ContainsFunc(in.opens, func(p string) bool { return path.Dir(p) == path.Dir(o.Path) }) {
			list = append(list, o.Path)
		}
	}
	return list
}

// Definers are the other files of the image that bear a library's name and define
// a symbol.
func (fi *Files) Definers(name, not, symbol string) []File {
	var list []File
	for _, p := range fi.filesNamed(name) {
		if e, _, ok := fi.img.FS.Lookup(p); ok && p != not && Defines(e.Object, symbol) {
			list = append(list, fi.img.File(p))
		}
	}
	return list
}

// NewerCopies are the copies of a library elsewhere in the image that define a
// version which the one that is found lacks. Of glibc there are none: its parts
// and the loader must be of one release.
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

// filesNamed are the real files of the image's machine that bear a library's name or
// have it as their SONAME, sorted.
func (fi *Files) filesNamed(name string) []string {
	seen := map[string]bool{}
	for _, p := range slices.Concat(fi.Named[name], fi.Sonames[name]) {
		if e, _, ok := fi.img.FS.Lookup(p); ok && e.Object != nil && e.Object.Machine == fi.Machine {
			seen["/"+e.Path] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// NamesLike are the file names of the image that fit a pattern, sorted.
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

// hasAny reports whether the image has a file of one of the names, or had one that
// a layer has deleted.
func (fi *Files) hasAny(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(fi.Named[n]) > 0 || len(fi.img.Removed(n)) > 0 })
}

// UsersOf returns the files that need one of libraries, less those of the driver.
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

// HasLibraries reports whether a directory holds a library of the image's machine.
func (fi *Files) HasLibraries(dir string) bool {
	return slices.ContainsFunc(fi.Objects, func(o *Object) bool { return path.Dir(o.Path) == dir && !IsProgram(o.ELF) })
}

// InWheelDir reports whether a path below a directory of Python packages is below one that
// holds the libraries of wheels.
func (fi *Files) InWheelDir(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	return below && packs.IsKnown(fi.packs.WheelDirs, top)
}

// IsCopy reports whether a module is a GPU library of the image.
func (fi *Files) IsCopy(m Loaded) bool {
	return m.File != nil && fi.packs.Family(m.Object.Soname) != nil && fi.ByPath[m.Real()] != nil
}
