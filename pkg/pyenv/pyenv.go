// Package pyenv finds modules as a Python interpreter of an image does: it works out the
// interpreter's version, prefixes and sys.path from the files of the image, as
// Modules/getpath.py and site.py do, and finds the file of a module on it, as
// importlib's path finder does.
//
// It knows virtual environments (PEP 405), conda's and Debian's layouts, PYTHONPATH,
// ._pth and .pth files, user sites, namespace packages (PEP 420), extension modules and
// their suffixes, modules in zip files, bytecode without source, and the modules that are
// built into the interpreter. It reads no Python source and opens no libraries: that is
// for pkg/pysource and pkg/pyimport. It knows no rules.
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

// Interpreter is a Python of the image.
type Interpreter struct {
	Path           string // as it is started; links not followed
	Real           string // the ELF file
	Major, Minor   int
	Micro          int    // -1 if unknown
	Free           bool   // a free-threaded build: python3.14t
	Prefix         string // sys.prefix; in a virtual environment its directory
	BasePrefix     string // sys.base_prefix
	ExecPrefix     string
	PlatLibDir     string // lib or lib64
	Debian         bool   // dist-packages
	Implementation string // cpython or pypy
	// Path0 is left to the program: sys.path[0] is not in SysPath.
	SysPath []string
	// Suffixes of extension modules, in the order in which they are tried.
	Suffixes []string
	// PthImports are the `import …` lines of .pth files, in the order in which site runs
	// them, with the file of each.
	PthImports []PthImport
	// Unknown says what could not be worked out, and why. Every entry lowers certainty.
	Unknown []string

	fs *layers.FS
}

// PthImport is a line of a .pth file that site executes.
type PthImport struct{ File, Line string }

// Kind is how a module is loaded.
type Kind string

// The kinds of modules.
const (
	Source    Kind = "source"
	Bytecode  Kind = "bytecode"
	Extension Kind = "extension"
	Builtin   Kind = "builtin"   // in the interpreter
	Frozen    Kind = "frozen"    // in the interpreter, with a known source in the stdlib or not
	Namespace Kind = "namespace" // a package without __init__
)

// Spec is a module that was found (importlib.machinery.ModuleSpec).
type Spec struct {
	Name string // dotted
	Kind Kind
	// File is the file that is loaded: the source, the bytecode, the extension module; for
	// a module in a zip file the zip file, with Member. "" for builtin, frozen and namespace.
	File   string
	Member string
	// Search is submodule_search_locations: nil for a module that is no package.
	Search []string
	// Uncertain says why the answer may be wrong: a directory on the way was not read, an
	// import hook may answer first. "" if it is certain.
	Uncertain string
}
