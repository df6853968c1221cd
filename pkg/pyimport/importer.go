package pyimport

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// module is a module of the program.
type module struct {
	name, file string
	names      *names
	loading    bool
	begun      int // as which of the modules
	extension  bool
	// absolute says that its imports are absolute in Python 2, too (PEP 328).
	absolute bool
	// copyOf is the module of which its source is a copy, or "".
	copyOf string
	// table are the models of its names, once they were asked for.
	table    map[string]model
	modelled bool
	// sought is the first library that its top level has searched and not found, or "".
	sought string
	// maybe is the condition under which it was imported, or "".
	maybe string
	// handed says whether its top level has called something that was not followed, and that
	// has got the module.
	handed handing
	// lacks is the last variable of the environment that its code has asked for, and that is not
	// set, or "".
	lacks string
	// refused are the exceptions for the names for which its own __getattr__ certainly raises
	// AttributeError.
	refused map[string]*exception
	// opens is names.opens when its own statements have been executed.
	opens int
	// denied are the names for which what stands in for its __getattr__ certainly raises
	// AttributeError: a function of its own, or one that a decorator has made.
	denied map[string]bool
	// skipped are the names that its top level would bind, but for an exception which it has
	// caught, each with the doubt about that exception.
	skipped map[string]string
}

// newModule returns a module with the attributes that every module has.
func (r *Run) newModule(name, file string) *module {
	m := &module{name: name, file: file, names: r.newNames()}
	pkg, _, _ := cutLast(name)
	m.names.put("__name__", name)
	m.names.put("__package__", pkg)
	m.names.put("__doc__", unknownf("a docstring"))
	m.names.put("__builtins__", unknownf("builtins"))
	m.names.put("__loader__", unknownf("a loader"))
	return m
}

// searchPath returns a package's __path__, or nil if it is no package or not known.
func (r *Run) searchPath(v value) *list {
	var p value
	switch v := v.(type) {
	case *module:
		p, _ = v.names.get("__path__")
	case *instance: // that a program has put in sys.modules
		known := r.hasName(v, "__path__")
		if p = r.attrOr(v, "__path__", nil); !known && isUnknown(p) {
			return nil // an attribute for every name
		}
	}
	switch p := p.(type) {
	case *list:
		return p
	case *tuple:
		return &list{items: p.items}
	case *unknown:
		return &list{open: true}
	}
	return nil
}

// find finds a module in a search path. A nil spec is a module that is not there; doubt
// says why that, or the spec, is not certain.
func (r *Run) find(name string, search *list) (spec *pyenv.Spec, doubt string) {
	r.spend(max(0, len(search.items)-usualPath) / 4)
	dirs := r.dirs
	if search != r.path || !areTexts(search.items, dirs) {
		dirs = make([]string, 0, len(search.items))
		for _, v := range search.items {
			if s, ok := str(v); ok {
				dirs = append(dirs, s)
			} else {
				doubt = "a directory of the search path is not known"
			}
		}
		if search == r.path {
			r.dirs = dirs
			clear(r.foundOnPath)
		}
	}
	if search.open && doubt == "" {
		doubt = "the search path is not known"
	}
	if search == r.path {
		if spec = r.foundOnPath[name]; spec == nil {
			spec = r.in.Find(name, dirs)
			r.foundOnPath[name] = spec
		}
	} else {
		spec = r.in.Find(name, dirs)
	}
	if spec.Uncertain != "" && !(spec.ByLine && r.ranLines) {
		doubt = spec.Uncertain
	}
	if spec.Kind != pyenv.Missing {
		return spec, spec.Uncertain
	}
	return nil, doubt
}

// areTexts reports whether items are texts, which are these.
func areTexts(items []value, texts []string) bool {
	if texts == nil || len(items) != len(texts) {
		return false
	}
	for i, v := range items {
		if s, ok := v.(string); !ok || s != texts[i] {
			return false
		}
	}
	return true
}

// askImporters asks the importers that the program has added to sys.meta_path for a
// module that is not there otherwise: its spec, or nil. doubt says why they may have it.
func (r *Run) askImporters(name string) (found *moduleSpec, doubt string) {
	if r.metaPath.open {
		return nil, "an importer that is not known may find it"
	}
	for _, v := range r.metaPath.items {
		if _, ok := v.(*pathFinder); ok {
			continue
		}
		if r.asking {
			return nil, "an importer of the program may find it"
		}
		r.asking = true
		find := r.attrOr(v, "find_spec", nil)
		var result value
		if find != nil {
			result = r.call(find, &args{pos: []value{name, nil, nil}})
		}
		r.asking = false
		if s, ok := result.(*moduleSpec); ok && r.raised == nil {
			return s, ""
		}
		if result != nil || r.raised != nil {
			r.raised = nil
			return nil, "an importer of the program may find it"
		}
	}
	return nil, ""
}

// loadFrom loads a module by the loader that an importer of the program has given.
func (r *Run) loadFrom(name string, s *moduleSpec) value {
	if s.by == nil {
		return r.load(name, &pyenv.Spec{Name: name, Kind: pyenv.Source, File: s.file, Search: s.search}, "")
	}
	var v value
	if create := r.attrOr(s.by, "create_module", nil); create != nil {
		v = r.call(create, &args{pos: []value{s}})
	}
	if r.raised != nil {
		return unknownf("the module %s", name)
	}
	if v == nil {
		m := r.newModule(name, s.file)
		r.openUp(m.names, "a loader of the program")
		v = m
	}
	r.set(r.modules, name, v)
	if exec := r.attrOr(s.by, "exec_module", nil); exec != nil {
		r.call(exec, &args{pos: []value{v}})
	}
	if w, ok := r.modules.get(name); ok {
		return w
	}
	return v
}

// pathFinder is one of the three importers that sys.meta_path has at the start.
type pathFinder struct{}

func (*pathFinder) typeName() string                { return "an importer" }
func (*pathFinder) attr(*Run, string) (value, bool) { return nil, false }

