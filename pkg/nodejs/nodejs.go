// Package nodejs follows the modules that a program of Node.js loads at its start, without
// running it: it evaluates the top level of each file as far as its values are known, finds
// what require and import name, and asks a host to open the addons (.node files) that they
// come to. The result is a tree as pkg/pyimport's.
//
// It knows Node's resolution (CommonJS and ES modules, package.json with main, exports and
// imports, NODE_PATH), and the conventions by which packages find their addon: literal paths,
// bindings, node-gyp-build, node-pre-gyp. Files are read by [Reduce], which keeps of each
// what decides its loads. github.com/tdewolff/parse parses them.
//
// It never guesses. A value that it cannot know is unknown. It neither follows nor opens a
// file that only a branch on an unknown value loads, and marks it as possible. It does not
// follow functions that the start does not call, bundles larger than a bound, or TypeScript.
// It assumes that a call of an unknown function succeeds. It knows no ELF, no rules and no frameworks.
package nodejs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// Host is the process in which a program opens addons.
type Host interface {
	// Open opens an addon as process.dlopen does, with lazy binding. It returns the error of
	// the loader.
	Open(file string) *pyimport.Failure
}

// Options are the environment of a program.
type Options struct {
	Env  map[string]string // the variables; a value with a NUL byte is not known
	Cwd  string            // absolute
	Exec string            // path of the interpreter
	Args []string          // after the program's file
	// Preload are the modules of -r and --import.
	Preload []string
	// Arch is process.arch, "x64" for instance; "" if it is not known. Musl reports that the
	// C library is musl.
	Arch string
	Musl bool
}

// Bounds of the work for one program.
const (
	maxSteps      = 1_000_000 // statements and expressions
	maxDepth      = 200       // calls and loads within one another
	maxModules    = 10_000
	maxConditions = 64      // objects and lists in one another, in exports and imports of a package.json
	maxText       = 1 << 13 // bytes of a string
	maxDir        = 1 << 10 // bytes of a directory from which modules are looked for
	maxItems      = 1 << 12 // items of a list
	maxUnknown    = 12      // entries of Node.Unknown
	maxLoops      = 1 << 10 // turns of a loop
)

// run is one process of Node.
type run struct {
	fs      *layers.FS
	host    Host
	opt     Options
	modules map[string]*module // by real path
	parsed  map[string]*pkgJSON
	dirs    map[string][]string // where packages are looked for, by the directory of the importer
	pnp     map[string]bool     // directories of Yarn's projects without node_modules
	globals *scope

	node  *pyimport.Node
	mod   *module
	steps int
	depth int
	stop  string // why the evaluation ended, or ""
	line  int
	maybe string // the condition that is not known under which the statement runs, or ""
	// mayThrow is the condition under which an exception is on its way that is not known to
	// be raised, or "".
	mayThrow string
	tries    int // try statements with a catch around the statement, in this module
	async    int // calls of async functions around it
	// hooks is why modules may be found where Node does not look for them, or "".
	hooks string
}

// module is a loaded file.
type module struct {
	file    string
	object  *object // `module`
	esm     bool
	exports *object // of an ES module
	scope   *scope
	failed  *pyimport.Failure
}

// changesSearch says that modules may be found elsewhere after a program has replaced a
// function of Node that finds them, or added an extension to require.extensions.
const changesSearch = "a module of the program changes how modules are found"

// Main follows a program: a file as Node's command line names it, absolute. The result is
// nil if the program's source is not known.
func Main(fsys *layers.FS, host Host, file string, o Options) *pyimport.Node {
	r := &run{fs: fsys, host: host, opt: o, modules: map[string]*module{}, parsed: map[string]*pkgJSON{}, pnp: map[string]bool{}, dirs: map[string][]string{}}
	if r.opt.Cwd == "" {
		r.opt.Cwd = "/"
	}
	r.globals = r.newGlobals()
	top := &pyimport.Node{Kind: pyimport.Program, Name: path.Base(file), File: file}
	found, ok := r.asFileOrDirectory(path.Clean(file))
	if !ok || !r.readable(found) && !r.isUnread(found) {
		return nil
	}
	top.File = found
	r.node = top
	var c completion
	for _, p := range o.Preload {
		r.hooks = "a module that Node loads before the program may change how modules are found"
		if c = r.requireFrom(path.Join(r.opt.Cwd, "[preload]"), p, false); c.kind != normal {
			break
		}
	}
	switch {
	case c.kind == normal && !r.readable(found):
		r.note("its source could not be read")
	case c.kind == normal:
		c = r.execute(&module{file: r.real(found)})
	}
	if c.kind == throws {
		top.Failed = r.blame(top, c.value)
	}
	if r.stop != "" {
		r.note(r.stop)
	}
	return top
}

