package pyimport

import (
	"fmt"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
)

func init() {
	functions("importlib", map[string]func(*Run, *args) value{
		"import_module": importModule,
		"__import__":    importFunction,
		"reload":        identity,
		"find_loader":   notKnown("find_loader"),
	})
	functions("importlib.util", map[string]func(*Run, *args) value{
		"find_spec":               findSpec,
		"spec_from_file_location": specFromFile,
		"module_from_spec":        moduleFromSpec,
		"spec_from_loader": func(_ *Run, a *args) value {
			name, ok := a.text(0, "name")
			by, _ := a.get(1, "loader")
			if !ok || isUnknown(by) {
				return unknownf("a spec")
			}
			return &moduleSpec{name: name, by: by}
		},
		"resolve_name": func(r *Run, a *args) value {
			name, ok := a.text(0, "name")
			pkg, _ := a.text(1, "package")
			if !ok {
				return unknownf("a name")
			}
			if full, ok := r.relativeName(name, pkg); ok {
				return full
			}
			return unknownf("a name")
		},
	})
	functions("importlib.machinery", map[string]func(*Run, *args) value{
		"all_suffixes": notKnown("all_suffixes"),
	})
	for _, mod := range []string{"importlib.machinery", "importlib._bootstrap_external"} {
		classModel(mod, "FileFinder", func(_ *Run, _ *class, a *args) value {
			if dir, ok := a.text(0, "path"); ok {
				return &fileFinder{dir}
			}
			return unknownf("a finder")
		})
	}
	for _, mod := range []string{"importlib.machinery", "importlib._bootstrap_external"} {
		addModel(mod, "PathFinder", func(*Run) value { return &pathFinderClass{} })
		addModel(mod, "EXTENSION_SUFFIXES", func(r *Run) value { return texts(r.in.Suffixes) })
	}
	for _, name := range []string{"SourceFileLoader", "SourcelessFileLoader", "ExtensionFileLoader"} {
		classModel("importlib.machinery", name, fileLoader)
		classModel("importlib._bootstrap_external", name, fileLoader)
	}
	for _, mod := range []string{"importlib.machinery", "importlib._bootstrap"} {
		classModel(mod, "ModuleSpec", func(_ *Run, _ *class, a *args) value {
			name, ok := a.text(0, "name")
			by, _ := a.get(1, "loader")
			if !ok || by == nil || isUnknown(by) {
				return unknownf("a spec")
			}
			return &moduleSpec{name: name, by: by}
		})
	}
	for _, mod := range []string{"importlib.metadata", "importlib_metadata"} {
		functions(mod, map[string]func(*Run, *args) value{
			"version":                distVersion,
			"distribution":           distribution,
			"entry_points":           entryPoints,
			"packages_distributions": packagesDistributions,
			"requires":               notKnown("requires"),
			"files":                  notKnown("files"),
			"metadata":               notKnown("metadata"),
		})
		addModel(mod, "PackageNotFoundError", func(r *Run) value { return r.notFoundClass() })
	}
	functions("pkg_resources", map[string]func(*Run, *args) value{
		"iter_entry_points": func(r *Run, a *args) value {
			group, ok := a.text(0, "group")
			if !ok {
				return unknownf("entry points")
			}
			return r.entryPoints(group)
		},
		"resource_filename": resourceFile,
		"declare_namespace": func(*Run, *args) value { return nil },
		"get_distribution":  getDistribution,
		"load_entry_point": func(r *Run, a *args) value {
			if d, ok := getDistribution(r, a).(*dist); ok {
				return loadOf(r, d, &args{pos: a.pos[min(1, len(a.pos)):], kw: a.kw})
			}
			return unknownf("an entry point")
		},
		"require":       requireDists,
		"parse_version": makeVersion,
	})
	functions("importlib.resources importlib_resources", map[string]func(*Run, *args) value{
		"files": resourceDir,
		"as_file": func(_ *Run, a *args) value {
			v, _ := a.get(0, "path")
			return &quietContext{as: v}
		},
		"path": func(r *Run, a *args) value {
			dir := resourceDir(r, a)
			name, ok := a.text(1, "resource")
			if s, isPath := str(dir); ok && isPath {
				return &quietContext{as: newPath(joinPath([]string{s, name}))}
			}
			return &quietContext{}
		},
	})
	functions("pkgutil", map[string]func(*Run, *args) value{
		"extend_path":   extendPath,
		"iter_modules":  iterModules,
		"walk_packages": notKnown("walk_packages"),
		"get_data":      notKnown("get_data"),
		"find_loader":   notKnown("find_loader"),
	})
	for _, mod := range []string{"distutils.version", "setuptools._distutils.version"} {
		for _, name := range []string{"LooseVersion", "StrictVersion"} {
			classModel(mod, name, func(r *Run, _ *class, a *args) value { return makeVersion(r, a) })
		}
	}
}