// importModule imports a module by its absolute name, with the packages above it, and
// returns it (sys.modules[name]). The result is unknown after a failure that is not
// certain.
func (r *Run) importModule(name string) value {
	if r.stop != "" || r.raised != nil {
		return unknownf("not imported")
	}
	if v, ok := r.modules.get(name); ok {
		m, isModule := v.(*module)
		switch {
		case v == nil:
			r.raise("ModuleNotFoundError", fmt.Sprintf("import of %s halted; None in sys.modules", name))
			return unknownf("not imported")
		case !isModule, m.maybe == "", !r.certain(), m.name != name:
			return v
		}
		r.unset(r.modules, name) // it may be imported; now it is
	}
	if len(name) > maxModule || strings.Count(name, ".") >= maxImports {
		r.note(fmt.Sprintf("import of a name of more than %d bytes or %d parts", maxModule, maxImports))
		return unknownf("a module with a long name")
	}
	search := r.path
	parent, last, dotted := cutLast(name)
	var pkg value
	if dotted {
		pkg = r.importModule(parent)
		if r.raised != nil || r.stop != "" {
			return unknownf("not imported")
		}
		if v, ok := r.modules.get(name); ok && v != nil {
			if m, isModule := v.(*module); !isModule || m.maybe == "" || !r.certain() || m.name != name {
				return v
			}
			r.unset(r.modules, name)
		}
		if search = r.searchPath(pkg); search == nil {
			return r.noPackage(name, parent, pkg)
		}
	}
	spec, doubt := r.find(name, search)
	var v value
	if spec == nil {
		s, other := r.askImporters(name)
		if s == nil {
			return r.missing(name, cmp.Or(doubt, other), fmt.Sprintf("No module named '%s'", name))
		}
		v = r.loadFrom(name, s)
	} else {
		v = r.load(name, spec, doubt)
	}
	if r.raised == nil {
		switch p := pkg.(type) {
		case *module:
			r.set(p.names, last, v)
		case *instance:
			r.set(p.attrs, last, v)
		}
	}
	return v
}

// noPackage is the import of a submodule of a module that is no package.
func (r *Run) noPackage(name, parent string, pkg value) value {
	m, ok := pkg.(*module)
	if !ok || m.extension || m.names.open != "" {
		r.note("import of " + name + ": whether " + parent + " is a package is not known")
		return unknownf("the module %s", name)
	}
	return r.missing(name, "", fmt.Sprintf("No module named '%s'; '%s' is not a package", name, parent))
}

// missing raises ModuleNotFoundError for a module. If that is in doubt, the program goes
// on with an unknown module unless it expects the failure.
func (r *Run) missing(name, doubt, text string) value {
	if doubt == "" {
		doubt = r.madeBy(name)
	}
	f := &Failure{Type: "ModuleNotFoundError", Text: text, Doubt: doubt}
	n := r.child(Module, name, "", f.Type)
	n.Failed = f
	r.raiseFailure(f, n)
	if doubt != "" && !r.expected(r.raised) {
		r.raised = nil
	}
	return unknownf("the module %s", name)
}

// child adds a node below the module that is imported.
func (r *Run) child(kind Kind, name, file, failure string) *Node {
	n := &Node{Kind: kind, Name: name, File: file, At: r.at(), Maybe: r.condition(), Caught: r.catcher(failure)}
	r.node.Nodes = append(r.node.Nodes, n)
	if file == "" { // others are bounded by Options.Modules
		r.spend(absentSteps + len(name)/16)
	}
	return n
}

// load executes a module that was found.
func (r *Run) load(name string, spec *pyenv.Spec, doubt string) value {
	if r.loads++; r.loads > r.opt.Modules {
		r.stop = fmt.Sprintf("more than %d modules are imported", r.opt.Modules)
		return unknownf("%s", r.stop)
	}
	if r.nesting >= maxImports {
		r.note(fmt.Sprintf("imports more than %d deep", maxImports))
		return unknownf("the module %s", name)
	}
	if name == "distutils" && strings.Contains(spec.File, "/setuptools/_distutils/") {
		r.importModule("setuptools") // DistutilsMetaFinder imports setuptools._distutils
		if r.raised != nil {
			return r.standardDistutils()
		}
	}
	m := r.newModule(name, originOf(spec))
	r.set(r.modules, name, m)
	r.setOrigin(m, spec)
	if r.early[name] && spec.Kind != pyenv.Extension {
		outer := r.node
		r.node = &Node{} // it was imported before
		r.loads--
		r.execModule(m, spec)
		r.node = outer
		return r.loaded(m)
	}
	kind, failure := Module, "ImportError"
	if spec.Kind == pyenv.Extension {
		kind = Extension
	}
	n := r.child(kind, name, spec.File, failure)
	if m.maybe = r.condition(); m.maybe != "" {
		n.Maybe = m.maybe
	}
	if doubt != "" {
		r.noteAt(n, doubt)
	}
	outer := r.node
	r.node = n
	r.nesting++
	m.loading, m.begun = true, r.loads
	r.execModule(m, spec)
	m.loading = false
	r.nesting--
	r.node = outer
	if r.raised != nil {
		if n.Failed == nil {
			n.Failed = r.raised.failure()
		}
		r.doesWithout(outer, n)
		r.unset(r.modules, name)
		return unknownf("the module %s", name)
	}
	return r.loaded(m)
}

// standardDistutils loads the distutils of the standard library, if there is one: the finder
// of setuptools leaves it to the others if setuptools cannot be imported (spec_for_distutils
// of _distutils_hack).
func (r *Run) standardDistutils() value {
	r.raised = nil
	dir := r.in.StdLib + "/distutils"
	if _, _, ok := r.src.fs.Lookup(dir + "/__init__.py"); !ok {
		return r.missing("distutils", "", "No module named 'distutils'")
	}
	return r.load("distutils", &pyenv.Spec{Name: "distutils", Kind: pyenv.Source, File: dir + "/__init__.py", Search: []string{dir}}, "")
}

// loaded returns the entry of sys.modules for a module that was executed: the module may
// have replaced itself there.
func (r *Run) loaded(m *module) value {
	if v, ok := r.modules.get(m.name); ok {
		return v
	}
	return m
}

// originOf returns the path of a module's file: of one in a zip file that below the zip file.
func originOf(spec *pyenv.Spec) string {
	if spec.Member != "" {
		return path.Join(spec.File, spec.Member)
	}
	return spec.File
}

