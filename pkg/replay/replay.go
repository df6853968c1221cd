// Package replay loads the files of an image as its loaders, frameworks and programs would
// on a machine with a GPU, and records the result as [Evidence]: the installed frameworks,
// the files that each process maps, and the libraries, versions and symbols that it misses.
//
// It knows the loaders of elfdeps, and the packs' description of how frameworks load. It
// does not know the rules, and writes no texts for users: verdicts and effects in the
// evidence are clauses of the packs, filled with values. pkg/lint makes findings of them.
//
// An image is replayed in this order (see [Run]): each framework opens the files of its
// import, by its own source or by the packs; each ELF file is loaded by itself, or after the framework that it relies on;
// each framework and each program that loads GPU libraries runs as a [Process] on a
// machine with a GPU, where it opens libraries by name; the symbols of the known
// processes are bound; and the files' notes of what they open are checked.
package replay

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"golang.org/x/sync/errgroup"
)

// Run replays an image. It returns an error if the image has more ELF files, frameworks or
// packages, or takes more work, than the replay's limits allow.
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
	if err := re.runStarts(ctx); err != nil {
		return nil, err
	}
	re.ev.Noted = re.plans.dlopenNotes()
	return re.ev, re.config.Spent()
}

// replayer replays an image, and collects the Evidence.
type replayer struct {
	img      *Image
	packs    *packs.Packs
	files    *Files
	config   *Config
	loaders  *Loaders
	packages *Packages
	units    *units
	hosts    *hosts
	plans    *plans
	starter  *starter
	ev       *Evidence
	loadsGPU sync.Map // set of the paths of programs that load a GPU library when they start
}

// maxObjects limits the dynamic ELF files. Each takes a name in the layer, which may be a hard
// link, a process or two, and in a finding its place, also in each trial of a plan: some 10 KB
// and 0.2 ms. The largest images that were seen have 8,000. It is a variable for tests.
var maxObjects = 49_152

// newReplayer reads the parts of an image and finds its frameworks. Nothing is replayed
// yet.
func newReplayer(img *Image, set *packs.Packs) (*replayer, error) {
	config, files := NewConfig(img, set), newFiles(img, set)
	if n := len(files.Objects); n > maxObjects {
		return nil, fmt.Errorf("it has %d dynamic ELF files, more than the %d that are replayed: it was not judged", n, maxObjects)
	}
	loaders := newLoaders(files, config)
	packages, err := newPackages(img, set, loaders)
	if err != nil {
		return nil, err
	}
	re := &replayer{img: img, packs: set, files: files, config: config, loaders: loaders, packages: packages}
	re.ev = &Evidence{Files: files, Config: config, Loaders: loaders, Packages: packages}
	re.hosts = &hosts{loaders: loaders, opened: map[*elfdeps.Loader]*elfdeps.Loader{}}
	re.plans = &plans{re: re, openers: map[[2]string][]*packs.Dlopens{}}
	re.units = &units{img: img, inv: packages.inv}
	re.ev.Installs = re.findInstalls()
	re.ev.Started = started(img, set)
	re.starter = newStarter(re)
	return re, nil
}

// replay replays the frameworks, the ELF files and the processes of the image.
func (re *replayer) replay(ctx context.Context) error {
	if err := re.findSources(ctx); err != nil {
		return err
	}
	re.replayInstalls()
	if err := re.each(ctx, re.replayObject); err != nil {
		return err
	}
	re.ev.Reached = re.starter.reach()
	return nil
}

// runStarts binds the symbols of the known processes, follows the Python programs, whose
// source says more than the packs about what they load, and then runs the plans.
func (re *replayer) runStarts(ctx context.Context) error {
	re.ev.Unbound = (&binder{re}).unbound()
	starts, err := re.starter.run(ctx)
	if err != nil {
		return err
	}
	re.ev.Starts, re.ev.LeftOut = starts, re.starter.left
	re.starter.believe(starts)
	re.ev.Unseen = newUnseen(re)
	re.ev.Unseen.judgeSymbols(re.ev.Unbound)
	re.plans.follow()
	return nil
}

// replayInstalls replays the steps of each framework, and then, for those that fail, the
// help of the others.
func (re *replayer) replayInstalls() {
	for _, in := range re.ev.Installs {
		re.load(in)
	}
	for _, in := range re.ev.Installs {
		re.help(in)
		for i := range in.Failures {
			in.Failures[i].Misses = kept(in.Failures[i].Misses)
		}
	}
}

// replayObject loads an object by itself. If a library misses something then and relies on
// a framework, the misses after that framework has loaded count.
func (re *replayer) replayObject(o *Object) {
	if o.Loader == nil {
		return
	}
	misses := re.alone(o)
	if len(misses) > 0 && !IsProgram(o.ELF) {
		if host := re.hostOf(o); host != nil {
			misses = re.unopened(host, re.after(o, host))
		}
	}
	o.Misses = kept(misses)
}

// each calls f for every object, on all processors and in no order.
func (re *replayer) each(ctx context.Context, f func(*Object)) error {
	g, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for n := range workers {
		g.Go(func() error {
			for i := n; i < len(re.files.Objects); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				f(re.files.Objects[i])
			}
			return nil
		})
	}
	return g.Wait()
}

// alone loads an object by itself, and returns its misses: it starts a program, and opens
// a library in the process of [Loaders.ProgramFor].
func (re *replayer) alone(o *Object) []*elfdeps.Error {
	if !IsProgram(o.ELF) {
		return re.open(re.loaders.ProgramFor(o.Path, o.Loader), o)
	}
	// The error of Trace repeats the misses of the process.
	p, _ := o.Loader.Trace(o.Path)
	if p.Program() == nil {
		return nil
	}
	re.remember(p, o)
	return re.files.MissesOf(p, p.Program())
}

// open opens an object in a process, and returns the misses of the object and of its
// dependencies.
func (re *replayer) open(p *elfdeps.Process, o *Object) []*elfdeps.Error {
	had := len(p.Misses)
	m, err := p.Dlopen(nil, o.Path)
	re.remember(p, o)
	if err != nil && m == nil {
		return p.Misses[had:]
	}
	return re.files.MissesOf(p, m)
}

// after opens an object in a process that has loaded a framework, and returns its misses.
func (re *replayer) after(o *Object, host *Install) []*elfdeps.Error {
	p := re.loaders.ProgramFor(host.Home, o.Loader)
	re.runSteps(p, host)
	return re.open(p, o)
}

// unopened returns misses without those that may follow from the end of a framework's import:
// had it gone on, it might have opened the libraries that the image has.
func (re *replayer) unopened(host *Install, misses []*elfdeps.Error) []*elfdeps.Error {
	if host.source == nil || !host.source.ends {
		return misses
	}
	return slices.DeleteFunc(slices.Clone(misses), func(e *elfdeps.Error) bool {
		return e.Missing() && len(re.files.Present(e.Name)) > 0
	})
}

// remember records the GPU libraries that the objects of a process found, apart from
// root. A library that only other files load is judged by the processes of those files
// (see [Evidence.Served]).
func (re *replayer) remember(p *elfdeps.Process, root *Object) {
	program := IsProgram(root.ELF)
	for _, m := range p.Objects {
		real := m.Real()
		if program && re.packs.Family(real) != nil {
			re.loadsGPU.Store(root.Path, true)
		}
		if real == root.Path {
			continue
		}
		for i, d := range m.Deps {
			if d != nil && re.packs.Family(m.Object.Needed[i]) != nil {
				re.ev.served.Store(servedKey{real, m.Object.Needed[i]}, true)
			}
		}
	}
}