// readable reports whether the source of a file is known.
func (r *run) readable(file string) bool {
	e, _, ok := r.fs.Lookup(file)
	return ok && e.Type == layers.Regular && len(e.Content) > 0 && string(e.Content) != unread
}

// isUnread reports whether a file has a source that could not be parsed, or is too large.
func (r *run) isUnread(file string) bool {
	e, _, ok := r.fs.Lookup(file)
	return ok && string(e.Content) == unread
}

// real returns a path without symbolic links.
func (r *run) real(file string) string {
	if e, _, ok := r.fs.Lookup(file); ok {
		return "/" + e.Path
	}
	return file
}

// note adds a place that could not be followed to the module.
func (r *run) note(why string) {
	n := r.node
	text := fmt.Sprintf("line %d: %s", r.line, why)
	if r.line == 0 {
		text = why
	}
	if len(n.Unknown) < maxUnknown && !slices.Contains(n.Unknown, text) {
		n.Unknown = append(n.Unknown, text)
	}
}

// step counts a step, and reports whether the evaluation goes on.
func (r *run) step() bool {
	if r.steps++; r.steps > maxSteps && r.stop == "" {
		r.stop = "the program takes more steps than are followed"
	}
	return r.stop == ""
}

// charge counts the work for n bytes or items as steps.
func (r *run) charge(n int) { r.steps += n / 16 }

// requireFrom loads the module or file that name means in a file: as require resolves it, or
// as import does if esm is set.
func (r *run) requireFrom(from, name string, esm bool) completion {
	n := &pyimport.Node{Kind: pyimport.Module, Name: name, Maybe: r.maybe}
	if r.mod != nil {
		n.At = fmt.Sprintf("%s:%d", r.mod.file, r.line)
	}
	if r.tries > 0 {
		n.Caught = "catch"
	}
	if r.async > 0 && n.Caught == "" {
		n.Caught = "a promise"
	}
	name = strings.TrimPrefix(name, "file://")
	if b, ok := builtinName(name); ok {
		return value(r.builtin(b))
	}
	if r.maybe != "" {
		if strings.HasSuffix(name, ".node") {
			n.Kind = pyimport.Extension
		}
		r.add(n)
		return value(unknownf("it is loaded under a condition that is not known"))
	}
	if v, ok := r.model(name, from); ok {
		return value(v)
	}
	if strings.HasSuffix(name, "/register") || strings.Contains(name, "alias") {
		r.hooks = changesSearch
	}
	file, doubt := r.resolve(name, path.Dir(from), esm)
	if file == "" {
		n.Failed = &pyimport.Failure{Type: "Error", Text: "Cannot find module '" + name + "'", Doubt: doubt}
		r.add(n)
		return r.raise(n)
	}
	return r.load(n, file)
}

// add adds a node to the tree.
func (r *run) add(n *pyimport.Node) { r.node.Nodes = append(r.node.Nodes, n) }

// raise throws the failure of a node. A failure in doubt that nothing catches is assumed not
// to happen.
func (r *run) raise(n *pyimport.Node) completion {
	if n.Failed.Doubt != "" && n.Caught == "" {
		return value(unknownf("it is not known whether it can be loaded"))
	}
	return completion{kind: throws, value: r.newError(n.Failed)}
}

// load loads a file that was found.
func (r *run) load(n *pyimport.Node, file string) completion {
	n.File = file
	real := r.real(file)
	if strings.HasSuffix(file, ".node") {
		return r.openAddon(n, real)
	}
	if m, ok := r.modules[real]; ok {
		if m.failed != nil {
			n.Failed = m.failed
			r.add(n)
			return r.raise(n)
		}
		return value(m.value())
	}
	r.add(n)
	switch {
	case strings.HasSuffix(file, ".json"):
		return value(r.readJSON(real))
	case !r.readable(real):
		r.note("the source of " + file + " is not known")
		r.hooks = "a module whose source is not known may change how modules are found"
		r.modules[real] = unknownModule(real)
		return value(r.modules[real].value())
	case len(r.modules) >= maxModules || r.depth >= maxDepth:
		r.note("more modules are loaded than are followed")
		return value(unknownf("it is not followed"))
	}
	return r.below(n, func() completion { return r.execute(&module{file: real}) })
}