// setOrigin sets the attributes that depend on where the module is.
func (r *Run) setOrigin(m *module, spec *pyenv.Spec) {
	file := originOf(spec)
	if file != "" && spec.Kind != pyenv.Namespace {
		m.names.put("__file__", file)
		m.names.put("__cached__", unknownf("the file of bytecode"))
	} else if spec.Kind == pyenv.Namespace && (r.in.Major > 3 || r.in.Major == 3 && r.in.Minor >= 7) {
		m.names.put("__file__", nil) // _init_module_attrs of importlib._bootstrap (bpo-32303)
	}
	if spec.Search != nil {
		l := &list{mark: r.born()}
		for _, dir := range spec.Search {
			l.items = append(l.items, dir)
		}
		m.names.put("__path__", l)
		m.names.put("__package__", m.name)
	}
	m.names.put("__spec__", r.newSpec(m.name, file, spec.Search))
}

// isRunning reports whether a source is being executed already. OpenCV's loader imports its extension module
// by its own name, and Python executes the loader again if the search path lacks that module. All that the loader has done
// before decides what is on the path.
func (r *Run) isRunning(file string) bool {
	for f := r.frame; f != nil; f = f.caller {
		if f.file == file && file != "" {
			return true
		}
	}
	return false
}

// execModule executes the code of a module.
func (r *Run) execModule(m *module, spec *pyenv.Spec) {
	depth, left, of := r.depth, r.budget-r.steps, r.basis // the steps of a call are its own
	r.depth, r.basis = 0, basis{under: of.older && r.isRunning(spec.File)}
	defer func() {
		r.depth, r.budget, r.basis = depth, r.steps+left, of
		m.opens = m.names.opens
		if r.raised != nil {
			r.raised.ended = true
		}
	}()
	switch spec.Kind {
	case pyenv.Namespace:
		return
	case pyenv.Extension:
		r.loadExtension(m, spec.File)
		return
	case pyenv.Builtin:
		r.preset(m)
		if m.name != "posix" {
			r.openUp(m.names, "a module of the interpreter")
		}
		r.extensionImports(m, "")
		return
	}
	var f *pysource.File
	switch {
	case spec.Member != "":
		f = r.src.parseMember(spec.File, spec.Member)
	case spec.File != "":
		f = r.src.parse(spec.File)
	}
	if f == nil {
		r.preset(m)
		r.openUp(m.names, "source that is not known")
		if spec.Kind != pyenv.Frozen {
			r.noteAt(r.node, "its source is not known")
		}
		return
	}
	r.execFile(m, f)
}

// execFile executes the statements of a file as a module.
func (r *Run) execFile(m *module, f *pysource.File) {
	if r.unread(m, f); r.raised != nil {
		return
	}
	if f.Partial != "" {
		r.openUp(m.names, f.Partial)
		r.noteAt(r.node, f.Partial)
	}
	m.copyOf = copied(f)
	for _, name := range f.Changed {
		m.names.mayChange(name, byFunction)
	}
	body := r.withTypeError(m, f)
	r.inFrame(&frame{module: m, vars: m.names, file: m.file}, func() { r.block(body) })
	if strings.HasPrefix(m.file, r.in.StdLib+"/") && r.raised == nil {
		r.presetStandIn(m)
		r.presetFlags(m)
	}
}

// mayNotRead reports whether the interpreter may not read, or know, something in a module's file. The standard
// library is that of the interpreter, which reads it.
func (r *Run) mayNotRead(m *module) bool {
	return r.in.Implementation == "cpython" && r.in.Major == 3 && r.in.StdLib != "" && m.file != "" && !r.in.IsStandard(m.file)
}

// unread raises SyntaxError if the interpreter does not read a file.
func (r *Run) unread(m *module, f *pysource.File) {
	if s, ok := f.SyntaxError(r.in.Minor); ok && r.mayNotRead(m) {
		r.raiseUnread("SyntaxError", m.file, s)
	}
}

// raiseUnread raises an exception for what the interpreter does not read, or know, in a file.
func (r *Run) raiseUnread(class, file string, s pysource.Syntax) {
	r.node.Caught = r.catcher(class)
	text, exact := s.Text(r.in.Minor)
	r.raiseFailure(&Failure{Type: class, Text: text, Unread: &Unread{File: file, Line: s.Line(), Name: s.Name(), Needs: s.Needs(), Python: fmt.Sprintf("3.%d", r.in.Minor), About: !exact}}, nil)
}

// typeError is a statement in the place of one for whose types the interpreter raises TypeError.
type typeError struct{ pysource.Syntax }

// withTypeError returns the statements of a file, with a typeError after the one that has the types, or that is
// the last before these.
func (r *Run) withTypeError(m *module, f *pysource.File) []pysource.Stmt {
	s, ok := f.TypeError(r.in.Minor)
	if !ok || !r.mayNotRead(m) {
		return f.Body
	}
	n := slices.IndexFunc(f.Body, func(other pysource.Stmt) bool { return other.Line() > s.Line() })
	if n < 0 {
		n = len(f.Body)
	}
	return slices.Insert(slices.Clip(f.Body), n, pysource.Stmt(&typeError{s}))
}

// presetStandIn sets the attributes that this package knows of a module of the standard
// library whose source binds none of them: it only stands in for the module's own. Where a
// module has __getattr__, it sets those that the source does not bind.
func (r *Run) presetStandIn(m *module) {
	table := m.models()
	_, getattr := m.names.get("__getattr__")
	if !getattr {
		for name := range table {
			if _, ok := m.names.get(name); ok {
				return
			}
		}
	}
	for _, name := range sortedKeys(table) {
		if _, ok := m.names.get(name); !ok {
			m.names.put(name, table[name](r))
		}
	}
	if len(table) > 0 {
		r.openUp(m.names, "a part of the module's source")
	}
}

// loadExtension opens an extension module.
func (r *Run) loadExtension(m *module, file string) {
	m.extension = true
	r.preset(m)
	r.openUp(m.names, "an extension module")
	if !r.certain() {
		r.passedOver = true
		r.trial.opens(r.objectOf(file))
		return
	}
	f := r.host.Extension(file, m.name, r.openFlags())
	if f == nil {
		if !strings.HasPrefix(file, r.in.StdLib+"/") {
			r.extensions = append(r.extensions, m)
		}
		if m.name == "torch._C" {
			r.torchParts(m, file)
		}
		r.presetBuilt(m, file)
		if r.failsAgain(m, file) {
			return
		}
		r.extensionImports(m, file)
		if r.raised != nil {
			r.begun[file] = true
		}
		r.numpyImports()
		return
	}
	r.node.Failed = f
	r.raiseFailure(f, r.node)
	if f.Doubt != "" && !r.expected(r.raised) {
		r.raised = nil
	}
}

