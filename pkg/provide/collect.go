package provide

import (
	"debug/elf"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/imgcheck/imgcheck/internal/version"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// machines are the names of the architectures, by Go's names.
var machines = map[string]struct {
	elf    elf.Machine
	wheel  string // in a wheel's platform tag
	redist []string
}{
	"amd64": {elf.EM_X86_64, "x86_64", []string{"linux-x86_64"}},
	"arm64": {elf.EM_AARCH64, "aarch64", []string{"linux-sbsa", "linux-aarch64"}},
}

// entry is a name in one directory of a source.
type entry struct {
	name string
	link string // of a symbolic link: the name in the directory to which it leads
	// Of a file:
	object *elfdeps.Object
	size   int64
	digest string // empty until it is needed
	open   func() (io.ReadCloser, error)
}

// set is the files of one release in one directory.
type set struct {
	dir     string
	info    string // the .dist-info directory of its wheel, or empty
	version string // the release, or the part of it in file names, or empty
	files   []entry
	links   map[string][]string // file → names that lead to it
}

func (f *File) named(name string) bool { return f.Name == name || slices.Contains(f.Links, name) }

// sets returns the libraries of one directory by release, the newest first, without
// entries that are no libraries for the machine. If the release is known, all of them are
// one set.
func (r *request) sets(dir, release string, list []entry) []*set {
	versionOf := fileVersion
	if release != "" || r.lib != nil && r.lib.OtherNumbers {
		versionOf = func(string) string { return release }
	}
	list = slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return !goodName(e.name) })
	byName := map[string]entry{}
	for _, e := range list {
		byName[e.name] = e
	}
	byVersion := map[string]*set{}
	for _, e := range list {
		if e.link != "" || !r.takes(e.name) || !r.runs(e.object) {
			continue
		}
		v := versionOf(e.name)
		if byVersion[v] == nil {
			byVersion[v] = &set{dir: dir, version: v, links: map[string][]string{}}
		}
		byVersion[v].files = append(byVersion[v].files, e)
	}
	for _, e := range list {
		if e.link == "" || !r.takes(e.name) {
			continue
		}
		target := followed(byName, e)
		if s := byVersion[versionOf(target)]; s != nil {
			s.links[target] = append(s.links[target], e.name)
		}
	}
	var all []*set
	for _, s := range byVersion {
		s.finish(byName)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *set) int { return version.Compare(b.version, a.version) })
	return all
}

// runs reports whether an object is a library for the machine.
func (r *request) runs(o *elfdeps.Object) bool {
	return o != nil && o.Machine == machines[r.Arch].elf && o.Type == elf.ET_DYN
}

// followed returns the name to which a chain of links in one directory leads.
func followed(byName map[string]entry, e entry) string {
	for range 8 {
		if e.link == "" {
			break
		}
		e = byName[e.link]
	}
	return e.name
}

// finish sorts a set, and adds links for SONAMEs that have none, as ldconfig does.
func (s *set) finish(byName map[string]entry) {
	slices.SortFunc(s.files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range s.files {
		if _, there := byName[e.object.Soname]; !there && goodName(e.object.Soname) && e.object.Soname != e.name {
			s.links[e.name] = append(s.links[e.name], e.object.Soname)
		}
		slices.Sort(s.links[e.name])
		s.links[e.name] = slices.Compact(s.links[e.name])
	}
}

// goodName reports whether a name from a source can be that of a library or link: it is a
// file's name, and printable.
func goodName(n string) bool {
	return n != "" && n != "." && n != ".." && len(n) <= 255 && n == path.Base(n) && utf8.ValidString(n) &&
		!strings.ContainsFunc(n, func(r rune) bool { return !unicode.IsPrint(r) })
}

// lacks returns the names that the set does not have.
func (s *set) lacks(names []string) []string {
	var missing []string
	for _, n := range names {
		ok := slices.ContainsFunc(s.files, func(e entry) bool { return e.name == n || slices.Contains(s.links[e.name], n) })
		if !ok {
			missing = append(missing, n)
		}
	}
	return missing
}

// list returns the files of a set, for a Found.
func (s *set) list() []File {
	out := make([]File, 0, len(s.files))
	for _, e := range s.files {
		out = append(out, File{Name: e.name, Soname: e.object.Soname, Size: e.size, Digest: e.digest, Links: s.links[e.name], Open: e.open})
	}
	return out
}

// inStubs reports whether a path is in a directory of stubs: libraries to link with, which
// fail when they are called.
func inStubs(p string) bool { return slices.Contains(strings.Split(p, "/"), "stubs") }
