package lint

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
	"github.com/imgcheck/imgcheck/pkg/replay"
)

// unread is a reason for which something could not be examined: a clause of
// not-examined, and its values.
type unread struct{ clause, part, why string }

// unexamined returns the findings about what could not be examined, one for each reason.
func unexamined(pass *Pass) []Finding {
	paths := map[unread][]string{}
	add := func(u unread, p string) { paths[u] = append(paths[u], p) }
	for _, s := range pass.Image.FS.Skipped {
		add(unread{"whole", "", s.Why}, "/"+strings.TrimPrefix(s.Path, "/"))
	}
	for e := range pass.Image.FS.All() {
		if e.Fault != "" {
			add(unread{"whole", "", e.Fault}, "/"+e.Path)
		}
		if e.Object == nil {
			continue
		}
		for _, u := range e.Object.Unread {
			add(unread{"part", u.What, u.Why}, "/"+e.Path)
		}
	}
	for _, u := range pass.Inventory.Unread {
		add(unread{"whole", "", u.Why}, u.Path)
	}
	for _, l := range pass.Loaders.All {
		if l == nil {
			continue
		}
		for _, d := range l.Doubts {
			add(unread{"whole", "", d}, l.Path)
		}
	}
	if pass.Loaders.Primary == nil {
		for _, o := range pass.Files.Objects {
			if o.Loader == nil && !replay.IsProgram(o.ELF) {
				add(unread{clause: "no-loader"}, o.Path)
			}
		}
	}
	var list []Finding
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

// unjudged returns the finding about an image of whose files that are ELF, or may be, not
// one could be examined. It returns no finding for an image without such files.
func unjudged(pass *Pass) []Finding {
	reasons := map[string]string{} // path → why
	for e := range pass.Image.FS.All() {
		why := e.Fault
		switch o := e.Object; {
		case o != nil:
			if why = o.Unexamined(); why == "" {
				return nil
			}
		case why == "" || inventory.Wants(e.Path, e.Size): // what installers write is no ELF file
			continue
		case e.Type != layers.Dir && e.Size == 0: // a link to nothing
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
