package replay

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/startup"
	"github.com/imgcheck/imgcheck/rules"
)

// Limits of the Python programs that are followed in one image.
const (
	maxStarts    = 256     // programs and modules
	maxModulesOf = 4       // modules of one package
	startSpan    = 4 << 20 // steps of the evaluation of one
	allSpan      = 128 << 20
	sharedSpan   = 4 * startSpan // steps of the imports that share one process, whose values are all kept: up to 180 bytes of the process a step (copies of a dict)
	startsAtOnce = 16            // between which the steps of all are compared with maxSpan
)

// maxSpan limits the steps of all programs and imports of an image; those of one batch may
// exceed it. 118 packages of Debian with their dependencies take 0.3 million, in one
// process. The tests change it.
var maxSpan = int64(allSpan)

// maxShared limits the steps of the imports that share one process. The tests change it.
var maxShared = sharedSpan

// unameOf are the machines as uname(2) names them.
var unameOf = map[elf.Machine]string{
	elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64", elf.EM_386: "i686", elf.EM_ARM: "armv7l", elf.EM_PPC64: "ppc64le",
	elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
}

// starter follows the Python programs of an image.
type starter struct {
	re      *replayer
	sources *pyimport.Sources
	known   map[imported]*followed // the imports of frameworks
	left    []*Start               // that are too many
	given   []string               // programs, packs.Given
	lacking *lacking               // names that releases do not have
	spent   atomic.Int64           // steps of all that were followed
}

// newStarter returns a starter for the files of an image.
func newStarter(re *replayer) *starter {
	fsys := re.img.FS
	if re.img.Parsed == nil {
		re.img.Parsed = new(pyimport.Parsed)
	}
	var given []string
	for _, row := range re.packs.Given {
		given = append(given, row.Programs...)
	}
	return &starter{re: re, given: given, lacking: newLacking(re.packs.Names), sources: pyimport.NewSources(fsys, re.img.Parsed, func(file string) ([]byte, bool) {
		e, _, ok := fsys.Lookup(file)
		if !ok || e.Type != layers.Regular || e.Content == nil && e.Size > 0 {
			return nil, false
		}
		return e.Content, true
	}), known: map[imported]*followed{}}
}

// job is a program to be followed.
type job struct {
	start   *Start
	options pyenv.Options
	env     map[string]string
	python  *startup.Python  // nil for an import
	node    *startup.Program // of Node; nil for Python
	module  string           // to import
	program *startup.Program // nil for an import
	turns   int              // how often its process has become another program
}

// run follows the programs of the image's start, and the imports of packages, and returns
// those whose source is known. Of the packages that miss nothing by themselves, and of the parts
// of packages, it returns those that cannot be imported.
func (st *starter) run(ctx context.Context) ([]*Start, error) {
	suspects, others := st.packages()
	jobs := append(append(st.programs(), suspects...), st.strays()...)
	others, err := st.failing(ctx, others)
	if err != nil {
		return nil, err
	}
	list, err := st.all(ctx, st.first(append(jobs, others...), maxStarts))
	if err != nil {
		return nil, err
	}
	more, err := st.failing(ctx, st.perhaps(list))
	if err != nil {
		return nil, err
	}
	again, err := st.all(ctx, more)
	if err != nil {
		return nil, err
	}
	list = append(list, again...)
	pa := parts{st}
	failing, err := st.failing(ctx, pa.jobs(list))
	if err != nil {
		return nil, err
	}
	done, err := st.all(ctx, failing)
	return append(list, pa.broken(done)...), err
}

// maxBecomes limits how often a process becomes another program.
const maxBecomes = 3

// becomes returns jobs for the Python programs that the programs of a job become by
// os.execvp, or run by subprocess.
func (st *starter) becomes(j job, execs []pyimport.Exec) []job {
	table, err := starters()
	if j.program == nil || j.turns == maxBecomes || err != nil {
		return nil
	}
	var list []job
	for _, x := range execs {
		file, line, _ := strings.Cut(x.At, ":")
		n, _ := strconv.Atoi(line)
		what := "os.exec "
		if x.Child {
			what = "subprocess "
		}
		l := startup.Link{What: what + strings.Join(x.Argv, " "), File: file, Line: n}
		for _, p := range startup.Become(st.re.img.FS, table, j.program, startup.Execve{Argv: x.Argv, Env: x.Env, Dir: x.Dir, Link: l, Maybe: x.Maybe, Beside: x.Child, Checked: x.Checked}) {
			list = append(list, st.jobOf(&p)...)
		}
	}
	for i := range list {
		list[i].turns = j.turns + 1
	}
	return list
}

