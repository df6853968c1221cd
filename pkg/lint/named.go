package lint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// This file is about names of libraries that nothing but the read-only data of a
// file tells: no DT_NEEDED, no plan, no .note.dlopen. That a name stands there, and
// that the file imports dlopen, is no proof that the one is given to the other. So
// most of it is left to who asks (imgcheck ldd --names), and a finding is made of
// what is strong evidence: a GPU library's name, in a file that is of the GPU
// itself, and no file of the image that it could mean. It is a note.

// namedGroup are the names of one library in one file: libcudnn.so.9, and
// libcudnn.so to fall back on.
type namedGroup struct {
	names  []string // base names, sorted
	family *Family
	files  []string
}

// namedLibraries are the GPU libraries that files may open by a name in their
// read-only data, and that are nowhere in the image. What is told of as missing
// already is not told again.
func (w *world) namedLibraries(told []Finding) []Finding {
	if w.onJetson() {
		return nil
	}
	all := map[string]*namedGroup{}
	for _, o := range w.objects {
		if o.loader == nil || !w.judgedByNames(o) {
			continue
		}
		for _, g := range w.namedGroups(o) {
			key := strings.Join(g.names, " ")
			if all[key] == nil {
				all[key] = &g
			}
			all[key].files = append(all[key].files, o.path)
		}
	}
	w.leaveOutPresent(all)
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if g := all[key]; !slices.ContainsFunc(told, g.isTold) {
			list = append(list, w.namedFinding(g))
		}
	}
	return list
}

// judgedByNames reports whether the names in a file's read-only data are strong
// evidence: no plan says what it opens, no exception makes less of it, and it is of
// the GPU: one of its libraries, or needs or names one, or one of the driver's.
func (w *world) judgedByNames(o *object) bool {
	n := o.elf.Named
	if n == nil || len(n.Names) == 0 || w.planned(o) {
		return false
	}
	for _, list := range [][]*Exception{w.packs.Optional, w.packs.AnyOf} {
		if exception(list, o.path) != nil {
			return false
		}
	}
	return w.packs.family(o.path) != nil || w.packs.family(o.elf.Soname) != nil || w.isRoot(o) ||
		slices.ContainsFunc(o.elf.Needed, w.packs.fromDriver) || slices.ContainsFunc(n.Names, w.packs.fromDriver)
}

// namedGroups are the GPU libraries that a file names, less those that a plan or
// its own note tells of, and those of which it makes the names itself: it has a
// form, or no version (cuDNN 9's libcudnn_ops.so, to which it adds one; CUPTI's
// libcudart.so, which it looks for among what is loaded).
func (w *world) namedGroups(o *object) []namedGroup {
	byStem := map[string]*namedGroup{}
	var forms []string
	for _, name := range o.elf.Named.Names {
		base := path.Base(name)
		if strings.ContainsAny(base, "%$") {
			forms = append(forms, base)
			continue
		}
		f := w.packs.family(base)
		if f == nil || w.packs.fromDriver(base) || w.toldByPlan(o, base) {
			continue
		}
		stem := stemOf(base)
		if byStem[stem] == nil {
			byStem[stem] = &namedGroup{family: f}
		}
		byStem[stem].names = append(byStem[stem].names, base)
	}
	own := stemOf(cmp.Or(o.elf.Soname, path.Base(o.path)))
	var list []namedGroup
	for _, stem := range slices.Sorted(maps.Keys(byStem)) {
		g := byStem[stem]
		slices.Sort(g.names)
		g.names = slices.Compact(g.names)
		filled := slices.ContainsFunc(forms, func(form string) bool {
			begin, _, _ := strings.Cut(stemOf(form), "%")
			return len(begin) > len("lib") && strings.HasPrefix(stem, begin)
		})
		versioned := slices.ContainsFunc(g.names, func(n string) bool { return majorOf(n) != "" })
		if stem != own && !filled && versioned {
			list = append(list, *g)
		}
	}
	return list
}

// stemOf is a library's name without `.so`, its version, and what auditwheel has
// put into it: libcudart of libcudart-9335f6a2.so.12.
func stemOf(name string) string {
	stem, _, _ := strings.Cut(path.Base(name), ".so")
	return hashed.ReplaceAllString(stem, "")
}

var hashed = regexp.MustCompile(`[-.][0-9a-f]{8}$`)

// toldByPlan reports whether a name is one that the file's framework opens by its
// plan, or that the file's own .note.dlopen has.
func (w *world) toldByPlan(o *object, name string) bool {
	if slices.ContainsFunc(o.elf.Dlopen, func(n elfdeps.DlopenNote) bool { return slices.Contains(n.Soname, name) }) {
		return true
	}
	in := w.installOf(o.path)
	return in != nil && slices.ContainsFunc(in.Later, func(open Open) bool {
		return slices.ContainsFunc(open.Names, func(n string) bool { return match(anyValue.ReplaceAllString(n, "*"), name) })
	})
}

// anyValue is a version that a plan's name leaves open.
var anyValue = regexp.MustCompile(`\{[a-z]+\}`)

// leaveOutPresent takes those groups away that some file of the image may be: one
// of the name or with that SONAME, of a longer version, or for a bare name of any.
// It may lie on no path; but whoever loads the file may have loaded that before, or
// open it by its path.
func (w *world) leaveOutPresent(all map[string]*namedGroup) {
	if len(all) == 0 {
		return
	}
	byStem := map[string][]string{}
	for key, g := range all {
		stem := stemOf(g.names[0])
		byStem[stem] = append(byStem[stem], key)
	}
	see := func(base string) {
		for _, key := range byStem[stemOf(base)] {
			if g := all[key]; g != nil && slices.ContainsFunc(g.names, func(name string) bool { return serves(base, name) }) {
				delete(all, key)
			}
		}
	}
	for soname := range w.sonames {
		see(soname)
	}
	for e := range w.img.FS.All() {
		base := path.Base(e.Path)
		if !strings.Contains(base, ".so") || byStem[stemOf(base)] == nil {
			continue
		}
		if to, _, ok := w.img.FS.Lookup(e.Path); ok && !to.IsDir() {
			see(base)
		}
	}
	for _, s := range w.img.FS.Skipped {
		see(path.Base(s.Path))
	}
}

// serves reports whether a file name may be what a name means: its version is that
// of the name, or a longer one.
func serves(base, name string) bool {
	_, have, ok := strings.Cut(base, ".so")
	_, want, _ := strings.Cut(name, ".so")
	return ok && (have == want || strings.HasPrefix(have, want+"."))
}

// isTold reports whether a finding is about one of the names.
func (g *namedGroup) isTold(f Finding) bool {
	return f.Library != "" && slices.Contains(g.names, path.Base(f.Library))
}

// namedFinding returns the finding of the names of one library.
func (w *world) namedFinding(g *namedGroup) Finding {
	name := g.names[slices.IndexFunc(g.names, func(n string) bool { return majorOf(n) != "" })]
	clause := "one-name"
	if len(g.names) > 1 {
		clause = "several-names"
	}
	f := w.say("named-library", clause, values{"library": name, "libraries": strings.Join(g.names, ", ")})
	f.Library, f.Family, f.Affected = name, g.family.ID, g.files
	f.Others, f.Removed = w.others(name), w.removed(name)
	asking := f
	for _, p := range g.files {
		asking.NeededBy = append(asking.NeededBy, File{Path: p})
	}
	f.advise(w.packs.libraryAdvice(name, w.wantedCUDA(&asking, ""))...)
	return f
}
