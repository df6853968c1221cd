package pyimport

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// Sources are the Python files of an image. Each is parsed once for all programs. Any
// number of goroutines may use it.
type Sources struct {
	fs     *layers.FS
	read   func(path string) ([]byte, bool)
	parsed *Parsed
}

// Parsed are files that were parsed, by their bytes: the states of an image that only
// differ in some files share the others. Any number of goroutines may use it. The zero
// value is ready for use.
type Parsed struct {
	mu    sync.Mutex
	files map[textKey]*parsedFile
}

// parsedFile is a file once it was parsed. A file is parsed by whoever asks for it first.
type parsedFile struct {
	mu   sync.Mutex
	file *pysource.File // nil before
}

// textKey is a slice of bytes that does not change.
type textKey struct {
	first *byte
	size  int
}

// parse returns the parsed file of a text, which the caller does not change afterwards.
func (p *Parsed) parse(b []byte) *pysource.File {
	if len(b) == 0 {
		return pysource.Parse(b)
	}
	f := p.of(textKey{&b[0], len(b)})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		f.file = pysource.Parse(b)
	}
	return f.file
}

// of returns the file of a text, which may not be parsed yet.
func (p *Parsed) of(key textKey) *parsedFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[key]
	if f == nil {
		if p.files == nil {
			p.files = map[textKey]*parsedFile{}
		}
		f = &parsedFile{}
		p.files[key] = f
	}
	return f
}

// Len returns the number of files.
func (p *Parsed) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.files)
}

// NewSources returns the Python files of an image. read returns the source of a file, or
// what pysource.Reduce has kept of it, or false if it is not known; its path is absolute,
// and the bytes do not change. parsed has files that were parsed before; it may be nil.
func NewSources(fs *layers.FS, parsed *Parsed, read func(path string) ([]byte, bool)) *Sources {
	if parsed == nil {
		parsed = new(Parsed)
	}
	return &Sources{fs: fs, read: read, parsed: parsed}
}

// parse returns a parsed file, or nil if its source is not known.
func (s *Sources) parse(file string) *pysource.File {
	b, ok := s.read(file)
	if !ok {
		return nil
	}
	return s.parsed.parse(b)
}

// parseMember returns a parsed file of a zip file, or nil if its source is not known.
func (s *Sources) parseMember(file, member string) *pysource.File {
	e, _, ok := s.fs.Lookup(file)
	if !ok {
		return nil
	}
	b, ok := pyenv.Member(e, member)
	if !ok {
		return nil
	}
	return s.parsed.parse(b)
}

// Options are the environment of a program, and limits of its evaluation.
type Options struct {
	Env  map[string]string // nil for none
	Argv []string          // sys.argv; for Main it is given there
	Cwd  string            // absolute; "/" if empty
	// Machine is os.uname().machine and platform.machine(); "x86_64" if empty.
	Machine string
	// Lacks reports whether a module of a file, or of the interpreter if that is "", lacks a name in the release
	// that is installed, as is known from elsewhere; nil for none. Only of such a name does a read fail for
	// certain, as an import of it does: a source that stands in for another one may leave out names that
	// only other modules read.
	Lacks func(module, name, file string) bool
	// Optimized says that the interpreter leaves out assert statements.
	Optimized bool
	// Given are names of programs that may be there although the image does not have them.
	Given []string
	// Steps limits the statements and expressions that are evaluated; 0 for 20 million.
	Steps int
	// Modules limits the modules that are imported; 0 for 20,000.
	Modules int
	// Built returns the attributes of an extension module that say for what it was built, bool or int64. Some follow from
	// the libraries which its file needs (DT_NEEDED). nil for none.
	Built func(module string, needed []string) map[string]any
}

