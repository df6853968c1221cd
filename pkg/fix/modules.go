package fix

import (
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// unknownModule is a module of which nothing is known: its names may be there.
const unknownModule = "def __getattr__(name):\n    return None\n"

// newPackage returns the installation of a package that has the module which a program does not
// find, with what it requires, if the first fix of a finding names it, or nil: if it is not certain
// for which Python, or if the package is there and another one requires its release. The replay has
// the module without its submodules, and any name in it, also in the place of another release's.
func (m *maker) newPackage(now *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 || m.inventory == nil || f.Advice[0].Pip == nil || !f.Advice[0].Pip.Deps {
		return nil
	}
	reqs, _, index, ok := f.Advice[0].Wheels()
	if !ok || len(reqs) != 1 || index != "" {
		return nil
	}
	r, err := inventory.ParseRequirement(reqs[0])
	p := m.runs(f)
	if err != nil || p == nil {
		return nil
	}
	old := m.inventory.Wheels(p)[r.Name]
	if old != nil && (meets(old.Version, r.Specifiers) || chosen(r.Specifiers) == "" || m.neededAs(p, old, chosen(r.Specifiers))) {
		return nil
	}
	text := r.Name + r.Specifiers
	s := Step{Kind: "install", Path: p.Sites[0], StandIn: true}
	if old != nil {
		s.files = append(s.files, metadataFile(old.Path, old.Name, chosen(r.Specifiers)))
	} else {
		s.files = append(s.files, newMetadata(p, text))
	}
	for _, name := range f.Advice[0].Brought() {
		if at := path.Join(p.Sites[0], name); old != nil || !isThere(now, at) {
			s.files = append(s.files, textFile(at, unknownModule))
		}
	}
	return &install{manager: "pip", packages: []string{text}, step: s, wheels: &wheels{python: p, requirements: []string{text}, deps: true}}
}

// runs returns the Python that runs the program of a finding: the one whose packages need what is
// missing, else the only one that has the name of the program's interpreter; or nil.
func (m *maker) runs(f *lint.Finding) *inventory.Python {
	var named []*inventory.Python
	for _, p := range m.inventory.Pythons {
		if len(p.Sites) == 0 || m.pythonOf(p.Sites[0]) != p {
			continue
		}
		for _, n := range f.NeededBy {
			if strings.HasPrefix(n.Path, p.Sites[0]+"/") {
				return p
			}
		}
		if path.Base(m.real(p.Interpreter)) == f.Advice[0].Values["python"] {
			named = append(named, p)
		}
	}
	if len(named) != 1 {
		return nil
	}
	return named[0]
}
