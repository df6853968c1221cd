package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Python is an environment: an interpreter and the directories of packages that it
// searches.
type Python struct {
	// Prefix is the directory above bin and lib: /usr, /opt/venv.
	Prefix string `json:"prefix"`
	// Version is major and minor, "3.12", or "" if no path has it.
	Version string `json:"version,omitempty"`
	// Interpreter is the python of the environment, with links not followed, or "" if
	// there is none.
	Interpreter string `json:"interpreter,omitempty"`
	// Home is the directory of the interpreter that made a virtual environment
	// (pyvenv.cfg).
	Home string `json:"home,omitempty"`
	// Sites are the directories of packages, in the order of sys.path. Those of the base
	// follow if a virtual environment asks for them.
	Sites []string `json:"sites,omitempty"`

	system bool // include-system-site-packages
}

// Markers returns the values of environment markers in an environment of CPython on Linux. machine
// is that of uname: "x86_64"; empty if it is not known.
func (p *Python) Markers(machine string) MarkerEnv {
	env := MarkerEnv{
		"platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
		"implementation_name": "cpython", "platform_python_implementation": "CPython",
	}
	if machine != "" {
		env["platform_machine"] = machine
	}
	if p.Version != "" {
		env["python_version"] = p.Version
	}
	return env
}

// readVenv reads pyvenv.cfg (PEP 405).
func readVenv(inv *Inventory, name string, b []byte) error {
	if path.Base(name) != "pyvenv.cfg" {
		return nil
	}
	p := &Python{Prefix: path.Dir("/" + name)}
	for line := range lines(b) {
		key, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		if len(value) > maxText {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "home":
			p.Home = value
		case "include-system-site-packages":
			p.system = strings.EqualFold(value, "true")
		case "version", "version_info":
			p.Version = minor.FindString(value)
		}
	}
	if p.Home == "" {
		return errors.New("it has no home")
	}
	inv.Pythons = append(inv.Pythons, p)
	return nil
}

var (
	minor      = regexp.MustCompile(`^\d+\.\d+`)
	libPython  = regexp.MustCompile(`^(.*)/lib(?:64)?/python(\d+\.\d+)t?/(site|dist)-packages$`)
	distPython = "/lib/python3/dist-packages"
)

// findPythons groups the directories of packages into environments. Debian's Python
// searches /usr/local/lib/python3.X/dist-packages, /usr/lib/python3/dist-packages and
// /usr/lib/python3.X/dist-packages (Debian Python policy 3.1.1); others search
// PREFIX/lib/python3.X/site-packages.
func (inv *Inventory) findPythons(fsys fs.FS) {
	byPrefix := map[string][]*Python{}
	for _, p := range inv.Pythons {
		byPrefix[p.Prefix] = append(byPrefix[p.Prefix], p)
	}
	for _, site := range inv.sites() {
		prefix, version := site, ""
		switch m := libPython.FindStringSubmatch(site); {
		case m != nil && m[3] == "dist":
			prefix, version = "/usr", m[2]
		case m != nil:
			prefix, version = cmp.Or(m[1], "/"), m[2]
			if prefix == "/usr/local" && !exists(fsys, "usr/local/bin/python"+version) && exists(fsys, "usr/bin/python"+version) {
				prefix = "/usr" // Fedora's Python also searches there
			}
		case strings.HasSuffix(site, distPython):
			prefix = strings.TrimSuffix(site, distPython)
		}
		p := inv.environment(byPrefix, prefix, version)
		p.Sites = append(p.Sites, site)
	}
	for _, p := range inv.Pythons {
		slices.SortFunc(p.Sites, func(a, b string) int {
			return cmp.Or(siteRank(a)-siteRank(b), libRank(a)-libRank(b), cmp.Compare(a, b))
		})
		p.Interpreter = interpreter(fsys, p)
	}
	byBin := map[string][]*Python{}
	for _, p := range inv.Pythons {
		bin := path.Join(p.Prefix, "bin")
		byBin[bin] = append(byBin[bin], p)
	}
	for _, p := range inv.Pythons {
		if p.system {
			p.Sites = append(p.Sites, baseSites(byBin[path.Clean(p.Home)], p)...)
		}
		if len(p.Sites) > maxSites {
			inv.unread(path.Join(p.Prefix, "pyvenv.cfg")[1:], fmt.Sprintf("its Python searches more than %d directories of packages, and the others were skipped", maxSites))
			p.Sites = p.Sites[:maxSites:maxSites]
		}
	}
}

