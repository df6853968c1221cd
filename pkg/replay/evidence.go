package replay

import (
	"strings"
	"sync"
)

// Evidence is what a replay saw. It is not changed afterwards.
type Evidence struct {
	Files    *Files
	Config   *Config
	Loaders  *Loaders
	Packages *Packages

	// Installs are the frameworks of the image, each with what its import misses.
	Installs []*Install
	// Processes are those of the frameworks and of the programs that load GPU
	// libraries, after they have opened all that they open by name.
	Processes []*Process
	// Unbound are the symbols that known processes miss.
	Unbound []Unbound
	// Noted are the libraries that files name in .note.dlopen and do not find.
	Noted []MissedOpen

	served sync.Map // servedKey → true
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

// Served reports whether a process that loads a file and brings more than the file itself
// found the library that the file needs by a name.
func (ev *Evidence) Served(path, name string) bool {
	_, ok := ev.served.Load(servedKey{path, name})
	return ok
}

// servedKey is a file and a name that it asks for.
type servedKey struct{ path, name string }