// first returns the first n jobs, and remembers the others as left out.
func (st *starter) first(jobs []job, n int) []job {
	for _, j := range jobs[min(n, len(jobs)):] {
		st.left = append(st.left, j.start)
	}
	return jobs[:min(n, len(jobs))]
}

// failing returns the imports that fail after one another in one process of their Python,
// which imports each module once. Alone they may not fail.
func (st *starter) failing(ctx context.Context, jobs []job) ([]job, error) {
	byPython := map[string][]job{}
	for _, j := range st.first(jobs, 4*maxStarts) {
		byPython[j.start.Python] = append(byPython[j.start.Python], j)
	}
	var list []job
	for _, python := range slices.Sorted(maps.Keys(byPython)) {
		for same := byPython[python]; len(same) > 0; {
			if st.spent.Load() > maxSpan {
				st.first(same, 0)
				break
			}
			failing, done := st.oneAfterAnother(ctx, same)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			list, same = append(list, failing...), same[done:]
		}
	}
	return list, nil
}

// oneAfterAnother imports modules in one process, and returns those that fail, and how many
// were imported: fewer than all if the evaluator panics, whose process cannot go on. The
// module at fault is then among those that fail.
func (st *starter) oneAfterAnother(ctx context.Context, same []job) (failing []job, done int) {
	defer func() {
		if recover() != nil {
			failing, done = append(failing, same[done]), done+1
		}
	}()
	run, host := st.process(same[0], min(len(same)*startSpan/8, maxShared))
	if run == nil {
		return nil, len(same)
	}
	defer func() { st.spent.Add(int64(run.Steps())) }()
	for ; done < len(same) && ctx.Err() == nil; done++ {
		if n := run.Import(same[done].module); n.Failed != nil && n.Failed.Doubt == "" {
			failing = append(failing, same[done])
		}
	}
	host.proc.Rest()
	return failing, done
}