// makeVersion parses a version.
func makeVersion(_ *Run, a *args) value {
	if v, ok := a.get(0, "version"); ok {
		if w, ok := v.(*release); ok {
			return w
		}
	}
	t, ok := a.text(0, "version")
	if !ok {
		return unknownf("a version")
	}
	v, err := version.Parse(t)
	if err != nil {
		return unknownf("the version %s", shorten(t))
	}
	return &release{text: t, of: v}
}

// importModule is importlib.import_module.
func importModule(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	if !ok {
		v, _ := a.get(0, "name")
		why := "a name that is not known"
		if u := because(v); u != nil {
			why = u.why
		}
		r.note("importlib.import_module of " + why)
		return unknownf("a module")
	}
	pkg, _ := a.text(1, "package")
	full, ok := r.relativeName(name, pkg)
	if p, given := a.get(1, "package"); !ok && strings.HasPrefix(name, ".") && (!given || p == nil) {
		r.guess("TypeError", "the 'package' argument is required to perform a relative import for "+quote(name))
	}
	if !ok {
		return unknownf("a module")
	}
	return r.importModule(full)
}

// relativeName resolves a name with leading dots.
func (r *Run) relativeName(name, pkg string) (string, bool) {
	rest := strings.TrimLeft(name, ".")
	level := len(name) - len(rest)
	if level == 0 {
		return name, name != ""
	}
	if pkg == "" {
		return "", false
	}
	return r.resolve(rest, level, pkg)
}

// moduleSpec is an importlib.machinery.ModuleSpec.
type moduleSpec struct {
	name, file string
	search     []string
	kind       pyenv.Kind
	by         value // the loader that a program gives, or nil
}

func (r *Run) newSpec(name, file string, search []string) *moduleSpec {
	return &moduleSpec{name: name, file: file, search: search}
}

func (*moduleSpec) typeName() string { return "importlib.machinery.ModuleSpec" }

func (s *moduleSpec) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "name":
		return s.name, true
	case "origin":
		if s.file != "" {
			return s.file, true
		}
	case "has_location":
		return s.file != "", true
	case "parent":
		if s.search != nil {
			return s.name, true
		}
		pkg, _, _ := cutLast(s.name)
		return pkg, true
	case "submodule_search_locations":
		if s.search == nil {
			return nil, true
		}
		return texts(s.search), true
	case "loader":
		if s.by != nil {
			return s.by, true
		}
		return &loader{s}, true
	}
	return nil, false
}

// fileFinder is importlib.machinery.FileFinder.
type fileFinder struct{ dir string }

func (*fileFinder) typeName() string { return "importlib.machinery.FileFinder" }

func (f *fileFinder) attr(_ *Run, name string) (value, bool) {
	if name != "find_spec" {
		return nil, false
	}
	return &builtin{"FileFinder.find_spec", func(r *Run, a *args) value {
		name, ok := a.text(0, "fullname")
		if !ok {
			return unknownf("a spec")
		}
		spec := r.specIn(name, &list{items: []value{f.dir}})
		if spec == nil && r.certain() {
			r.lacksOperators(path.Base(f.dir), name)
		}
		return spec
	}}, true
}

