package fix

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// asRequired returns the installation of a package in its own release with what it requires, if the
// first fix of a finding installs a release that the package's metadata requires: vllm 0.11.0, which
// requires torch==2.8.0. Else, for a finding about a package that an extra of another one pins, it
// returns the installation of that one with the extra: jax[cuda12]. pip then brings all that they
// require to the releases that fit. It returns nil if that changes a package which others need as it
// is. The replay has the metadata of the required releases.
func (m *maker) asRequired(_ *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 || m.inventory == nil {
		return nil
	}
	reqs, _, index, ok := f.Advice[0].Wheels()
	name := inventory.Normalize(f.Advice[0].Values["package"])
	if !ok || index != "" || len(reqs) != 1 || name == "" {
		return nil
	}
	wanted, err := inventory.ParseRequirement(reqs[0])
	p := m.pythonFor(reqs, nil, f)
	if err != nil || p == nil || m.objectOf(p.Interpreter) == nil {
		return nil
	}
	there := m.inventory.Wheels(p)
	if by := there[name]; by != nil {
		if i := m.withExtra(p, by, "", wanted.Name); i != nil {
			return i
		}
	}
	for _, other := range slices.Sorted(maps.Keys(there)) {
		for _, extra := range extrasFor(there[other], name) {
			if i := m.withExtra(p, there[other], extra, name); i != nil {
				return i
			}
		}
	}
	return nil
}

// withExtra returns the installation of a package, with an extra unless that is "", in its own
// release, or nil if that does not change the package of.
func (m *maker) withExtra(p *inventory.Python, by *inventory.Package, extra, of string) *install {
	if packs.LocalOf(by.Version) != "" || !plainWord(by.Version) {
		return nil // PyPI does not have it
	}
	text := by.Name + "==" + by.Version
	if extra != "" {
		text = by.Name + "[" + extra + "]==" + by.Version
	}
	w := &wheels{python: p, requirements: []string{text}, deps: true}
	s := Step{Kind: "install", Path: p.Sites[0], StandIn: true}
	there, env := m.inventory.Wheels(p), p.Markers(processors[m.objectOf(p.Interpreter).Machine])
	env["extra"] = extra
	changes := false
	for _, line := range by.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil {
			return nil
		}
		old := there[r.Name]
		holds, known := r.Applies(env)
		switch {
		case !known:
			return nil
		case !holds || old == nil || meets(old.Version, r.Specifiers):
			continue
		}
		to := chosen(r.Specifiers)
		if to == "" || packs.LocalOf(old.Version) != "" || m.neededAs(p, old, to) || m.compiledFor(p, old, to) {
			return nil
		}
		changes = changes || r.Name == of
		s.files = append(s.files, metadataFile(old.Path, old.Name, to))
		s.files = append(s.files, m.buildFile(p, old, to, m.localOf(p, old))...)
		s.files = append(s.files, m.anew(p, old)...)
	}
	if !changes {
		return nil
	}
	return &install{manager: "pip", packages: w.requirements, step: s, wheels: w}
}

// localOf returns the local part of the version that an installed package says of its build, or "".
func (m *maker) localOf(p *inventory.Python, pkg *inventory.Package) string {
	for _, b := range m.inventory.Builds {
		if inventory.Normalize(b.Name) == pkg.Name && b.Dir == p.Sites[0] {
			return packs.LocalOf(b.Version)
		}
	}
	return ""
}

// anew returns the libraries of a package as another release may have them: they need the same
// libraries, and their symbols are not known.
func (m *maker) anew(p *inventory.Python, pkg *inventory.Package) (list []file) {
	for _, at := range m.libraries(p, pkg) {
		e, _, _ := m.base.FS.Lookup(at)
		o := *e.Object
		o.Symbols = nil
		list = append(list, file{File: patch.File{Path: at, Mode: 0o755, Size: e.Size}, object: &o})
	}
	return list
}

// compiledFor reports whether a file of a Python's packages that needs a library of a package may
// need it in its installed release: the file is of no package that is made for the release to.
func (m *maker) compiledFor(p *inventory.Python, pkg *inventory.Package, to string) bool {
	own := map[string]bool{} // by their names, without the limit of libraries
	for at := range pkg.Files {
		own[path.Base(at)] = sharedObject.MatchString(at)
	}
	for e := range m.base.FS.All() {
		if e.Object != nil && ownDir(p, pkg, "/"+e.Path) {
			own[path.Base(e.Path)] = true
		}
	}
	for e := range m.base.FS.All() {
		at := "/" + e.Path
		if e.Object == nil || !strings.HasPrefix(at, p.Sites[0]+"/") || ownDir(p, pkg, at) {
			continue
		}
		if slices.ContainsFunc(e.Object.Needed, func(name string) bool { return own[name] }) && !m.madeFor(p, at, pkg, to) {
			return true
		}
	}
	return false
}

// madeFor reports whether a file is of a package that requires a single release of another one, or
// not the installed one, and that the release to is one which it requires.
func (m *maker) madeFor(p *inventory.Python, file string, of *inventory.Package, to string) bool {
	owners := wheelsOf(m.inventory, file)
	if len(owners) > 1 {
		owners = slices.DeleteFunc(owners, func(pkg *inventory.Package) bool { return !ownDir(p, pkg, file) })
	}
	return slices.ContainsFunc(owners, func(pkg *inventory.Package) bool {
		return slices.ContainsFunc(pkg.Requires, func(line string) bool {
			r, err := inventory.ParseRequirement(line)
			return err == nil && r.Name == of.Name && meets(to, r.Specifiers) && (exact.MatchString(r.Specifiers) || !meets(of.Version, r.Specifiers))
		})
	})
}

// extraName matches the condition of a requirement that an extra has.
var extraName = regexp.MustCompile(`extra == ['"]([A-Za-z0-9._-]+)['"]`)

// extrasFor returns the extras by which a package requires releases of another one, sorted.
func extrasFor(pkg *inventory.Package, name string) (list []string) {
	for _, line := range pkg.Requires {
		r, err := inventory.ParseRequirement(line)
		if err != nil || r.Name != name || r.Specifiers == "" {
			continue
		}
		for _, found := range extraName.FindAllStringSubmatch(r.Marker, -1) {
			list = addNew(list, found[1])
		}
	}
	slices.Sort(list)
	return list
}