// all follows programs, on all processors, and returns those whose source is known. Those that
// begin after maxSpan are left out, the same in each run.
func (st *starter) all(ctx context.Context, jobs []job) ([]*Start, error) {
	if st.re.loaders.Primary == nil {
		return nil, nil
	}
	var list []*Start
	for batch := range slices.Chunk(jobs, startsAtOnce) {
		if st.spent.Load() > maxSpan {
			st.first(batch, 0)
			continue
		}
		done := make([][]*Start, len(batch))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for i := range done {
			g.Go(func() error {
				if ctx.Err() == nil {
					left := startSpan
					done[i] = st.chain(batch[i], &left)
				}
				return ctx.Err()
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		list = append(list, slices.Concat(done...)...)
	}
	return list, nil
}

// chain follows a program, and the programs that it becomes while steps are left.
func (st *starter) chain(j job, left *int) []*Start {
	s, f := st.follow(j)
	if s == nil {
		return nil
	}
	*left -= f.steps
	list := []*Start{s}
	for _, m := range f.folders {
		m.Failures = m.failures(st.re.packs)
		list = append(list, m)
	}
	for _, next := range st.becomes(j, f.execs) {
		if *left <= 0 {
			s.Tree.Unknown = append(s.Tree.Unknown, "the programs that it becomes take more steps than are followed")
			break
		}
		list = append(list, st.chain(next, left)...)
	}
	return list
}

// imports follows imports, on all processors, and keeps them for the programs that do the
// same. It leaves out the jobs without an interpreter.
func (st *starter) imports(ctx context.Context, jobs []job) ([]*followed, error) {
	done := make([]*followed, len(jobs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range jobs {
		if jobs[i].start == nil || jobs[i].start.Python == "" {
			continue
		}
		g.Go(func() error {
			if ctx.Err() == nil {
				done[i] = st.evaluate(jobs[i])
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	for i, f := range done {
		if f != nil {
			st.known[jobs[i].key()] = f
		}
	}
	return done, err
}

// Follow follows the Python programs of an image's start or, if modules are given, the
// import of each by the interpreter at python, which may be empty for the one of the
// image's program or of its PATH. It returns an error if there is no such interpreter.
func Follow(ctx context.Context, img *Image, set *packs.Packs, python string, modules []string) ([]*Start, error) {
	re, err := newReplayer(img, set)
	if err != nil {
		return nil, err
	}
	st := re.starter
	jobs := st.programs()
	if len(modules) > 0 {
		if python = st.interpreter(python, jobs); python == "" {
			return nil, errors.New("it has no Python to import modules: name its path")
		}
		jobs = nil
		for _, m := range modules {
			jobs = append(jobs, st.importOf(&Start{Python: python, Certain: true}, m))
		}
	}
	starts, err := st.all(ctx, jobs)
	return starts, cmp.Or(err, re.config.Spent())
}

// interpreter returns the path of the Python that imports modules: the given one, that of
// a program, or that of PATH.
func (st *starter) interpreter(given string, jobs []job) string {
	if given != "" {
		return given
	}
	for _, j := range jobs {
		if j.node == nil {
			return j.start.Python
		}
	}
	for _, name := range []string{"python3", "python"} {
		if p, ok := st.re.config.Executable(name); ok {
			return p
		}
	}
	for _, p := range st.re.packages.inv.Pythons {
		if p.Interpreter != "" {
			return p.Interpreter
		}
	}
	return ""
}

// starters are the starters of imgcheck's own rules.
var starters = sync.OnceValues(func() (*startup.Starters, error) { return startup.LoadStarters(rules.FS) })

// programs returns the programs of Python and Node of the image's start.
func (st *starter) programs() []job {
	var list []job
	for i := range st.re.ev.Started.Programs {
		list = append(list, st.jobOf(&st.re.ev.Started.Programs[i])...)
	}
	return list
}

// jobOf returns the job for a program of the start, if its source can be followed.
func (st *starter) jobOf(p *startup.Program) []job {
	if p.Path == "" || p.Kind != startup.KindPython && p.Kind != startup.KindNode {
		return nil
	}
	s := &Start{Python: p.Path, Certain: p.Main && !p.Caught && p.Maybe == ""}
	for _, l := range p.Chain {
		s.Chain = append(s.Chain, l.String())
	}
	if p.Kind == startup.KindNode {
		s.Node = true
		return []job{{start: s, env: p.Env, node: p}}
	}
	if p.Python == nil {
		return nil
	}
	o := pyenv.Options{
		Env: p.Env, Cwd: p.Dir, User: p.Home, Isolated: p.Python.Isolated, NoSite: p.Python.NoSite,
		NoUserSite: p.Python.NoUserSite, IgnoreEnv: p.Python.IgnoreEnv, SafePath: p.Python.SafePath, Optimized: p.Python.Optimized,
	}
	return []job{{start: s, options: o, env: p.Env, python: p.Python, program: p}}
}

// packages returns the imports of the packages that own a file which misses something by
// itself, and of the others that the image's author asked for.
func (st *starter) packages() (missing, others []job) {
	suspects := st.suspects()
	for p, pkg := range st.re.packages.EachWheel() {
		if p.Interpreter == "" || pkg.Asked != inventory.Yes && !suspects[pkg] {
			continue
		}
		for _, module := range st.publicModules(pkg) {
			j := st.importOf(&Start{Python: p.Interpreter, Package: pkg.Name, Asked: pkg.Asked, Certain: true}, module)
			if suspects[pkg] {
				missing = append(missing, j)
			} else {
				others = append(others, j)
			}
		}
	}
	return missing, others
}

// publicModules returns the first modules of a package that users import. Modules whose
// names begin with "_" are not for users, nor are extension modules beside a package, which
// imports other modules before them.
func (st *starter) publicModules(pkg *inventory.Package) []string {
	var list, extensions []string
	for _, m := range pkg.Modules() {
		switch _, _, isDir := st.re.img.FS.Lookup(path.Join(pkg.Dir, m)); {
		case strings.HasPrefix(m, "_"):
		case isDir || st.re.img.IsFile(path.Join(pkg.Dir, m+".py")):
			list = append(list, m)
		default:
			extensions = append(extensions, m)
		}
	}
	if len(list) == 0 {
		list = extensions
	}
	return list[:min(len(list), maxModulesOf)]
}

// importOf returns the import of a module, in the environment of the image.
func (st *starter) importOf(s *Start, module string) job {
	env := map[string]string{}
	for _, v := range st.re.config.Env().Vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	s.Chain = []string{"import " + module}
	return job{start: s, options: pyenv.Options{Env: env, Cwd: path.Join("/", st.re.config.Env().Cwd)}, env: env, module: module}
}

// suspects returns the wheels that own a file which misses something by itself.
func (st *starter) suspects() map[*inventory.Package]bool {
	set := map[*inventory.Package]bool{}
	add := func(file string) {
		if _, pkg, _ := st.re.packages.OwnerOf(file); pkg != nil {
			set[pkg] = true
		}
	}
	for _, o := range st.re.files.Objects {
		if len(o.Misses) > 0 {
			add(o.Path)
		}
	}
	for _, u := range st.re.ev.Unbound {
		add(u.Path)
	}
	for _, in := range st.re.ev.Installs {
		if len(in.Failures) > 0 && in.Package != "" {
			add(path.Join(in.Home, "__init__.py"))
		}
	}
	return set
}

// process starts the interpreter of a job, and runs its site. It returns nil if the image
// has no such interpreter, or its process does not start.
func (st *starter) process(j job, steps int) (*pyimport.Run, *pythonHost) {
	in, err := pyenv.Open(st.re.img.FS, j.start.Python, j.options)
	if err != nil {
		return nil, nil
	}
	host := st.host(in, j.env, j.byHand())
	if host == nil {
		return nil, nil
	}
	built := func(module string, needed []string) map[string]any {
		return packs.Built(st.re.packs.Attributes, module, needed)
	}
	run := pyimport.New(st.sources, in, host, pyimport.Options{
		Env: j.env, Cwd: j.options.Cwd, Machine: unameOf[st.re.files.Machine], Given: st.given, Lacks: st.lacking.in(in, st.re.ev.Packages), Optimized: j.options.Optimized || j.env["PYTHONOPTIMIZE"] != "", Steps: steps, Built: built,
	})
	if !j.options.NoSite {
		run.Site()
	}
	return run, host
}

// follow follows a program. It returns nil if the image has no such interpreter, its
// process does not start, or the source of its first module is not known.
func (st *starter) follow(j job) (*Start, *followed) {
	f := st.known[j.key()]
	if f == nil {
		f = st.evaluate(j)
	}
	if f == nil {
		return nil, nil
	}
	s := j.start
	s.Tree, s.Mapped, s.Opened, s.Broken, s.Killed = f.tree, f.mapped, f.brought, f.broken, f.killed
	s.Failures = s.failures(st.re.packs)
	return s, f
}

// followed is the result of a program that was followed.
type followed struct {
	tree    *pyimport.Node
	mapped  []string
	opened  []opened
	brought []Opened
	execs   []pyimport.Exec
	folders []*Start // imports of the modules of a directory, without their failures
	steps   int
	killed  bool   // a file that is cut short has ended the process
	broken  string // see [Start.Broken]
}

// imported is the import of a module by an interpreter, in the environment of the image.
type imported struct{ python, module string }

// key returns what two jobs have in common that import the same, or zero for a program.
func (j *job) key() imported {
	if j.module == "" {
		return imported{}
	}
	return imported{j.start.Python, j.module}
}

// evaluate follows a program in a new process, which it ends. It returns nil as
// [starter.follow] does.
func (st *starter) evaluate(j job) (f *followed) {
	defer func() {
		if e := recover(); e != nil {
			f = brokenOff(j, e)
		}
		if f != nil {
			st.spent.Add(int64(f.steps))
		}
	}()
	if j.node != nil {
		return st.evaluateNode(j)
	}
	run, host := st.process(j, startSpan)
	if run == nil {
		return nil
	}
	f = &followed{tree: st.runJob(run, j)}
	if f.tree == nil {
		return nil
	}
	f.execs = run.Execs() // not those of modules that the program goes on without
	f.folders = folders(st, run, j, f.tree)
	doubt(f.tree, host.partial)
	f.mapped, f.opened, f.killed = host.mapped(), host.opened, host.killed != nil
	f.brought, f.steps = host.brought, run.Steps()
	host.proc.Rest()
	return f
}

// brokenOff returns the result of a job in whose source the evaluator has met what it
// cannot handle. Sources are hostile: that must neither end the scan nor go unsaid.
func brokenOff(j job, panicked any) *followed {
	why := fmt.Sprintf("imgcheck failed to follow it: %v", panicked)
	n := &pyimport.Node{Kind: pyimport.Program, Name: cmp.Or(j.module, path.Base(j.start.Python)), Unknown: []string{why}}
	return &followed{tree: n, broken: why}
}

// byHand returns the loader that runs the program by hand, or "".
func (j *job) byHand() string {
	if j.program == nil {
		return ""
	}
	return j.program.Loader
}

// host starts the process of an interpreter on a machine with a GPU, with an environment,
// by the loader that is called by hand unless it is "". It returns nil if it does not start.
func (st *starter) host(in *pyenv.Interpreter, env map[string]string, loader string) *pythonHost {
	h := st.processOf(in.Real, in.Path, env, loader)
	if h != nil {
		h.python2 = in.Major == 2
	}
	if h != nil && in.Partial() {
		h.partial = "the image has only a part of Python's standard library"
	}
	return h
}

// processOf starts a program, by its real path and the one that it is started by, as host
// does.
func (st *starter) processOf(real, file string, env map[string]string, loader string) *pythonHost {
	o := st.re.files.ByPath[real]
	if o == nil {
		return nil
	}
	image := st.loaderOf(o, loader)
	if image == nil {
		return nil
	}
	fsys := st.re.loaders.gpuHost(image)
	l, err := elfdeps.NewLoader(fsys, image.Path, st.environment(env))
	if err != nil {
		return nil
	}
	var p *elfdeps.Process
	if loader == "" {
		p, err = l.Start(file)
	} else {
		p, err = l.Run([]string{file})
	}
	if err != nil || len(st.re.files.cutOf(p.Objects, 0)) > 0 {
		return nil
	}
	return &pythonHost{files: st.re.files, fsys: fsys, proc: p}
}

// believe corrects the evidence by the programs of the image: a file that one of them has
// loaded misses nothing, and a symbol that one of them misses is unbound.
func (st *starter) believe(starts []*Start) {
	loaded := map[string]bool{}
	for _, s := range starts {
		for _, file := range s.Mapped {
			loaded[file] = loaded[file] || !s.Killed
		}
	}
	for _, o := range st.re.files.Objects {
		if loaded[o.Path] {
			o.Misses = nil
		}
	}
	for _, in := range st.re.ev.Installs {
		in.Failures = slices.DeleteFunc(in.Failures, func(f Failure) bool { return loaded[RealPath(st.re.img.FS, f.Path)] })
	}
	st.re.ev.Unbound = slices.DeleteFunc(st.re.ev.Unbound, func(u Unbound) bool { return loaded[u.Path] })
	for _, s := range starts {
		for i := range s.Failures {
			st.believeSymbol(&s.Failures[i])
		}
	}
}

// believeSymbol adds the symbol that a program misses. If it is known already, it gets the
// verdict on the failure of the image's own program, which may catch it; without one, the
// severest on those of imports of packages.
func (st *starter) believeSymbol(f *StartFailure) {
	e := symbolError(f.Cause)
	if e == nil {
		return
	}
	u := UnboundOf(RealPath(st.re.img.FS, f.File()), e, f.Effects...)
	u.Verdict = f.Verdict
	for i := range st.re.ev.Unbound {
		known := &st.re.ev.Unbound[i]
		if known.Path != u.Path || known.Message != u.Message {
			continue
		}
		if by := judgeOf(f); by > known.judge || by == known.judge && by > noRun && !known.Verdict.Severity.AtLeast(f.Verdict.Severity) {
			known.Verdict, known.judge = f.Verdict, by
		}
		known.Effects = append(known.Effects, f.Effects...)
		return
	}
	if f.Doubt == "" {
		u.judge = judgeOf(f)
		st.re.ev.Unbound = append(st.re.ev.Unbound, u)
	}
}

// judge names the run of a program whose failure gives a missing symbol its verdict. A later one
// decides over an earlier one.
type judge uint8

const (
	noRun      judge = iota // no run ends by the symbol, or catches its failure
	otherRun                // the import of a package, or a program that the image may not run
	certainRun              // the program that the image runs
)

// judgeOf returns the run that a failure ends, or that catches it.
func judgeOf(f *StartFailure) judge {
	switch {
	case !f.Ends && f.Caught == "":
		return noRun
	case f.Start.Package == "" && f.Start.Certain:
		return certainRun
	}
	return otherRun
}

// doubt marks the exceptions of a tree that are not the loader's as uncertain, if there is
// a reason.
func doubt(n *pyimport.Node, why string) {
	if f := n.Failed; f != nil && f.Cause == nil {
		f.Doubt = cmp.Or(f.Doubt, why)
	}
	for _, below := range n.Nodes {
		doubt(below, why)
	}
}
