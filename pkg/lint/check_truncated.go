package lint

import (
	"fmt"
	"path"

	"github.com/imgcheck/imgcheck/pkg/layers"
)

// truncated finds libraries whose file ends before the segments that it says it
// has. No loader notices; the process dies when it touches what is not there.
// Files of debug information have such headers and are not meant: a GPU library, or
// what one of the plans' processes maps.
func (w *world) truncated() []Finding {
	users := map[string][]string{}
	for _, r := range w.runs {
		for _, m := range r.proc.Objects {
			if m.Truncated() {
				users[m.Real()] = append(users[m.Real()], r.title)
			}
		}
	}
	var list []Finding
	for e := range w.img.FS.All() {
		p := "/" + e.Path
		if e.Object == nil || e.Type != layers.Regular || e.Object.Machine != w.machine || e.Object.LoadEnd <= e.Size || users[p] == nil && w.packs.family(path.Base(p)) == nil {
			continue
		}
		f := Finding{
			Message: fmt.Sprintf("%s ends at %d bytes, and its segments at %d: the rest is missing", p, e.Size, e.Object.LoadEnd),
			Present: []File{w.file(p)}, Affected: []string{p},
			Fixes: []string{fmt.Sprintf("replace %s with a whole copy: rebuild the layer that brought it", p)},
		}
		for _, title := range users[p] {
			f.Effects = append(f.Effects, Effect{Text: title + " is killed by a bus error (SIGBUS) when it comes to it"})
		}
		if len(f.Effects) == 0 {
			f.Severity = Warning
		}
		list = append(list, f)
	}
	return list
}