// presetBuilt sets the attributes of an extension module that say for what it was built.
func (r *Run) presetBuilt(m *module, file string) {
	o := r.objectOf(file)
	if r.opt.Built == nil || o == nil || o.Unexamined() != "" {
		return
	}
	for name, is := range r.opt.Built(m.name, o.Needed) {
		m.names.put(name, is)
	}
}

// openFlags returns the flags with which Python opens an extension module. Those that are not
// known are such that a library's symbols are seen by all.
func (r *Run) openFlags() int {
	if flags, ok := r.flags.(int64); ok {
		return int(flags)
	}
	return rtldNow | rtldGlobal
}

// extensionImports imports what the code of an extension module imports: known of those of
// the standard library, else the dotted names in its data that are modules.
func (r *Run) extensionImports(m *module, file string) {
	names := strings.Fields(imports[m.name])
	o := r.objectOf(file)
	if o != nil && o.Modules != nil {
		for _, name := range o.Modules.Names {
			// PyCapsule_Import("datetime.datetime_CAPI") imports the module
			if mod, last, ok := cutLast(name); ok && strings.HasSuffix(last, "API") {
				names = append(names, mod)
			}
		}
	}
	if strings.HasPrefix(file, r.in.StdLib+"/") && r.lacksStandard(names, o) {
		return
	}
	known, cython := len(names), false
	if o != nil && o.Modules != nil && !strings.HasPrefix(file, r.in.StdLib+"/") {
		if isGroup(m.name) {
			return
		}
		names = append(names, r.supports(o.Modules.Idents)...)
		if f := r.compiledFrom(m, o); f != nil {
			r.importCompiled(m, o, f, names)
			return
		}
		known = len(names)
		cython = r.isCython(o.Modules)
		if cython && slices.Contains(o.Modules.Idents, "decompress") {
			names = append(names, unpackers(o.Modules.Idents)...)
		}
		if cython {
			names = append(names, r.required(m, o.Modules.Idents)...)
			known = len(names)
		}
		dotted := atStart(o.Modules.Names, cython)
		if cython {
			sortOwn(dotted, m.name)
		}
		names = append(names, dotted...)
		if len(o.Modules.Strings) == 0 { // else these are names of the generator and of declarations
			names = append(names, r.ownNames(m, o.Modules.Idents)...)
		}
		names = append(names, r.standardNames(o.Modules.Idents)...)
	}
	if cython {
		known = len(names)
	}
	if o != nil && o.Modules != nil && !cython {
		r.importArray(o)
		names = append(names, slices.DeleteFunc(slices.Clone(o.Modules.Idents), func(s string) bool { return !slices.Contains(elfdeps.StandardModules, s) })...)
	}
	if o != nil && o.Modules != nil && r.lacksGroup(m, o.Modules.Names) {
		return
	}
	if r.importAtStart(names[:known]); r.raised != nil {
		return
	}
	if o != nil && o.Modules != nil && r.lacksCapsule(o.Modules) {
		return
	}
	if known < len(names) {
		r.later = append(r.later, laterNames{r.node, names[known:]})
	}
	if cython {
		if r.lacksSibling(m, o.Modules) {
			return
		}
		if r.importStrings(r.stringImports(m, o.Modules.Strings), m); r.raised != nil {
			return
		}
	}
	for _, name := range strings.Fields(submodules[m.name]) {
		sub := r.newModule(name, "")
		r.openUp(sub.names, "an extension module")
		r.set(r.modules, name, sub)
	}
}

// stringImports returns the modules that the statements of a Cython module may import: its
// strings name them. Some do so in functions only (CuPy's cuTENSOR, pyarrow._cuda), so that a
// failure shows nothing.
func (r *Run) stringImports(m *module, list []string) []string {
	var dotted, idents []string
	for _, name := range list {
		if strings.Contains(name, ".") {
			dotted = append(dotted, name)
		} else {
			idents = append(idents, name)
		}
	}
	names := append(r.required(m, idents), slices.DeleteFunc(atStart(dotted, true), func(name string) bool { return r.notRequired(m, name) })...)
	names = append(names, slices.DeleteFunc(r.ownNames(m, idents), func(name string) bool {
		return !r.resolves(name) && r.lostOwn(name) && r.namedBeside(m, name) // see lacksSibling
	})...)
	return append(names, r.standardNames(idents)...)
}

// ownNames returns the identifiers as modules of a module's package.
func (r *Run) ownNames(m *module, idents []string) []string {
	pkg, _, ok := cutLast(m.name)
	if !ok {
		return nil
	}
	var names []string
	for _, name := range idents {
		if _, builtin := r.builtins.get(name); !builtin && !strings.HasPrefix(name, "__") { // __init__ is a method
			names = append(names, pkg+"."+name)
		}
	}
	return names
}

// lacksStandard raises the exception of an extension module of CPython that imports a module
// when it is initialized which is not there (PyCapsule_Import in Objects/capsule.c has a text of
// its own), and reports whether it did.
func (r *Run) lacksStandard(names []string, o *elfdeps.Object) bool {
	for _, name := range names {
		capsule := o != nil && o.Modules != nil && slices.ContainsFunc(o.Modules.Names, func(s string) bool { return strings.HasPrefix(s, name+".") && strings.HasSuffix(s, "API") })
		spec, doubt := r.find(name, r.path)
		if _, loaded := r.modules.get(name); loaded || doubt != "" || !r.certain() {
			continue
		}
		if spec != nil && capsule && r.capsuleFails(name) {
			return true
		}
		if spec != nil || r.resolves(name) {
			continue
		}
		f := &Failure{Type: "ModuleNotFoundError", Text: "No module named '" + name + "'"}
		if capsule {
			f = withoutCapsule(name, nil)
		}
		r.raiseFailure(f, r.node)
		return true
	}
	return false
}

// capsuleFails imports a module for PyCapsule_Import, raises its exception if the import certainly
// fails, and reports whether it did.
func (r *Run) capsuleFails(name string) bool {
	outer := r.tries
	r.tries = append(r.tries, tryLevel{all: true, names: inC, depth: -1})
	from := len(r.node.Nodes)
	r.importModule(name)
	r.tries = outer
	e := r.raised
	r.raised = nil
	if e == nil || e.doubt != "" {
		return false
	}
	for _, n := range r.node.Nodes[from:] {
		uncaught(n)
	}
	r.raiseFailure(withoutCapsule(name, e.failure().Cause), r.node)
	return true
}

