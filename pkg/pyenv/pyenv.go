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
// It names each thing that it cannot know: in [Interpreter.Unknown] for the whole
// interpreter, in [Spec.Uncertain] for one module. It assumes that the process can read
// every file, as root can.
package pyenv

// Options describe the process that becomes the interpreter.
type Options struct {
	Env  map[string]string // environment variables; nil for none
	Cwd  string            // absolute
	User string            // home directory of the user, for the user site; "" if unknown
	// Isolated, NoSite, NoUserSite, IgnoreEnv, SafePath and Optimized are -I, -S, -s, -E, -P and -O.
	Isolated, NoSite, NoUserSite, IgnoreEnv, SafePath, Optimized bool
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
	// Unknown lists the facts that could not be worked out, and why. Each lowers certainty.
	Unknown []string

	find *finder
}

// PthImport is a line of a .pth file that site executes.
type PthImport struct {
	File, Line string
	// Known reports that pyenv has done what the line does: SysPath and Find account for
	// it. The caller has to execute the others.
	Known bool
}

// Kind is a kind of module: each is loaded in its own way.
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
	// ByLine reports that Uncertain is only that a line of a .pth file may add a finder to
	// sys.meta_path: a caller that has run the lines knows better.
	ByLine bool
}
