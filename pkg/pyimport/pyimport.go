// Package pyimport follows the imports of a Python program without running it: it
// evaluates the statements of modules in the order in which an import executes them, as
// far as their values are known, and asks a host to load the extension modules and
// libraries that they open. The result is a tree: which statement imports or opens what,
// which failure ends the program and which is caught, and what is not known and why.
//
// It knows Python's semantics as far as an import needs them (assignments, conditions,
// try, functions that are called at import, classes' bodies, loops over known values) and
// the parts of the standard library that decide what is loaded (os, os.path, pathlib,
// sys, platform, importlib, ctypes, glob). It never guesses: a value that it cannot know
// is unknown, and statements under a condition on it are marked as possible, not certain. It
// knows no frameworks, no rules, and no ELF: the [Host] is the process.
package pyimport

// Host is the process in which a program imports: pkg/replay's is a process of elfdeps.
type Host interface {
	// Extension opens an extension module and looks up its init function, as import does
	// (PyInit_NAME, or PyInitU_ with punycode). flags are those of dlopen, which
	// sys.setdlopenflags sets. It returns the error of the loader, or that of Python.
	Extension(file, module string, flags int) *Failure
	// Dlopen opens a library by a name or path, with the flags of dlopen
	// (RTLD_GLOBAL 0x100). It returns the error of the loader.
	Dlopen(name string, flags int) *Failure
	// FindLibrary is ctypes.util.find_library: the SONAME that ldconfig -p or gcc would
	// show; known is false if that is not known.
	FindLibrary(name string) (soname string, known bool)
	// Defines reports whether a library that was opened by this name defines a symbol, or,
	// for an empty name, one that the program's own handle shows (dlopen(NULL)); known is
	// false if that is not known.
	Defines(name, symbol string) (is, known bool)
	// Mapped returns the real paths of the files that the process has mapped, as
	// /proc/self/maps shows them; whole is false if there may be others.
	Mapped() (files []string, whole bool)
	// Brought returns the real paths of the files that the last open has mapped.
	Brought() []string
}

// Failure is an exception that a statement raises.
type Failure struct {
	Type string `json:"type"` // "ImportError", "OSError", "ModuleNotFoundError", …
	Text string `json:"text"` // str(e)
	// Doubt says why the failure is not certain, or "".
	Doubt string `json:"doubt,omitempty"`
	// Cause is the host's own error, which pyimport hands on untouched; nil for Python's.
	Cause error `json:"-"`
	// Lacks is the attribute that a module has refused, for such an AttributeError, or nil.
	Lacks *Lack `json:"-"`
	// Program is the program that the failing statement runs and that is not there, or "".
	Program string `json:"-"`
	// Library is what ctypes.util.find_library has not found, so that the exception was raised, or "".
	Library string `json:"-"`
	// InPlaceOf is the failure, without a Cause, whose handler has raised this one with another text, or nil.
	InPlaceOf *Failure `json:"-"`
	// Unread is the syntax that the interpreter does not read, for such a SyntaxError, or nil.
	Unread *Unread `json:"-"`
}

// Lack is a name that a module does not have: the module, its file, and the name.
type Lack struct{ Module, File, Name string }

// Unread is the first syntax of a file that the interpreter does not read.
type Unread struct {
	File  string
	Line  int
	Name  string // "a match statement"
	Needs string // the releases that read it: "Python 3.10 or later"
	// Python is the interpreter's own release: "3.9".
	Python string
	// About reports that the text of the exception may be another one.
	About bool
}

// Kind is a kind of node.
type Kind string

// The kinds of nodes.
const (
	Program   Kind = "program"   // the main module
	Module    Kind = "module"    // an import of Python source, bytecode, a builtin or a namespace
	Extension Kind = "extension" // an extension module that is opened
	Library   Kind = "library"   // dlopen by ctypes, torch.ops.load_library, …
	Plugin    Kind = "plugin"    // a module that an entry point names
)

// Node is one import or open, in the order in which the program does them. A module that
// was imported before has no node again.
type Node struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`           // dotted, or the argument of dlopen
	File string `json:"file,omitempty"` // that was found
	// At is the statement that did it: FILE:LINE.
	At string `json:"at,omitempty"`
	// By is the function that opens a library: "ctypes.CDLL", "torch.ops.load_library".
	By string `json:"by,omitempty"`
	// Caught names the exceptions of the try around the statement, or around a statement
	// that led to it, if they catch this node's failure: the program goes on. "" if a
	// failure ends the import of the program.
	Caught string `json:"caught,omitempty"`
	// Maybe is the condition that is not known under which the statement runs, or "".
	Maybe string `json:"maybe,omitempty"`
	// Failed is the exception that it raises, or nil.
	Failed *Failure `json:"failed,omitempty"`
	// Unknown lists the statements of this module that could not be followed, with the line.
	Unknown []string `json:"unknown,omitempty"`
	Nodes   []*Node  `json:"nodes,omitempty"`
}