// withoutCapsule returns the exception of PyCapsule_Import for a module that cannot be imported.
func withoutCapsule(name string, cause error) *Failure {
	return &Failure{Type: "ImportError", Text: `PyCapsule_Import could not import module "` + name + `"`, Cause: cause}
}

// laterNames are names in the data of an extension module in C. Most are imported when a
// function of it is first called, so they come after the rest of the program.
type laterNames struct {
	node  *Node
	names []string
}

// importLater imports the names of extension modules that wait.
func (r *Run) importLater() {
	for len(r.later) > 0 && r.stop == "" {
		l := r.later[0]
		r.later = r.later[1:]
		r.node = l.node
		r.importNames(l.names, false, nil)
	}
}

// resolves reports whether a module is found from the top, as long as no code has changed where its packages
// are searched.
func (r *Run) resolves(name string) bool {
	found, ok := r.resolved[name]
	if !ok {
		found = r.in.Resolve(name).Kind != pyenv.Missing
		if r.resolved == nil {
			r.resolved = map[string]bool{}
		}
		r.resolved[name] = found
	}
	return found
}

// importNames imports what the code of an extension module may import. Its failures are
// not the program's, unless the code imports the names when it is initialized: it then raises
// and returns the failure of a broken package. If back is not nil, imports that lead back to that module
// are left out.
func (r *Run) importNames(names []string, atStart bool, back *module) *Failure {
	outer := r.tries
	r.tries = append(r.tries, tryLevel{all: true, names: inC, depth: -1})
	defer func() { r.tries = outer }()
	for _, name := range names {
		r.spend(1)
		v, loaded := r.modules.get(name)
		if loaded && !isMaybe(v) || !r.resolves(name) && !(atStart && r.lost(name) || back != nil && r.lostOwn(name)) || r.circular(name, back) {
			continue
		}
		r.importModule(name)
		if r.raised == nil {
			continue
		}
		if (atStart && r.broken(r.raised) || back != nil && r.brokenOwn(name, r.raised)) && !r.forgone[forgoneKey(r.node, name)] {
			f := r.raised.failure()
			r.raised.doubt = perhapsLater
			return f
		}
		r.noteAt(r.node, "its code may import "+name+", which fails")
		r.raised = nil
	}
	return nil
}

// supports returns those of the identifiers that are extension modules outside of the
// standard library and begin with an underscore, or end as the shared module of a group of
// mypyc: what generated code imports at its start (_cffi_backend).
func (r *Run) supports(idents []string) []string {
	var list []string
	for _, name := range idents {
		if (!strings.HasPrefix(name, "_") || strings.HasPrefix(name, "__")) && !isGroup(name) {
			continue
		}
		spec, doubt := r.find(name, r.path)
		if spec != nil && doubt == "" && spec.Kind == pyenv.Extension && !strings.HasPrefix(spec.File, r.in.StdLib+"/") {
			list = append(list, name)
		}
	}
	return list
}

// weakNames are names of the standard library that stand in the data of modules which do not
// import theirs: pickle's is taken in Cython's functions for unpickling, copy's is a word.
var weakNames = []string{"PickleError", "error"}

// standardNames returns those of the identifiers of a Cython module that are modules of the
// standard library and stand beside a name that the module defines (secrets, randbits).
func (r *Run) standardNames(idents []string) []string {
	has := map[string]bool{}
	for _, name := range idents {
		has[name] = true
	}
	var list []string
	for _, name := range idents {
		spec, doubt := r.find(name, r.path)
		if spec == nil || doubt != "" || spec.Kind != pyenv.Source || !strings.HasPrefix(spec.File, r.in.StdLib+"/") {
			continue
		}
		if slices.ContainsFunc(r.namesOf(spec.File), func(n string) bool { return len(n) > 3 && n != name && has[n] && !slices.Contains(weakNames, n) }) {
			list = append(list, name)
		}
	}
	return list
}

// namesOf returns the public names that a module of the standard library defines, or takes
// from another one that is its implementation (_pydecimal).
func (r *Run) namesOf(file string) []string {
	f := r.src.parse(file)
	if f == nil {
		return nil
	}
	list := definedIn(f.Body)
	for _, s := range f.Body {
		try, ok := s.(*pysource.Try)
		if !ok {
			continue
		}
		for _, h := range try.Handlers {
			for _, s := range h.Body {
				other := r.src.parse(r.in.StdLib + "/" + standsFor(s) + ".py")
				if other != nil {
					list = append(list, definedIn(other.Body)...)
				}
			}
		}
	}
	return list
}

// standsFor returns the module that a statement imports in place of another one, or "".
func standsFor(s pysource.Stmt) string {
	switch s := s.(type) {
	case *pysource.ImportFrom:
		if s.Level == 0 && len(s.Names) > 0 && s.Names[0].Name == "*" {
			return s.Module
		}
	case *pysource.Import:
		if len(s.Names) > 0 && strings.HasPrefix(s.Names[0].Name, "_") {
			return s.Names[0].Name
		}
	}
	return ""
}

// definedIn returns the public names that statements define.
func definedIn(body []pysource.Stmt) []string {
	var list []string
	add := func(name string) {
		if !strings.HasPrefix(name, "_") {
			list = append(list, name)
		}
	}
	for _, s := range body {
		for _, name := range boundBy(s) {
			add(name)
		}
	}
	return list
}

// imports are the modules that extension modules of CPython import at their start
// (PyImport_Import… in Modules/).
var imports = map[string]string{
	"array":         "collections.abc",
	"_asyncio":      "asyncio.events asyncio.base_futures asyncio.base_tasks asyncio.coroutines traceback",
	"_curses_panel": "_curses",
	"_decimal":      "numbers collections collections.abc",
	"_elementtree":  "copy xml.etree.ElementPath pyexpat",
	"_pickle":       "copyreg _compat_pickle functools",
	"_sqlite3":      "functools",
	"_ssl":          "_socket",
	"_zoneinfo":     "datetime zoneinfo weakref",
}

// submodules are the modules that those put in sys.modules.
var submodules = map[string]string{"pyexpat": "pyexpat.errors pyexpat.model"}

// preset sets the attributes of a module that this package knows.
func (r *Run) preset(m *module) {
	table := m.models()
	for _, name := range sortedKeys(table) {
		m.names.put(name, table[name](r))
	}
	if m.name == "sys" {
		for _, name := range r.sys.names.order {
			m.names.put(name, r.sys.names.m[name])
		}
	}
}