// specIn returns the spec of a module in the directories of a search path, or None.
func (r *Run) specIn(name string, search *list) value {
	found, doubt := r.find(name, search)
	switch {
	case doubt != "":
		return unknownf("a spec")
	case found == nil:
		return nil
	}
	return &moduleSpec{name: name, file: found.File, search: found.Search, kind: found.Kind}
}

// pathFinderClass is importlib.machinery.PathFinder, whose methods are those of the class.
type pathFinderClass struct{}

func (*pathFinderClass) typeName() string { return "importlib.machinery.PathFinder" }

func (p *pathFinderClass) call(*Run, *args) value { return p }

func (*pathFinderClass) attr(_ *Run, name string) (value, bool) {
	if name != "find_spec" {
		return nil, false
	}
	return &builtin{"PathFinder.find_spec", func(r *Run, a *args) value {
		name, ok := a.text(0, "fullname")
		search := r.path
		if v, given := a.get(1, "path"); given && v != nil {
			items, more := r.iterate(v)
			search = &list{items: items, open: more != ""}
		}
		if !ok {
			return unknownf("a spec")
		}
		return r.specIn(name, search)
	}}, true
}

// loader is the loader of a spec.
type loader struct{ of *moduleSpec }

func (*loader) typeName() string { return "a loader" }

func (l *loader) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "exec_module":
		return &builtin{"exec_module", func(r *Run, a *args) value {
			v, _ := a.get(0, "module")
			if m, ok := v.(*module); ok {
				r.execSpec(m, l.of)
			}
			return nil
		}}, true
	case "load_module":
		return &builtin{"load_module", func(r *Run, a *args) value {
			name, ok := a.text(0, "fullname")
			if !ok {
				name = l.of.name
			}
			if _, loaded := r.modules.get(name); loaded || l.of.file == "" {
				return r.importModule(name)
			}
			return r.loadFile(name, strings.TrimSuffix(l.of.file, "/__init__.py"))
		}}, true
	case "create_module":
		return &builtin{"create_module", func(*Run, *args) value { return nil }}, true
	case "path":
		return l.of.file, true
	case "name":
		return l.of.name, true
	}
	return nil, false
}

// fileLoader is importlib.machinery.SourceFileLoader and its like. Of a class below one only
// its own methods are known.
func fileLoader(r *Run, c *class, a *args) value {
	if !strings.HasPrefix(c.module, "importlib.") {
		return &instance{of: c, attrs: r.newNames()}
	}
	name, ok := a.text(0, "fullname")
	if !ok {
		name, ok = a.text(0, "name") // of ExtensionFileLoader
	}
	file, ok2 := a.text(1, "path")
	if !ok || !ok2 {
		return unknownf("a loader")
	}
	return &loader{&moduleSpec{name: name, file: file}}
}

// findSpec is importlib.util.find_spec: it imports the packages above.
func findSpec(r *Run, a *args) value {
	name, ok := a.text(0, "name")
	if !ok {
		return unknownf("a spec")
	}
	pkg, _ := a.text(1, "package")
	name, ok = r.relativeName(name, pkg)
	if !ok {
		return unknownf("a spec")
	}
	if v, ok := r.modules.get(name); ok {
		if m, ok := v.(*module); ok {
			if s, ok := m.names.get("__spec__"); ok {
				return s
			}
		}
		return unknownf("a spec")
	}
	search := r.path
	if parent, _, dotted := cutLast(name); dotted {
		p := r.importModule(parent)
		if r.raised != nil {
			return unknownf("a spec")
		}
		if search = r.searchPath(p); search == nil {
			return unknownf("a spec")
		}
	}
	found, doubt := r.find(name, search)
	switch {
	case doubt != "":
		return unknownf("whether there is a module %s", name)
	case found == nil:
		s, doubt := r.askImporters(name)
		if s == nil && doubt == "" {
			return nil
		}
		return unknownf("whether there is a module %s", name)
	}
	return &moduleSpec{name: name, file: found.File, search: found.Search, kind: found.Kind}
}

