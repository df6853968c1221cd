package replay

import (
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
)

// SearchPath returns the directories of sys.path, in order, of the Python that imports
// the packages in site: PYTHONPATH, its site-packages directories, and site itself if
// neither has it.
func (pa *Packages) SearchPath(site string) []string {
	list := pa.pythonPath()
	if p := pa.pythonAt(site); p != nil {
		list = append(list, p.Sites...)
		list = append(list, pa.sitesBelow(p)...)
	}
	if !slices.Contains(list, site) {
		list = append(list, site)
	}
	// The inventory has no directories whose packages lack metadata.
	for _, dir := range slices.Clone(list) {
		if twin := libTwin(dir); twin != "" && !slices.Contains(list, twin) {
			list = append(list, twin)
		}
	}
	return list
}

// sitesBelow returns the site-packages directories that come after those of a user (pip
// install --user, site.USER_BASE): those of the Pythons of the same version that are no
// virtual environments.
func (pa *Packages) sitesBelow(user *inventory.Python) []string {
	var list []string
	if path.Base(user.Prefix) != ".local" {
		return nil
	}
	for _, p := range pa.inv.Pythons {
		if p.Interpreter != "" && p.Home == "" && p.Version == user.Version {
			list = append(list, p.Sites...)
		}
	}
	return list
}

// pythonPath returns the directories of PYTHONPATH.
func (pa *Packages) pythonPath() []string {
	value, _ := pa.config.Getenv("PYTHONPATH")
	var list []string
	for _, dir := range strings.Split(value, ":") {
		if value == "" || len(list) == maxPythonPath {
			break
		}
		if !path.IsAbs(dir) {
			dir = path.Join("/", pa.config.Env().Cwd, dir)
		}
		list = append(list, path.Clean(dir))
	}
	return list
}

// maxPythonPath limits the directories of PYTHONPATH. Every file of a preload is looked
// up in each.
const maxPythonPath = 64

// pythonAt returns the environment that sees a site-packages directory, or nil. If
// several do, it is the one that the directory belongs to.
func (pa *Packages) pythonAt(site string) *inventory.Python {
	var best *inventory.Python
	for _, p := range pa.inv.Pythons {
		if !slices.Contains(p.Sites, site) {
			continue
		}
		if best == nil || IsIn(site, p.Prefix) && (!IsIn(site, best.Prefix) || len(p.Prefix) > len(best.Prefix)) {
			best = p
		}
	}
	return best
}

// libTwin returns PREFIX/lib/pythonX.Y/site-packages for
// PREFIX/lib64/pythonX.Y/site-packages and the reverse, or "". If Python's platlibdir is
// lib64 (Red Hat, SUSE), site.getsitepackages() has both, lib64 first. pip installs
// packages with compiled code to lib64 and others, such as NVIDIA's wheels, to lib.
func libTwin(site string) string {
	if before, after, ok := strings.Cut(site, "/lib64/python"); ok {
		return before + "/lib/python" + after
	}
	if before, after, ok := strings.Cut(site, "/lib/python"); ok {
		return before + "/lib64/python" + after
	}
	return ""
}
