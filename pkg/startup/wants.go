package startup

import (
	"path"
	"strings"
)

// maxScript limits the size of a script that is read, in bytes.
const maxScript = 256 << 10

// WantsID names the version of Wants. Change it with every change of Wants.
const WantsID = "startup 6"

// Wants reports whether [Follow] may read a file's content, by its path without a leading
// slash and its size in bytes. It goes by names: scripts and programs' directories, the
// files of process managers, and those that say who a user is. Files that begin with `#!`
// are kept under any name.
func Wants(name string, size int64) bool {
	if size > maxScript || size == 0 {
		return false
	}
	dir, base := path.Split(name)
	if wantedNames[base] {
		return !strings.Contains(name, "node_modules/")
	}
	switch path.Ext(base) {
	case ".sh", ".bash", ".envsh", ".env":
		return true
	case ".conf", ".ini":
		return strings.Contains(base, "wsgi") || base == "app.ini" || strings.Contains(base, "supervisor") || strings.Contains(dir, "supervisor") || strings.Contains(base, "circus")
	case "":
		return isProgramDir(dir) || isService(name) || isStart(base) || base == "version" && strings.HasSuffix(dir, "pyenv/")
	}
	return isService(name)
}

// wantedNames are files that are read wherever they are.
var wantedNames = map[string]bool{
	"Procfile": true, "package.json": true, "pixi.toml": true, "pyproject.toml": true, "Pipfile": true, "hatch.toml": true, "passwd": true, "activate": true,
	"circus.ini": true, "alembic.ini": true, "pyvenv.cfg": true, ".bashrc": true, ".bash_profile": true, ".profile": true,
	"model-settings.json": true, "settings.json": true, "config.pbtxt": true, "config.properties": true, "MANIFEST.json": true, "bentofile.yaml": true, "bentofile.yml": true, "bento.yaml": true, "cog.yaml": true,
	"profile": true, "bash.bashrc": true, "environment": true, ".env": true, "env": true, ".python-version": true,
}

// isProgramDir reports whether a directory, with a slash at its end, holds programs.
func isProgramDir(dir string) bool {
	return dir == "" || strings.HasSuffix(dir, "bin/") || strings.HasSuffix(dir, "scripts/")
}

// isService reports whether a file describes a service of s6 or runit, or is one of the
// scripts that an entrypoint sources from a directory.
func isService(name string) bool {
	for _, dir := range []string{"etc/services.d/", "etc/s6-overlay/", "etc/cont-init.d/", "etc/service/", "etc/sv/", "entrypoint.d/", "activate.d/", "etc/supervisor"} {
		if strings.HasPrefix(name, dir) || strings.Contains(name, "/"+dir) {
			return true
		}
	}
	return false
}

// isStart reports whether the name of a file without a suffix says that it starts
// something.
func isStart(base string) bool {
	for _, word := range []string{"entrypoint", "start", "launch", "serve", "run", "boot", "init", "cmd"} {
		if strings.Contains(strings.ToLower(base), word) {
			return true
		}
	}
	return false
}