// specFromFile is importlib.util.spec_from_file_location. Without a loader, it has none for
// a file with another suffix than that of a module.
func specFromFile(_ *Run, a *args) value {
	name, ok1 := a.text(0, "name")
	file, ok2 := a.text(1, "location")
	if !ok1 || !ok2 {
		return unknownf("a spec")
	}
	_, loads := a.kw["loader"]
	switch path.Ext(file) {
	case ".py", ".pyc", ".so":
	default:
		if !loads {
			return nil
		}
	}
	s := &moduleSpec{name: name, file: file}
	if _, given := a.kw["submodule_search_locations"]; given || path.Base(file) == "__init__.py" {
		s.search = []string{path.Dir(file)}
	}
	return s
}

// moduleFromSpec is importlib.util.module_from_spec. For an extension module it opens it.
func moduleFromSpec(r *Run, a *args) value {
	v, _ := a.get(0, "spec")
	s, ok := v.(*moduleSpec)
	if !ok {
		return unknownf("a module")
	}
	m := r.newModule(s.name, s.file)
	r.setOrigin(m, &pyenv.Spec{Name: s.name, File: s.file, Search: s.search})
	m.names.put("__spec__", s)
	if strings.HasSuffix(s.file, ".so") {
		r.execSpec(m, s)
	}
	return m
}

// execSpec executes a module that a program has made from a file, as load does.
func (r *Run) execSpec(m *module, s *moduleSpec) {
	kind := Module
	p := &pyenv.Spec{Name: s.name, Kind: pyenv.Source, File: s.file, Search: s.search}
	if strings.HasSuffix(s.file, ".so") {
		if m.extension {
			return
		}
		kind, p.Kind = Extension, pyenv.Extension
	}
	if s.kind != "" {
		p.Kind = s.kind
	}
	if r.noFile(p); r.raised != nil {
		return
	}
	n := r.child(kind, m.name, s.file, "ImportError")
	outer := r.node
	r.node = n
	if r.nesting++; r.nesting < maxImports {
		r.execModule(m, p)
	}
	r.nesting--
	r.node = outer
	if r.raised != nil && n.Failed == nil {
		n.Failed = r.raised.failure()
	}
}

// distVersion is importlib.metadata.version.
func distVersion(r *Run, a *args) value {
	name, ok := a.text(0, "distribution_name")
	if !ok {
		return unknownf("a version")
	}
	d, ok := r.dist(name)
	if !ok {
		return r.noDist(name)
	}
	if d.Version == "" {
		return unknownf("the version of %s", name)
	}
	return d.Version
}

// packagesDistributions is importlib.metadata.packages_distributions: distributions by the
// top-level modules that they bring.
func packagesDistributions(r *Run, _ *args) value {
	d := r.newDict()
	for _, of := range r.in.Distributions() {
		for _, top := range of.TopLevel {
			r.spend(1)
			v, _, _ := d.get(top)
			list_, ok := v.(*list)
			if !ok {
				list_ = &list{mark: r.born()}
				r.setKey(d, top, list_)
			}
			list_.items = append(list_.items, of.Name)
		}
		if len(of.TopLevel) == 0 {
			d.open = true
		}
	}
	return d
}

// dist finds a distribution by its name.
func (r *Run) dist(name string) (pyenv.Distribution, bool) {
	want := normalName(name)
	for _, d := range r.in.Distributions() {
		r.spend(1)
		if normalName(d.Name) == want {
			return d, true
		}
	}
	return pyenv.Distribution{}, false
}

