package replay

import (
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

// Loaders are the dynamic loaders of the image, without a driver. The loaders with the
// driver that a container runtime mounts are used in the replay only.
type Loaders struct {
	img    *Image
	packs  *packs.Packs
	files  *Files
	config *Config

	// All are the loaders of the image's programs and libraries, by the path of the
	// interpreter; nil for one that cannot be opened.
	All map[string]*elfdeps.Loader
	// Primary is the loader of the entrypoint, else the first of those that the image's
	// machine usually has. It is nil if the image has none.
	Primary *elfdeps.Loader

	driverFirst func() bool // see DriverComesFirst
}

// newLoaders opens the loaders of the image, and sets the loader of each object.
func newLoaders(files *Files, config *Config) *Loaders {
	lo := &Loaders{
		img: files.img, packs: files.packs, files: files, config: config,
		All: map[string]*elfdeps.Loader{},
	}
	lo.driverFirst = sync.OnceValue(lo.driverComesFirst)
	lo.Primary = lo.findPrimary()
	for _, o := range files.Objects {
		o.Loader = lo.loaderOf(o.ELF)
	}
	return lo
}

// findPrimary returns the primary loader, or nil.
func (lo *Loaders) findPrimary() *elfdeps.Loader {
	if e := lo.config.Entry(); e.exe != nil && e.exe.Object != nil && e.exe.Object.Interp != "" {
		if l := lo.open(e.exe.Object.Interp); l != nil {
			return l
		}
	}
	for _, interp := range elfdeps.Interpreters(lo.files.Machine, lo.files.Class) {
		if l := lo.open(interp); l != nil {
			return l
		}
	}
	return nil
}

// open returns the loader of an interpreter, and adds it to All.
func (lo *Loaders) open(interp string) *elfdeps.Loader {
	l := lo.Loader(interp)
	lo.All[interp] = l
	return l
}

// Loader returns the loader of an interpreter, or nil if it cannot be opened. A loader
// that is not in All is opened anew by each call.
func (lo *Loaders) Loader(interp string) *elfdeps.Loader {
	if l, ok := lo.All[interp]; ok {
		return l
	}
	l, err := elfdeps.NewLoader(lo.img.FS, interp, lo.config.Env())
	if err != nil {
		return nil
	}
	return l
}

// loaderOf returns the loader of the processes that load an object: a program's
// interpreter, musl's for a library that needs the libc of musl, else the primary one.
func (lo *Loaders) loaderOf(o *elfdeps.Object) *elfdeps.Loader {
	if o.Interp != "" {
		return lo.open(o.Interp)
	}
	interps := elfdeps.Interpreters(lo.files.Machine, lo.files.Class)
	for _, n := range o.Needed {
		if strings.HasPrefix(n, "libc.musl-") && len(interps) > 1 {
			if l := lo.open(interps[1]); l != nil {
				return l
			}
		}
	}
	return lo.Primary
}

// ProgramFor makes a new tracing process in which the file at p would be loaded. For a
// file in Python's or conda's directories it is the interpreter, whose RPATH serves the
// whole process (conda's python has one), else a process without libraries
// ([elfdeps.Loader.Bare]). The process has no driver.
func (lo *Loaders) ProgramFor(p string, l *elfdeps.Loader) *elfdeps.Process {
	for _, python := range lo.Pythons(p) {
		e, _, ok := lo.img.FS.Lookup(python)
		if !ok || e.Object == nil || e.Object.Interp != l.Path {
			continue
		}
		proc, err := l.Trace(python)
		if err == nil {
			return proc
		}
	}
	return l.Bare()
}

// OpenPath opens a file by its path in a process, and returns its misses without those of
// the driver's libraries. If there are any, the file is unloaded, as in a program that
// handles the error. Rules may call it for files that the replay has not opened, with a
// process of their own.
func (lo *Loaders) OpenPath(p *elfdeps.Process, file string) []*elfdeps.Error {
	misses, _ := lo.openPathBound(p, file, elfdeps.Now)
	return misses
}

// openPathBound is OpenPath with the flags of dlopen. The error is that of a process that
// binds symbols.
func (lo *Loaders) openPathBound(p *elfdeps.Process, file string, flags elfdeps.Flags) ([]*elfdeps.Error, error) {
	undo, had, loaded := p.Mark(), len(p.Misses), len(p.Objects)
	_, err := p.DlopenFlags(nil, file, flags)
	misses := append(lo.files.Real(p.Misses[had:]), lo.files.cutOf(p.Objects, loaded)...)
	p.Misses = p.Misses[:had]
	if len(misses) > 0 {
		undo()
	}
	return misses, err
}

// NamedFor returns the path of the library that the Python of a package gets when it
// opens name. It opens the library in a new process.
func (lo *Loaders) NamedFor(p *inventory.Package, name string) (string, bool) {
	if lo.Primary == nil {
		return "", false
	}
	m, err := lo.ProgramFor(p.Dir+"/"+name, lo.Primary).Dlopen(nil, name)
	if err != nil {
		return "", false
	}
	return m.Path, true
}

// Preloading starts a program of the image that misses nothing itself, in a new tracing
// process: its misses are those of LD_PRELOAD and /etc/ld.so.preload. It returns nil if
// the image preloads nothing or has no such program.
func (lo *Loaders) Preloading() *elfdeps.Process {
	value, _ := lo.config.Getenv("LD_PRELOAD")
	if _, _, file := lo.img.FS.Lookup("/etc/ld.so.preload"); value == "" && !file || lo.Primary == nil {
		return nil
	}
	for _, o := range lo.files.Objects {
		if !IsProgram(o.ELF) || o.Loader != lo.Primary || len(o.Misses) > 0 {
			continue
		}
		if p, _ := lo.Primary.Trace(o.Path); p.Program() != nil {
			return p
		}
	}
	return nil
}

// DescribeLibc returns the name and release of a C library as " (glibc 2.36)".
func DescribeLibc(c elfdeps.Libc) string {
	kind := "glibc"
	if c.Musl {
		kind = "musl"
	}
	if c.Release == "" {
		return " (" + kind + ")"
	}
	return " (" + kind + " " + c.Release + ")"
}
