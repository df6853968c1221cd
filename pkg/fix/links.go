package fix

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/lint"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// links offers links under the missing name: beside a file that is the library under
// another name, with links for its sub-libraries. For a directory that the loader does not
// search, the link goes into a directory that the asking file names, or the directory into
// LD_LIBRARY_PATH.
func (m *maker) links(f *lint.Finding) []candidate {
	var list []candidate
	if f.Library == "" || path.Base(f.Library) != f.Library {
		return nil
	}
	for _, file := range offers(f) {
		dir, base := path.Dir(file.Path), path.Base(file.Path)
		if m.ofOtherCUDA(f, file.Path) {
			continue
		}
		steps := append([]Step{link(dir, f.Library, base)}, m.siblings(dir, f.Library)...)
		beside := candidate{text: fmt.Sprintf("the link %s/%s", dir, f.Library), steps: steps}
		if base != f.Library {
			list = append(list, beside)
		}
		for _, own := range m.ownDirs(f) {
			if own != dir {
				steps := append([]Step{link(own, f.Library, file.Path)}, m.siblingsIn(own, dir, f.Library)...)
				list = append(list, candidate{text: fmt.Sprintf("links in %s to %s", own, dir), steps: steps})
			}
		}
		if base != f.Library && !isSystem(dir) && !slices.ContainsFunc(m.elements(), func(e string) bool { return packs.SameElement(e, dir) }) {
			list = append(list, beside.and(" and LD_LIBRARY_PATH with "+dir, appendPath(dir)))
		}
	}
	return list
}

// ofOtherCUDA reports whether a file is a library of another major version of CUDA than
// the asking files are built for: under a name without a version, a link would give them a
// library that does not fit.
func (m *maker) ofOtherCUDA(f *lint.Finding, file string) bool {
	is, want := provide.CUDAOf([]string{path.Base(m.real(file))}), m.cudaMajor(f)
	return is != "" && want != "" && is != want
}

// link returns the step that makes the link name in dir.
func link(dir, name, target string) Step {
	p := path.Join(dir, name)
	return Step{
		Kind: "link", Text: fmt.Sprintf("link %s -> %s", p, target), Path: p, Link: target,
		files: []file{linkFile(p, target)},
	}
}

// siblings returns links for those sub-libraries in dir, beside the library name, that have
// no file of their SONAME either.
func (m *maker) siblings(dir, name string) []Step {
	var list []Step
	for e := range m.now.img.FS.Below(dir) {
		if len(list) == maxSiblings {
			break
		}
		if e.Object == nil || e.Object.Soname == "" || path.Dir("/"+e.Path) != dir || !together(name, e.Object.Soname) {
			continue
		}
		if _, err := m.now.img.FS.Find(dir + "/" + e.Object.Soname); err != nil && goodName(e.Object.Soname) && e.Object.Soname != name {
			list = append(list, link(dir, e.Object.Soname, path.Base(e.Path)))
		}
	}
	return slices.CompactFunc(list, func(a, b Step) bool { return a.Path == b.Path })
}

// siblingsIn returns links in one directory to the sub-libraries in another: a library that
// is found by a link searches for them in the link's directory.
func (m *maker) siblingsIn(own, dir, name string) []Step {
	var list []Step
	seen := map[string]bool{name: true}
	for e := range m.now.img.FS.Below(dir) {
		if len(list) == maxSiblings {
			break
		}
		if path.Dir("/"+e.Path) != dir {
			continue
		}
		file, err := m.now.img.FS.Find("/" + e.Path)
		if err != nil || file.Object == nil || !together(name, file.Object.Soname) || seen[file.Object.Soname] || !goodName(file.Object.Soname) || stem(file.Object.Soname) == stem(name) {
			continue
		}
		seen[file.Object.Soname] = true
		list = append(list, link(own, file.Object.Soname, "/"+e.Path))
	}
	return list
}

// together reports whether two SONAMEs belong to parts of one library with the same major
// version, such as libcudnn.so.9 and libcudnn_ops.so.9.
func together(a, b string) bool {
	stem := func(s string) (string, string) {
		name, version, _ := strings.Cut(s, ".so")
		name, _, _ = strings.Cut(name, "_")
		return name, version
	}
	an, av := stem(a)
	bn, bv := stem(b)
	return an == bn && (av == bv || av == "" || bv == "")
}

// goodName reports whether n can be the name of a file in a directory.
func goodName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && n == path.Base(n) && !strings.ContainsRune(n, 0)
}

// ownDirs returns the directories that an RPATH or RUNPATH names and that belong to the
// asking file: the one in which it lies, or the one that its wheel has for the library.
func (m *maker) ownDirs(f *lint.Finding) []string {
	var wheel, own []string
	for _, s := range f.Searched {
		if !strings.HasPrefix(s.Source, "RPATH of ") && !strings.HasPrefix(s.Source, "RUNPATH of ") {
			continue
		}
		for _, place := range s.Places {
			dir := path.Clean(place.Dir)
			switch {
			case !strings.HasPrefix(dir, "/") || covered(dir) || isSystem(dir) || slices.Contains(slices.Concat(wheel, own), dir):
			case provide.LibraryOf(f.Library).InWheel(dir):
				wheel = append(wheel, dir)
			case slices.ContainsFunc(f.NeededBy, func(n replay.File) bool { return path.Dir(n.Path) == m.real(dir) }):
				own = append(own, dir)
			}
		}
	}
	return append(wheel, own...)
}
