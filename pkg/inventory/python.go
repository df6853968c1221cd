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

// Python is an environment: an interpreter and the directories of packages that
// it looks into.
type Python struct {
	// Prefix is the directory above bin and lib: /usr, /opt/venv.
	Prefix string `json:"prefix"`
	// Version is major and minor, "3.12"; empty when no path tells.
	Version string `json:"version,omitempty"`
	// Interpreter is the python of the environment, links not followed; empty
	// when it is not there.
	Interpreter string `json:"interpreter,omitempty"`
	// Home is the directory of the interpreter that a virtual environment was
	// made with (pyvenv.cfg).
	Home string `json:"home,omitempty"`
	// Sites are the directories of packages, those that come first on sys.path
	// first; with the base's for a virtual environment that asks for them.
	Sites []string `json:"sites,omitempty"`

	system bool // include-system-site-packages
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

// findPythons gathers the directories of packages into environments. Debian's
// python looks into /usr/local/lib/python3.X/dist-packages,
// /usr/lib/python3/dist-packages and /usr/lib/python3.X/dist-packages
// (Debian Python policy 3.1.1); the others into PREFIX/lib/python3.X/site-packages.
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
				prefix = "/usr" // Fedora's python looks there as well
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
			inv.unread(path.Join(p.Prefix, "pyvenv.cfg")[1:], fmt.Sprintf("its Python looks into more than the %d directories of packages that are looked at of one", maxSites))
			p.Sites = p.Sites[:maxSites:maxSites]
		}
	}
}

// siteRank puts Debian's directories in the order of its sys.path.
func siteRank(site string) int {
	switch {
	case strings.HasPrefix(site, "/usr/local/"):
		return 0
	case strings.HasSuffix(site, distPython):
		return 1
	}
	return 2
}

// libRank puts lib64 before lib, as site.getsitepackages() does where sys.platlibdir is
// lib64 (Red Hat, Fedora, SUSE).
func libRank(site string) int {
	if strings.Contains(site, "/lib64/python") {
		return 0
	}
	return 1
}

// sites are the directories that wheels are installed in, sorted.
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

// environment is that of a prefix, made where there is none. Debian's directory
// for all versions joins the one version that there is.
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

// interpreter is the environment's python, if it is there.
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

// baseSites are the directories of the environment that a virtual one was made
// in: one of those with the same directory of programs.
func baseSites(homes []*Python, venv *Python) []string {
	for _, p := range homes {
		if p != venv && (p.Version == venv.Version || p.Version == "" || venv.Version == "") {
			return p.Sites
		}
	}
	return nil
}

// Wheels are the distributions that an environment sees, by name. Of two of the
// same name in different directories the first on sys.path counts; a name that
// one directory has twice, in different versions, is left out: which of them was
// unpacked last is not known.
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

// wheelsIn are the distributions in a directory of packages: they stand together.
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
