package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// maxFolder limits the modules of one directory that are imported.
const maxFolder = 256

// folders imports the modules of the directories that a program imports one by one, in its
// process, after its own imports: what its arguments decide at run time is not known to the
// evaluator. A program that fails imports none.
func (st *starter) folders(run *pyimport.Run, j job, tree *pyimport.Node) []*Start {
	if j.python == nil || j.python.File == "" || tree.Failed != nil {
		return nil
	}
	home := path.Dir(RealPath(st.re.img.FS, j.python.File))
	var list []*Start
	for _, f := range st.re.packs.Folders {
		if f.Opens(j.python.Args) && st.tells(f, home) {
			list = append(list, st.modulesOf(run, j.start, f, path.Join(home, f.Dir))...)
		}
	}
	return list
}

// tells reports whether a directory has the files that tell the program of a folder.
func (st *starter) tells(f *packs.Folder, home string) bool {
	for _, file := range f.Beside {
		if !st.re.img.IsFile(path.Join(home, file)) {
			return false
		}
	}
	return true
}

// modulesOf imports the modules of a directory, in the order of their names.
func (st *starter) modulesOf(run *pyimport.Run, by *Start, f *packs.Folder, dir string) []*Start {
	var names []string
	for e := range st.re.img.FS.In(RealPath(st.re.img.FS, dir)) {
		if name := path.Base(e.Path); f.Takes(name) && len(names) < maxFolder {
			names = append(names, name)
		}
	}
	installed := map[string]bool{} // by a program that its directory runs first
	for _, name := range names {
		if file := path.Join(dir, name, f.First); f.First != "" && st.re.img.IsFile(file) {
			installed[name] = runsPrograms(run.Load(name, file))
		}
	}
	starts := slices.ContainsFunc(st.re.ev.Started.Programs, func(p startup.Program) bool {
		return f.Installs(p.Args[:min(len(p.Args), 3)]) || p.Python != nil && f.Installs([]string{p.Python.File, p.Python.Module})
	})
	var list []*Start
	for _, name := range names {
		file := path.Join(dir, name)
		if !strings.HasSuffix(name, ".py") {
			file += "/__init__.py"
		}
		if !st.re.img.IsFile(file) {
			continue
		}
		n := run.Load(strings.ReplaceAll(strings.TrimSuffix(path.Join(dir, name), ".py"), ".", "_"), file)
		if n.Failed != nil && n.Failed.Doubt == "" && (starts || installed[name] || runsPrograms(n)) {
			n.Failed.Doubt = "programs that it or the image's start runs may install what it lacks"
		}
		list = append(list, &Start{Chain: by.Chain, Python: by.Python, Folder: f, Name: name, Tree: n})
	}
	return list
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
