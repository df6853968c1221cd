package startup

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// maxPyenv limits the versions that a file of pyenv selects.
const maxPyenv = 32

// pyenv is `pyenv exec PROGRAM`, which the shims of pyenv run: the program is that of the
// first selected version that has it (libexec/pyenv-exec, pyenv-which).
func (st *started) pyenv() {
	if len(st.operands) == 0 {
		return
	}
	root := st.p.env["PYENV_ROOT"]
	if root == "" {
		root = st.p.env["HOME"] + "/.pyenv"
	}
	at, line := st.v.at()
	selected, why := st.pyenvVersions(root)
	for _, v := range selected {
		if !Known(v) || !Known(root) {
			why = "the version that pyenv selects is not known"
			break
		}
		var dirs []string
		if v != "system" {
			dir := st.pyenvDir(root, v)
			if dir == "" {
				continue
			}
			dirs = []string{dir + "/bin"}
		}
		for dir := range strings.SplitSeq(st.p.env["PATH"], ":") {
			if v != "system" || path.Clean(dir) != path.Clean(root+"/shims") {
				dirs = append(dirs, dir)
			}
		}
		if v != "system" {
			if _, _, ok := st.fs.Lookup(dirs[0] + "/" + st.operands[0]); !ok {
				continue
			}
		}
		st.p = st.p.with("PATH", strings.Join(dirs, ":"))
		st.program()
		return
	}
	if why == "" {
		why = "pyenv has no " + st.operands[0] + " in the versions that it selects: " + strings.Join(selected, ", ")
	}
	st.unknown(at, line, why)
}

// pyenvVersions returns the versions that pyenv selects: by PYENV_VERSION, else by the
// nearest .python-version of the working directory, else by the file version of its root,
// else the system's (pyenv-version-name, pyenv-version-file).
func (st *started) pyenvVersions(root string) (list []string, why string) {
	if v := st.p.env["PYENV_VERSION"]; v != "" {
		return strings.Split(v, ":"), ""
	}
	var files []string
	for dir := absolute(st.p.dir, "/"); ; dir = path.Dir(dir) {
		files = append(files, path.Join(dir, ".python-version"))
		if dir == "/" {
			break
		}
	}
	for _, file := range append(files, absolute(root+"/version", st.p.dir)) {
		if _, _, ok := st.fs.Lookup(file); !ok {
			continue
		}
		text, why := content(st.fs, file)
		if why != "" {
			return nil, file + ": " + why
		}
		for l := range strings.Lines(text) {
			l, _, _ = strings.Cut(l, "#")
			list = append(list, strings.Fields(l)...)
		}
		if len(list) > 0 {
			return list[:min(len(list), maxPyenv)], ""
		}
	}
	return []string{"system"}, ""
}

// pyenvDir returns the directory of a version: of that name, or the newest release that
// begins with it, as 3.11.9 for 3.11 (pyenv-latest). It returns "" if there is none.
func (st *started) pyenvDir(root, version string) string {
	version = strings.TrimPrefix(version, "python-")
	if version == "" || strings.ContainsAny(version, "/*?[") {
		return ""
	}
	dir := absolute(root+"/versions/"+version, st.p.dir)
	if e, _, ok := st.fs.Lookup(dir); ok && e.IsDir() {
		return dir
	}
	dirs, _ := glob(st.fs, dir+".*")
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return release(d) < 0 })
	if len(dirs) == 0 {
		return ""
	}
	return slices.MaxFunc(dirs, func(a, b string) int { return release(a) - release(b) })
}

// release returns the number after the last dot of a path, or -1.
func release(dir string) int {
	n, err := strconv.Atoi(dir[strings.LastIndexByte(dir, '.')+1:])
	if err != nil || n < 0 {
		return -1
	}
	return n
}
