package replay

import (
	"bytes"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/startup"
)

// maxWrappers limits the scripts that are followed for the programs that no start reaches.
const maxWrappers = 32

// wrapped starts the programs that miss something and that the image's start does not reach,
// as the scripts of the image start them: many a program lies beside a run.sh that sets
// LD_LIBRARY_PATH for it. Of several ways that with the fewest misses counts. A program that
// no script starts may be started as the others in the directory of the script are.
func (st *starter) wrapped(reached map[*Object][]*elfdeps.Error) {
	var left []*Object
	for _, o := range st.re.files.Objects {
		if _, is := reached[o]; !is && IsProgram(o.ELF) && len(o.Misses) > 0 && o.Path != st.re.config.Entry().Path {
			left = append(left, o)
		}
	}
	if len(left) == 0 {
		return
	}
	list := st.wrappers()
	for _, o := range left {
		for i := range list {
			w := &list[i]
			real := RealPath(st.re.img.FS, w.Path)
			if real == o.Path || path.Dir(w.script) == path.Dir(o.Path) && path.Dir(real) == path.Dir(o.Path) {
				st.startAs(o, w)
			}
		}
	}
}

// startAs starts a program in the environment of a wrapped one. The misses are the program's
// if they are fewer.
func (st *starter) startAs(o *Object, w *wrapper) {
	as := w.Program
	as.Path = o.Path
	proc := st.startIn(o, &as)
	if proc == nil {
		return
	}
	misses := kept(st.re.files.Real(st.re.files.MissesOf(proc, proc.Program())))
	if len(misses) < len(o.Misses) {
		o.Misses = misses
	}
}

// wrapper is a program that a script of the image starts.
type wrapper struct {
	startup.Program
	script string // its path
}

// wrappers returns the ELF programs that the scripts of the image start which say where
// libraries are.
func (st *starter) wrappers() []wrapper {
	table, err := starters()
	if err != nil || st.re.img.Config == nil {
		return nil
	}
	env := map[string]string{"PATH": defaultPath}
	for _, v := range st.re.config.Env().Vars {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	var list []wrapper
	n := 0
	for e := range st.re.img.FS.All() {
		if !isWrapper(e) {
			continue
		}
		if n++; n > maxWrappers {
			break
		}
		from := &startup.Program{Dir: path.Join("/", st.re.config.Env().Cwd)}
		for _, p := range startup.Become(st.re.img.FS, table, from, startup.Execve{Argv: []string{"/" + e.Path}, Env: env}) {
			if p.Path != "" && p.Kind == "" {
				list = append(list, wrapper{p, "/" + e.Path})
			}
		}
	}
	return list
}

// isWrapper reports whether a file is a script that sets a search path of the loader.
func isWrapper(e *layers.Entry) bool {
	return e.Type == layers.Regular && e.Mode&0o111 != 0 && strings.HasSuffix(path.Base(shebangProgram(e.Shebang)), "sh") &&
		(bytes.Contains(e.Content, []byte(packs.LdLibraryPath)) || bytes.Contains(e.Content, []byte("--library-path")))
}
