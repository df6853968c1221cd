// Package pyenv finds modules as a Python interpreter of an image does: it works out the
// interpreter's version, prefixes and sys.path from the files of the image, as
// Modules/getpath.py and site.py do, and finds the file of a module on it, as
// importlib's path finder does.
//
// It knows virtual environments (PEP 405), conda's and Debian's layouts, PYTHONPATH,
// ._pth and .pth files, user sites, namespace packages (PEP 420), extension modules and
// their suffixes, modules in zip files, bytecode without source, and the modules that are
// built into the interpreter. It runs no Python and opens no libraries: that is for
// pkg/pyimport. Of .pth lines that Python would run it knows those that setuptools
// writes; it keeps the others for pkg/pyimport. It knows no rules.
//
// What it cannot know is said by name: [Interpreter.Unknown] for the whole interpreter,
// [Spec.Uncertain] for one module. Files are read as root reads them.
package pyenv

import "github.com/imgcheck/imgcheck/pkg/layers"

// Options are what the process that starts the interpreter gives it.
type Options struct {
	Env  map[string]string // environment variables; nil for none
	Cwd  string            // absolute
	User string            // home directory of the user, for the user site; "" if unknown
	// Isolated, NoSite, NoUserSite, IgnoreEnv and SafePath are -I, -S, -s, -E and -P.
	Isolated, NoSite, NoUserSite, IgnoreEnv, SafePath bool
}

// Interpreter is a Python of the image. Its methods may be called from many goroutines.
type Interpreter struct {
	Path           string // as it is started; links not followed
	Real           string // the ELF file
	Major, Minor   int
	Micro          int    // -1 if unknown
	Free           bool   // a free-threaded build: python3.14t
	Prefix         string // sys.prefix; in a virtual environment its directory
	ExecPrefix     string // sys.exec_prefix
	BasePrefix     string // sys.base_prefix
	BaseExecPrefix string // sys.base_exec_prefix
	PlatLibDir     string // sys.platlibdir: lib or lib64
	StdLib         string // the directory of os.py
	Debian         bool   // dist-packages
	Implementation string // cpython or pypy
	// SysPath is sys.path after site has run, without the directory of the program, which
	// [Interpreter.Path0] returns.
	SysPath []string
	// Sites are the directories of packages that site has read .pth files from, in order.
	Sites []string
	// Suffixes of extension modules, in the order in which they are tried.
	Suffixes []string
	// Builtins are sys.builtin_module_names, sorted.
	Builtins []string
	// SafePath reports that the directory of the program is not on sys.path (-P, -I,
	// PYTHONSAFEPATH).
	SafePath bool
	// PthImports are the `import …` lines of .pth files, in the order in which site runs
	// them, with the file of each.
	PthImports []PthImport
	// Unknown says what could not be worked out, and why. Every entry lowers certainty.
	Unknown []string

	*finder
}

// PthImport is a line of a .pth file that site executes.
type PthImport struct {
	File, Line string
	// Known reports that pyenv has done what the line does: SysPath and Find account for
	// it. Others are left to the caller.
	Known bool
}

// Kind is how a module is loaded.
type Kind string

// The kinds of modules.
const (
	Missing   Kind = "" // nothing finds it: ModuleNotFoundError
	Source    Kind = "source"
	Bytecode  Kind = "bytecode"
	Extension Kind = "extension"
	Builtin   Kind = "builtin"   // in the interpreter
	Frozen    Kind = "frozen"    // in the interpreter; File is its source in the stdlib, if it is there
	Namespace Kind = "namespace" // a package without __init__
)

// Spec is the result of finding a module (importlib.machinery.ModuleSpec).
type Spec struct {
	Name string // dotted
	Kind Kind   // Missing if the module was not found
	// File is the file that is loaded: the source, the bytecode, the extension module; for
	// a module in a zip file the zip file, with Member. "" for builtin and namespace.
	File   string
	Member string // path in the zip file
	// Search is submodule_search_locations: nil for a module that is no package.
	Search []string
	// Uncertain says why the answer may be wrong: a directory on the way was not read, an
	// import hook may answer first. "" if it is certain. A Missing module with Uncertain
	// is not known to be missing.
	Uncertain string
}

// Open works out the Python that starts at exe, an absolute path. It returns an error if
// there is no ELF file, or if it is no Python that this package knows.
func Open(fsys *layers.FS, exe string, o Options) (*Interpreter, error) {
	panic("not yet")
}

// Find finds a module by its whole dotted name, as the finders of sys.meta_path do in
// their order: builtin, frozen, then the directories and zip files of search. For a
// top-level module search is sys.path as it is then, or nil for [Interpreter.SysPath]; for
// a submodule it is its package's __path__, and never nil. An entry "" of search is the
// working directory. The result is never nil: see [Missing].
//
// Find does not import packages: a caller that knows how a package changes its __path__
// passes that.
func (in *Interpreter) Find(name string, search []string) *Spec { panic("not yet") }

// Resolve finds a dotted name from the top: each package on the way in the search
// locations of the package above, as they are before their code runs.
func (in *Interpreter) Resolve(name string) *Spec { panic("not yet") }

// Modules returns the top-level names that can be imported from one directory or zip file
// of a path, sorted (pkgutil.iter_modules). known is false if the entry could not be read.
func (in *Interpreter) Modules(entry string) (names []string, known bool) { panic("not yet") }

// Path0 returns sys.path[0] for a program: the directory of a script with its links
// followed, or the directory or zip file itself that is run; "" if SafePath leaves it
// out. With `-c` and `-m` it is the working directory, whose path is not for Path0.
func (in *Interpreter) Path0(script string) string { panic("not yet") }

// EntryPoint is an entry point of an installed distribution
// (packaging.python.org/specifications/entry-points).
type EntryPoint struct {
	Name   string
	Module string // dotted
	Attr   string // dotted, or ""
	Dist   string // name of the distribution as its directory spells it
	File   string // entry_points.txt
}

// EntryPoints returns the entry points of a group, as importlib.metadata.entry_points
// does: in the order of sys.path, of a distribution that is there twice only the first.
// The group "console_scripts" has the scripts of bin.
func (in *Interpreter) EntryPoints(group string) []EntryPoint { panic("not yet") }

// Distribution is the metadata of an installed distribution.
type Distribution struct {
	Name    string // as its directory spells it
	Version string // as its directory spells it; "" if it does not
	Dir     string // the .dist-info or .egg-info directory
	// TopLevel are the names of the modules and packages that it brings, sorted, by
	// top_level.txt or RECORD; nil if neither is known.
	TopLevel []string
}

// Distributions returns the distributions on sys.path, in the order of
// importlib.metadata.distributions; of a name that is there twice only the first.
func (in *Interpreter) Distributions() []Distribution { panic("not yet") }

type finder struct{}