// importStmt executes `import a.b as c, d`.
func (r *Run) importStmt(s *pysource.Import) {
	for _, a := range s.Names {
		prefix := r.implicit(a.Name)
		v := r.importModule(prefix + a.Name)
		if r.raised != nil || r.stop != "" {
			return
		}
		root, _, dotted := strings.Cut(a.Name, ".")
		switch {
		case a.As != "":
			r.assignName(a.As, v)
		case dotted:
			top, ok := r.modules.get(prefix + root)
			if !ok {
				top = unknownf("the module %s", root)
			}
			r.assignName(root, top)
		default:
			r.assignName(root, v)
		}
	}
}

// implicit returns the prefix of a name that Python 2 finds in the package of the module
// that imports it: an implicit relative import (import_module_level in Python/import.c of 2.7).
func (r *Run) implicit(name string) string {
	m := r.frame.module
	if r.in.Major != 2 || m.absolute {
		return ""
	}
	v, _ := m.names.get("__package__")
	pkg, _ := v.(string)
	p, ok := r.modules.get(pkg)
	if pkg == "" || !ok {
		return ""
	}
	first, _, _ := strings.Cut(name, ".")
	if _, loaded := r.modules.get(pkg + "." + first); loaded {
		return pkg + "."
	}
	if search := r.searchPath(p); search != nil {
		if spec, _ := r.find(pkg+"."+first, search); spec != nil {
			return pkg + "."
		}
	}
	return ""
}

// fromStmt executes `from a import b as c`.
func (r *Run) fromStmt(s *pysource.ImportFrom) {
	name, ok := r.absoluteName(s.Module, s.Level)
	if !ok {
		r.bindUnknown(s.Names, "a relative import whose package is not known")
		return
	}
	if s.Level == 0 {
		name = r.implicit(name) + name
	}
	if name == "__future__" {
		if slices.ContainsFunc(s.Names, func(a pysource.Alias) bool { return a.Name == "absolute_import" }) {
			r.frame.module.absolute = true
		}
		r.importModule(name)
		r.bindUnknown(s.Names, "a feature")
		return
	}
	v := r.importModule(name)
	if r.raised != nil || r.stop != "" {
		return
	}
	if r.importListed(v, s.Names); r.raised != nil || r.stop != "" {
		return
	}
	for _, a := range s.Names {
		if a.Name == "*" {
			r.star(name, v)
			continue
		}
		w := r.importFrom(name, v, a.Name)
		if r.raised != nil {
			return
		}
		r.assignName(asOr(a), w)
	}
}

// importListed imports the submodules among the names that are taken from a package and that it
// does not have: all of them before the first name is taken (_handle_fromlist).
func (r *Run) importListed(v value, names []pysource.Alias) {
	m, ok := v.(*module)
	if !ok || len(names) < 2 {
		return
	}
	search := r.searchPath(m)
	if _, lazy := m.names.get("__getattr__"); lazy || search == nil {
		return
	}
	for _, a := range names {
		full := m.name + "." + a.Name
		_, has := m.names.get(a.Name)
		_, loaded := r.modules.get(full)
		if has || loaded || a.Name == "*" {
			continue
		}
		if spec, _ := r.find(full, search); spec == nil {
			continue
		}
		if r.importModule(full); r.raised != nil || r.stop != "" {
			return
		}
	}
}

func asOr(a pysource.Alias) string {
	if a.As != "" {
		return a.As
	}
	return a.Name
}

func (r *Run) bindUnknown(list []pysource.Alias, why string) {
	for _, a := range list {
		if a.Name == "*" {
			r.openUp(r.frame.module.names, why)
			continue
		}
		r.assignName(asOr(a), unknownf("%s", why))
	}
}

// absoluteName resolves a relative import (importlib._bootstrap._resolve_name).
func (r *Run) absoluteName(name string, level int) (string, bool) {
	if level == 0 {
		return name, true
	}
	v, _ := r.frame.module.names.get("__package__")
	pkg, ok := v.(string)
	if !ok || pkg == "" {
		if !isUnknown(v) {
			r.raise("ImportError", "attempted relative import with no known parent package")
		}
		return "", false
	}
	return r.resolve(name, level, pkg)
}

func (r *Run) resolve(name string, level int, pkg string) (string, bool) {
	for range level - 1 {
		parent, _, ok := cutLast(pkg)
		if !ok {
			r.raise("ImportError", "attempted relative import beyond top-level package")
			return "", false
		}
		pkg = parent
	}
	if name == "" {
		return pkg, true
	}
	return pkg + "." + name, true
}

// importFrom returns a name of a module, or its submodule (IMPORT_FROM).
func (r *Run) importFrom(from string, v value, name string) value {
	w, ok := r.listed(from, v, name)
	if !ok {
		return r.cannotImport(v.(*module), name)
	}
	return w
}

// listed returns a name of a module, or its submodule (_handle_fromlist); ok is false if it
// has neither.
func (r *Run) listed(from string, v value, name string) (w value, ok bool) {
	m, ok := v.(*module)
	if !ok {
		return r.importFromOther(from, v, name), true
	}
	r.trial.takes(m)
	if w, ok := r.moduleAttr(m, name); !outside(m, name) && (ok || r.raised != nil) {
		if sub, isModule := w.(*module); isModule && sub.maybe != "" && r.certain() && sub.name == m.name+"."+name {
			return r.importModule(sub.name), true
		}
		if r.raised != nil { // by its __getattr__, and by no AttributeError
			return w, true
		}
		if sub := r.behind(m, name, w); sub != nil {
			return sub, true
		}
		if _, set := m.names.get(name); !set && isUnknown(w) {
			r.mayLack(m, name)
		}
		return w, true
	}
	if search := r.searchPath(m); search != nil {
		full := m.name + "." + name
		_, loaded := r.modules.get(full)
		spec, _ := r.find(full, search)
		var other *moduleSpec
		if spec == nil && !loaded {
			other, _ = r.askImporters(full)
		}
		switch {
		case spec != nil || loaded || other != nil && m.names.open == "":
			return r.importModule(full), true
		case other != nil: // which Python asks only if the module has no such name
			return r.mayImport(full, "the names of "+m.name), true
		}
	}
	if m.names.open != "" && !r.lacksSubmodule(m, name) && !r.lostPart(m, name) && !r.listsRefused(m, name) && !r.releaseLacks(m, name) {
		r.mayLack(m, name)
		return unknownf("%s of %s", name, from), true
	}
	return nil, false
}

