package fix

import (
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// repair returns the installation of the wheels that the first fix of a finding names, or nil
// if it names none, or it is not certain for which Python, or pip would have to install
// other wheels as well. In the replay the metadata of a wheel gets the release that pip
// would choose, and empty libraries are in the place of the wheel's files that are gone or
// changed, and of those that the finding is about.
func (m *maker) repair(now *replay.Image, f *lint.Finding) *install {
	if len(f.Advice) == 0 || m.inventory == nil {
		return nil
	}
	reqs, remove, index, ok := f.Advice[0].Wheels()
	if pip := f.Advice[0].Pip; !ok || pip.Deps || pip.Here || pip.Find != "" {
		return nil
	}
	brought := f.Advice[0].Brought()
	p := m.pythonFor(reqs, remove, f)
	if p == nil && len(brought) > 0 && len(reqs) == 1 {
		p = m.pythonOf(siteOf(f))
	}
	if p == nil {
		return nil
	}
	there := m.inventory.Wheels(p)
	w := &wheels{python: p, index: index, remove: remove}
	s := Step{Kind: "install", Path: p.Sites[0], StandIn: true}
	for _, name := range remove {
		if pkg := there[name]; !slices.Contains(reqs, name) {
			s.files = append(s.files, removedFile(pkg.Path))
		}
	}
	for _, text := range reqs {
		r, err := inventory.ParseRequirement(text)
		if err != nil {
			return nil
		}
		old := there[r.Name]
		if old != nil && r.Specifiers != "" && !meets(old.Version, r.Specifiers) {
			if pin := m.pinOf(p, r); pin != "" {
				r.Specifiers, text = pin, r.Name+pin
			}
		}
		switch {
		case old == nil && len(brought) > 0:
			text = m.fitted(p, r)
			s.files = append(s.files, newMetadata(p, text))
		case old == nil:
			return nil // nothing shows that the files would be found
		case index != "" && path.Base(index) != packs.LocalOf(old.Version) && chosen(r.Specifiers) != "" && !pinsOthers(old, f.Advice[0].Values["for"]):
			w.again = true
			s.files = append(s.files, metadataFile(old.Path, old.Name, chosen(r.Specifiers)+"+"+path.Base(index)))
			s.files = append(s.files, m.buildFile(p, old, chosen(r.Specifiers), path.Base(index))...)
			s.files = append(s.files, m.renewed(now, p, old, f, true)...)
		case r.Specifiers == "" || meets(old.Version, r.Specifiers):
			if w.index == "" {
				if w.index, ok = m.indexOf(old); !ok {
					return nil
				}
			}
			text, w.again = old.Name+"=="+old.Version, true
			s.files = append(s.files, m.renewed(now, p, old, f, len(remove) > 0)...)
		case f.Advice[0].Values["for"] == "" && (m.isFramework(old.Name) || f.Kind == packs.Symbol):
			return nil // what is compiled against it would have to change too
		case chosen(r.Specifiers) == "" || pinsOthers(old, f.Advice[0].Values["for"]) || m.neededAs(p, old, chosen(r.Specifiers)):
			return nil
		default:
			s.files = append(s.files, metadataFile(old.Path, old.Name, chosen(r.Specifiers)))
			s.files = append(s.files, m.renewed(now, p, old, f, false)...)
		}
		w.requirements = append(w.requirements, text)
	}
	for _, name := range brought {
		at := path.Join(p.Sites[0], name)
		if _, _, ok := now.FS.Lookup(at); !ok {
			s.files = append(s.files, m.empty(p, at))
		}
	}
	return &install{manager: "pip", packages: w.requirements, step: s, wheels: w}
}

// fitted returns the requirement of a wheel that a Python does not have, with the release that its
// other packages require, or for a wheel of CUDA that of the image's CUDA.
func (m *maker) fitted(p *inventory.Python, r inventory.Requirement) string {
	if pin := m.pinOf(p, r); pin != "" {
		return r.Name + pin
	}
	release := version.ParseRelease(m.cudaRelease())
	cuda := release.First(1).String()
	if r.Specifiers != "" || len(release) < 2 || !strings.HasPrefix(r.Name, "nvidia-cuda-") {
		return r.Name + r.Specifiers
	}
	if _, of, ok := strings.Cut(r.Name, "-cu1"); ok && "1"+of != cuda || !ok && cuda != "13" {
		return r.Name + r.Specifiers
	}
	return r.Name + "==" + release.First(2).String() + ".*"
}

// newMetadata returns the metadata of a wheel that meets a requirement, in a Python that does not
// have it.
func newMetadata(p *inventory.Python, requirement string) file {
	r, _ := inventory.ParseRequirement(requirement)
	release := cmp.Or(chosen(r.Specifiers), "0")
	dir := strings.ReplaceAll(r.Name, "-", "_") + "-" + release + ".dist-info"
	return metadataFile(path.Join(p.Sites[0], dir, "METADATA"), r.Name, release)
}

// empty returns an empty file of a wheel: a library, if it has the name of one.
func (m *maker) empty(p *inventory.Python, at string) file {
	like := m.objectOf(p.Interpreter)
	if like == nil || !sharedObject.MatchString(path.Base(at)) {
		return textFile(at, "")
	}
	o := &elfdeps.Object{Ident: like.Ident, Type: elf.ET_DYN, Machine: like.Machine, Version: like.Version, Dynamic: true, Stack: elfdeps.StackNoExec}
	return file{File: patch.File{Path: at, Mode: 0o755, Size: 4096}, object: o}
}

// conflicts reports whether wheels are installed in another release by an installation of the
// list. w may be nil.
func (w *wheels) conflicts(list []install) bool {
	if w == nil {
		return false
	}
	for _, i := range list {
		if i.wheels == nil || i.wheels.python != w.python {
			continue
		}
		for _, a := range w.requirements {
			for _, b := range i.wheels.requirements {
				ra, errA := inventory.ParseRequirement(a)
				rb, errB := inventory.ParseRequirement(b)
				if errA != nil || errB != nil || ra.Name == rb.Name && ra.Specifiers != rb.Specifiers {
					return true
				}
			}
		}
	}
	return false
}

// pythonFor returns the only Python that has some wheels in the directory of its packages. If the
// finding is about packages of one directory, it is the Python of that one. It returns nil if
// there are several, or none.
func (m *maker) pythonFor(reqs, remove []string, f *lint.Finding) *inventory.Python {
	var found *inventory.Python
	site := siteOf(f)
	for _, p := range m.inventory.Pythons {
		if len(p.Sites) == 0 || m.pythonOf(p.Sites[0]) != p || site != "" && site != p.Sites[0] {
			continue
		}
		there := m.inventory.Wheels(p)
		has := func(name string) bool { return there[name] != nil && there[name].Dir == p.Sites[0] }
		fits := !slices.ContainsFunc(remove, func(name string) bool { return !has(name) })
		for _, text := range reqs {
			r, err := inventory.ParseRequirement(text)
			if err != nil || !has(r.Name) {
				fits = false
			}
		}
		if !fits {
			continue
		}
		if found != nil {
			return nil
		}
		found = p
	}
	return found
}

// siteOf returns the directory of the packages that a finding is about, or "" if it names the
// metadata of none, or of packages in several directories.
func siteOf(f *lint.Finding) string {
	site := ""
	for _, n := range slices.Concat(f.NeededBy, f.Present) {
		dir := path.Dir(n.Path)
		if path.Base(n.Path) != "METADATA" || path.Ext(dir) != ".dist-info" || site != "" && site != path.Dir(dir) {
			return ""
		}
		site = path.Dir(dir)
	}
	return site
}

// pinsOthers reports whether a wheel requires single releases of others, of which another release
// of it would require others; not counting the package that the fix chooses the release for.
func pinsOthers(pkg *inventory.Package, but string) bool {
	return slices.ContainsFunc(pkg.Requires, func(line string) bool {
		r, err := inventory.ParseRequirement(line)
		return err != nil || r.Name != but && strings.Contains(r.Specifiers, "==") && !strings.Contains(line, "extra ==")
	})
}

// isFramework reports whether extensions are compiled against a wheel, or it records the CUDA that
// it is built for: another release of it goes with other releases of other wheels.
func (m *maker) isFramework(name string) bool {
	return m.packs.ExtensionHosts.Has(name) || slices.ContainsFunc(m.inventory.Builds, func(b *inventory.Build) bool { return inventory.Normalize(b.Name) == name })
}

// neededAs reports whether a package of a Python requires the installed release of a wheel, or
// another one that the release to is not.
func (m *maker) neededAs(p *inventory.Python, old *inventory.Package, to string) bool {
	for _, pkg := range m.inventory.Wheels(p) {
		for _, line := range pkg.Requires {
			r, err := inventory.ParseRequirement(line)
			if err == nil && r.Name == old.Name && r.Specifiers != "" && meets(old.Version, r.Specifiers) && !meets(to, r.Specifiers) {
				return true
			}
		}
	}
	return false
}

// pinOf returns the specifier of the one release of a wheel that packages of a Python require, if
// it meets a requirement; "" if they require none, or several.
func (m *maker) pinOf(p *inventory.Python, wanted inventory.Requirement) string {
	pin := ""
	for _, pkg := range m.inventory.Wheels(p) {
		for _, line := range pkg.Requires {
			r, err := inventory.ParseRequirement(line)
			if err != nil || r.Name != wanted.Name || !exact.MatchString(r.Specifiers) || strings.Contains(line, "extra ==") {
				continue
			}
			if !meets(strings.TrimPrefix(r.Specifiers, "=="), wanted.Specifiers) || pin != "" && pin != r.Specifiers {
				return ""
			}
			pin = r.Specifiers
		}
	}
	return pin
}

// renewed returns empty libraries in the place of files of a wheel that pip writes anew: those
// that are gone or have another size than in RECORD, those that a finding is about, or all
// of them.
func (m *maker) renewed(now *replay.Image, p *inventory.Python, pkg *inventory.Package, f *lint.Finding, all bool) []file {
	like := m.objectOf(p.Interpreter)
	if like == nil {
		return nil
	}
	about := append(slices.Clone(f.Affected), f.Subject)
	for _, n := range slices.Concat(f.NeededBy, f.Present) {
		about = append(about, n.Path)
	}
	var list []file
	for _, name := range slices.Sorted(maps.Keys(pkg.Files)) {
		if !sharedObject.MatchString(path.Base(name)) || len(list) >= maxSiblings {
			continue
		}
		e, _, ok := now.FS.Lookup(name)
		size := pkg.Files[name].Size
		asWritten := ok && !slices.Contains(about, name) && (e.Object == nil && e.Size == size || e.Object != nil && !all && (size < 0 || size == e.Size))
		if asWritten {
			continue
		}
		o := &elfdeps.Object{Ident: like.Ident, Type: elf.ET_DYN, Machine: like.Machine, Version: like.Version, Dynamic: true, Stack: elfdeps.StackNoExec}
		if ok && e.Object != nil {
			o.Soname = e.Object.Soname
		}
		list = append(list, file{File: patch.File{Path: name, Mode: 0o755, Size: max(4096, size)}, object: o})
	}
	return list
}

// sharedObject matches the names of shared objects.
var sharedObject = regexp.MustCompile(`\.so(\.[0-9.]+)?$`)

// objectOf returns the ELF file at a path, or nil.
func (m *maker) objectOf(p string) *elfdeps.Object {
	if e, _, ok := m.base.FS.Lookup(p); ok {
		return e.Object
	}
	return nil
}

// metadataFile returns the metadata of a wheel.
func metadataFile(at, name, version string) file {
	return textFile(at, fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version))
}

// meets reports whether a release meets specifiers.
func meets(release, specifiers string) bool {
	ok, err := version.Satisfies(release, specifiers)
	return err == nil && ok
}

// chosen returns a release that meets specifiers, as pip may choose it, or "" if none is known.
func chosen(specifiers string) string {
	for clause := range strings.SplitSeq(specifiers, ",") {
		v := strings.TrimSuffix(strings.TrimLeft(strings.TrimSpace(clause), "=<>~!"), ".*")
		for _, candidate := range []string{v, v + ".0", before(v), v + ".1"} {
			if candidate != "" && meets(candidate, specifiers) {
				return candidate
			}
		}
	}
	return ""
}

// before returns a release before a release of numbers: "1.99" before "2".
func before(release string) string {
	r := version.ParseRelease(release)
	for i := len(r) - 1; i >= 0; i-- {
		if r[i] > 0 {
			out := slices.Clone(r[:i+1])
			out[i]--
			return out.String() + ".99"
		}
	}
	return ""
}