// normalName is a name of a distribution in the form of PEP 503.
func normalName(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return c == '-' || c == '_' || c == '.' }), "-")
}

// notFoundClass returns importlib.metadata.PackageNotFoundError, which is also the class of
// importlib_metadata, the same library for older releases. It does not come from their source: before Python 3.11 the reduced source of
// importlib.metadata lacks the class, since no statement that is kept names it.
func (r *Run) notFoundClass() *class {
	const key = "importlib.metadata.PackageNotFoundError"
	c, ok := r.classes[key]
	if !ok {
		c = r.newClass("PackageNotFoundError", "importlib.metadata", []value{r.exceptionClass("ModuleNotFoundError")})
		r.classes[key] = c
	}
	return c
}

// noDist raises PackageNotFoundError.
func (r *Run) noDist(name string) value {
	c := r.notFoundClass()
	text := name
	if r.in.Major == 3 && r.in.Minor >= 10 {
		text = "No package metadata was found for " + name
	}
	i := &instance{of: c, attrs: r.newNames(), exc: &excText{text: text, args: []value{name}}}
	r.raised = &exception{of: i, doubt: r.metadataDoubt(name), in: r.frame}
	if r.raised.doubt != "" && !r.expected(r.raised) {
		r.raised = nil
	}
	return unknownf("the distribution %s", name)
}

// requireDists is pkg_resources.require: it raises if a distribution is not there, or has a release that does not
// fit. It does not look at the requirements of the distributions themselves.
func requireDists(r *Run, a *args) value {
	for _, v := range a.pos {
		if a.open || r.requireDist(v) == nil {
			break
		}
	}
	return unknownf("the result of require")
}

// requireDist returns the distribution that fits a requirement. If none does, it raises the exception of pkg_resources, and
// returns nil; so it does, without one, for a requirement that is not known.
func (r *Run) requireDist(v value) *dist {
	req, ok := r.makeRequirement(&args{pos: []value{v}}).(*requirement)
	if !ok {
		return nil
	}
	d, ok := r.dist(req.name)
	if !ok {
		r.unresolved("DistributionNotFound", fmt.Sprintf("The '%s' distribution was not found and is required by the application", v), r.metadataDoubt(req.name))
		return nil
	}
	fits, known := r.truth(r.call(r.getattr(req.specifier, "contains"), &args{pos: []value{d.Version}}))
	if known && !fits {
		r.unresolved("VersionConflict", fmt.Sprintf("(%s %s, Requirement.parse('%s'))", d.Name, d.Version, v), "")
		return nil
	}
	return &dist{d}
}

// unresolved raises an exception of pkg_resources, if the program catches it or nothing makes it doubtful.
func (r *Run) unresolved(name, text, doubt string) {
	c := r.newClass(name, "pkg_resources", []value{r.exceptionClass("Exception")})
	if m, ok := r.modules.m["pkg_resources"].(*module); ok {
		if k, ok := m.names.m[name].(*class); ok {
			c = k
		}
	}
	i := &instance{of: c, attrs: r.newNames(), exc: &excText{text: text, args: []value{text}}}
	r.raised = &exception{of: i, doubt: doubt, in: r.frame}
	if doubt != "" && !r.expected(r.raised) {
		r.raised = nil
	}
}

// metadataDoubt says why a distribution that [pyenv.Interpreter.Distributions] does not have may yet be
// found, or returns "".
func (r *Run) metadataDoubt(name string) string {
	const doubt = "metadata may be elsewhere"
	if !r.certain() || r.trial != nil || r.in.Partial() || r.path.open || r.metaPath.open || name == "" {
		return doubt
	}
	for _, v := range r.metaPath.items {
		_, standard := v.(*pathFinder)
		i, made := v.(*instance)
		if !standard && (!made || !i.of.known() || i.of.has("find_distributions")) {
			return doubt
		}
	}
	for _, v := range r.path.items {
		dir, ok := str(v)
		if !ok || r.in.MayHaveMetadata(dir, name) {
			return doubt
		}
	}
	return ""
}

