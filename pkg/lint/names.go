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

// namedGroup has the names of one library in read-only data, such as libcudnn.so.9 with
// libcudnn.so as a fallback, and the files that have them.
type namedGroup struct {
	names  []string // file names, sorted
	family *packs.Family
	files  []string
}

// namedLibraries returns a finding for each GPU library that the image lacks and that files
// name only in their read-only data: not in DT_NEEDED, not in .note.dlopen, and in no plan.
//
// That a file has the name, and imports dlopen, does not prove that it opens the library.
// The finding is a note, and only for strong evidence: a GPU library's name in a file for the
// GPU. `imgcheck ldd --names` prints all names.
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

// judgedByNames reports whether the names in a file's read-only data are strong evidence: the
// file is a GPU library, or needs or names one or a library of the driver, and no plan lists
// the libraries that it opens, and no exception covers it.
func judgedByNames(pass *Pass, o *replay.Object) bool {
	n := o.ELF.Named
	if n == nil || len(n.Names) == 0 || pass.Files.Planned(o) {
		return false
	}
	for _, list := range []packs.Exceptions{pass.Packs.Optional, pass.Packs.AnyOf} {
		if list.For(o.Path) != nil {
			return false
		}
	}
	return pass.Packs.Family(o.Path) != nil || pass.Packs.Family(o.ELF.Soname) != nil || pass.Files.IsRoot(o) ||
		slices.ContainsFunc(o.ELF.Needed, pass.Packs.FromDriver) || slices.ContainsFunc(n.Names, pass.Packs.FromDriver)
}

// namedGroups returns the GPU libraries that a file names, less its own name and those in a plan
// or in its .note.dlopen. It leaves out names that the file completes when it runs: those
// with a format such as %d, or without a version (cuDNN 9 adds one to libcudnn_ops.so; CUPTI
// looks for libcudart.so among the loaded libraries).
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
		if f == nil || pass.Packs.FromDriver(base) || inPlan(pass, o, base) {
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
		versioned := slices.ContainsFunc(g.names, func(n string) bool { return packs.MajorOf(n) != "" })
		if stem != own && versioned && !isFormatted(stem, forms) {
			list = append(list, *g)
		}
	}
	return list
}

// isFormatted reports whether one of the format strings of a file may make the stem.
func isFormatted(stem string, forms []string) bool {
	return slices.ContainsFunc(forms, func(form string) bool {
		begin, _, _ := strings.Cut(stemOf(form), "%")
		return len(begin) > len("lib") && strings.HasPrefix(stem, begin)
	})
}

// stemOf returns a library's name without ".so", its version, and auditwheel's hash:
// libcudart for libcudart-9335f6a2.so.12.
func stemOf(name string) string {
	stem, _, _ := strings.Cut(path.Base(name), ".so")
	return hashed.ReplaceAllString(stem, "")
}

var hashed = regexp.MustCompile(`[-.][0-9a-f]{8}$`)

// inPlan reports whether a name is in the plan of the file's framework or in the file's
// .note.dlopen.
func inPlan(pass *Pass, o *replay.Object, name string) bool {
	if slices.ContainsFunc(o.ELF.Dlopen, func(n elfdeps.DlopenNote) bool { return slices.Contains(n.Soname, name) }) {
		return true
	}
	in := pass.Evidence.InstallOf(o.Path)
	return in != nil && slices.ContainsFunc(in.Later, func(open packs.Open) bool {
		return slices.ContainsFunc(open.Names, func(n string) bool { return packs.Match(anyValue.ReplaceAllString(n, "*"), name) })
	})
}

// anyValue matches a placeholder for a version in a plan's name.
var anyValue = regexp.MustCompile(`\{[a-z]+\}`)

// leaveOutPresent deletes the groups of which the image may have the library: a file with one of
// the names or SONAMEs, or with a longer version, or for a name without a version with any.
// The file need not be on a search path: a program may open it by its path.
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

// serves reports whether a file of the name base may be the library that a name means: it has
// the version of the name, or a longer one.
func serves(base, name string) bool {
	_, have, ok := strings.Cut(base, ".so")
	_, want, _ := strings.Cut(name, ".so")
	return ok && (have == want || strings.HasPrefix(have, want+"."))
}

const namedLibrary = "named-library"

// namedFinding returns the finding for the names of one library.
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
