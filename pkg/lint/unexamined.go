package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/jar"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// unread is the reason why something could not be examined: a clause of not-examined, and its
// values.
type unread struct{ clause, part, why string }

// unreadPaths holds the paths of files that could not be examined, by reason.
type unreadPaths map[unread][]string

func (u unreadPaths) add(reason unread, p string) { u[reason] = append(u[reason], p) }

// addWhole adds a file of which nothing could be examined.
func (u unreadPaths) addWhole(why, p string) { u.add(unread{clause: "whole", why: why}, p) }

// unexamined returns a finding for each reason why files could not be examined.
func unexamined(pass *Pass) []Finding {
	paths := unreadPaths{}
	paths.addFiles(pass)
	paths.addLoaders(pass)
	paths.addStarts(pass)
	list := jars(pass, paths)
	for u, affected := range paths {
		f := pass.say("not-examined", u.clause, packs.Values{"part": u.part, "why": u.why})
		f.Affected = slices.Compact(slices.Sorted(slices.Values(affected)))
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Message, b.Message), slices.Compare(a.Affected, b.Affected))
	})
	return list
}

// addFiles adds the files that the index or the inventory could not read, or only in part.
func (u unreadPaths) addFiles(pass *Pass) {
	for _, s := range pass.Image.FS.Skipped {
		u.addWhole(s.Why, "/"+strings.TrimPrefix(s.Path, "/"))
	}
	for e := range pass.Image.FS.All() {
		if e.Fault != "" {
			u.addWhole(e.Fault, "/"+e.Path)
		}
		if e.Object == nil {
			continue
		}
		for _, part := range e.Object.Unread {
			u.add(unread{"part", part.What, part.Why}, "/"+e.Path)
		}
	}
	for _, r := range pass.Inventory.Unread {
		u.addWhole(r.Why, r.Path)
	}
}

// jars returns a finding for the libraries in Java archives. It counts as one thing that was
// not examined, however many archives there are. Archives that cannot be read are added to
// paths.
func jars(pass *Pass, paths unreadPaths) []Finding {
	var first, library string
	for e := range pass.Image.FS.All() {
		names, why := jar.Libraries(e)
		if why != "" {
			paths.addWhole(why, "/"+e.Path)
		}
		if len(names) > 0 && (first == "" || "/"+e.Path < first) {
			first, library = "/"+e.Path, names[0]
		}
	}
	if first == "" {
		return nil
	}
	f := pass.say("not-examined", "jar", packs.Values{"name": library, "file": first})
	f.Subject = first
	return []Finding{f}
}

// addLoaders adds the loaders that are known in part, and the libraries of an image without a
// loader.
func (u unreadPaths) addLoaders(pass *Pass) {
	for _, l := range pass.Loaders.All {
		if l == nil {
			continue
		}
		for _, d := range l.Doubts {
			u.addWhole(d, l.Path)
		}
	}
	if pass.Loaders.Primary != nil {
		return
	}
	for _, o := range pass.Files.Objects {
		if o.Loader == nil && !replay.IsProgram(o.ELF) {
			u.add(unread{clause: "no-loader"}, o.Path)
		}
	}
}

// addStarts adds the Python programs that were not followed, or not to their end.
func (u unreadPaths) addStarts(pass *Pass) {
	left := map[string]int{} // by interpreter
	for _, s := range pass.Evidence.LeftOut {
		left[s.Python]++
	}
	for python, n := range left {
		u.addWhole(fmt.Sprintf("%d of the packages of this Python were not imported: they are more than imgcheck follows", n), python)
	}
	for _, s := range pass.Evidence.Starts {
		if s.Broken != "" {
			u.addWhole(strings.Join(s.Chain, " → ")+": "+s.Broken, s.Python)
		}
	}
}

// unjudged returns a finding for an image with ELF files, or files that may be ELF, of which
// none could be examined.
func unjudged(pass *Pass) []Finding {
	reasons := map[string]string{} // by path
	for e := range pass.Image.FS.All() {
		why := e.Fault
		switch o := e.Object; {
		case o != nil:
			if why = o.Unexamined(); why == "" {
				return nil
			}
		case why == "" || replay.Wants(e.Path, e.Size): // installers' records are not ELF files
			continue
		case e.Type != layers.Dir && e.Size == 0: // a dangling link
			continue
		}
		reasons["/"+e.Path] = why
	}
	if len(reasons) == 0 {
		return nil
	}
	paths := slices.Sorted(maps.Keys(reasons))
	f := pass.say("nothing-examined", "first", packs.Values{"count": strconv.Itoa(len(paths)), "file": paths[0], "why": reasons[paths[0]]})
	f.Affected = paths
	f.advise(packs.Texts(pass.Packs.Rule(f.Rule).Fix)...)
	return []Finding{f}
}
