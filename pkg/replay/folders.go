package replay

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// maxFolder limits the modules of one directory that are imported.
const maxFolder = 256

// folder is a directory of modules, and the program that imports them.
type folder struct {
	*packs.Folder
	st   *starter
	run  *pyimport.Run // of the program
	by   *Start
	home string // directory of the program's file
}

// folders imports the modules of the directories that a program imports one by one, in its
// process, after its own imports. The evaluator does not follow the program there: options that are
// read at run time decide it. A program that fails imports none.
func folders(st *starter, run *pyimport.Run, j job, tree *pyimport.Node) []*Start {
	if j.python == nil || j.python.File == "" || tree.Failed != nil {
		return nil
	}
	home := path.Dir(RealPath(st.re.img.FS, j.python.File))
	var list []*Start
	for _, f := range st.re.packs.Folders {
		if f := (&folder{f, st, run, j.start, home}); f.Opens(j.python.Args) && f.isPrograms() {
			modules, left := f.modules()
			list = append(list, modules...)
			if left > 0 {
				tree.Unknown = append(tree.Unknown, fmt.Sprintf("%d of the names in %s, which are more than are followed", left, path.Join(home, f.Dir)))
			}
		}
	}
	return list
}

// isPrograms reports whether the files that tell the program lie beside its file.
func (f *folder) isPrograms() bool {
	for _, file := range f.Beside {
		if !f.st.re.img.IsFile(path.Join(f.home, file)) {
			return false
		}
	}
	return true
}

// modules imports the modules of the directory, in the order of their names, and returns how many
// names are left.
func (f *folder) modules() (list []*Start, left int) {
	st, dir := f.st, path.Join(f.home, f.Dir)
	var names []string
	for e := range st.re.img.FS.In(RealPath(st.re.img.FS, dir)) {
		if name := path.Base(e.Path); f.Takes(name) {
			names = append(names, name)
		}
	}
	if left = max(0, len(names)-maxFolder); left > 0 {
		names = names[:maxFolder]
	}
	installed := map[string]bool{} // by a program that its directory runs first
	for _, name := range names {
		if file := path.Join(dir, name, f.First); f.First != "" && st.re.img.IsFile(file) {
			installed[name] = runsPrograms(f.run.Load(name, file))
		}
	}
	starts := slices.ContainsFunc(st.re.ev.Started.Programs, func(p startup.Program) bool {
		return f.Installs(p.Args[:min(len(p.Args), 3)]) || p.Python != nil && f.Installs([]string{p.Python.File, p.Python.Module})
	})
	for _, name := range names {
		file := path.Join(dir, name)
		if !strings.HasSuffix(name, ".py") {
			file += "/__init__.py"
		}
		if !st.re.img.IsFile(file) {
			continue
		}
		n := f.run.Load(strings.ReplaceAll(strings.TrimSuffix(path.Join(dir, name), ".py"), ".", "_"), file)
		if n.Failed != nil && n.Failed.Doubt == "" && (starts || installed[name] || runsPrograms(n)) {
			n.Failed.Doubt = "programs that it or the image's start runs may install what it lacks"
		}
		list = append(list, &Start{Chain: f.by.Chain, Python: f.by.Python, Folder: f.Folder, Name: name, Tree: n})
	}
	return list, left
}

// runsPrograms reports whether a module of a tree runs a program, as far as its source is followed.
func runsPrograms(n *pyimport.Node) bool {
	for _, u := range n.Unknown {
		if strings.Contains(u, pyimport.RunsProgram) {
			return true
		}
	}
	for _, c := range n.Nodes {
		if runsPrograms(c) {
			return true
		}
	}
	return false
}
