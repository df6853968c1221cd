package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/imgcheck/imgcheck/pkg/inventory"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// unjudged is the finding about an image of which every file that is ELF, or may be,
// could not be looked at: that nothing else is found in it means nothing. An image
// that has no such file is none.
func (w *world) unjudged() []Finding {
	f := Finding{Rule: "nothing-examined", Severity: w.packs.Rule("nothing-examined").Severity}
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
	f.Affected = slices.Sorted(maps.Keys(reasons))
	if len(f.Affected) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf("of %d files that are ELF or may be, none could be examined: %s: %s", len(f.Affected), f.Affected[0], reasons[f.Affected[0]])
	f.Effects = []Effect{{Text: "nothing is known of the image: that nothing else is found in it means nothing"}}
	f.Fixes = w.packs.Rule(f.Rule).Fix
	return []Finding{f}
}
