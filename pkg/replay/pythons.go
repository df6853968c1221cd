package replay

import (
	"path"
	"slices"
	"strings"
)

// Pythons returns the paths of the interpreters that may load the file at p: those of the
// prefix whose lib/pythonX.Y or lib64/pythonX.Y has it, or of its conda prefix. The image may not have them.
func (lo *Loaders) Pythons(p string) []string {
	for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
		name := path.Base(dir)
		if strings.HasPrefix(name, "python3") && (path.Base(path.Dir(dir)) == "lib" || path.Base(path.Dir(dir)) == "lib64") {
			prefix := path.Dir(path.Dir(dir))
			list := []string{prefix + "/bin/" + name, prefix + "/bin/python3", prefix + "/bin/python"}
			if prefix == "/usr/local" { // Debian's pip installs there for /usr's python
				list = append(list, "/usr/bin/"+name, "/usr/bin/python3")
			}
			return list
		}
		if _, _, ok := lo.img.FS.Lookup(dir + "/conda-meta"); ok {
			return []string{dir + "/bin/python3", dir + "/bin/python"}
		}
	}
	return nil
}

// StartsPython reports whether the image has an interpreter that loads the file at p.
// Only the processes of that interpreter load the file, so that a library that the replay
// misses there is missing.
func (lo *Loaders) StartsPython(p string) bool {
	return slices.ContainsFunc(lo.Pythons(p), func(python string) bool {
		e, _, ok := lo.img.FS.Lookup(python)
		return ok && e.Object != nil && e.Object.Machine == lo.files.Machine
	})
}