// Bounds of the evaluation, which no program that works comes near.
const (
	maxDepth = 400 // calls of functions within one another
	// maxBuiltins are calls of builtin functions within one another. exec of a text that executes itself has no other bound.
	maxBuiltins = 1000
	maxImports  = 250  // imports within one another, and parts of a module's name
	maxModule   = 4096 // bytes of a module's name: PATH_MAX
	// absentSteps are the steps that a module or library counts as which is not found, for
	// the memory of its node: any number of them can be tried.
	absentSteps = 256
	usualPath   = 64      // directories of a search path that count as no steps
	maxText     = 1 << 16 // bytes of a string
	longText    = 1024    // bytes of a string that count as no steps
	textSteps   = 64      // bytes of a longer one that count as a step
	maxWithin   = 100     // containers within one another that are compared or printed
	maxKey      = 1024    // bytes of the items of a tuple that is a key
	maxPath     = 4096    // bytes of a pathlib path: PATH_MAX
	maxItems    = 1 << 14 // items of a container
	maxUnknown  = 12      // entries of Node.Unknown
	maxCall     = 200_000 // steps of a call from the top level of a module
	maxForks    = 3       // branches within one another in which functions are followed
)

// Run is one process of an interpreter. Its methods import into the same process, one
// after the other.
type Run struct {
	src  *Sources
	in   *pyenv.Interpreter
	host Host
	opt  Options

	steps    int
	stop     string // why the evaluation ended, or ""
	raised   *exception
	yields   []*list      // of the generators that run
	making   []*class     // that are made by a class of the program
	possible []*exception // of branches that may have run
	execs    []Exec
	branch   *branch
	branches int // and recorders
	recorder *recorder
	depth    int
	basis    basis // of the exceptions of the call from a module's top level
	calls    int   // of functions, from top levels
	// builtinCalls are the calls of builtin functions that run, within one another: exec, eval, map and sorted call the program again.
	builtinCalls int
	made         map[string]bool // files that the program may make (mayMake)
	madeHere     map[string]bool // the same of texts without a slash
	madeAny      bool            // or any other
	survived     survivor        // of the function called last from a module's top level
	budget       int             // the number of steps at which the outermost call is given up
	givenUp      bool            // it was
	frame        *frame
	entering     *withStatement // the one whose context the next call makes, or nil
	within       *withStatement // the one whose context runs, a generator, or nil
	tries        []tryLevel
	node         *Node
	loads        int
	nesting      int // imports within one another

	modules  *names // sys.modules
	builtins *names
	sys      *module
	env      *environ
	path     *list // sys.path
	metaPath *list
	ranLines bool // the lines of .pth files, with all that they import: their importers are known
	asking   bool // an importer of the program
	later    []laterNames
	early    map[string]bool   // modules that the interpreter imports at its start
	classes  map[string]*class // of models
	flags    value             // of sys.setdlopenflags
	trial    *trial            // or nil
	// requires has, by top-level module, the modules that its distribution requires.
	requires map[string]map[string]bool
	// records has, by top-level module, the modules that its RECORD lists.
	records map[string]map[string]bool
	// forgone has the modules whose failure a package's source has caught, see forgoneKey.
	forgone map[string]bool
	// makers says what the sources of modules may do to have names, by module.
	makers map[string]maker
	// extensions are the extension modules that are loaded, without the standard library's.
	extensions []*module
	// resolved says of modules whether they are found from the top.
	resolved map[string]bool
	// byCython has the names in the extension modules that Cython has made, by directory.
	byCython map[string][]*elfdeps.Modules
	// objects has what the image has of the ELF files that were asked for, by path.
	objects map[string]*elfdeps.Object
	// madeByCython says of the names in extension modules whether Cython has made the module.
	madeByCython map[*elfdeps.Modules]bool
	// dirs are the texts of path when a module was last searched there, or nil, and foundOnPath what was found there, by name.
	dirs        []string
	foundOnPath map[string]*pyenv.Spec
	// begun has the extension modules, by file, whose code has begun, and failed at an import.
	begun map[string]bool
	// noOperators has the namespaces of PyTorch's operators whose library certainly failed, or is not there.
	noOperators map[string]bool
	// contexts has the functions that `asynccontextmanager` has got, by its result; startups what servers run, by application.
	contexts map[*unknown]*function
	startups map[value]*lifespan
	// settings has the modules of the files that File has executed.
	settings map[string]*module
	// passedOver reports that a library may be open which the host was not asked to open.
	passedOver bool
}

