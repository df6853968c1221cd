package pyenv

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// Open works out the Python that starts at exe, an absolute path. It returns an error if
// there is no ELF file, or if it is no Python that this package knows.
func Open(fsys *layers.FS, exe string, o Options) (*Interpreter, error) {
	in := &Interpreter{Path: exe, Micro: -1, Implementation: "cpython"}
	b := &boot{Interpreter: in, files: files{fsys}, hooks: hooks{preset: map[string][]string{}}, o: o, env: !o.IgnoreEnv && !o.Isolated}
	if err := b.identify(); err != nil {
		return nil, fmt.Errorf("%s: %w", plain.Name(exe), err)
	}
	b.locate()
	b.checkRead()
	b.micro()
	b.flavour = b.findFlavour()
	in.Debian = b.flavour.debian
	in.Suffixes = b.suffixes()
	b.builtins()
	in.SafePath = b.isolated || o.Isolated || in.Minor >= 11 && (o.SafePath || b.getenv("PYTHONSAFEPATH") != "")
	b.site()
	in.find = b.newFinder()
	return in, nil
}

// boot is the start of an interpreter.
type boot struct {
	*Interpreter
	files
	hooks hooks
	o     Options
	env   bool // the variables PYTHON… count

	exe      *elfdeps.Object
	library  string // the path of libpython, or "" if the program has all of it
	core     *elfdeps.Object
	subdir   string // pythonX.Y[t]
	venvCfg  venvConfig
	venv     string // directory of the virtual environment, or ""
	isolated bool   // by a ._pth file
	flavour  flavour
	noSite   bool
	// noBuiltins reports that Builtins lacks those that only some builds have.
	noBuiltins bool
	paths      []string // sys.path before site
}

// getenv returns a variable that the interpreter reads (_Py_GetEnv).
func (b *boot) getenv(name string) string {
	if !b.env {
		return ""
	}
	return b.o.Env[name]
}

// unknown adds a line to Unknown.
func (b *boot) unknown(format string, args ...any) {
	if len(b.Unknown) < maxUnknown {
		(*list)(&b.Unknown).add(fmt.Sprintf(format, args...))
	}
}

const maxUnknown = 256

var (
	libPython  = regexp.MustCompile(`^libpython(\d)\.(\d{1,2})([a-z]*)\.so`)
	pythonName = regexp.MustCompile(`^python(\d)\.(\d{1,2})([a-z]*)(?:-dbg)?$`)
	pythonDir  = regexp.MustCompile(`^python(\d)\.(\d{1,2})(t?)$`)
	anyPython  = regexp.MustCompile(`^python[\d.]*[a-z]*(-dbg)?$`)
)

// identify finds the ELF file, and the version of its Python.
func (b *boot) identify() error {
	e, _, ok := b.fs.Lookup(b.Path)
	switch {
	case !path.IsAbs(b.Path):
		return errors.New("is no absolute path")
	case !ok:
		return errors.New("is not there")
	case e.Object == nil && e.Fault != "":
		return errors.New("could not be read: " + e.Fault)
	case e.Object == nil && e.Shebang != "":
		return errors.New("is a script: #!" + plain.Text(e.Shebang))
	case e.Object == nil:
		return errors.New("is no ELF file")
	}
	b.Real, b.exe, b.core = "/"+e.Path, e.Object, e.Object
	for _, n := range e.Object.Needed {
		if strings.HasPrefix(n, "libpypy") {
			return errors.New("is PyPy, of which the search path is not known")
		}
		if m := libPython.FindStringSubmatch(n); m != nil && b.version(m) {
			b.findLibrary(n)
			return nil
		}
	}
	return b.identifyByName()
}

// identifyByName finds the version of a Python that has its library in itself: by the name
// of its file, or the standard library that it finds.
func (b *boot) identifyByName() error {
	base := path.Base(b.Real)
	if strings.HasPrefix(base, "pypy") {
		return errors.New("is PyPy, of which the search path is not known")
	}
	if !anyPython.MatchString(base) && !b.exe.Symbols.Defines("Py_BytesMain") && !b.exe.Symbols.Defines("Py_Main") {
		return errors.New("is no Python")
	}
	if m := pythonName.FindStringSubmatch(base); m != nil && b.version(m) {
		return nil
	}
	if m := b.versionByLandmark(); m != nil && b.version(m) {
		return nil
	}
	return errors.New("has an unknown version: neither its name nor a standard library beside it says")
}

// version sets the version from the two numbers and the ABI flags in m[1:].
func (b *boot) version(m []string) bool {
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	if err1 != nil || err2 != nil {
		return false
	}
	b.Major, b.Minor, b.Free = major, minor, major == 3 && minor >= 13 && strings.Contains(m[3], "t")
	b.subdir = fmt.Sprintf("python%d.%d", major, minor)
	if b.Free {
		b.subdir += "t"
	}
	return true
}

// versionByLandmark returns the version of the only standard library that is in the
// nearest directory above the program, or nil.
func (b *boot) versionByLandmark() []string {
	dir := parent(b.Real)
	if cfg := b.readVenv(parent(parent(b.Path)), parent(b.Path)); cfg.home != "" {
		dir = cfg.home
	}
	var found [][]string
	searchUp(dir, func(dir string) bool {
		for _, lib := range libDirs {
			for e := range b.fs.In(b.real(dir + "/" + lib)) {
				name := path.Base(e.Path)
				if e.Type == layers.Symlink {
					continue // conda's lib/python3.1
				}
				if m := pythonDir.FindStringSubmatch(name); m != nil && b.hasOS(dir+"/"+lib+"/"+name) {
					found = append(found, m)
				}
			}
		}
		return len(found) > 0
	})
	found = slices.CompactFunc(found, func(a, b []string) bool { return a[0] == b[0] })
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// hasOS reports whether a directory has the landmark of the standard library.
func (f files) hasOS(dir string) bool { return f.isFile(dir+"/os.py") || f.isFile(dir+"/os.pyc") }

// libDirs are the values that sys.platlibdir may have been built with.
var libDirs = []string{"lib", "lib64"}

// findLibrary finds libpython as ld.so does, without its cache.
func (b *boot) findLibrary(name string) {
	b.core = nil
	for _, dir := range b.libraryDirs() {
		if e, _, ok := b.fs.Lookup(dir + "/" + name); ok && e.Object != nil && e.Object.Machine == b.exe.Machine {
			b.library, b.core = dir+"/"+name, e.Object
			return
		}
	}
	b.unknown("%s was not found, so that the modules in it are not known", plain.Name(name))
}

func (b *boot) libraryDirs() []string {
	var dirs []string
	origin := parent(b.Real)
	add := func(text string) {
		for dir := range strings.SplitSeq(text, ":") {
			dir = strings.ReplaceAll(strings.ReplaceAll(dir, "${ORIGIN}", origin), "$ORIGIN", origin)
			if path.IsAbs(dir) && len(dirs) < maxEntries {
				dirs = append(dirs, path.Clean(dir))
			}
		}
	}
	if b.exe.Rpath != nil && b.exe.Runpath == nil {
		add(*b.exe.Rpath)
	}
	add(b.o.Env["LD_LIBRARY_PATH"])
	if b.exe.Runpath != nil {
		add(*b.exe.Runpath)
	}
	triplet := machines[b.exe.Machine] + "-linux-gnu"
	return append(dirs, path.Dir(origin)+"/lib", "/lib/"+triplet, "/usr/lib/"+triplet, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib/"+triplet, "/usr/local/lib64", "/usr/local/lib")
}
