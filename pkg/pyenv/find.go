package pyenv

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// finder finds modules. It remembers the directories that it has listed.
type finder struct {
	files
	hooks
	minor int
	// noBuiltins reports that the names of built-in modules lack some; see boot.
	noBuiltins bool
	stdlib     string
	cwd        string
	sysPath    []string
	builtins   map[string]bool
	loaders    []loader

	mu       sync.Mutex
	dirs     map[string]*entry // by text
	absolute map[string]*entry // by the text in a search path
	packages map[string]*Spec  // that Resolve has found, by name

	sketched sync.Once
	isSketch bool // see partial

	dists     sync.Once
	installed []Distribution
}

// loader is a row of _get_supported_file_loaders.
type loader struct {
	suffix string
	kind   Kind
}

func (b *boot) newFinder() *finder {
	f := &finder{
		files: b.files, hooks: b.hooks, minor: b.Minor, noBuiltins: b.noBuiltins, stdlib: b.StdLib, cwd: b.o.Cwd, sysPath: b.SysPath,
		builtins: map[string]bool{}, dirs: map[string]*entry{}, absolute: map[string]*entry{}, packages: map[string]*Spec{},
	}
	for _, name := range b.Builtins {
		f.builtins[name] = true
	}
	for _, suffix := range b.Suffixes {
		f.loaders = append(f.loaders, loader{suffix, Extension})
	}
	f.loaders = append(f.loaders, loader{".py", Source}, loader{".pyc", Bytecode})
	return f
}

// entry is a directory or zip file of a search path.
type entry struct {
	at    string                 // its text, absolute
	path  string                 // without what is in a zip file
	names map[string]layers.Type // of a directory; nil if it is none
	stems map[string]bool        // the names up to their first dot
	zip   *zipDir                // of a zip file
	real  string                 // with links followed, without a leading slash
	// doubt says why the entry may have more than is known, or "".
	doubt string
}

const maxDirs = 1 << 16 // directories that are remembered

// entry returns the directory or zip file of an entry of sys.path.
func (f *finder) entry(p string) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listed(p)
}

func (f *finder) listed(p string) *entry {
	if e, ok := f.dirs[p]; ok {
		return e
	}
	e := f.open(p)
	if len(f.dirs) < maxDirs {
		f.dirs[p] = e
	}
	return e
}

// onSearch returns the directory or zip file of an entry of a search path, which may be relative.
func (f *finder) onSearch(p string) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.absolute[p]
	if !ok {
		e = f.listed(abs(f.cwd, p))
		if len(f.absolute) < maxDirs {
			f.absolute[p] = e
		}
	}
	return e
}

// open lists a directory or a zip file.
func (f *finder) open(p string) *entry {
	e := &entry{at: p, path: p}
	at, _, ok := f.fs.Lookup(p)
	switch {
	case !ok:
		f.openInZip(e)
		if e.zip == nil && e.doubt == "" {
			e.doubt = f.skipped(p)
		}
	case at.IsDir():
		e.real, e.names, e.stems = at.Path, map[string]layers.Type{}, map[string]bool{}
		for c := range f.fs.In(at.Path) {
			name := c.Path[strings.LastIndexByte(c.Path, '/')+1:]
			stem, _, _ := strings.Cut(name, ".")
			e.names[name], e.stems[stem] = c.Type, true
		}
		e.doubt = f.skipped(at.Path)
	default:
		e.openZip(at, "")
	}
	return e
}

// openInZip opens a directory in a zip file: /app.zip/lib.
func (f *finder) openInZip(e *entry) {
	for dir := path.Dir(e.path); dir != "/" && dir != "."; dir = path.Dir(dir) {
		if at, _, ok := f.fs.Lookup(dir); ok {
			if !at.IsDir() {
				prefix := strings.TrimPrefix(e.path, dir)
				e.path = dir
				e.openZip(at, prefix)
			}
			return
		}
	}
}