// distribution is importlib.metadata.distribution.
func distribution(r *Run, a *args) value {
	name, ok := a.text(0, "distribution_name")
	if !ok {
		return unknownf("a distribution")
	}
	d, ok := r.dist(name)
	if !ok {
		return r.noDist(name)
	}
	return &dist{d}
}

// getDistribution is pkg_resources.get_distribution, which takes a requirement.
func getDistribution(r *Run, a *args) value {
	v, _ := a.get(0, "dist")
	if d := r.requireDist(v); d != nil {
		return d
	}
	return unknownf("a distribution")
}

// loadOf is load_entry_point of a distribution of pkg_resources.
func loadOf(r *Run, d *dist, a *args) value {
	group, ok := a.text(0, "group")
	name, named := a.text(1, "name")
	groups, known := r.in.EntryPointsOf(d.of)
	if !ok || !named || !known {
		return unknownf("an entry point")
	}
	for _, e := range groups[group] {
		if e.Name == name {
			return r.loadEntryPoint(&entryPoint{e, group})
		}
	}
	return unknownf("an entry point that %s does not have", d.of.Name)
}

// dist is importlib.metadata.Distribution, and that of pkg_resources.
type dist struct{ of pyenv.Distribution }

func (*dist) typeName() string { return "importlib.metadata.Distribution" }

func (d *dist) attr(r *Run, name string) (value, bool) {
	switch name {
	case "entry_points":
		groups, known := r.in.EntryPointsOf(d.of)
		l := &list{open: !known}
		for _, group := range sortedKeys(groups) {
			for _, e := range groups[group] {
				l.items = append(l.items, &entryPoint{e, group})
			}
		}
		return r.own(l), true
	case "load_entry_point":
		return &builtin{"Distribution.load_entry_point", func(r *Run, a *args) value { return loadOf(r, d, a) }}, true
	case "version":
		return d.of.Version, d.of.Version != ""
	case "name", "project_name":
		return d.of.Name, true
	}
	return nil, false
}

// entryPoint is importlib.metadata.EntryPoint.
type entryPoint struct {
	of    pyenv.EntryPoint
	group string
}

func (*entryPoint) typeName() string { return "importlib.metadata.EntryPoint" }

func (e *entryPoint) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "name":
		return e.of.Name, true
	case "group":
		return e.group, true
	case "module", "module_name":
		return e.of.Module, true
	case "attr":
		return e.of.Attr, true
	case "value":
		if e.of.Attr == "" {
			return e.of.Module, true
		}
		return e.of.Module + ":" + e.of.Attr, true
	case "load", "resolve":
		return &builtin{"EntryPoint.load", func(r *Run, _ *args) value { return r.loadEntryPoint(e) }}, true
	}
	return nil, false
}

// loadEntryPoint imports the module of an entry point, and returns its attribute.
func (r *Run) loadEntryPoint(e *entryPoint) value {
	n := r.child(Plugin, e.of.Name, e.of.File, "ImportError")
	n.By = e.group
	outer := r.node
	r.node = n
	v := r.importModule(e.of.Module)
	for _, name := range strings.Split(e.of.Attr, ".") {
		if name != "" && r.raised == nil {
			v = r.getattr(v, name)
		}
	}
	r.node = outer
	if r.raised != nil {
		n.Failed = r.raised.failure()
	}
	return v
}

// entryPoints is importlib.metadata.entry_points.
func entryPoints(r *Run, a *args) value {
	if group, ok := a.text(-1, "group"); ok {
		l := r.entryPoints(group)
		if name, ok := a.text(-1, "name"); ok {
			var items []value
			for _, v := range l.items {
				if e, ok := v.(*entryPoint); ok && e.of.Name == name {
					items = append(items, v)
				}
			}
			l.items = items
		}
		return l
	}
	if len(a.kw) > 0 || a.open {
		return unknownf("entry points")
	}
	return &allEntryPoints{}
}

