package replay

import (
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/startup"
)

// Evidence holds the results of a replay. It does not change after [Run] has returned.
// Its methods, and those of its parts, may be called concurrently.
//
// Some methods of Loaders, such as [Loaders.OpenPath], answer a rule's question by a new
// process. Such a process does not belong to the evidence; its work counts for
// [Config.Spent].
type Evidence struct {
	Files    *Files
	Config   *Config
	Loaders  *Loaders
	Packages *Packages

	// Installs are the frameworks of the image, each with the failures of its steps.
	Installs []*Install
	// Processes are the processes of the frameworks, then of the programs that load GPU
	// libraries, each after all its opens. It is nil if the image has no loader.
	Processes []*Process
	// Started are the programs that the image's start reaches, by its config and scripts.
	Started *startup.Result
	// Reached are the ELF programs among them that could be started.
	Reached []Reached
	// Starts are the Python programs of the image that could be followed: those of its
	// start first, then the imports of packages.
	Starts []*Start
	// LeftOut are imports of packages that were not followed, because they are too many.
	LeftOut []*Start
	// Unseen are the files of Python packages of which no source says who opens them.
	Unseen *Unseen
	// Unbound are the symbols that nothing defines in the processes that bind them.
	Unbound []Unbound
	// Noted are the libraries that files name in .note.dlopen and cannot open.
	Noted []MissedOpen

	served sync.Map // set of servedKeys
}

// InstallOf returns the framework whose directory has the file at p, or nil.
func (ev *Evidence) InstallOf(p string) *Install {
	for _, in := range ev.Installs {
		if strings.HasPrefix(p, in.Home+"/") {
			return in
		}
	}
	return nil
}

// Served reports whether the file at path found the library name in a process that
// another file started or opened.
func (ev *Evidence) Served(path, name string) bool {
	_, ok := ev.served.Load(servedKey{path, name})
	return ok
}

// servedKey is a file, and the name of a library that it needs.
type servedKey struct{ path, name string }