// New returns a process of an interpreter that has started, without its site: see
// [Run.Site].
func New(src *Sources, in *pyenv.Interpreter, host Host, o Options) *Run {
	o.Steps = cmp.Or(o.Steps, 20_000_000)
	o.Modules = cmp.Or(o.Modules, 20_000)
	if o.Cwd == "" {
		o.Cwd = "/"
	}
	if o.Machine == "" {
		o.Machine = "x86_64"
	}
	r := &Run{src: src, in: in, host: host, opt: o, classes: map[string]*class{}, foundOnPath: map[string]*pyenv.Spec{}, makers: map[string]maker{}, objects: map[string]*elfdeps.Object{}, madeByCython: map[*elfdeps.Modules]bool{}, begun: map[string]bool{}, noOperators: map[string]bool{}, flags: int64(rtldNow)}
	r.modules = r.newNames()
	r.modules.modules = true
	r.env = newEnviron(r, o.Env)
	r.node = &Node{}
	r.early = map[string]bool{}
	for _, name := range startup {
		r.early[name] = true
	}
	r.path = &list{}
	for _, dir := range in.SysPath {
		r.path.items = append(r.path.items, dir)
	}
	r.metaPath = &list{items: []value{&pathFinder{}, &pathFinder{}, &pathFinder{}}}
	r.builtins = r.builtinNames()
	r.startSys()
	main := r.newModule("__main__", "")
	r.openUp(main.names, "the program")
	r.modules.put("__main__", main)
	for _, name := range startup {
		if name != "__main__" && name != "site" {
			r.importModule(name)
		}
	}
	r.raised = nil
	return r
}

// startup are the modules that an interpreter has imported before site: of CPython 3.6 to
// 3.14, `python -S -c "import sys; print(sys.modules)"`, and those of site itself.
var startup = strings.Fields(`builtins sys _frozen_importlib _imp _thread _warnings _weakref
	_frozen_importlib_external _io marshal posix time zipimport codecs _codecs encodings
	encodings.aliases encodings.utf_8 _signal io abc _abc __main__ site os stat _stat posixpath
	genericpath os.path _collections_abc _sitebuiltins`)

// Site executes the import lines of .pth files, sitecustomize and usercustomize, as the site
// module of the interpreter does at its start. The result has their imports.
func (r *Run) Site() *Node {
	return r.program("site", "", func() {
		for _, p := range r.in.PthImports {
			r.pthLine(p)
		}
		r.ranLines = r.stop == "" && r.followed(r.node)
		for _, name := range []string{"sitecustomize", "usercustomize"} {
			r.optional(name)
		}
	})
}

// followed reports whether nothing in a tree is unknown, apart from the modules of the
// standard library, which install no importers.
func (r *Run) followed(n *Node) bool {
	if n.Kind == Library || n.Kind == Extension || len(n.Unknown) > 0 && !strings.HasPrefix(n.File, r.in.StdLib+"/") {
		return false
	}
	return !slices.ContainsFunc(n.Nodes, func(c *Node) bool { return !strings.HasPrefix(c.File, r.in.StdLib+"/") && !r.followed(c) })
}

// pthLine executes a line of a .pth file. site prints an exception and goes on with the
// next file.
func (r *Run) pthLine(p pyenv.PthImport) {
	if p.Known { // what it does to the search is done: only its imports count
		dirs, importers := r.path.snapshot(), r.metaPath.snapshot()
		defer func() { r.path.restore(dirs); r.metaPath.restore(importers) }()
	}
	m := r.newModule("site", p.File)
	r.tries = append(r.tries, tryLevel{names: "site", all: true, depth: -1})
	r.inFrame(&frame{module: m, vars: m.names, file: p.File}, func() { r.block(pysource.Parse([]byte(p.Line + "\n")).Body) })
	r.tries = r.tries[:len(r.tries)-1]
	if r.raised != nil && !r.raised.exits() {
		r.raised = nil
	}
}