// fileIn reports whether a directory has a file of a name.
func (f *finder) fileIn(e *entry, name string) bool {
	t, ok := e.names[name]
	if !ok {
		return false
	}
	return t == layers.Regular || t == layers.HardLink || t == layers.Symlink && f.isFile(e.path+"/"+name)
}

// dirIn reports whether a directory has a directory of a name.
func (f *finder) dirIn(e *entry, name string) bool {
	t, ok := e.names[name]
	if !ok {
		return false
	}
	return t == layers.Dir || t == layers.ImpliedDir || t == layers.Symlink && f.isDir(e.path+"/"+name)
}

// Find finds a module by its whole dotted name, as the finders of sys.meta_path do in
// their order: builtin, frozen, then the directories and zip files of search. For a
// top-level module search is sys.path as it is then, or nil for [Interpreter.SysPath]; for
// a submodule it is its package's __path__, and never nil. An entry "" of search is the
// working directory. The result is never nil: see [Missing].
//
// Find does not import packages: a caller that knows how a package changes its __path__
// passes that.
func (in *Interpreter) Find(name string, search []string) *Spec { return in.find.find(name, search) }

func (f *finder) find(name string, search []string) *Spec {
	if dirs, ok := f.preset[name]; ok {
		return f.namespace(name, dirs)
	}
	if name == "distutils" && f.distutils {
		if s := f.onPath("setuptools._distutils", f.setuptools()); s.Kind != Missing {
			s.Name = name
			return s
		}
	}
	if f.builtins[name] {
		return &Spec{Name: name, Kind: Builtin}
	}
	if s := f.frozen(name); s != nil {
		return s
	}
	if name == "os.path" { // os puts it into sys.modules
		s := f.onPath("posixpath", f.sysPath)
		s.Name = name
		return s
	}
	if search == nil {
		search = f.sysPath
	}
	s := f.onPath(name, search)
	if s.Kind == Missing {
		f.byHooks(s)
	}
	return s
}

// namespace returns a package that a line of a .pth file has put into sys.modules: its
// path is looked up again whenever sys.path changes (_NamespacePath).
func (f *finder) namespace(name string, dirs []string) *Spec {
	search := f.sysPath
	if up, _, ok := cutLast(name); ok {
		search = f.preset[up]
	}
	s := f.onPath(name, search)
	if s.Kind != Namespace {
		return &Spec{Name: name, Kind: Namespace, Search: slices.Clone(dirs)}
	}
	for _, dir := range dirs {
		(*list)(&s.Search).add(dir)
	}
	return s
}

// setuptools returns the directories of setuptools' modules.
func (f *finder) setuptools() []string {
	if s := f.onPath("setuptools", f.sysPath); s.Search != nil {
		return s.Search
	}
	return []string{}
}

// byHooks asks the finders that come after the path finder.
func (f *finder) byHooks(s *Spec) {
	for _, e := range f.editable {
		if file := e.find(f, s.Name); file != "" {
			doubt := s.Uncertain
			*s = *f.fileSpec(s.Name, file)
			s.Uncertain = doubt
			return
		}
		if up, _, ok := cutLast(s.Name); ok && e.mapping[up] != "" {
			if found := f.onPath(s.Name, []string{e.mapping[up]}); found.Kind != Missing {
				*s = *found
				return
			}
		}
	}
	switch {
	case s.Uncertain != "":
	case f.partial():
		s.Uncertain = plain.Name(f.stdlib) + " has not the whole standard library"
	case f.noBuiltins && slices.Contains(mayBeBuiltin, s.Name):
		s.Uncertain = "it may be built into the interpreter"
	case len(f.unknown) > 0:
		s.Uncertain, s.ByLine = plain.Name(f.unknown[0])+" may install a finder for it", !f.byPath
	}
}

// minStdlib is the least number of entries of a whole standard library. Debian's
// libpython3.11-minimal, which lacks most modules, has 91.
const minStdlib = 40

