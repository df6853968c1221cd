// Package replay does with an image what its loader, its frameworks and its programs
// would do on a machine with a GPU, and keeps what it saw as [Evidence]: which
// frameworks are installed, which files each process maps, which libraries, versions
// and symbols it misses.
//
// It knows the packs' facts of how frameworks load, and elfdeps' loaders. It does not
// know rules or severities, and writes no sentences: pkg/lint judges the evidence.
package replay

import (
	"context"
	"fmt"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/packs"
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

// replayer makes the processes of an image, and Evidence of what they do.
type replayer struct {
	img      *Image
	packs    *packs.Packs
	files    *Files
	config   *Config
	loaders  *Loaders
	packages *Packages
	plans    *plans
	ev       *Evidence
	loadsGPU sync.Map // path of a program that loads a GPU library when it starts → true
}

// plans lets processes open what the packs say that they open by name.
type plans struct {
	re      *replayer
	openers map[[2]string][]*packs.Dlopens // by SONAME and file name
	asked   int                            // by lacks
}

// binder binds the symbols of the processes that are known.
type binder struct{ re *replayer }

// Run replays an image. It is an error when the image asks for more than is done.
func Run(ctx context.Context, img *Image, set *packs.Packs) (*Evidence, error) {
	re, err := newReplayer(img, set)
	if err != nil {
		return nil, err
	}
	if n := len(re.ev.Installs); n > maxInstalls {
		return nil, fmt.Errorf("it has %d installations of frameworks, more than the %d that are replayed: scan an image with fewer environments", n, maxInstalls)
	}
	if err := re.replay(ctx); err != nil {
		return nil, err
	}
	if re.packages.seesMore() {
		return nil, fmt.Errorf("its Python environments see more than the %d packages that are looked at: scan an image with fewer environments", maxSeen)
	}
	if err := re.config.Spent(); err != nil {
		return nil, err
	}
	re.ev.Unbound = (&binder{re}).unbound()
	re.ev.Noted = re.dlopenNotes()
	return re.ev, re.config.Spent()
}

// newReplayer looks at what the image has.
func newReplayer(img *Image, set *packs.Packs) (*replayer, error) {
	re := &replayer{img: img, packs: set, ev: new(Evidence)}
	re.config = NewConfig(img, set)
	re.files = newFiles(img, set)
	re.loaders = newLoaders(re.files, re.config)
	re.packages = &Packages{img: img, packs: set, files: re.files, config: re.config, loaders: re.loaders, dists: map[string][]Dist{}}
	if err := re.packages.takeStock(); err != nil {
		return nil, err
	}
	re.plans = &plans{re: re, openers: map[[2]string][]*packs.Dlopens{}}
	re.ev.Files, re.ev.Config, re.ev.Loaders, re.ev.Packages = re.files, re.config, re.loaders, re.packages
	re.ev.Installs = re.findInstalls()
	return re, nil
}

// Inventory returns what is installed in the image.
func (pa *Packages) Inventory() *inventory.Inventory { return pa.inv }

// Served reports whether a process that loads a file and brings more than the file itself
// found the library that the file needs by a name.
func (ev *Evidence) Served(path, name string) bool {
	_, ok := ev.served.Load(servedKey{path, name})
	return ok
}

// unbound returns the symbols that the known processes miss.
func (bi *binder) unbound() []Unbound {
	var list []Unbound
	list = append(list, bi.startSymbols()...)
	for _, in := range bi.re.ev.Installs {
		if in.goesOn() {
			list = append(list, bi.frameworkSymbols(in)...)
		}
	}
	list = append(list, bi.moduleSymbols()...)
	list = bi.re.nowhere(list)
	return append(list, bi.programSymbols()...)
}
