package fix

import (
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// buildTools are the packages that the setup of an extension imports beside its framework: pip's
// --no-build-isolation installs none.
var buildTools = []string{"packaging", "setuptools", "wheel"}

// extensionBuild returns the installation of the build of an extension for the framework that is
// installed, if the first fix of a finding names a page that has it, or a package whose setup takes
// it; or nil. The replay has the package's libraries, and their symbols are not known.
func (m *maker) extensionBuild(_ *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 || m.inventory == nil || f.Advice[0].Pip == nil {
		return nil
	}
	page, here := f.Advice[0].Page(), f.Advice[0].Pip.Here
	reqs, _, _, ok := f.Advice[0].Wheels()
	if !ok || len(reqs) != 1 || page == "" && !here || page != "" && !plainWord(page) || here && !m.hasShell() {
		return nil
	}
	r, err := inventory.ParseRequirement(reqs[0])
	p := m.pythonFor(reqs, nil, f)
	if err != nil || p == nil || m.objectOf(p.Interpreter) == nil {
		return nil
	}
	s := Step{Kind: "install", Path: p.Sites[0], StandIn: true, files: m.anew(p, m.inventory.Wheels(p)[r.Name])}
	w := &wheels{python: p, requirements: reqs, again: true, find: page, here: here}
	return &install{manager: "pip", packages: reqs, step: s, wheels: w}
}
