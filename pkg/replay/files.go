package replay

import (
	"debug/elf"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// IsVersion reports whether a library is there and lacks a version.
func IsVersion(e *elfdeps.Error) bool {
	return e.Kind == elfdeps.VersionError || e.Kind == elfdeps.InnerError
}

// InstallOf is the framework that a path is a file of, nil when there is none.
func (ev *Evidence) InstallOf(p string) *Install {
	for _, in := range ev.Installs {
		if strings.HasPrefix(p, in.Home+"/") {
			return in
		}
	}
	return nil
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

func RealPath(f *layers.FS, p string) string {
	if e, _, ok := f.Lookup(p); ok {
		return "/" + e.Path
	}
	return p
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

// OnJetson reports whether an image is for JetPack 4, whose container runtime
// mounts CUDA itself over empty files
// (https://github.com/dusty-nv/jetson-inference/issues/1733).
func (fi *Files) OnJetson() bool {
	if fi.Machine != elf.EM_AARCH64 {
		return false
	}
	e, _, ok := fi.img.FS.Lookup("/usr/lib/aarch64-linux-gnu/tegra")
	return ok && e.IsDir()
}

// Removed are the files of a name that a layer has deleted.
func (img *Image) Removed(name string) []Removed {
	var list []Removed
	for _, p := range img.FS.RemovedPaths() {
		if path.Base(p) != path.Base(name) && !strings.HasPrefix(path.Base(p), path.Base(name)+".") {
			continue
		}
		r, _ := img.FS.Removed(p)
		list = append(list, Removed{File{"/" + p, img.LayerRef(r.Had)}, img.LayerRef(r.By)})
	}
	return list
}

// MayBeSkipped reports whether the image may have a file that was not looked at: the file
// or a directory above it was skipped, or so many were skipped that not all are listed.
func (img *Image) MayBeSkipped(file string) bool {
	return slices.ContainsFunc(img.FS.Skipped, func(s layers.LayerSkip) bool {
		return s.Path == "" || IsIn(file, path.Join("/", s.Path))
	})
}

// OtherMachine returns the machine that an ELF file is for, or "" if it is the image's or
// there is no such file.
func (fi *Files) OtherMachine(file string) string {
	e, _, ok := fi.img.FS.Lookup(file)
	if !path.IsAbs(file) || !ok || e.Object == nil || e.Object.Machine == fi.Machine {
		return ""
	}
	return NameOf(e.Object.Machine)
}

// NameOf returns the name that image configs have for a machine (GOARCH).
func NameOf(m elf.Machine) string {
	for name, known := range Machines {
		if known.M == m {
			return name
		}
	}
	return m.String()
}

// IsCopy reports whether a module is a GPU library of the image.
func (fi *Files) IsCopy(m Loaded) bool {
	return m.File != nil && fi.packs.Family(m.Object.Soname) != nil && fi.ByPath[m.Real()] != nil
}

// IsStub reports whether a path is that of a library for linking alone.
func IsStub(p string) bool { return strings.Contains(p, "/stubs/") }

// MaxStub is more than any stub of libcuda has (70 KB in CUDA 13.0) and less than any
// driver's (10 MB and more), in bytes.
const MaxStub = 1 << 20

// CopiedStub reports whether a file of the image is a stub of libcuda that was copied
// out of its directory: the driver's own has its release in its name.
func (fi *Files) CopiedStub(real string) bool {
	e, _, ok := fi.img.FS.Lookup(real)
	base := path.Base(real)
	return ok && (base == "libcuda.so.1" || base == "libcuda.so") && e.Size > 0 && e.Size < MaxStub && !strings.Contains(real, "/wsl/")
}

// howOf returns the step of the search that found a module, or "" if it was opened by
// its path.
func howOf(m *elfdeps.Module) string {
	if len(m.Names) > 0 && strings.Contains(m.Names[0], "/") {
		return ""
	}
	return m.How
}

// OnPath reports whether LD_LIBRARY_PATH or ld.so.conf names a directory.
func (lo *Loaders) OnPath(dir string) bool {
	for named := range lo.SearchDirs() {
		if lo.img.SameDir(named, dir) {
			return true
		}
	}
	return false
}

func (img *Image) SameDir(a, b string) bool { return RealPath(img.FS, a) == RealPath(img.FS, b) }

// Own are the files of a library that a framework brings along or opens by its
// full path.
func (fi *Files) Own(in *Install, soname string) []string {
	var list []string
	for _, o := range fi.BySoname[soname] {
		if strings.HasPrefix(o.Path, in.Home+"/") || slices.ContainsFunc(in.opens, func(p string) bool { return path.Dir(p) == path.Dir(o.Path) }) {
			list = append(list, o.Path)
		}
	}
	return list
}

// Reaches are the objects that m needs, breadth first, itself first.
func Reaches(m *elfdeps.Module) []*elfdeps.Module {
	if m == nil {
		return nil
	}
	list := []*elfdeps.Module{m}
	seen := map[*elfdeps.Module]bool{m: true}
	for i := 0; i < len(list); i++ {
		for _, d := range list[i].Deps {
			if d != nil && !seen[d] {
				seen[d] = true
				list = append(list, d)
			}
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

func Defines(o *elfdeps.Object, symbol string) bool { return o != nil && o.Symbols.Defines(symbol) }

// IsStack reports whether a loader refuses a library for its executable stack.
func IsStack(e *elfdeps.Error) bool {
	return strings.HasPrefix(e.Message, "cannot enable executable stack")
}

// IsPythonExtension reports whether a path is an extension module, which nothing
// but a Python's import opens.
func IsPythonExtension(p string) bool {
	name := path.Base(p)
	return strings.HasSuffix(name, ".abi3.so") || strings.HasSuffix(name, ".so") && strings.Contains(name, ".cpython-")
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

// StackLibrary is the file that a loader refuses for its stack, by its path where
// the image has it once.
func (fi *Files) StackLibrary(e *elfdeps.Error) string {
	if copies := fi.filesNamed(path.Base(e.Subject)); len(copies) == 1 {
		return copies[0]
	}
	return e.Subject
}
