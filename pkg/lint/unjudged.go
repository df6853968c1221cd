package lint

import (
	"maps"
	"slices"
	"strconv"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/packs"
)

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