// mayLack notes that a module may lack a name, if the program is ready for that: a handler of the ImportError may
// run.
func (r *Run) mayLack(m *module, name string) {
	if m.extension || m.file == "" || r.in.IsStandard(m.file) {
		return // the names of C code are not known at all, and Python's own modules have what others expect
	}
	text := &excText{text: "cannot import name '" + name + "' from '" + m.name + "'"}
	e := &exception{of: &instance{of: r.exceptionClass("ImportError"), attrs: r.newNames(), exc: text}, doubt: setOutside, in: r.frame}
	if r.expectedHere(e) {
		r.possibly(e, nil)
	}
}

// outside reports whether a module's __getattr__ is a class that lacks a name: a decorator makes a
// function of the properties of such a class.
func outside(m *module, name string) bool {
	get, _ := m.names.get("__getattr__")
	c, ok := get.(*class)
	_, set := m.names.get(name)
	return ok && !set && !c.has(name)
}

// behind returns the submodule of a name for which the __getattr__ of a package returns
// something that is not known, or nil. Most raise AttributeError for a submodule or import
// it, but that is not sure, and neither is a failure of its import.
func (r *Run) behind(m *module, name string, w value) value {
	search := r.searchPath(m)
	if _, set := m.names.get(name); set || !isUnknown(w) || search == nil {
		return nil
	}
	full := m.name + "." + name
	if spec, _ := r.find(full, search); spec == nil {
		return nil
	}
	return r.mayImport(full, "the __getattr__ of "+m.name)
}

// mayImport imports a module instead of which a name may have another value. That it fails is not sure.
func (r *Run) mayImport(full, because string) value {
	r.tries = append(r.tries, tryLevel{all: true, names: because, depth: r.nesting})
	v := r.importModule(full)
	r.tries = r.tries[:len(r.tries)-1]
	if r.raised != nil {
		r.raised = nil
		r.note("import of " + full + ", which fails, or another value of its name")
	}
	return v
}

// importFromOther is importFrom for something that a program has put in sys.modules.
func (r *Run) importFromOther(from string, v value, name string) value {
	full := from + "." + name
	if w, ok := r.modules.get(full); ok {
		return w
	}
	i, isInstance := v.(*instance)
	if !isInstance {
		return unknownf("%s of %s", name, from)
	}
	// A submodule is imported unless the object has the name (_handle_fromlist of importlib).
	if search := r.searchPath(v); search != nil && r.raised == nil {
		if spec, _ := r.find(full, search); spec != nil && r.attrOr(v, name, nil) == nil {
			return r.importModule(full)
		}
	}
	if r.lacksAttribute(i, name) {
		text := fmt.Sprintf("cannot import name '%s' from '%s' (unknown location)", name, from)
		absent := false
		if windowsModules[name] {
			spec, doubt := r.find(name, r.path)
			absent = spec == nil && doubt == ""
		}
		if absent {
			r.raise("ImportError", text) // also if the name is set by other means: it stands for the module
		} else {
			r.guess("ImportError", text)
		}
		return unknownf("%s of %s", name, from)
	}
	return r.getattr(v, name)
}

// windowsModules are the modules of the standard library that are on Windows alone
// (https://docs.python.org/3/library/windows.html, and its C modules), with the name that one had in Python 2.
var windowsModules = map[string]bool{"msvcrt": true, "nt": true, "winreg": true, "_winreg": true, "winsound": true, "_winapi": true, "_overlapped": true, "_msi": true}

// setOutside is the doubt of a name that a module lacks.
const setOutside = "the name may be set from outside of the module's source"

// cannotImport raises ImportError for a name that a module lacks. Unless [Run.surelyLacks] or
// [Run.lostPart] that, [Run.skips] the name, or a package imports from itself while it is loaded, it
// is not certain: extension modules and functions set attributes from outside.
func (r *Run) cannotImport(m *module, name string) value {
	where := "unknown location"
	if m.file != "" {
		where = m.file
	}
	r.trial.lacks(m)
	text := fmt.Sprintf("cannot import name '%s' from '%s' (%s)", name, m.name, where)
	if m.loading {
		text = fmt.Sprintf("cannot import name '%s' from partially initialized module '%s' (most likely due to a circular import) (%s)", name, m.name, where)
	}
	defer r.nameRaised(m.name)
	if doubt, ok := r.skips(m, name); ok {
		r.raiseFailure(&Failure{Type: "ImportError", Text: text, Doubt: doubt}, nil)
		return unknownf("%s of %s", name, m.name)
	}
	lost := r.lostPart(m, name)
	if r.surelyLacks(m, name) || r.releaseLacks(m, name) || lost && m.names.open == "" {
		r.raise("ImportError", text)
		return unknownf("%s of %s", name, m.name)
	}
	f := &Failure{Type: "ImportError", Text: text, Doubt: setOutside}
	if m.loading && m.names.open == "" && r.frame != nil && m == r.frame.module && r.frame.vars == m.names && r.searchPath(m) != nil {
		if _, f.Doubt = r.find(m.name+"."+name, r.searchPath(m)); f.Doubt == "" {
			r.raiseFailure(f, nil)
			return unknownf("%s of %s", name, m.name)
		}
	}
	lacks := lost || r.lacksSubmodule(m, name)
	if r.certain() && r.trial == nil && m.maybe == "" && !r.in.Partial() && r.searchPath(m) != nil && !r.mayFind(m, name) && r.importsBelow(m, name) {
		f.Doubt, lacks = "", true // a later statement fails, too, if the name is set from outside
	}
	r.raiseFailure(f, nil)
	if !r.expectedHere(r.raised) && !lacks {
		r.raised = nil
		r.note(text)
	}
	return unknownf("%s of %s", name, m.name)
}

// importsBelow reports whether a later statement of the module that runs imports from the submodule of a name:
// `from . import a` and then `from .a import b`.
func (r *Run) importsBelow(m *module, name string) bool {
	if r.frame == nil || r.frame.vars != r.frame.module.names {
		return false
	}
	f := r.src.parse(r.frame.file)
	pkg, _, _ := cutLast(r.frame.module.name)
	return f != nil && slices.ContainsFunc(f.Body, func(s pysource.Stmt) bool {
		from, ok := s.(*pysource.ImportFrom)
		return ok && from.Line() > r.frame.line &&
			(from.Level == 0 && from.Module == m.name+"."+name || from.Level == 1 && pkg == m.name && from.Module == name)
	})
}

