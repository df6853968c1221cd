package lint

import (
	"maps"
	"slices"
	"strconv"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// unjudged returns the finding about an image of whose files that are ELF, or may be, not
// one could be examined. It returns no finding for an image without such files.
func (w *world) unjudged() []Finding {
	reasons := map[string]string{} // path → why
	for e := range w.img.FS.All() {
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
	f := w.say("nothing-examined", "first", values{"count": strconv.Itoa(len(paths)), "file": paths[0], "why": reasons[paths[0]]})
	f.Affected = paths
	f.advise(texts(w.packs.Rule(f.Rule).Fix)...)
	return []Finding{f}
}