// Partial reports whether the image has only a part of the interpreter's standard library.
// No interpreter starts like this, so that the real image has more files, and the absence of
// a module or a name proves nothing.
func (in *Interpreter) Partial() bool { return in.find.partial() }

// IsStandard reports whether a file is one of the standard library: below its directory, and not in one of packages.
func (in *Interpreter) IsStandard(file string) bool {
	rest, below := strings.CutPrefix(file, in.StdLib+"/")
	return below && !strings.Contains(rest, "-packages/")
}

func (f *finder) partial() bool {
	f.sketched.Do(func() { f.isSketch = f.sketch() })
	return f.isSketch
}

func (f *finder) sketch() bool {
	return !slices.ContainsFunc(append([]string{f.stdlib}, f.sysPath...), func(p string) bool {
		e := f.entry(abs(f.cwd, p))
		return e.zip != nil || len(e.names) >= minStdlib && (f.fileIn(e, "os.py") || f.fileIn(e, "os.pyc"))
	})
}

// cutLast splits a dotted name at its last dot.
func cutLast(name string) (up, last string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", name, false
	}
	return name[:i], name[i+1:], true
}

// fileSpec is importlib.util.spec_from_file_location.
func (f *finder) fileSpec(name, file string) *Spec {
	s := &Spec{Name: name, Kind: Source, File: file}
	for _, l := range f.loaders {
		if strings.HasSuffix(file, l.suffix) {
			s.Kind = l.kind
			break
		}
	}
	if strings.HasPrefix(path.Base(file), "__init__.") {
		s.Search = []string{path.Dir(file)}
	}
	return s
}

// onPath is importlib.machinery.PathFinder.
func (f *finder) onPath(name string, search []string) *Spec {
	s := &Spec{Name: name}
	_, tail, _ := cutLast(name)
	if tail == "" || len(tail) > maxName || strings.ContainsAny(tail, "/\x00") {
		return s
	}
	doubt := ""
	for i, p := range search {
		if i == maxEntries {
			doubt = "the search path has more than 4096 entries"
			break
		}
		if len(p) > maxLine {
			continue
		}
		if portion, ok := f.placeholder(p, name); ok {
			s.Search = append(s.Search, portion...)
			continue
		}
		found, why := f.inEntry(name, tail, f.onSearch(p))
		if doubt == "" {
			doubt = why
		}
		switch {
		case found == nil:
		case found.Kind != Namespace:
			found.Uncertain = doubt
			return found
		default:
			s.Search = append(s.Search, found.Search...)
		}
	}
	if s.Uncertain = doubt; s.Search != nil {
		s.Kind = Namespace
	}
	return s
}

const maxName = 255 // NAME_MAX

// placeholder asks the finder of an editable install that an entry of sys.path stands
// for (_EditableNamespaceFinder).
func (f *finder) placeholder(p, name string) (portion []string, ok bool) {
	for _, e := range f.editable {
		if p != e.placeholder || p == "" {
			continue
		}
		dirs, there := e.namespaces[name]
		if !there {
			return nil, true
		}
		if len(dirs) == 0 && e.mapping[name] != "" {
			dirs = []string{e.mapping[name]}
		}
		return append(slices.Clone(dirs), p), true
	}
	return nil, false
}

// inEntry finds a module in one path entry (FileFinder.find_spec,
// zipimporter.find_spec). It also returns the reason why the entry may have a module
// that is not known, or "".
func (f *finder) inEntry(name, tail string, e *entry) (s *Spec, doubt string) {
	switch {
	case e.zip != nil:
		return e.inZip(name, tail, f.minor), e.doubt
	case e.names == nil:
		return nil, e.doubt
	}
	doubt = e.doubt
	if doubt == "" {
		doubt = f.doubt(e, tail)
	}
	if !e.stems[tail] {
		return nil, doubt
	}
	base := e.at + "/" + tail
	namespace := false
	if f.dirIn(e, tail) {
		pkg := f.entry(base)
		for _, l := range f.loaders {
			if pkg.names != nil && f.fileIn(pkg, "__init__"+l.suffix) {
				return &Spec{Name: name, Kind: l.kind, File: base + "/__init__" + l.suffix, Search: []string{base}}, doubt
			}
		}
		namespace = true
	}
	for _, l := range f.loaders {
		if f.fileIn(e, tail+l.suffix) {
			return &Spec{Name: name, Kind: l.kind, File: base + l.suffix}, doubt
		}
	}
	if namespace {
		return &Spec{Name: name, Kind: Namespace, Search: []string{base}}, doubt
	}
	return nil, doubt
}

