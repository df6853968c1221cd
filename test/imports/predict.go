package imports

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyenv"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/pysource"
)

// python is the interpreter of the roots; a flag sets another.
var python = "/usr/bin/python3"

// environment is the one of record.py, without what it adds for itself.
var environment = map[string]string{
	"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME": "/root",
}

// predictor predicts imports by the Python of a root file system.
type predictor struct {
	fs     *layers.FS
	loader *elfdeps.Loader
	in     *pyenv.Interpreter
	env    map[string]string
	src    *pyimport.Sources
}

// newPredictor prepares the predictions for a file system.
func newPredictor(fs *layers.FS, read func(string) ([]byte, bool), more map[string]string) (*predictor, error) {
	e, _, ok := fs.Lookup(python)
	if !ok || e.Object == nil {
		return nil, fmt.Errorf("the root has no program %s", python)
	}
	vars := maps.Clone(environment)
	maps.Copy(vars, more)
	env := elfdeps.Env{}
	for k, v := range vars {
		env.Vars = append(env.Vars, k+"="+v)
	}
	slices.Sort(env.Vars)
	l, err := elfdeps.NewLoader(fs, e.Object.Interp, env)
	if err != nil {
		return nil, err
	}
	in, err := pyenv.Open(fs, python, pyenv.Options{Env: vars, Cwd: "/", User: "/root"})
	if err != nil {
		return nil, err
	}
	return &predictor{fs: fs, loader: l, in: in, env: vars, src: pyimport.NewSources(fs, read)}, nil
}

// openRoot indexes a root file system. If cache is not "", the index is kept in that
// directory, and taken from there the next time: for a root that does not change.
func openRoot(ctx context.Context, root, cache string) (*layers.FS, error) {
	img, err := layers.Open(ctx, "dir:"+root, layers.Options{Keep: keep, KeepID: "imports"})
	if err != nil || cache == "" {
		return index(ctx, img, err)
	}
	c, err := layers.OpenCache(cache, 1<<40)
	if err != nil {
		return nil, err
	}
	if l, ok := c.Layer(root, "imports"); ok {
		f := layers.Merge(l)
		f.Layers = img.Layers
		return f, nil
	}
	f, err := index(ctx, img, nil)
	if err != nil {
		return nil, err
	}
	var list []layers.Entry
	for e := range f.All() {
		list = append(list, *e)
	}
	return f, c.PutLayer(root, "imports", layers.NewLayer(list))
}

func index(ctx context.Context, img *layers.Image, err error) (*layers.FS, error) {
	if err != nil {
		return nil, err
	}
	return img.Index(ctx)
}

// keep reports whether pyenv reads a file.
func keep(name string, size int64) bool {
	switch path.Ext(name) {
	case ".pth", "._pth", ".cfg":
		return size < 1<<20
	}
	return path.Base(name) == "entry_points.txt" && size < 1<<20
}

// readRoot returns a function that reads Python files of a root file system: reduced, as an
// index keeps them, or whole.
func readRoot(fs *layers.FS, root string, whole bool) func(string) ([]byte, bool) {
	return func(p string) ([]byte, bool) {
		e, _, ok := fs.Lookup(p)
		if !ok || e.Type != layers.Regular {
			return nil, false
		}
		b, err := os.ReadFile(root + "/" + e.Path)
		if err == nil && !whole {
			b = pysource.Reduce(b)
		}
		return b, err == nil
	}
}