// optional imports a module if it is there.
func (r *Run) optional(name string) {
	spec, doubt := r.find(name, r.path)
	if spec == nil {
		if doubt != "" {
			r.note("import of " + name + ": " + doubt)
		}
		return
	}
	r.importModule(name)
	r.raised = nil
}

// Import imports a module, as `python -c "import NAME"` does.
func (r *Run) Import(name string) *Node {
	return r.program(name, "", func() {
		r.importModule(name)
	})
}

// Main runs a program: a file, or with module set a module as `python -m NAME` does. argv
// are its arguments, without its name.
func (r *Run) Main(name string, module bool, argv ...string) *Node {
	return r.program(name, "", func() {
		if module {
			r.mainModule(name, argv)
			return
		}
		r.mainFile(name, argv)
	})
}

// mainFile runs a script, a directory or zip file with __main__.py.
func (r *Run) mainFile(file string, argv []string) {
	file = r.absolute(file)
	e, _, ok := r.src.fs.Lookup(file)
	if ok && e.IsDir() {
		r.setPath0(file)
		file = path.Join(file, "__main__.py")
	} else if ok && pyenv.IsZip(e) {
		r.setPath0(file)
		r.setArgv(file, argv)
		r.runZip(file)
		return
	} else {
		r.setPath0(path.Dir(r.realpath(file)))
	}
	r.setArgv(file, argv)
	r.runMain(file, "")
}

// mainModule runs `python -m NAME`: a module, or the __main__ of a package.
func (r *Run) mainModule(name string, argv []string) {
	r.setPath0(r.opt.Cwd)
	r.setArgv("-m", argv)
	search := r.path
	if parent, _, ok := cutLast(name); ok {
		m := r.importModule(parent)
		if r.raised != nil {
			return
		}
		search = r.searchPath(m)
	}
	if search == nil {
		r.note("the package of " + name + " is not known")
		return
	}
	spec, doubt := r.find(name, search)
	if spec != nil && spec.Search != nil {
		m := r.importModule(name)
		if r.raised != nil {
			return
		}
		name += ".__main__"
		if search = r.searchPath(m); search == nil {
			r.note("the package of " + name + " is not known")
			return
		}
		spec, doubt = r.find(name, search)
	}
	if spec == nil {
		r.missing(name, doubt, "No module named "+name)
		return
	}
	r.node.File = spec.File
	pkg, _, _ := cutLast(name)
	r.setArgv(spec.File, argv)
	r.runMain(spec.File, pkg)
}

// runZip executes the __main__ of a zip file.
func (r *Run) runZip(file string) {
	for _, member := range []string{"__main__.pyc", "__main__.py"} {
		if f := r.src.parseMember(file, member); f != nil {
			r.runParsed(file+"/"+member, "", f)
			return
		}
	}
	r.node.File = file
	r.note("the source of " + file + " is not known")
}

// runMain executes a file as __main__.
func (r *Run) runMain(file, pkg string) {
	r.runParsed(file, pkg, r.src.parse(file))
}

// runParsed executes a parsed file as __main__; nil if its source is not known.
func (r *Run) runParsed(file, pkg string, f *pysource.File) {
	r.node.File = file
	m := r.newModule("__main__", file)
	m.names.put("__package__", pkg)
	if pkg == "" {
		m.names.put("__package__", nil)
	}
	m.names.put("__file__", file)
	r.set(r.modules, "__main__", m)
	if f == nil {
		r.note("the source of " + file + " is not known")
		return
	}
	r.execFile(m, f)
}

// setPath0 puts the directory of the program first on sys.path, unless the interpreter was
// started with -P or the like.
func (r *Run) setPath0(dir string) {
	if !r.in.SafePath {
		r.AddPath(dir)
	}
}

func (r *Run) setArgv(name string, argv []string) {
	l := &list{items: []value{name}}
	for _, a := range argv {
		l.items = append(l.items, a)
	}
	r.set(r.sys.names, "argv", l)
}

