package fix

import (
	"fmt"
	"path"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// otherBuild returns the installation of another build of an installed wheel, with what it requires,
// if the first fix of a finding names one: torch 2.6.0+cu124 in place of 2.6.0+cpu. The packages that
// are made for the wheel and are there in the same build go with it. It returns nil if the fix names
// none, or if the wheel is not there in that release. The replay has the libraries that the fix says
// the build brings, empty, and metadata and build files that say the build.
func (m *maker) otherBuild(now *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 || m.inventory == nil || f.Advice[0].Pip == nil || !f.Advice[0].Pip.Deps {
		return nil
	}
	reqs, _, index, ok := f.Advice[0].Wheels()
	if !ok || len(reqs) != 1 {
		return nil
	}
	r, err := inventory.ParseRequirement(reqs[0])
	p := m.pythonFor(reqs, nil, f)
	if err != nil || p == nil {
		return nil
	}
	there := m.inventory.Wheels(p)
	old, local := there[r.Name], packs.LocalOf(r.Specifiers)
	if was, _, _ := strings.Cut(old.Version, "+"); r.Specifiers != "=="+was+"+"+local || local == "" {
		return nil
	}
	w := &wheels{python: p, index: index, deps: true}
	s := Step{Kind: "install", Path: p.Sites[0], StandIn: true}
	add := func(pkg *inventory.Package) {
		release, _, _ := strings.Cut(pkg.Version, "+")
		w.requirements = append(w.requirements, pkg.Name+"=="+release+"+"+local)
		s.files = append(s.files, metadataFile(pkg.Path, pkg.Name, release+"+"+local))
		s.files = append(s.files, m.buildFile(p, pkg, release, local)...)
	}
	add(old)
	for _, pair := range m.packs.Pairs {
		if pkg := there[pair.Package]; pair.For == old.Name && pkg != nil && packs.LocalOf(pkg.Version) == packs.LocalOf(old.Version) {
			add(pkg)
		}
	}
	for _, name := range f.Advice[0].Brought() {
		if at := path.Join(p.Sites[0], name); !isThere(now, at) {
			s.files = append(s.files, m.empty(p, at))
		}
	}
	return &install{manager: "pip", packages: w.requirements, step: s, wheels: w}
}

// buildFile returns the file that says which CUDA an installed package is built for, as that of
// another build has it, or none if the image's does not say.
func (m *maker) buildFile(p *inventory.Python, pkg *inventory.Package, release, local string) []file {
	for _, b := range m.inventory.Builds {
		if inventory.Normalize(b.Name) == pkg.Name && b.Dir == p.Sites[0] && path.Base(b.Path) == "version.py" {
			version := strings.TrimSuffix(release+"+"+local, "+")
			return []file{textFile(b.Path, fmt.Sprintf("__version__ = '%s'\ncuda = '%s'\n", version, packs.CudaOfBuild(version)))}
		}
	}
	return nil
}

// isThere reports whether an image has a path.
func isThere(img *replay.Image, at string) bool {
	_, _, ok := img.FS.Lookup(at)
	return ok
}
