package elfdeps

import (
	"fmt"
	"syscall"
)

// Error is a request that a loader could not serve.
type Error struct {
	// Name is the requested name.
	Name string
	// Subject stands before the message: the name, or the path of a file that
	// cannot be used.
	Subject string
	// Message is the loader's text, "cannot open shared object file".
	Message string
	// Errno follows the message when it is not 0.
	Errno syscall.Errno
	// By requested it; nil when the program opened it.
	By *Module
	// Steps are the places that were searched, in order.
	Steps []Step
	// Unknown is set when the file was found but could not be examined: the real
	// loader may well accept it.
	Unknown bool
	// Musl is set when the text is musl's.
	Musl bool
	miss bool // no usable file was found, and no unusable one ended the search
	// Kind separates errors about files from others.
	Kind ErrorKind
	// Version and File are set for a symbol that is missing in the version that
	// DT_VERNEED requires of a file.
	Version, File string
}

// Alone returns the error without its process: By keeps the fields that name the
// module, and its file. Callers that hold the errors of thousands of processes
// would otherwise hold the processes.
func (e *Error) Alone() *Error {
	alone := *e
	if m := e.By; m != nil {
		alone.By = &Module{Path: m.Path, Names: m.Names, Object: m.Object, File: m.File, Main: m.Main, How: m.How, Origin: m.Origin, prog: m.prog}
	}
	return &alone
}

// ErrorKind is the subject of an [Error].
type ErrorKind uint8

// The kinds of errors. They differ in how ld.so prints them at start.
const (
	FileError       ErrorKind = iota // a file is missing or unusable
	VersionError                     // a symbol version is missing
	ISAError                         // the processor is too old
	InnerError                       // an assertion of the loader fails
	SymbolError                      // a symbol is missing
	RelocationError                  // a symbol is missing in the file that DT_VERNEED names
	TLSError                         // there is no room for thread-local variables
	CutError                         // a file ends before its segments do; no loader reports it, see [Module.Truncated]
)

// Missing reports whether no file was found, rather than an unusable one.
func (e *Error) Missing() bool {
	return e.Errno == syscall.ENOENT || e.Errno == 0 && e.Message == "cannot open shared object file" || e.Errno == 0 && e.Musl
}

// Error returns the text of dlerror, which ld.so also prints behind `error while
// loading shared libraries: `. For musl it is the whole line.
func (e *Error) Error() string {
	if e.Musl && e.Kind == InnerError {
		return e.Message
	}
	if e.Musl {
		s := fmt.Sprintf("Error loading shared library %s: %s", e.Name, muslErrno(e.Errno))
		if e.By != nil {
			s += fmt.Sprintf(" (needed by %s)", e.By)
		}
		return s
	}
	s := e.Message
	if e.Subject != "" {
		s = e.Subject + ": " + s
	}
	if e.Errno != 0 {
		s += ": " + errnoText(e.Errno)
	}
	return s
}

// startText returns the line with which glibc's ld.so ends the start of a program
// (fatal_error). The loader's own strerror (elf/dl-minimal.c) knows the texts of six
// errors only.
func (e *Error) startText(prog string) string {
	switch e.Kind {
	case ISAError, InnerError:
		return e.Error()
	case VersionError:
		return prog + ": " + e.Error()
	case SymbolError:
		return prog + ": symbol lookup error: " + e.Error()
	case RelocationError:
		return prog + ": relocation error: " + e.Error()
	}
	s := prog + ": error while loading shared libraries: "
	switch e.Errno {
	case 0, syscall.ENOMEM, syscall.EINVAL, syscall.ENOENT, syscall.EPERM, syscall.EIO, syscall.EACCES:
		return s + e.Error()
	}
	return fmt.Sprintf("%s%s: %s: Error %d", s, e.Subject, e.Message, int(e.Errno))
}

// Step is one source of directories in a search.
type Step struct {
	// Source names it: "LD_LIBRARY_PATH", "RUNPATH of /x/liba.so".
	Source string
	// Tried are the files and directories that were tried, in order.
	Tried []Candidate
}

// Candidate is a file or directory that a search tried.
type Candidate struct {
	Path string
	// Result is empty when the path did not exist; otherwise it says what was found
	// and why the search passed over it.
	Result string
}

// errnoText returns the text of glibc's strerror.
func errnoText(e syscall.Errno) string {
	switch e {
	case syscall.ENOENT:
		return "No such file or directory"
	case syscall.EACCES:
		return "Permission denied"
	case syscall.EPERM:
		return "Operation not permitted"
	case syscall.EINVAL:
		return "Invalid argument"
	case syscall.EIO:
		return "Input/output error"
	case syscall.ENOMEM:
		return "Cannot allocate memory"
	case syscall.EISDIR:
		return "Is a directory"
	case syscall.ENOTDIR:
		return "Not a directory"
	case syscall.ELOOP:
		return "Too many levels of symbolic links"
	case syscall.ENAMETOOLONG:
		return "File name too long"
	}
	return fmt.Sprintf("Error %d", int(e))
}