// predict predicts the import of a module by a new process, and returns its tree.
func (p *predictor) predict(module string) (*prediction, *pyimport.Node) {
	proc, err := p.loader.Start(python)
	if err != nil {
		return &prediction{module: module, outcome: Failed, typ: "the program", text: err.Error()}, nil
	}
	had := len(proc.Objects)
	h := &host{fs: p.fs, proc: proc, program: p.in.Real}
	r := pyimport.New(p.src, p.in, h, pyimport.Options{Env: p.env, Argv: []string{"-c"}, Cwd: "/"})
	site := r.Site()
	n := r.Import(module)
	out := &prediction{module: module, outcome: OK}
	if n.Failed != nil {
		out.outcome, out.typ, out.text, out.doubt = Failed, n.Failed.Type, n.Failed.Text, n.Failed.Doubt
	}
	out.add(site)
	out.add(n)
	for _, m := range proc.Objects[had:] {
		out.mapped = append(out.mapped, m.Real())
		if m.Truncated() { // its last pages are touched when it is relocated
			out.outcome, out.typ, out.text = Signal, "", ""
		}
	}
	return out, n
}

// add adds the modules of a tree, and what is not known.
func (p *prediction) add(n *pyimport.Node) {
	if n.Kind != pyimport.Program && n.Kind != pyimport.Library && n.Maybe == "" && n.Failed == nil {
		p.modules = append(p.modules, n.Name)
	}
	if n.Maybe != "" && (n.Kind == pyimport.Extension || n.Kind == pyimport.Library) && n.File != "" {
		p.maybe = append(p.maybe, n.File)
	}
	for _, u := range n.Unknown {
		p.unknown = append(p.unknown, n.Name+": "+u)
	}
	for _, c := range n.Nodes {
		p.add(c)
	}
}

// host is the process of a prediction.
type host struct {
	fs      *layers.FS
	proc    *elfdeps.Process
	program string
}

// Extension opens a module as _PyImport_FindSharedFuncptr does.
func (h *host) Extension(file, module string) *pyimport.Failure {
	m, err := h.proc.Dlopen(nil, file)
	if err != nil {
		return failure("ImportError", err)
	}
	name := "PyInit_" + module[strings.LastIndexByte(module, '.')+1:]
	if to, err := h.proc.Sym(m, name); to == nil && err != nil {
		return &pyimport.Failure{Type: "ImportError", Text: fmt.Sprintf("dynamic module does not define module export function (%s)", name), Cause: err}
	}
	return nil
}

// Dlopen opens a library for ctypes.
func (h *host) Dlopen(name string, flags int) *pyimport.Failure {
	f := elfdeps.Now
	if flags&0x100 != 0 {
		f |= elfdeps.Global
	}
	if _, err := h.proc.DlopenFlags(h.caller(), name, f); err != nil {
		return failure("OSError", err)
	}
	return nil
}

// caller returns the module of the process that calls dlopen for ctypes.
func (h *host) caller() *elfdeps.Module {
	for _, m := range h.proc.Objects {
		if strings.HasPrefix(path.Base(m.Path), "_ctypes.") {
			return m
		}
	}
	return nil
}

// failure returns the exception for an error of the loader.
func failure(typ string, err error) *pyimport.Failure {
	f := &pyimport.Failure{Type: typ, Text: err.Error(), Cause: err}
	if e, ok := err.(*elfdeps.Error); ok && e.Unknown {
		f.Doubt = "the file could not be examined"
	}
	return f
}

// FindLibrary is ctypes.util.find_library by the cache of ldconfig. It is not known where
// the root has a compiler or a linker, which find_library asks next.
func (h *host) FindLibrary(name string) (string, bool) {
	if e, _, ok := h.fs.Lookup("/etc/ld.so.cache"); ok {
		for _, c := range elfdeps.ParseCache(e.Content).Entries() {
			if strings.HasPrefix(c.Name, "lib"+name+".") {
				return c.Name, true
			}
		}
	}
	for _, tool := range []string{"gcc", "cc", "ld"} {
		if _, _, ok := h.fs.Lookup("/usr/bin/" + tool); ok {
			return "", false
		}
	}
	return "", true
}

// Defines reports whether a library that was opened defines a symbol.
func (h *host) Defines(name, symbol string) (is, known bool) {
	var m *elfdeps.Module
	if name != "" {
		if m = h.proc.Loaded(name); m == nil {
			return false, false
		}
	}
	to, err := h.proc.Sym(m, symbol)
	return to != nil, to != nil || err != nil
}
