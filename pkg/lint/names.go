package lint

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// namedGroup are the names of one library in one file: libcudnn.so.9, and
// libcudnn.so to fall back on.
type namedGroup struct {
	names  []string // base names, sorted
	family *packs.Family
	files  []string
}

// namedLibraries are the GPU libraries that files may open by a name in their
// read-only data, and that are nowhere in the image. What is told of as missing
// already is not told again.
func namedLibraries(pass *Pass) []Finding {
	if pass.Files.OnJetson() {
		return nil
	}
	all := map[string]*namedGroup{}
	for _, o := range pass.Files.Objects {
		if o.Loader == nil || !judgedByNames(pass, o) {
			continue
		}
		for _, g := range namedGroups(pass, o) {
			key := strings.Join(g.names, " ")
			if all[key] == nil {
				all[key] = &g
			}
			all[key].files = append(all[key].files, o.Path)
		}
	}
	leaveOutPresent(pass, all)
	var list []Finding
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, namedFinding(pass, all[key]))
	}
	return list
}

// judgedByNames reports whether the names in a file's read-only data are strong
// evidence: no plan says what it opens, no exception makes less of it, and it is of
// the GPU: one of its libraries, or needs or names one, or one of the driver's.
func judgedByNames(pass *Pass, o *replay.Object) bool {
	n := o.ELF.Named
	if n == nil || len(n.Names) == 0 || pass.Files.Planned(o) {
		return false
	}
	for _, list := range [][]*packs.Exception{pass.Packs.Optional, pass.Packs.AnyOf} {
		if packs.ExceptionFor(list, o.Path) != nil {
			return false
		}
	}
	return pass.Packs.Family(o.Path) != nil || pass.Packs.Family(o.ELF.Soname) != nil || pass.Files.IsRoot(o) ||
		slices.ContainsFunc(o.ELF.Needed, pass.Packs.FromDriver) || slices.ContainsFunc(n.Names, pass.Packs.FromDriver)
}

// namedGroups are the GPU libraries that a file names, less those that a plan or
// its own note tells of, and those of which it makes the names itself: it has a
// form, or no version (cuDNN 9's libcudnn_ops.so, to which it adds one; CUPTI's
// libcudart.so, which it looks for among what is loaded).
func namedGroups(pass *Pass, o *replay.Object) []namedGroup {
	byStem := map[string]*namedGroup{}
	var forms []string
	for _, name := range o.ELF.Named.Names {
		base := path.Base(name)
		if strings.ContainsAny(base, "%$") {
			forms = append(forms, base)
			continue
		}
		f := pass.Packs.Family(base)
		if f == nil || pass.Packs.FromDriver(base) || toldByPlan(pass, o, base) {
			continue
		}
		stem := stemOf(base)
		if byStem[stem] == nil {
			byStem[stem] = &namedGroup{family: f}
		}
		byStem[stem].names = append(byStem[stem].names, base)
	}
	own := stemOf(cmp.Or(o.ELF.Soname, path.Base(o.Path)))
	var list []namedGroup
	for _, stem := range slices.Sorted(maps.Keys(byStem)) {
		g := byStem[stem]
		slices.Sort(g.names)
		g.names = slices.Compact(g.names)
		filled := slices.ContainsFunc(forms, func(form string) bool {
			begin, _, _ := strings.Cut(stemOf(form), "%")
			return len(begin) > len("lib") && strings.HasPrefix(stem, begin)
		})
		versioned := slices.ContainsFunc(g.names, func(n string) bool { return packs.MajorOf(n) != "" })
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
func toldByPlan(pass *Pass, o *replay.Object, name string) bool {
	if slices.ContainsFunc(o.ELF.Dlopen, func(n elfdeps.DlopenNote) bool { return slices.Contains(n.Soname, name) }) {
		return true
	}
	in := pass.Evidence.InstallOf(o.Path)
	return in != nil && slices.ContainsFunc(in.Later, func(open packs.Open) bool {
		return slices.ContainsFunc(open.Names, func(n string) bool { return packs.Match(anyValue.ReplaceAllString(n, "*"), name) })
	})
}

// anyValue is a version that a plan's name leaves open.
var anyValue = regexp.MustCompile(`\{[a-z]+\}`)

// leaveOutPresent takes those groups away that some file of the image may be: one
// of the name or with that SONAME, of a longer version, or for a bare name of any.
// It may lie on no path; but whoever loads the file may have loaded that before, or
// open it by its path.
func leaveOutPresent(pass *Pass, all map[string]*namedGroup) {
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
	for soname := range pass.Files.Sonames {
		see(soname)
	}
	for e := range pass.Image.FS.All() {
		base := path.Base(e.Path)
		if !strings.Contains(base, ".so") || byStem[stemOf(base)] == nil {
			continue
		}
		if to, _, ok := pass.Image.FS.Lookup(e.Path); ok && !to.IsDir() {
			see(base)
		}
	}
	for _, s := range pass.Image.FS.Skipped {
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

const namedLibrary = "named-library"

// namedFinding returns the finding of the names of one library.
func namedFinding(pass *Pass, g *namedGroup) Finding {
	name := g.names[slices.IndexFunc(g.names, func(n string) bool { return packs.MajorOf(n) != "" })]
	clause := "one-name"
	if len(g.names) > 1 {
		clause = "several-names"
	}
	f := pass.say(namedLibrary, clause, packs.Values{"library": name, "libraries": strings.Join(g.names, ", ")})
	f.Library, f.Family, f.Affected, f.Values = name, g.family.ID, g.files, packs.Values{"names": strings.Join(g.names, " ")}
	f.Others, f.Removed = pass.Files.Others(name), pass.Image.Removed(name)
	asking := f
	for _, p := range g.files {
		asking.NeededBy = append(asking.NeededBy, replay.File{Path: p})
	}
	f.advise(pass.Packs.LibraryAdvice(name, wantedCUDA(pass, &asking, ""))...)
	return f
}
