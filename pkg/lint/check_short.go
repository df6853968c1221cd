package lint

import (
	"fmt"
	"path"

	"github.com/imgcheck/imgcheck/pkg/elfdeps"
)

// shortLibraries finds GPU libraries that end within the last page of what their
// segments map: the process lives, and reads zeros in the place of data. Without the
// last 4096 bytes of their files, libcublas.so.13 works on a machine with a GPU, and
// libcusparse.so.12 and libcurand.so.10 do not.
func (w *world) shortLibraries() []Finding {
	var list []Finding
	for _, o := range w.objects {
		family := w.packs.family(o.path)
		file, err := w.img.FS.Find(o.path)
		if family == nil || err != nil || file.Object == nil {
			continue
		}
		lacks := file.Object.LoadEnd - file.Size
		if m := (&elfdeps.Module{Object: file.Object, File: file}); lacks <= 0 || m.Truncated() {
			continue // it is whole, or its processes are killed
		}
		name := path.Base(o.path)
		list = append(list, Finding{
			Severity: Warning,
			Message:  fmt.Sprintf("%s lacks the last %d bytes of its data, and zeros are read in their place", name, lacks),
			Library:  name, Family: family.ID,
			Effects:  []Effect{{Text: fmt.Sprintf("%s may fail when it is first used, or when it comes to that data", name)}},
			Affected: []string{o.path}, Present: []File{w.file(o.path)},
			Advice: w.wholeFix(o.path),
		})
	}
	return list
}
