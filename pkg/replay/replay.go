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
	"runtime"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"golang.org/x/sync/errgroup"
)

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

// replayer makes the processes of an image, and Evidence of what they do.
type replayer struct {
	img      *Image
	packs    *packs.Packs
	files    *Files
	config   *Config
	loaders  *Loaders
	packages *Packages
	hosts    *hosts
	plans    *plans
	ev       *Evidence
	loadsGPU sync.Map // path of a program that loads a GPU library when it starts → true
}

// newReplayer reads the parts of an image and finds its frameworks. Nothing is replayed
// yet.
func newReplayer(img *Image, set *packs.Packs) (*replayer, error) {
	config, files := NewConfig(img, set), newFiles(img, set)
	loaders := newLoaders(files, config)
	packages, err := newPackages(img, set, loaders)
	if err != nil {
		return nil, err
	}
	re := &replayer{img: img, packs: set, files: files, config: config, loaders: loaders, packages: packages}
	re.ev = &Evidence{Files: files, Config: config, Loaders: loaders, Packages: packages}
	re.hosts = &hosts{loaders: loaders, opened: map[*elfdeps.Loader]*elfdeps.Loader{}}
	re.plans = &plans{re: re, openers: map[[2]string][]*packs.Dlopens{}}
	re.ev.Installs = re.findInstalls()
	return re, nil
}

// replay loads every object, on every processor. What misses something by
// itself and relies on a framework is loaded after it.
func (re *replayer) replay(ctx context.Context) error {
	for _, in := range re.ev.Installs {
		re.load(in)
	}
	for _, in := range re.ev.Installs {
		re.help(in)
		for i := range in.Failures {
			in.Failures[i].Misses = kept(in.Failures[i].Misses)
		}
	}
	err := re.each(ctx, func(o *Object) {
		if o.Loader == nil {
			return
		}
		misses := re.alone(o)
		if len(misses) > 0 && !IsProgram(o.ELF) {
			if host := re.hostOf(o); host != nil {
				misses = re.after(o, host)
			}
		}
		o.Misses = kept(misses)
	})
	if err == nil {
		re.plans.follow()
	}
	return err
}

// each calls f for every object, in no order.
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

// alone loads an object by itself: a program starts, a library is opened by a
// program that brings nothing but, for Python's, the interpreter.
func (re *replayer) alone(o *Object) []*elfdeps.Error {
	if !IsProgram(o.ELF) {
		return re.open(re.loaders.ProgramFor(o.Path, o.Loader), o)
	}
	// What the start misses is in the process; its error says the same again.
	p, _ := o.Loader.Trace(o.Path)
	if p.Program() == nil {
		return nil
	}
	re.remember(p, o)
	return re.files.MissesOf(p, p.Program())
}

// open opens an object in a process and tells what of its own was missed.
func (re *replayer) open(p *elfdeps.Process, o *Object) []*elfdeps.Error {
	had := len(p.Misses)
	m, err := p.Dlopen(nil, o.Path)
	re.remember(p, o)
	if err != nil && m == nil {
		return p.Misses[had:]
	}
	return re.files.MissesOf(p, m)
}

// after loads an object in a process that has loaded its host.
func (re *replayer) after(o *Object, host *Install) []*elfdeps.Error {
	p := re.loaders.ProgramFor(host.Home, o.Loader)
	re.runSteps(p, host)
	return re.open(p, o)
}

// remember notes which GPU libraries were found for whom in a process other
// than its own: a library that is only ever loaded by others is judged there.
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
