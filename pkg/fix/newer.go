package fix

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/patch"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// newerWheel returns the installation of the wheel of a GPU library whose loaded copy lacks a symbol:
// in the release that the packages of the Python require, else in a later one than the installed one.
// The copy may lie elsewhere, if the file that needs the symbol finds that of a wheel first. It returns
// nil if no wheel has the library, or a package requires the installed release. The replay has the
// wheel's libraries, and their symbols are not known: of a library's releases, the later ones have the
// symbols of the earlier ones.
func (m *maker) newerWheel(now *replay.Image, f *lint.Finding) *install {
	if f.BoundTo == nil || f.Symbol == "" || m.inventory == nil {
		return nil
	}
	copied := path.Base(f.BoundTo.Path)
	lib := provide.LibraryOf(copied)
	if lib == nil || otherCUDA(lib, copied) {
		return nil
	}
	cuda := cmp.Or(provide.CUDAOf([]string{f.Library}), m.cudaMajor(f))
	names := lib.WheelNames(cuda)
	p, dir := m.wheelDir(lib, cuda, f)
	if p == nil || cuda == "" || len(names) != 1 || m.objectOf(p.Interpreter) == nil {
		return nil
	}
	r := inventory.Requirement{Name: inventory.Normalize(names[0])}
	old := m.inventory.Wheels(p)[r.Name]
	r.Specifiers = m.pinOf(p, r)
	if old != nil {
		if r.Specifiers == "" {
			r.Specifiers = ">" + old.Version
		}
		if meets(old.Version, r.Specifiers) || chosen(r.Specifiers) == "" || m.neededAs(p, old, chosen(r.Specifiers)) {
			return nil
		}
	}
	text := r.Name + r.Specifiers
	s := Step{Kind: "install", Path: dir, StandIn: true}
	if old != nil {
		s.files = append(s.files, metadataFile(old.Path, old.Name, chosen(r.Specifiers)))
	} else {
		s.files = append(s.files, newMetadata(p, text))
	}
	there := false
	entries, _ := fs.ReadDir(now.FS, strings.TrimPrefix(dir, "/"))
	for _, d := range entries {
		e, _, ok := now.FS.Lookup(path.Join(dir, d.Name()))
		if !ok || e.Object == nil || provide.LibraryOf(d.Name()) != lib || len(s.files) > maxSiblings {
			continue
		}
		o := *e.Object
		o.Symbols, there = nil, true
		s.files = append(s.files, file{File: patch.File{Path: path.Join(dir, d.Name()), Mode: 0o755, Size: e.Size}, object: &o})
	}
	if !there {
		library := m.empty(p, path.Join(dir, f.Library))
		library.object.Soname, library.object.Needed = f.Library, provide.NeededBy(f.Library, cuda)
		s.files = append(s.files, library)
	}
	return &install{manager: "pip", packages: []string{text}, step: s, wheels: &wheels{python: p, requirements: []string{text}}}
}

// wheelDir returns the Python whose packages a wheel's copy of a library belongs to that a finding is
// about, and the directory of that copy; else the Python whose package needs the symbol, and the
// directory in which the wheel would have it.
func (m *maker) wheelDir(lib *provide.Library, cuda string, f *lint.Finding) (*inventory.Python, string) {
	if p := m.pythonWith(lib, path.Dir(f.BoundTo.Path)); p != nil {
		return p, path.Dir(f.BoundTo.Path)
	}
	if f.Kind != packs.Mixture && f.Kind != packs.Symbol || len(lib.Dirs) == 0 {
		return nil, ""
	}
	return m.neededIn(lib, cuda, f)
}

// neededIn returns the Python whose package a finding's library is needed by, and the directory in
// which a wheel would have the library, or nil. The library has directories.
func (m *maker) neededIn(lib *provide.Library, cuda string, f *lint.Finding) (*inventory.Python, string) {
	dir := lib.Dirs[0]
	for _, d := range lib.Dirs {
		if strings.HasPrefix(d, "nvidia/cu"+cuda+"/") {
			dir = d
		}
	}
	for _, p := range m.inventory.Pythons {
		for _, n := range f.NeededBy {
			if len(p.Sites) > 0 && m.pythonOf(p.Sites[0]) == p && strings.HasPrefix(n.Path, p.Sites[0]+"/") {
				return p, path.Join(p.Sites[0], dir)
			}
		}
	}
	return nil, ""
}

// newerCopy returns the copy of a GPU library's files from a public image that has it in the release that
// a package needs, in the place of those of an older one that are no wheel's, or nil. The older files are
// removed: what is copied has the names by which the loader opens it.
func (m *maker) newerCopy(now *replay.Image, f *lint.Finding) *install {
	if f.Kind != packs.Package || len(f.Advice) == 0 || f.Advice[0].Values["least"] == "" || !m.hasShell() {
		return nil
	}
	for _, p := range f.Present {
		dir, lib := path.Dir(p.Path), provide.LibraryOf(path.Base(p.Path))
		if lib == nil || m.pythonWith(lib, dir) != nil || !plainWord(dir) {
			continue
		}
		if i := m.copiesTo(now, lib, dir, f.Advice[0].Values["cuda"], ">="+f.Advice[0].Values["least"]); i != nil {
			return i
		}
	}
	return nil
}

// copiesTo returns the copy of the files that a library has in a directory from a public image that has
// a release which meets a specifier, or nil.
func (m *maker) copiesTo(now *replay.Image, lib *provide.Library, dir, cuda, specifier string) *install {
	var names, old []string
	s := Step{Kind: "install", Path: dir, StandIn: true}
	entries, _ := fs.ReadDir(now.FS, strings.TrimPrefix(dir, "/"))
	for _, d := range entries {
		at := path.Join(dir, d.Name())
		e, _, ok := now.FS.Lookup(at)
		if !ok || e.Object == nil || provide.LibraryOf(d.Name()) != lib || !plainWord(at) {
			continue
		}
		if len(names)+len(old) >= maxSiblings {
			return nil
		}
		if !byMajor.MatchString(d.Name()) {
			old = append(old, at)
			s.files = append(s.files, removedFile(at))
			continue
		}
		o := *e.Object
		o.Symbols = nil
		names = append(names, d.Name())
		s.files = append(s.files, file{File: patch.File{Path: at, Mode: 0o644, Size: e.Size}, object: &o})
	}
	img := provide.ImageWith(names, cuda, m.cudaRelease(), []string{specifier})
	if img == nil {
		return nil
	}
	triple := "x86_64-linux-gnu"
	if c := m.base.Config; c != nil && c.Architecture == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	i := &install{manager: "run", step: s, lines: []string{"COPY --from=" + img.Ref + " " + strings.Join(img.Sources(names, triple), " ") + " " + dir + "/"}}
	if len(old) > 0 {
		i.command = "rm -f " + strings.Join(old, " ")
	}
	return i
}

// byMajor matches the name of a library by which the loader opens it: with its major version alone.
var byMajor = regexp.MustCompile(`\.so\.\d+$`)
