package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// runJob follows the program or the import of a job in a process, and returns its tree, or
// nil if it runs nothing that has source.
func (st *starter) runJob(run *pyimport.Run, j job) *pyimport.Node {
	var tree *pyimport.Node
	switch p := j.python; {
	case p == nil:
		return run.Import(j.module)
	case p.File != "":
		tree = run.Main(p.File, false, p.Args...)
	case p.Module != "":
		tree = run.Main(p.Module, true, p.Args...)
	case p.Embedded:
		tree = &pyimport.Node{Kind: pyimport.Program, Name: j.start.Python}
	case p.Code != "" && startup.Known(p.Code):
		tree = run.Code(p.Code, p.Args...)
	default:
		return nil
	}
	st.importNamed(run, j, tree)
	return tree
}

// importNamed adds to a program's tree the modules and files that its arguments name: gunicorn's
// application. A program that has failed imports none.
func (st *starter) importNamed(run *pyimport.Run, j job, tree *pyimport.Node) {
	p := j.python
	for _, dir := range slices.Backward(p.Path) {
		if startup.Known(dir) {
			run.AddPath(dir)
		}
	}
	for _, name := range p.Adds {
		run.Adds(name)
	}
	known := p.PathKnown // files with settings come before modules
	app := ""
	add := func(n *pyimport.Node) {
		tree.Nodes = append(tree.Nodes, n.Nodes...)
		tree.Unknown = append(tree.Unknown, n.Unknown...)
		tree.Failed = n.Failed
	}
	for _, i := range p.Imports {
		if tree.Failed != nil {
			return
		}
		var n *pyimport.Node
		switch {
		case !startup.Known(i.Module + i.File):
			continue
		case i.Module != "":
			if known {
				run.ForgetUnknownPath()
			}
			if i.Celery {
				n = run.Celery(i.Module, i.Worker)
			} else {
				n = run.Serve(i.Module)
			}
			module, _, _ := strings.Cut(i.Module, ":")
			st.mounted(n, module)
		default:
			if known {
				run.ForgetUnknownPath()
			}
			known = known && !run.Mentions(i.File, p.PathNames)
			n = run.File(i.File)
			n.Kind = pyimport.Module
			n = &pyimport.Node{Nodes: []*pyimport.Node{n}, Failed: n.Failed}
		}
		add(n)
		if i.Settings && tree.Failed == nil {
			if dir, ok := run.Setting(i.Module, i.File, p.ChdirName); ok {
				if !path.IsAbs(dir) {
					dir = path.Join("/", j.options.Cwd, dir)
				}
				run.AddPath(dir)
			}
			if text, ok := run.Setting(i.Module, i.File, p.AppName); ok {
				app, _, _ = strings.Cut(text, ":")
			}
		}
	}
	if app != "" && tree.Failed == nil {
		n := run.Import(app)
		st.mounted(n, app)
		add(n)
	}
}

// mounted marks the failure of a module that an argument names, and that is not there, as
// uncertain: an image for the applications of others gets it from a volume.
func (st *starter) mounted(n *pyimport.Node, module string) {
	f := n.Failed
	if f == nil || f.Type != "ModuleNotFoundError" {
		return
	}
	top, _, _ := strings.Cut(module, ".")
	if found := n.Nodes; f.Text == "No module named '"+module+"'" && module != top && len(found) > 0 && found[0].Name == top && found[0].Failed == nil && st.hasFiles(top) {
		return // the image has the package, so that no volume does
	}
	if _, rest, ok := strings.Cut(f.Text, "No module named '"+top); ok && (rest == "'" || strings.HasPrefix(rest, ".")) && f.Doubt == "" {
		f.Doubt = "the image has no module " + top + ", and may get it from a volume"
	}
}

// hasFiles reports whether a directory of the image with a package's name has a file. One
// without is perhaps the place of a volume.
func (st *starter) hasFiles(name string) bool {
	for e := range st.re.img.FS.All() {
		if e.Type == layers.Regular && path.Base(path.Dir(e.Path)) == name {
			return true
		}
	}
	return false
}