// below evaluates a module as the node n.
func (r *run) below(n *pyimport.Node, f func() completion) completion {
	node, mod, line, tries, async, scopeMaybe := r.node, r.mod, r.line, r.tries, r.async, r.maybe
	r.node, r.line, r.tries, r.async = n, 0, 0, 0
	r.depth++
	c := f()
	r.depth--
	m := r.mod
	r.node, r.mod, r.line, r.tries, r.async = node, mod, line, tries, async
	if r.mayThrow == "" {
		r.maybe = scopeMaybe
	}
	if c.kind == throws {
		n.Failed = r.blame(n, c.value)
		if m != nil {
			m.failed = n.Failed
		}
		if n.Failed.Doubt != "" {
			return r.raise(n)
		}
		return completion{kind: throws, value: r.newError(n.Failed)}
	}
	if m == nil {
		return value(unknownf("it was not followed"))
	}
	return value(m.value())
}

// openAddon opens a .node file.
func (r *run) openAddon(n *pyimport.Node, real string) completion {
	n.Kind = pyimport.Extension
	if m, ok := r.modules[real]; ok && m.failed == nil {
		return value(m.value())
	}
	r.add(n)
	if n.Failed = r.host.Open(n.File); n.Failed != nil {
		return r.raise(n)
	}
	r.modules[real] = unknownModule(real)
	return value(r.modules[real].value())
}

// unknownModule returns a module of which only the file is known.
func unknownModule(file string) *module {
	return &module{file: file, exports: &object{open: true}, esm: true}
}

// value returns what require returns.
func (m *module) value() any {
	if m.esm {
		return m.exports
	}
	if v, ok := m.object.props["exports"]; ok {
		return v
	}
	return unknownf("its exports are not known")
}

// blame returns the failure behind an exception that ends a module: that of the loader
// which a statement has caught before, if the package throws an error of its own because
// none of its addons could be loaded.
func (r *run) blame(n *pyimport.Node, thrown any) *pyimport.Failure {
	if o, ok := thrown.(*object); ok && o.failure != nil {
		clearCaught(n, o.failure)
		return o.failure
	}
	text := "it throws an exception"
	if o, ok := thrown.(*object); ok {
		if s, ok := o.props["message"].(string); ok {
			text = s
		}
	}
	f := &pyimport.Failure{Type: "Error", Text: firstLine(text), Doubt: "the program throws it itself"}
	tried := failuresBelow(n, nil)
	for _, t := range tried {
		if f := t.Failed; f.Cause != nil && f.Doubt == "" {
			clearCaught(n, f)
			return f
		}
	}
	if strings.Contains(n.File, "/node_modules/") && !isSystemError(thrown) && r.wantsAddon(tried) {
		f.Doubt = ""
	}
	return f
}

// isSystemError reports whether an error says that a file is not there.
func isSystemError(thrown any) bool {
	o, ok := thrown.(*object)
	return ok && o.props["code"] == "ENOENT"
}

// wantsAddon reports whether the loads of a package that have failed, all of them certainly,
// were of addons: of .node files, or of packages for this platform.
func (r *run) wantsAddon(tried []*pyimport.Node) bool {
	platform := "linux-" + r.opt.Arch
	certain := !slices.ContainsFunc(tried, func(n *pyimport.Node) bool { return n.Failed.Doubt != "" })
	return certain && slices.ContainsFunc(tried, func(n *pyimport.Node) bool {
		return n.Kind == pyimport.Extension || strings.HasSuffix(n.Name, ".node") || r.opt.Arch != "" && strings.Contains(n.Name, platform)
	})
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ToValidUTF8(s[:min(len(s), 300)], "")
}

// failuresBelow returns the nodes below one that fail.
func failuresBelow(n *pyimport.Node, list []*pyimport.Node) []*pyimport.Node {
	for _, c := range n.Nodes {
		if c.Failed != nil && c.Maybe == "" {
			list = append(list, c)
		}
		list = failuresBelow(c, list)
	}
	return list
}

// clearCaught marks the nodes that raise a failure as not caught, because it ends n.
func clearCaught(n *pyimport.Node, f *pyimport.Failure) bool {
	found := false
	for _, c := range n.Nodes {
		below := clearCaught(c, f)
		if c.Failed == f || below {
			c.Caught, c.Failed, found = "", f, true
		}
	}
	return found
}
