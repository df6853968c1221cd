package pyenv

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/plain"
)

// siteRun is a run of site.main.
type siteRun struct {
	*boot
	known    map[string]bool // known_paths
	path     []string        // sys.path
	prefixes []string        // PREFIXES
	user     bool            // ENABLE_USER_SITE
	egg      eggState
	pthLines int // that were read
}

// site sets SysPath and Prefix, and applies the .pth files, as site.main does.
func (b *boot) site() {
	if b.noSite {
		b.SysPath = b.paths
		return
	}
	s := &siteRun{boot: b, known: map[string]bool{}}
	for _, p := range b.paths { // removeduppaths
		s.append(abs(b.o.Cwd, p))
	}
	s.prefixes = []string{b.Prefix, b.ExecPrefix, s.flavour.extra}
	s.user = !(b.o.NoUserSite || b.o.Isolated || b.isolated || b.getenv("PYTHONNOUSERSITE") != "")
	s.virtual()
	s.addUser()
	if s.flavour.local && s.user && b.o.Env["RPM_BUILD_ROOT"] == "" {
		s.prefixes = slices.Insert(s.prefixes, 0, "/usr/local")
	}
	s.addSites(s.prefixes)
	b.SysPath = s.path
}

// append adds a directory to sys.path that is not on it.
func (s *siteRun) append(dir string) {
	if !s.known[dir] && len(s.path) < maxEntries {
		s.known[dir] = true
		s.path = append(s.path, dir)
	}
}

// virtual is site.venv.
func (s *siteRun) virtual() {
	near := parent(s.Path)
	above := parent(near)
	c := s.readVenv(near, above)
	if c.dir == "" {
		return
	}
	if c.unread {
		s.unknown("%s/pyvenv.cfg was not read, so that it is not known whether the environment has the system's packages", plain.Name(c.dir))
	}
	s.venvCfg = c
	s.Prefix, s.ExecPrefix = above, above
	s.addSites([]string{above})
	if c.system {
		s.prefixes = slices.Insert(s.prefixes, 0, above)
		return
	}
	s.prefixes = []string{above}
	s.user = false
}

// addUser is site.addusersitepackages.
func (s *siteRun) addUser() {
	if !s.user {
		return
	}
	base := s.o.Env["PYTHONUSERBASE"]
	if base == "" {
		home := s.o.Env["HOME"]
		if home == "" {
			home = s.o.User
		}
		if home == "" {
			s.unknown("the user's home directory is not known, so that it is not known whether it has packages")
			return
		}
		base = strings.TrimRight(home, "/") + "/.local"
	}
	dir := abs(s.o.Cwd, base+"/lib/"+s.subdir+"/site-packages")
	s.addSite(dir)
}

// addSites is site.addsitepackages.
func (s *siteRun) addSites(prefixes []string) {
	seen := map[string]bool{"": true}
	for _, prefix := range prefixes {
		if seen[prefix] {
			continue
		}
		seen[prefix] = true
		for _, dir := range s.sitesOf(prefix) {
			s.addSite(abs(s.o.Cwd, prefix+"/"+dir))
		}
	}
}

// sitesOf is site.getsitepackages for one prefix.
func (s *siteRun) sitesOf(prefix string) []string {
	var dirs []string
	libs := []string{s.PlatLibDir}
	if s.PlatLibDir != "lib" {
		libs = append(libs, "lib")
	}
	if !s.Debian {
		for _, lib := range libs {
			dirs = append(dirs, lib+"/"+s.subdir+"/site-packages")
		}
		return dirs
	}
	if s.BasePrefix != s.Prefix {
		dirs = append(dirs, "lib/"+s.subdir+"/site-packages")
	}
	dirs = append(dirs, "local/lib/"+s.subdir+"/dist-packages", "lib/python3/dist-packages")
	for _, lib := range libs {
		dirs = append(dirs, lib+"/"+s.subdir+"/dist-packages")
	}
	return dirs
}

// addSite is site.addsitedir for a directory that exists.
func (s *siteRun) addSite(dir string) {
	e, _, ok := s.fs.Lookup(dir)
	if !ok || !e.IsDir() {
		if why := s.skipped(dir); why != "" {
			s.unknown("whether the image has %s: %s", plain.Name(dir), why)
		}
		return
	}
	s.append(dir)
	(*list)(&s.Sites).add(dir)
	for _, skip := range s.fs.Skipped {
		if name, ok := strings.CutPrefix(skip.Path, e.Path+"/"); ok && strings.HasSuffix(name, ".pth") && !strings.Contains(name, "/") {
			s.unknown("%s/%s was not read: %s", plain.Name(dir), plain.Name(name), skip.Why)
		}
	}
	for f := range s.fs.In("/" + e.Path) {
		name := path.Base(f.Path)
		if !strings.HasSuffix(name, ".pth") || strings.HasPrefix(name, ".") && s.skipsHidden(dir, name) {
			continue
		}
		s.addPth(dir, name)
	}
}

// skipsHidden reports whether site ignores .pth files that begin with a dot: since
// 3.13, 3.12.2, 3.11.8 and 3.10.14.
func (s *siteRun) skipsHidden(dir, name string) bool {
	since := map[int]int{10: 14, 11: 8, 12: 2}
	first, backported := since[s.Minor]
	switch {
	case !backported:
		return s.Minor >= 13
	case s.Micro < 0:
		s.unknown("whether site reads %s/%s, since the release of Python %d.%d is not known", plain.Name(dir), plain.Name(name), s.Major, s.Minor)
		return true
	}
	return s.Micro >= first
}

// flavour describes a distribution's changes of site.py.
type flavour struct {
	debian bool   // dist-packages
	local  bool   // Red Hat: /usr/local is the first prefix if the user site is enabled
	extra  string // a further prefix
}

var extraPrefix = regexp.MustCompile(`(?m)^PREFIXES\s*=\s*\[sys\.prefix,\s*sys\.exec_prefix,\s*["'](/[^"'\n]{1,200})["']`)

// findFlavour reads site.py for the changes of distributions. Without its text, files that
// only those distributions have decide.
func (b *boot) findFlavour() flavour {
	text, _, kept := b.read(b.StdLib + "/site.py")
	if !kept {
		return flavour{
			debian: b.isFile("/etc/"+b.subdir+"/sitecustomize.py") && b.BasePrefix == "/usr" || b.BasePrefix == "/usr" && b.isDir("/usr/lib/python3/dist-packages"),
			local:  b.BasePrefix == "/usr" && b.PlatLibDir == "lib64" && (b.exists("/etc/redhat-release") || b.exists("/etc/system-release")),
		}
	}
	f := flavour{debian: strings.Contains(string(text), "dist-packages")}
	f.local = strings.Contains(string(text), "RPM_BUILD_ROOT") // beside PREFIXES.insert(0, "/usr/local")
	if m := extraPrefix.FindSubmatch(text); m != nil {
		f.extra = string(m[1])
	}
	return f
}
