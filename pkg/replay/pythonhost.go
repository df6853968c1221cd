package replay

import (
	"cmp"
	"debug/elf"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// pythonHost is the process of an interpreter, in which a Python program opens extension
// modules and libraries ([pyimport.Host]).
type pythonHost struct {
	files *Files
	fsys  elfdeps.FS // of the machine with a GPU
	proc  *elfdeps.Process
	// partial is why an absent function shows nothing, or "": the files of the image are
	// only sketched.
	partial string
	python2 bool // the interpreter is of Python 2
	// killed is the failure that has ended the process, or nil: every later one is it.
	killed *pyimport.Failure
	// opened are the extension modules and libraries that were opened, in order.
	opened []opened
	// brought are the opens that have mapped files, in order.
	brought []Opened
	plugged int // plug-ins that libraries opened by themselves
}

// opened is a file that a Python program has opened.
type opened struct {
	name   string // argument of dlopen
	flags  elfdeps.Flags
	ctypes bool // by ctypes
}

var _ pyimport.Host = (*pythonHost)(nil)

// Extension opens an extension module as _PyImport_FindSharedFuncptrWithFlags does
// (Python/dynload_shlib.c): dlopen by its path, then dlsym of the init function.
func (h *pythonHost) Extension(file, module string, flags int) *pyimport.Failure {
	m, failed := h.open(nil, file, extensionFlags(flags), "ImportError")
	if failed != nil || m == nil {
		return failed
	}
	h.opened = append(h.opened, opened{name: file, flags: extensionFlags(flags)})
	init := pyimport.InitFunction(module)
	if h.python2 {
		init = pyimport.InitFunction2(module)
	}
	found, err := h.proc.Sym(m, init)
	switch {
	case err != nil:
		return pyimport.WithoutInit(init, h.partial)
	case found == nil:
		return pyimport.WithoutInit(init, "the symbols of "+file+" are not known")
	}
	return nil
}

// Dlopen opens a library as ctypes.CDLL does: the module _ctypes calls dlopen, so that its
// RUNPATH counts.
func (h *pythonHost) Dlopen(name string, flags int) *pyimport.Failure {
	m, failed := h.open(ctypesOf(h.proc), name, dlopenFlags(flags), "OSError")
	if m != nil {
		h.opened = append(h.opened, opened{name, dlopenFlags(flags), true})
	}
	return failed
}

// ctypesOf returns the module of a process that opens libraries for ctypes, or nil.
func ctypesOf(p *elfdeps.Process) *elfdeps.Module {
	i := slices.IndexFunc(p.Objects, func(m *elfdeps.Module) bool { return strings.HasPrefix(path.Base(m.Path), "_ctypes.") })
	if i < 0 {
		return nil
	}
	return p.Objects[i]
}

// dlopenFlags returns the flags of dlopen(3) for ctypes, which adds RTLD_NOW to all
// (py_dl_open, Modules/_ctypes/callproc.c).
func dlopenFlags(flags int) elfdeps.Flags { return extensionFlags(flags) | elfdeps.Now }

// extensionFlags returns flags of dlopen(3) on Linux.
func extensionFlags(flags int) elfdeps.Flags {
	var f elfdeps.Flags
	for bit, flag := range map[int]elfdeps.Flags{0x1: elfdeps.Lazy, 0x2: elfdeps.Now, 0x4: elfdeps.NoLoad, 0x8: elfdeps.DeepBind, 0x100: elfdeps.Global, 0x1000: elfdeps.NoDelete} {
		if flags&bit != 0 {
			f |= flag
		}
	}
	return f
}

// open opens a file, and returns the exception of the given type if it cannot be opened.
// The module is nil if that is not known.
func (h *pythonHost) open(by *elfdeps.Module, name string, flags elfdeps.Flags, exception string) (*elfdeps.Module, *pyimport.Failure) {
	if h.killed != nil {
		return nil, h.killed
	}
	loaded := len(h.proc.Objects)
	m, err := h.proc.DlopenFlags(by, name, flags)
	cut := h.files.cutOf(h.proc.Objects, loaded)
	if h.proc.Cut != nil {
		cut = h.files.cutOf([]*elfdeps.Module{h.proc.Cut}, 0)
	}
	if len(cut) > 0 {
		h.killed = &pyimport.Failure{Type: "SIGBUS", Text: cut[0].Error(), Cause: cut[0]}
		return nil, h.killed
	}
	e, ok := err.(*elfdeps.Error)
	if !ok {
		h.plugins(m, loaded)
		h.brought = append(h.brought, Opened{name, realsOf(h.proc.Objects[loaded:])})
		return m, nil
	}
	if e.By != nil && e.By.Truncated() && strings.HasSuffix(e.Message, "undefined symbol: ") { // the names lie past the end of the file
		cut := h.files.cutOf([]*elfdeps.Module{e.By}, 0)[0]
		h.killed = &pyimport.Failure{Type: "SIGBUS", Text: cut.Error(), Cause: cut}
		return nil, h.killed
	}
	return nil, &pyimport.Failure{Type: exception, Text: e.Error(), Doubt: h.doubt(e), Cause: e}
}

// doubt returns the reason why the loader's error is not certain, or "".
func (h *pythonHost) doubt(e *elfdeps.Error) string {
	switch {
	case e.Unknown:
		return e.Name + " exists and could not be examined"
	case e.Missing() && h.files.packs.FromDriver(e.Name):
		return "the container runtime may mount " + e.Name
	case symbolError(e) != nil && e.By != nil && h.mayBePlugged(e.By.Object, e):
		return "a plug-in of the image defines " + e.Name
	}
	return ""
}

// mayBePlugged reports whether a plug-in may define a symbol that an object misses: a file
// that is not in the process, nor a copy of one that is, and that needs a library of the
// object, or takes symbols from one, whose code may have opened it.
func (h *pythonHost) mayBePlugged(by *elfdeps.Object, e *elfdeps.Error) bool {
	here := hereOf(h.proc)
	return slices.ContainsFunc(h.files.Objects, func(o *Object) bool {
		return Defines(o.ELF, e.Name) && definesIn(o.ELF, e.Name, e.Version) && !isHere(here, o) && h.joins(o.ELF, by)
	})
}

// definesIn reports whether an object defines a symbol in a version, or without one, as a
// reference that requires the version finds it (do_lookup_x). "" is any version.
func definesIn(o *elfdeps.Object, symbol, version string) bool {
	if version == "" {
		return true
	}
	for i := range o.Symbols.Len() {
		if s := o.Symbols.At(i); s.Defined && s.Name == symbol && (s.Version == version || s.Version == "") {
			return true
		}
	}
	return false
}

// joins reports whether an object shares a library with another one, or takes symbols from
// one that it does not name: from the program that opens it.
func (h *pythonHost) joins(o, other *elfdeps.Object) bool {
	for _, n := range other.Needed {
		if runtimeLibrary.MatchString(n) {
			continue
		}
		if slices.Contains(o.Needed, n) {
			return true
		}
		if m := h.proc.Loaded(n); m != nil && m.Object != nil && takesFrom(o, m.Object) {
			return true
		}
	}
	return false
}

// takesFrom reports whether an object misses a symbol that another one defines.
func takesFrom(o, from *elfdeps.Object) bool {
	for i := range o.Symbols.Len() {
		if s := o.Symbols.At(i); !s.Defined && s.Bind == elf.STB_GLOBAL && from.Symbols.Defines(s.Name) {
			return true
		}
	}
	return false
}

// runtimeLibrary matches the names of the libraries of C and C++ themselves.
var runtimeLibrary = regexp.MustCompile(`^(ld-linux|ld-musl|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.)`)

// FindLibrary is ctypes.util.find_library: the first line of `ldconfig -p` for the library
// and the machine, else what gcc or ld find: nothing if no file has the name that they look for; which of several
// is not known.
func (h *pythonHost) FindLibrary(name string) (soname string, known bool) {
	if h.proc.Loader.Libc.Musl {
		return "", false
	}
	soname, known = h.cached(name)
	if !known || soname != "" || !h.files.links(name) {
		return soname, known
	}
	compilers := 0
	for _, program := range []string{"gcc", "cc", "ld"} {
		compilers += len(h.files.Usable(h.files.Named[program]))
	}
	return "", compilers == 0
}

// cached returns the SONAME of a library in the cache of the loader, or "".
func (h *pythonHost) cached(name string) (soname string, known bool) {
	if !h.files.img.IsFile("/sbin/ldconfig") {
		return "", true
	}
	file, err := h.fsys.Find(LDCache)
	if err != nil {
		return "", true
	}
	pattern, err := regexp.Compile(`^lib` + regexp.QuoteMeta(name) + `\.[^\s]+$`)
	cache := elfdeps.ParseCache(file.Content)
	if err != nil || cache == nil {
		return "", false
	}
	for _, e := range cache.Entries() {
		if pattern.MatchString(e.Name) && e.Flags == elfdeps.CacheFlags(h.files.Machine, h.files.Class) {
			return e.Name, true
		}
	}
	return "", true
}

// Defines reports whether the library that was opened by a name defines a symbol in its
// group.
func (h *pythonHost) Defines(name, symbol string) (is, known bool) {
	var m *elfdeps.Module // nil: all that the program's handle shows
	if name != "" {
		if m = h.proc.Loaded(name); m == nil {
			return false, false
		}
	}
	found, err := h.proc.Sym(m, symbol)
	return found != nil, found != nil || err != nil
}

// Mapped returns the real paths of the files that the process has mapped.
func (h *pythonHost) Mapped() (files []string, whole bool) { return h.mapped(), h.killed == nil }

// Brought returns the real paths of the files that the last open has mapped.
func (h *pythonHost) Brought() []string {
	if len(h.brought) == 0 {
		return nil
	}
	return h.brought[len(h.brought)-1].Files
}

// mapped returns the real paths of the files that the process has mapped, in the order of
// loading.
func (h *pythonHost) mapped() []string { return realsOf(h.proc.Objects) }

// realsOf returns the real paths of modules.
func realsOf(modules []*elfdeps.Module) []string {
	var list []string
	for _, m := range modules {
		if p := cmp.Or(m.Real(), m.Path); p != "" {
			list = append(list, p)
		}
	}
	return list
}