// doubt returns the reason why a directory may have a module that was not indexed, or "".
func (f *finder) doubt(e *entry, tail string) string {
	for _, s := range f.fs.Skipped {
		rest, below := strings.CutPrefix(s.Path, e.real+"/")
		if e.real == "" {
			rest, below = s.Path, true
		}
		first, inside, deeper := strings.Cut(rest, "/")
		if below && (first == tail && (!deeper || strings.HasPrefix(inside, "__init__.")) || !deeper && strings.HasPrefix(first, tail+".")) {
			return "/" + s.Path + " was not read: " + s.Why
		}
	}
	return ""
}

// Resolve finds a dotted name from the top. It finds each package on the way in the search
// locations that the package above has before its code runs.
func (in *Interpreter) Resolve(name string) *Spec {
	s := *in.find.resolve(name)
	s.Search = slices.Clone(s.Search)
	return &s
}

// resolve is [Interpreter.Resolve]. The caller does not change the result.
func (f *finder) resolve(name string) *Spec {
	f.mu.Lock()
	s := f.packages[name]
	f.mu.Unlock()
	if s != nil {
		return s
	}
	if up, _, below := cutLast(name); !below {
		s = f.find(name, nil)
	} else if above := f.resolve(up); above.Kind == Missing {
		s = &Spec{}
		*s = *above
	} else {
		search := above.Search
		if search == nil {
			search = []string{} // below a module only frozen modules are found
		}
		s = f.find(name, search)
		if s.Uncertain == "" {
			s.Uncertain = above.Uncertain
		}
	}
	s.Name = name
	if s.Search != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.packages) < maxDirs {
			f.packages[name] = s
		}
	}
	return s
}

// Modules returns the top-level names that can be imported from one directory or zip file
// of a path, sorted (pkgutil.iter_modules): no namespace packages. known is false if the
// entry could not be read.
func (in *Interpreter) Modules(dir string) (names []string, known bool) {
	f := in.find
	e := f.entry(abs(f.cwd, dir))
	if e.zip != nil {
		return e.zip.modules(), e.doubt == ""
	}
	for file := range e.names {
		name := f.moduleName(file)
		if name == "" && f.dirIn(e, file) {
			pkg := f.entry(e.path + "/" + file)
			for init := range pkg.names {
				if f.moduleName(init) == "__init__" {
					name = file
					break
				}
			}
		}
		if name != "" && name != "__init__" && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), e.doubt == ""
}

// moduleName is inspect.getmodulename.
func (f *finder) moduleName(file string) string {
	best := ""
	for _, l := range f.loaders {
		if strings.HasSuffix(file, l.suffix) && len(l.suffix) > len(best) {
			best = l.suffix
		}
	}
	if best == "" {
		return ""
	}
	return strings.TrimSuffix(file, best)
}

// Path0 returns sys.path[0] for a program: the directory of a script with its links
// followed, or the directory or zip file itself that is run; "" if SafePath leaves it
// out. With `-c` and `-m` it is the working directory, whose path is not for Path0.
func (in *Interpreter) Path0(script string) string {
	f := in.find
	p := abs(f.cwd, script)
	if f.isDir(p) || f.entry(p).zip != nil {
		return p
	}
	if in.SafePath {
		return ""
	}
	return path.Dir(f.real(p))
}