// program runs f as the top of a tree.
func (r *Run) program(name, file string, f func()) *Node {
	top := &Node{Kind: Program, Name: name, File: file}
	r.node, r.raised, r.tries, r.possible, r.recorder = top, nil, nil, nil, nil
	if r.stop == "" {
		f()
	}
	if e := r.raised; e != nil && !e.exits() {
		top.Failed = e.failure()
		top.uncaught(top.Failed)
	}
	if r.stop != "" {
		r.noteAt(top, r.stop)
	}
	r.raised = nil
	if top.Failed == nil {
		r.importLater()
	}
	r.raised, r.later = nil, nil
	return top
}

// Loaded returns the names of the modules that are imported, sorted, without those that
// may be.
func (r *Run) Loaded() []string {
	var list []string
	for name, v := range r.modules.m {
		if m, ok := v.(*module); ok && m.maybe != "" {
			continue
		}
		list = append(list, name)
	}
	for name := range r.early {
		list = append(list, name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Steps returns how many steps the evaluation has taken.
func (r *Run) Steps() int { return r.steps }

// step counts a step of the evaluation. It reports false when the evaluation has ended, or
// an exception is on its way.
func (r *Run) step() bool {
	r.spend(1)
	if r.depth > 0 && r.steps > r.budget {
		r.givenUp = true
	}
	return r.stop == "" && r.raised == nil && !r.givenUp
}

// spend counts the steps of an operation over n items.
func (r *Run) spend(n int) {
	r.steps += n
	if r.steps > r.opt.Steps && r.stop == "" {
		r.stop = fmt.Sprintf("the evaluation took more than %d steps", r.opt.Steps)
	}
}

// certain reports whether the statement that runs is known to run.
func (r *Run) certain() bool { return r.branch == nil }

// condition returns the condition under which the statement runs, or "".
func (r *Run) condition() string {
	if r.branch != nil {
		return r.branch.why
	}
	return ""
}

// note adds a statement that could not be followed to the module that is imported.
func (r *Run) note(text string) {
	if r.frame != nil && r.frame.line > 0 {
		text = fmt.Sprintf("line %d: %s", r.frame.line, text)
	}
	r.noteAt(r.node, text)
}

func (r *Run) noteAt(n *Node, text string) {
	if n == nil || len(n.Unknown) > maxUnknown || slices.Contains(n.Unknown, text) {
		return
	}
	if len(n.Unknown) == maxUnknown {
		text = fmt.Sprintf("more than %d things", maxUnknown)
	}
	n.Unknown = append(n.Unknown, text)
}

// at returns the position of the statement that runs.
func (r *Run) at() string {
	if r.frame == nil || r.frame.file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", r.frame.file, r.frame.line)
}

// frame is a run of the statements of a module, a class or a function.
type frame struct {
	module *module
	file   string
	line   int
	vars   *names // local names; the module's at its top level
	outer  *frame // of the function's definition, for closures; nil for a module's
	caller *frame
	class  bool
	// comprehension says that it is that of a comprehension.
	comprehension bool
	fields        []string        // of a class: its annotated names
	global        map[string]bool // names declared global
	free          map[string]bool // names declared nonlocal
	result        value
	// partial is the condition that a part of the frame has ended it, or "".
	partial string
	// mayReturn reports that it has ended the frame, not only a loop.
	mayReturn bool
	of        *class // the class whose method runs, for super
	self      value
	caught    []*exception // that are being handled
	function  bool         // a function's own, not that of a lambda, a comprehension, a class or a module
}

// inFrame runs f in a frame.
func (r *Run) inFrame(f *frame, do func()) {
	f.caller = r.frame
	r.frame = f
	do()
	r.frame = f.caller
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cutLast cuts a dotted name around its last dot.
func cutLast(name string) (before, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// uncaught takes back that something catches a failure which has ended the program: the handlers
// are for other exceptions, or raise it again.
func (n *Node) uncaught(f *Failure) {
	for _, c := range n.Nodes {
		if c.Failed == f {
			c.Caught = ""
			c.uncaught(f)
		}
	}
}