func (r *Run) entryPoints(group string) *list {
	l := &list{}
	points, unknown := r.in.EntryPoints(group)
	l.open = len(unknown) > 0
	for _, e := range points {
		l.items = append(l.items, &entryPoint{e, group})
	}
	return r.own(l)
}

// allEntryPoints is entry_points() without a group.
type allEntryPoints struct{}

func (*allEntryPoints) typeName() string { return "importlib.metadata.EntryPoints" }

func (*allEntryPoints) attr(_ *Run, name string) (value, bool) {
	switch name {
	case "select":
		return &builtin{"select", entryPoints}, true
	case "get":
		return &builtin{"get", func(r *Run, a *args) value {
			if group, ok := a.text(0, ""); ok {
				return r.entryPoints(group)
			}
			return unknownf("entry points")
		}}, true
	}
	return nil, false
}

func (*allEntryPoints) item(r *Run, index value) value {
	if group, ok := index.(string); ok {
		return r.entryPoints(group)
	}
	return unknownf("entry points")
}

// resourceFile is pkg_resources.resource_filename.
func resourceFile(r *Run, a *args) value {
	pkg, ok1 := a.text(0, "package_or_requirement")
	name, ok2 := a.text(1, "resource_name")
	if !ok1 || !ok2 {
		return unknownf("a path")
	}
	if dir, ok := r.packageDir(pkg); ok {
		return joinPath([]string{dir, name})
	}
	return unknownf("a path")
}

// packageDir imports a package, and returns its directory.
func (r *Run) packageDir(pkg string) (string, bool) {
	m, ok := r.importModule(pkg).(*module)
	if !ok || m.file == "" {
		return "", false
	}
	return path.Dir(m.file), true
}

// resourceDir is importlib.resources.files.
func resourceDir(r *Run, a *args) value {
	v, _ := a.get(0, "anchor")
	name, ok := v.(string)
	if m, isModule := v.(*module); isModule {
		name, ok = m.name, true
	}
	if !ok {
		return unknownf("a path")
	}
	if dir, ok := r.packageDir(name); ok {
		return newPath(dir)
	}
	return unknownf("a path")
}

// extendPath is pkgutil.extend_path: the directories of sys.path that have the package.
func extendPath(r *Run, a *args) value {
	v, _ := a.get(0, "path")
	name, ok := a.text(1, "name")
	items, more := r.iterate(v)
	if !ok || more != "" {
		return unknownf("a search path")
	}
	l := &list{mark: r.born(), items: append([]value(nil), items...), open: r.path.open}
	sub := strings.ReplaceAll(name, ".", "/")
	for _, d := range r.path.items {
		dir, ok := d.(string)
		if !ok {
			l.open = true
			continue
		}
		p := joinPath([]string{dir, sub})
		if is, _ := r.isDir(p).(bool); !is {
			continue
		}
		if has, _ := r.contains(l, p); !has {
			l.items = append(l.items, p)
		}
	}
	return l
}

// iterModules is pkgutil.iter_modules with a path.
func iterModules(r *Run, a *args) value {
	v, ok := a.get(0, "path")
	items, more := r.iterate(v)
	prefix, _ := a.text(1, "prefix")
	if !ok || v == nil || more != "" {
		return unknownf("the modules of a path")
	}
	l := &list{}
	for _, item := range items {
		dir, ok := str(item)
		if !ok {
			l.open = true
			continue
		}
		names, known := r.in.Modules(dir)
		l.open = l.open || !known
		for _, name := range names {
			isPkg := r.isDir(joinPath([]string{dir, name}))
			l.items = append(l.items, &tuple{
				items:  []value{unknownf("a finder"), prefix + name, isPkg},
				fields: []string{"module_finder", "name", "ispkg"},
			})
		}
	}
	return r.own(l)
}