// star executes `from m import *`.
func (r *Run) star(from string, v value) {
	dst := r.frame.vars
	m, ok := v.(*module)
	if !ok {
		r.openUp(dst, "names of "+from)
		return
	}
	all, has := m.names.get("__all__")
	var list []value
	open := m.names.open != ""
	switch all := all.(type) {
	case *sequence:
		list, open = all.items, all.open
	case *tuple:
		list, open = all.items, false
	default:
		open = open || has
		for _, name := range m.names.order {
			sub, isModule := m.names.m[name].(*module)
			if strings.HasPrefix(name, "_") || has && isModule && sub.name == m.name+"."+name {
				continue // an __all__ that is not known hardly has submodules
			}
			list = append(list, name)
		}
		has = false
	}
	for _, item := range list {
		name, ok := item.(string)
		if !ok {
			open = true
			continue
		}
		w, ok := m.names.get(name)
		if !ok && has {
			if w, ok = r.listed(from, m, name); !ok {
				w = unknownf("%s of %s", name, from)
				r.trial.lacks(m)
				r.guess("AttributeError", fmt.Sprintf("module '%s' has no attribute '%s'", from, name))
			}
			if r.raised != nil {
				return
			}
		}
		r.assignName(name, w)
	}
	if open {
		r.openByStar(dst, m)
	}
}

// sequence is a list, where a variable has that name.
type sequence = list

// moduleAttr returns an attribute of a module, or the result of its __getattr__.
func (r *Run) moduleAttr(m *module, name string) (value, bool) {
	if v, ok := m.names.get(name); ok {
		if r.mayHaveLoaded(m, name, v) {
			sub := r.importModule(m.name + "." + name)
			if r.raised != nil {
				r.unset(m.names, name)
			}
			return sub, true
		}
		if _, fixed := m.models()[name]; m.file != "" && !(fixed && isConstant(v)) {
			r.readsName(m.names, name, v)
		}
		return v, true
	}
	if name == "__dict__" {
		return &moduleDict{m}, true
	}
	get, ok := m.names.get("__getattr__")
	if !ok {
		return nil, false
	}
	if c, isClass := get.(*class); isClass { // and its decorator, which takes the properties of the class, is not known
		if c.lacks(name) {
			return nil, false
		}
		return unknownf("the result of __getattr__ of %s", m.name), true
	}
	r.tries = append(r.tries, tryLevel{all: true, names: "AttributeError", depth: r.nesting})
	v := r.call(get, &args{pos: []value{name}})
	r.tries = r.tries[:len(r.tries)-1]
	if e := r.raised; e != nil && e.is(r, "AttributeError") {
		if r.certain() && e.doubt == "" && e.from == nil {
			if m.denied == nil {
				m.denied = map[string]bool{}
			}
			m.denied[name] = true
		}
		if r.certain() && e.doubt == "" && e.from == nil && !e.vague && e.in != nil && e.in.module == m && e.in.partial == "" {
			if m.refused == nil {
				m.refused = map[string]*exception{}
			}
			m.refused[name] = e
		}
		r.raised = nil
		return nil, false
	}
	if e := r.raised; e != nil && e.from == nil && !e.ended && m.names.open != "" {
		r.raised = nil // a star import may have brought the name (qtpy.QtGui)
		return unknownf("%s of %s", name, m.name), true
	}
	return v, true
}

// lacks reports whether a class without bases has no member of a name.
func (c *class) lacks(name string) bool {
	_, has := c.find(name)
	_, gives := c.find("__getattr__")
	return !has && !gives && c.known() && len(c.mro) <= 2 && c.attrs.open == ""
}

// mayHaveLoaded reports whether an attribute of a module is a submodule that a branch may have
// loaded, and which the module's __getattr__ imports otherwise: either way it is loaded now.
func (r *Run) mayHaveLoaded(m *module, name string, v value) bool {
	if !r.certain() || !isUnknown(v) && !isMaybe(v) {
		return false
	}
	sub, _ := r.modules.get(m.name + "." + name)
	_, lazy := m.names.get("__getattr__")
	return lazy && isMaybe(sub)
}

// libraryNode adds a node for a library that is opened, and asks the host to open it.
func (r *Run) open(name, by string, flags int) *library {
	n := r.child(Library, name, "", "OSError")
	n.By = by
	lib := &library{name: name, run: r}
	if !r.certain() {
		lib.unsure, r.passedOver = true, true
		return lib
	}
	f := r.host.Dlopen(name, flags)
	if f == nil {
		return lib
	}
	n.Failed = f
	r.raiseFailure(f, n)
	if f.Doubt != "" && !r.expected(r.raised) {
		r.raised = nil
	}
	lib.unsure = true
	return lib
}

// absolute returns a path of the program from the root.
func (r *Run) absolute(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = r.opt.Cwd + "/" + p
	}
	return path.Clean(p)
}

// entries returns the names in a directory, sorted; ok is false if there is none.
func (r *Run) entries(dir string) (list []string, ok bool) {
	dir = r.realpath(dir)
	e, _, ok := r.src.fs.Lookup(dir)
	if !ok || !e.IsDir() {
		return nil, false
	}
	for e := range r.src.fs.In(strings.TrimPrefix(dir, "/")) {
		r.spend(1)
		list = append(list, path.Base(e.Path))
	}
	slices.Sort(list)
	return list, true
}

// realpath returns a path without links, as os.path.realpath does.
func (r *Run) realpath(p string) string {
	p = r.absolute(p)
	for range 40 {
		next, changed := r.resolveOne(p)
		if !changed {
			return p
		}
		p = next
	}
	return p
}

// resolveOne replaces the first link of a path.
func (r *Run) resolveOne(p string) (string, bool) {
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	at := "/"
	for i, part := range parts {
		at = path.Join(at, part)
		e, _, ok := r.src.fs.Lstat(at)
		if !ok {
			return p, false
		}
		if e.Type == layers.Symlink {
			to := e.Link
			if !path.IsAbs(to) {
				to = path.Join(path.Dir(at), to)
			}
			return path.Clean("/" + path.Join(append([]string{to}, parts[i+1:]...)...)), true
		}
	}
	return p, false
}