// siteRank orders Debian's directories as its sys.path does.
func siteRank(site string) int {
	switch {
	case strings.HasPrefix(site, "/usr/local/"):
		return 0
	case strings.HasSuffix(site, distPython):
		return 1
	}
	return 2
}

// libRank puts lib64 before lib, as site.getsitepackages() does if sys.platlibdir is
// lib64 (Red Hat, Fedora, SUSE).
func libRank(site string) int {
	if strings.Contains(site, "/lib64/python") {
		return 0
	}
	return 1
}

// sites returns the directories with wheels, sorted.
func (inv *Inventory) sites() []string {
	var list []string
	for _, p := range inv.Packages {
		if p.Kind == Wheel {
			list = append(list, p.Dir)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// environment returns the environment of a prefix, and makes one if there is none.
// Debian's directory for all versions joins the only version.
func (inv *Inventory) environment(byPrefix map[string][]*Python, prefix, version string) *Python {
	for _, p := range byPrefix[prefix] {
		if p.Version == version || p.Version == "" || version == "" {
			p.Version = cmp.Or(p.Version, version)
			return p
		}
	}
	p := &Python{Prefix: prefix, Version: version}
	inv.Pythons = append(inv.Pythons, p)
	byPrefix[prefix] = append(byPrefix[prefix], p)
	return p
}

// interpreter returns the environment's python, or "" if there is none.
func interpreter(fsys fs.FS, p *Python) string {
	dir := strings.TrimSuffix(p.Prefix, "/") + "/bin/"
	names := []string{"python3", "python"}
	if p.Version != "" {
		names = append([]string{"python" + p.Version}, names...)
	}
	for _, name := range names {
		if exists(fsys, dir[1:]+name) {
			return dir + name
		}
	}
	return ""
}

func exists(fsys fs.FS, name string) bool {
	st, err := fs.Stat(fsys, name)
	return err == nil && !st.IsDir()
}

// baseSites returns the directories of the environment that made a virtual one: one of
// those that share its directory of programs.
func baseSites(homes []*Python, venv *Python) []string {
	for _, p := range homes {
		if p != venv && (p.Version == venv.Version || p.Version == "" || venv.Version == "") {
			return p.Sites
		}
	}
	return nil
}

// Wheels returns the distributions that an environment sees, by name. If two directories
// have the same name, the first on sys.path counts. A name that one directory has twice,
// in different versions, is left out, because nothing shows which of them was unpacked
// last.
func (inv *Inventory) Wheels(p *Python) map[string]*Package {
	seen := map[string]*Package{}
	for _, site := range p.Sites {
		here := map[string]*Package{}
		for _, w := range inv.wheelsIn(site) {
			if other, twice := here[w.Name]; twice && (other == nil || other.Version != w.Version) {
				here[w.Name] = nil
				continue
			}
			here[w.Name] = w
		}
		for name, w := range here {
			if _, hidden := seen[name]; !hidden {
				seen[name] = w
			}
		}
	}
	for name, w := range seen {
		if w == nil {
			delete(seen, name)
		}
	}
	return seen
}

// wheelsIn returns the distributions in a directory of packages. They are adjacent in the
// sorted list.
func (inv *Inventory) wheelsIn(site string) []*Package {
	begin, _ := slices.BinarySearchFunc(inv.Packages, site, func(p *Package, site string) int {
		return cmp.Or(cmp.Compare(p.Kind, Wheel), cmp.Compare(p.Dir, site))
	})
	end := begin
	for end < len(inv.Packages) && inv.Packages[end].Kind == Wheel && inv.Packages[end].Dir == site {
		end++
	}
	return inv.Packages[begin:end]
}
