package pyenv

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// locate sets the prefixes and the paths before site: Modules/getpath.py from 3.11 on,
// Modules/getpath.c before.
func (b *boot) locate() {
	b.noSite = b.o.NoSite
	dir := b.startDir()
	home := b.getenv("PYTHONHOME")
	pth, pthLines := "", []string(nil)
	if b.Minor >= 11 {
		pth, pthLines = b.underPth()
	}
	if pth != "" {
		b.env, b.isolated, home = false, true, pth
	}
	b.PlatLibDir = b.platLibDir(dir, home)
	b.findPrefix(dir, home)
	b.findExecPrefix(dir, home)
	b.BasePrefix, b.BaseExecPrefix = b.Prefix, b.ExecPrefix
	if b.venv != "" && b.Minor >= 14 {
		b.Prefix, b.ExecPrefix = b.venv, b.venv
	}
	if b.isFile(parent(b.Real) + "/pybuilddir.txt") {
		b.unknown("%s runs from its build directory, whose layout is not known", plain.Name(b.Real))
	}
	if pth != "" {
		b.fromPth(pth, pthLines)
		return
	}
	if v := b.getenv("PYTHONPATH"); v != "" {
		for _, p := range splitPath(v) {
			if strings.Contains(p, unknownPart) {
				b.unknown("a directory of PYTHONPATH is not known")
				continue
			}
			b.paths = append(b.paths, abs(b.o.Cwd, p))
		}
	}
	b.paths = append(b.paths, b.BasePrefix+"/"+b.PlatLibDir+"/"+strings.Replace(b.subdir, ".", "", 1)+".zip")
	if b.Minor < 7 {
		b.paths = append(b.paths, b.StdLib) // 3.6 has it twice
	}
	b.paths = append(b.paths, b.StdLib, b.BaseExecPrefix+"/"+b.PlatLibDir+"/"+b.subdir+"/lib-dynload")
}

// unknownPart stands for a part of a variable that is not known (startup.Hole).
const unknownPart = "\x00"

// splitPath splits a list of directories, of which only the first maxEntries count.
func splitPath(v string) []string {
	l := strings.SplitN(v, ":", maxEntries+1)
	return l[:min(len(l), maxEntries)]
}

// startDir returns the directory from which the search for the prefix starts
// (executable_dir, argv0_path), and finds the virtual environment on the way.
func (b *boot) startDir() string {
	exe, dir := b.Path, parent(b.Real)
	if b.Minor < 11 {
		exe = b.resolveLast(b.Path)
		dir = parent(exe)
	}
	if b.getenv("PYTHONHOME") != "" && b.Minor >= 11 {
		return dir
	}
	near, above := parent(exe), parent(parent(exe))
	if b.Minor >= 11 {
		near, above = above, near // getpath.py looks above first
	}
	c := b.readVenv(near, above)
	if c.unread {
		b.unknown("%s/pyvenv.cfg was not read, so that the home of the environment is not known", plain.Name(c.dir))
	}
	if c.home == "" {
		return dir
	}
	if b.Minor >= 11 {
		b.venv = c.dir
	}
	return path.Clean(c.home)
}

// underPth finds a ._pth file beside the program, and returns its directory and lines.
func (b *boot) underPth() (dir string, lines []string) {
	for _, p := range []string{b.library, b.Path, b.Real} {
		if p == "" || p == b.library && b.Minor < 14 {
			continue
		}
		text, there, kept := b.read(p + "._pth")
		if !there {
			continue
		}
		if !kept {
			b.unknown("%s._pth was not read, so that sys.path is not known", plain.Name(p))
		}
		return parent(p), strings.Split(string(text[:min(len(text), maxText)]), "\n")
	}
	return "", nil
}

// fromPth sets the paths from a ._pth file.
func (b *boot) fromPth(dir string, lines []string) {
	b.noSite = true
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		switch {
		case line == "import site":
			b.noSite = b.o.NoSite
		case line != "" && !strings.HasPrefix(line, "import ") && len(b.paths) < maxEntries:
			b.paths = append(b.paths, abs(dir, line))
		}
	}
}

// platLibDir returns sys.platlibdir, which is built into the program: the directory in
// which the nearest standard library is.
func (b *boot) platLibDir(dir, home string) string {
	if v := b.getenv("PYTHONPLATLIBDIR"); v != "" && b.Minor >= 9 && len(v) < maxLine {
		return strings.Trim(v, "/")
	}
	found := "lib"
	test := func(dir string) bool {
		for _, lib := range libDirs {
			if b.hasOS(dir + "/" + lib + "/" + b.subdir) {
				found = lib
				return true
			}
		}
		return false
	}
	if home != "" {
		first, _, _ := strings.Cut(home, ":")
		test(first)
		return found
	}
	if searchUp(dir, test) == "" {
		searchUp(parent(b.Real), test)
	}
	return found
}

// checkRead adds to Unknown that files which decide sys.path may be there and were not
// read, and that no entry of sys.path has the standard library.
func (b *boot) checkRead() {
	for _, p := range []string{parent(b.Path) + "/pyvenv.cfg", parent(parent(b.Path)) + "/pyvenv.cfg", b.StdLib} {
		if why := b.skipped(p); why != "" && !b.exists(p) {
			b.unknown("whether the image has %s: %s", plain.Name(p), why)
		}
	}
	has := func(p string) bool { return b.hasOS(p) || path.Ext(p) == ".zip" && b.isFile(p) }
	if !slices.ContainsFunc(b.paths, has) {
		b.unknown("the standard library was not found at %s", plain.Name(b.StdLib))
	}
}

// findPrefix sets Prefix and StdLib.
func (b *boot) findPrefix(dir, home string) {
	stdlib := b.PlatLibDir + "/" + b.subdir
	zip := b.PlatLibDir + "/" + strings.Replace(b.subdir, ".", "", 1) + ".zip"
	switch {
	case home != "":
		b.Prefix, _, _ = strings.Cut(home, ":")
	default:
		if b.Minor >= 11 {
			b.Prefix = searchUp(dir, func(d string) bool { return b.isFile(d + "/" + zip) })
		}
		hasOS := func(d string) bool { return b.hasOS(d + "/" + stdlib) }
		if b.Prefix == "" {
			b.Prefix = searchUp(dir, hasOS)
		}
		if b.Prefix == "" {
			b.Prefix = b.builtPrefix(hasOS)
		}
	}
	b.StdLib = b.Prefix + "/" + stdlib
}

// builtPrefix returns the prefix that the program was most likely built with, which
// counts if no landmark is above the program.
func (b *boot) builtPrefix(test func(string) bool) string {
	if p := searchUp(parent(b.Real), test); p != "" {
		return p
	}
	for _, p := range []string{"/usr/local", "/usr"} {
		if test(p) {
			b.unknown("no standard library is above %s: the prefix that it was built with is taken to be %s", plain.Name(b.Path), p)
			return p
		}
	}
	return "/usr/local" // configure's default
}

// findExecPrefix sets ExecPrefix.
func (b *boot) findExecPrefix(dir, home string) {
	if home != "" {
		first, second, two := strings.Cut(home, ":")
		if b.ExecPrefix = first; two {
			b.ExecPrefix = second
		}
		return
	}
	landmark := b.PlatLibDir + "/" + b.subdir + "/lib-dynload"
	b.ExecPrefix = searchUp(dir, func(d string) bool { return b.isDir(d + "/" + landmark) })
	if b.ExecPrefix == "" {
		b.ExecPrefix = b.Prefix
	}
}
